// How the console is built and served while it is worked on.
//
// Every page is a chunk of its own. File names have a hash, so that the gateway may let browsers keep them forever; only
// `index.html` and `theme.js` have none.

import process from "node:process";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import type { ProxyOptions } from "vite";

const gateway = process.env.SENTINEL_URL ?? "http://127.0.0.1:9200";

/** The gateway accepts requests of its own origin only, so the origin of the development server is replaced. */
const proxied: ProxyOptions = {
  target: gateway,
  changeOrigin: true,
  configure: (proxy) => {
    proxy.on("proxyReq", (request) => {
      if (request.getHeader("origin") !== undefined) request.setHeader("origin", new URL(gateway).origin);
      request.removeHeader("referer");
    });
  },
};

const paths = ["/admin", "/api", "/mcp", "/rpc", "/sse", "/console/api", "/openapi.json", "/health", "/problems"];

// `vite preview` serves the built files under the policy that the gateway sends.
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob: data:; " +
  "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export default defineConfig(({ mode }) => ({
  base: "/console/",
  plugins: [react()],
  define: { __GALLERY__: JSON.stringify(mode !== "production") },
  build: {
    target: "es2022",
    // The folder above it is in the repository, for the build of the binary looks whether that changed.
    outDir: "dist/app",
    manifest: true,
    sourcemap: false,
    // A data URL would save nothing here, and fonts or images must come from files under the policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
  server: { host: "127.0.0.1", proxy: Object.fromEntries(paths.map((path) => [`^${path}(/|\\?|$)`, proxied])) },
  preview: {
    host: "127.0.0.1",
    headers: { "Content-Security-Policy": policy },
    proxy: Object.fromEntries(paths.map((path) => [`^${path}(/|\\?|$)`, proxied])),
  },
}));
