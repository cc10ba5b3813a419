// The console. It starts here.

import "./styles/tokens.css";
import "./styles/base.css";

import { CSPProvider } from "@base-ui/react/csp-provider";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { App } from "./shell/app";

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");

createRoot(root).render(
  <StrictMode>
    {/* The policy allows no style elements; what they would say is in the style sheets. */}
    <CSPProvider disableStyleElements>
      <Router base="/console">
        <App />
      </Router>
    </CSPProvider>
  </StrictMode>,
);
