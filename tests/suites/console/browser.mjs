// Debian's Chromium as the console's tests use it: contexts by theme and width, signed in by the API, and watched for whatever a
// page must not do. Nothing here knows how a page looks.

import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { chromium } = require("playwright-core");
const axe = require("axe-core");

export const WIDTHS = { 1280: { width: 1280, height: 800 }, 390: { width: 390, height: 844 } };
export const THEMES = ["light", "dark"];
// Two slow cores, and a development server that compiles a page when it is first asked for.
export const LIMIT_MS = Number(process.env.SENTINEL_LIMIT_MS ?? 20_000);
/** How long a page has to stay as it is before it counts as settled. */
const STILL_MS = 250;
/** Further down nobody looks at a picture. */
const PICTURE_HEIGHT_MAX = 4_000;

export async function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    headless: true,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--force-color-profile=srgb",
    ],
  });
}

/** A fresh profile at `origin`; with a key it is signed in. `seen` says what its pages did that they must not do. */
export async function visitor(browser, { origin, key, theme = "light", width = 1280, clipboard = false } = {}) {
  const context = await browser.newContext({
    baseURL: origin,
    colorScheme: theme,
    viewport: WIDTHS[width],
    reducedMotion: "reduce",
    permissions: clipboard ? ["clipboard-read", "clipboard-write"] : [],
  });
  context.setDefaultTimeout(LIMIT_MS);
  const seen = { errors: [], foreign: [], violations: [], dialogs: [], popups: 0 };
  await context.exposeBinding("__violated", (_, what) => void seen.violations.push(what));
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      window.__violated(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile ?? ""}`);
    });
  });
  context.on("request", (request) => {
    if (!isOwn(origin, request.url())) seen.foreign.push(request.url());
  });
  context.on("page", (page) => {
    page.on("console", (message) => {
      if (message.type() === "error") seen.errors.push(`${message.text()} (${message.location().url})`);
    });
    page.on("pageerror", (error) => seen.errors.push(String(error)));
    page.on("websocket", (socket) => {
      if (new URL(socket.url()).host !== new URL(origin).host) seen.foreign.push(socket.url());
    });
    page.on("dialog", (dialog) => {
      seen.dialogs.push(dialog.message());
      void dialog.dismiss();
    });
    page.on("popup", () => void (seen.popups += 1));
  });
  if (key) {
    const answer = await context.request.post("/console/api/session", {
      data: { credential: key },
      headers: { "X-Sentinel-Console": "1" },
    });
    if (!answer.ok()) throw new Error(`sign-in was refused: ${answer.status()} ${await answer.text()}`);
  }
  return { context, seen, page: await context.newPage() };
}

function isOwn(origin, url) {
  return /^(data|blob|about):/.test(url) || new URL(url).origin === new URL(origin).origin;
}

/** Waits until the page has a heading, nothing in it is busy, and its text stayed the same for a moment. */
export async function settled(page, limit = LIMIT_MS) {
  await page.locator("main h1, main h2").first().waitFor({ timeout: limit });
  await page.waitForFunction(
    (still) => {
      const busy = document.querySelector('[aria-busy="true"]') !== null;
      const shape = `${busy} ${document.querySelectorAll("main *").length}`;
      const now = performance.now();
      if (busy || window.__shape !== shape) {
        window.__shape = shape;
        window.__since = now;
      }
      return !busy && now - window.__since >= still;
    },
    STILL_MS,
    { timeout: limit, polling: 50 },
  );
}

/** What axe finds that is serious or critical, one line each. */
export async function barriers(page) {
  // Evaluated by the debugger, so the page's policy does not apply to it.
  await page.evaluate(`window.axe === undefined && (() => { ${axe.source} })()`);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, impact, nodes }) => {
      const some = nodes.slice(0, 3).map((node) => {
        const reasons = [...node.any, ...node.all, ...node.none].map((check) => check.message);
        return `${node.target.join(" ")} (${reasons[0] ?? node.failureSummary})`;
      });
      return `${impact} ${id}, ${nodes.length}x: ${some.join("; ")}`;
    });
}

/** By how many pixels the page, or the part of it that scrolls, is wider than its place; 0 is none. */
export async function overflow(page) {
  return page.evaluate(() => {
    const parts = [document.documentElement, document.body, document.querySelector("main")].filter((part) => part !== null);
    return Math.max(0, ...parts.map((part) => part.scrollWidth - Math.min(part.clientWidth, window.innerWidth)));
  });
}

/** A picture of the window, and where the page goes on below it, a second one (`-whole`) of all of it. */
export async function picture(page, path) {
  await page.screenshot({ path, animations: "disabled" });
  const size = page.viewportSize();
  const height = await page.evaluate(() => {
    const main = document.querySelector("main");
    return Math.max(document.documentElement.scrollHeight, main ? main.scrollHeight + main.getBoundingClientRect().top : 0);
  });
  if (height <= size.height) return;
  await page.setViewportSize({ width: size.width, height: Math.min(Math.ceil(height), PICTURE_HEIGHT_MAX) });
  await page.screenshot({ path: path.replace(/\.png$/, "-whole.png"), animations: "disabled" });
  await page.setViewportSize(size);
}

/** Evaluated in a page: what in its document could have run, or would if it were clicked; and controls that are not made visible. */
export function inert() {
  const found = [];
  if (window.ran !== undefined) found.push(`ran: ${window.ran}`);
  if ({}.polluted !== undefined) found.push("the prototype of objects was changed");
  const own = (url) => /^(data|blob):/.test(url) || new URL(url, location.href).origin === location.origin;
  for (const element of document.querySelectorAll("*")) {
    const name = element.localName;
    for (const attribute of element.attributes) {
      if (/^on/i.test(attribute.name)) found.push(`<${name} ${attribute.name}>`);
      if (["href", "xlink:href", "action", "formaction"].includes(attribute.name) && /^[\s\x00-\x20]*(javascript|data|vbscript):/i.test(attribute.value)) {
        found.push(`<${name} ${attribute.name}="${attribute.value.slice(0, 60)}">`);
      }
    }
    if (name === "script" && (!element.src || !own(element.src))) found.push(`<script>${element.textContent.slice(0, 60)}`);
    if (["object", "embed", "base", "meta[http-equiv]"].some((selector) => element.matches(selector))) found.push(`<${name}>`);
    if (name === "iframe" && element.getAttribute("sandbox") !== "") found.push("<iframe> without an empty sandbox");
    if (["img", "audio", "video", "source"].includes(name) && element.src && !own(element.src)) found.push(`<${name} src="${element.src}">`);
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(node.data)) found.push(`a control character in ${JSON.stringify(node.data.slice(0, 60))}`);
    if (/[\u202a-\u202e\u2066-\u2069]/.test(node.data)) found.push(`a bidi control in ${JSON.stringify(node.data.slice(0, 60))}`);
  }
  return found;
}

/** Evaluated in a page: keeps the longest pause between two frames, and how many there were. */
export function watchFrames() {
  window.__frames = { worst: 0, count: 0, over: [] };
  // When the callback runs, for the time that it is given may be that of a frame which was late.
  let last = 0;
  const frame = () => {
    const now = performance.now();
    const gap = last === 0 ? 0 : now - last;
    last = now;
    window.__frames.count += 1;
    window.__frames.worst = Math.max(window.__frames.worst, gap);
    if (gap > 100) window.__frames.over.push(Math.round(gap));
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

/** What the visitor saw that is wrong, as lines. */
export function complaints(seen) {
  return [
    ...seen.errors.map((text) => `console: ${text}`),
    ...seen.foreign.map((url) => `request to another origin: ${url}`),
    ...seen.violations.map((text) => `violates the policy: ${text}`),
    ...seen.dialogs.map((text) => `dialog: ${text}`),
    ...(seen.popups ? [`opened ${seen.popups} windows`] : []),
  ];
}
