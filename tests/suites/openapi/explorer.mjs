// Uses the explorer as a person would: signs in, calls a tool, reads the answer. Prints one JSON object about what it saw.
//
//     explorer.mjs URL TOKEN FOLDER      pictures of the page go to FOLDER
//
// The browser is a system's own Chromium with a fresh profile.

import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { chromium } = createRequire(process.env.MODULES + "/")("playwright-core");
const [origin, token, folder] = process.argv.slice(2);
const LIMIT_MS = 60_000;

const profile = mkdtempSync(join(tmpdir(), "explorer-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  headless: true,
  viewport: { width: 1280, height: 900 },
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
const seen = { foreign: [], console: [], violations: [], asked: [] };

async function use(page) {
  page.setDefaultTimeout(LIMIT_MS);
  page.on("request", (request) => {
    const url = request.url();
    if (url.startsWith("data:") || url.startsWith("blob:")) return;
    if (!url.startsWith(`${origin}/`)) seen.foreign.push(url);
    seen.asked.push(`${request.method()} ${url.slice(origin.length)}`);
  });
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) seen.console.push(message.text());
  });
  page.on("pageerror", (error) => seen.console.push(String(error)));
  await page.exposeFunction("violated", (what) => seen.violations.push(what));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      window.violated(`${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  await page.goto(`${origin}/explorer`);
  await page.waitForFunction(() => document.getElementById("message").textContent.startsWith("Sign in"));
  seen.before = await page.locator(".opblock").count();
  await page.screenshot({ path: join(folder, "sign-in.png") });
  await page.fill("#token", token);
  await page.click("#submit");
  const operation = page.locator("#operations-alpha-echo");
  await operation.waitFor();
  seen.operations = await page.locator(".opblock").count();
  await page.screenshot({ path: join(folder, "1280-list.png") });
  await operation.locator(".opblock-summary-control").click();
  const body = operation.locator("textarea.body-param__text");
  await body.waitFor();
  await body.fill(JSON.stringify({ text: "from the explorer" }));
  await operation.locator("button.execute").click();
  const answer = operation.locator(".live-responses-table");
  await answer.locator(".response-col_status").first().waitFor();
  await answer.getByText("from the explorer").first().waitFor();
  seen.status = (await answer.locator(".response .response-col_status").first().innerText()).trim();
  seen.answer = await answer.locator(".response-col_description").last().innerText();
  await page.screenshot({ path: join(folder, "1280.png"), fullPage: true });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.screenshot({ path: join(folder, "390.png") });
  seen.wider = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  await page.selectOption("#document", "/admin/openapi.json");
  await page.locator("#operations-admin-get_status").waitFor();
  await page.click("#sign-out");
  seen.after = await page.locator(".opblock").count();
  seen.stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
}

try {
  await use(browser.pages()[0] ?? (await browser.newPage()));
} catch (error) {
  seen.failed = String(error);
  await browser.pages()[0]?.screenshot({ path: join(folder, "failed.png") });
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
console.log(JSON.stringify(seen));
