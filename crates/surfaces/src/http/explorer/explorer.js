// Shows an OpenAPI document of this gateway, and calls its operations with the token that was entered.
//
// The token stays in this page's memory: it is gone when the page is left. Nothing is asked of another host; the policy of
// the page would not allow it.
"use strict";

const element = (id) => document.getElementById(id);

let token = "";

// Swagger UI has a dark theme, which it shows where the page has this class.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const showTheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
showTheme();
dark.addEventListener("change", showTheme);

function say(text) {
  element("message").textContent = text;
}

function showDocument(spec) {
  const explorer = window.SwaggerUIBundle({
    spec,
    domNode: element("explorer"),
    presets: [window.SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    filter: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    onComplete: () => {
      if (token) explorer.preauthorizeApiKey("bearer", token);
    },
  });
}

async function load() {
  element("explorer").replaceChildren();
  say("Loading…");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(element("document").value, { headers });
  const body = await answer.json();
  if (answer.ok) {
    say("");
    showDocument(body);
  } else {
    say(`${body.title}. ${body.hint}`);
  }
  return answer.ok;
}

function reload() {
  return load().catch((error) => {
    say(`The document could not be loaded: ${error.message}`);
    return false;
  });
}

function signedIn(is) {
  element("sign-in").hidden = is;
  element("sign-out").hidden = !is;
}

async function begin() {
  const { guarded } = await (await fetch("/explorer/settings.json")).json();
  element("document").addEventListener("change", () => {
    if (!guarded || token) reload();
  });
  element("sign-in").addEventListener("submit", async (event) => {
    event.preventDefault();
    token = element("token").value.trim();
    element("token").value = "";
    if (await reload()) signedIn(true);
    else token = "";
  });
  element("sign-out").addEventListener("click", () => {
    token = "";
    element("explorer").replaceChildren();
    signedIn(false);
    say("Sign in to see the operations that you may use.");
  });
  if (guarded) {
    signedIn(false);
    say("Sign in to see the operations that you may use.");
  } else {
    await reload();
  }
}

begin().catch((error) => say(`The explorer could not start: ${error.message}`));
