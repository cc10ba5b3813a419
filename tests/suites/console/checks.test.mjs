// The checks themselves, on pages that are wrong on purpose: each has to see it.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { barriers, complaints, inert, launch, overflow, visitor, watchFrames } from "./browser.mjs";

let browser, server, origin;
const page = (body, head = "") => `<!doctype html><html lang="en"><title>wrong</title>${head}<body><main><h1>Wrong</h1>${body}</main></body></html>`;

const PAGES = {
  "/good": page("<p>Everything is right here.</p>"),
  "/error": page('<script>console.error("broken"); setTimeout(() => { throw new Error("thrown") });</script>'),
  "/foreign": page('<img alt="" src="http://127.0.0.1:9/picture.png">'),
  "/violates": page("<script>window.ran = 1</script>"),
  "/dialog": page('<script>setTimeout(() => alert("hello"))</script>'),
  "/wide": page('<div style="width: 3000px">wide</div>'),
  "/wide-inside": page('<div style="width: 3000px">wide</div>', "<style>main { overflow-x: auto }</style>"),
  "/contrast": page('<p style="color: #bbb; background: #ccc">Nobody reads this.</p><button></button>'),
  "/runs": page('<a href=" javascript:alert(1)">x</a><img alt="" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" onerror="1"><p>\u202egnp.exe</p><p>\u001b[31m</p>'),
};

before(async () => {
  browser = await launch();
  server = createServer((request, response) => {
    const body = PAGES[request.url];
    response.writeHead(body ? 200 : 204, { "Content-Type": "text/html; charset=utf-8", ...(request.url === "/violates" && { "Content-Security-Policy": "script-src 'self'" }) });
    response.end(body);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  origin = `http://127.0.0.1:${server.address().port}`;
});
after(async () => {
  server?.close();
  await browser?.close();
});

/** What the checks say of a page, together. */
async function judged(path, options = {}) {
  const { context, seen, page } = await visitor(browser, { origin, width: 390, ...options });
  await page.goto(path);
  await page.waitForTimeout(200);
  const found = { complaints: complaints(seen), overflow: await overflow(page), barriers: await barriers(page), inert: await page.evaluate(inert) };
  await context.close();
  return found;
}

test("a page that is right has no findings", async () => {
  assert.deepEqual(await judged("/good"), { complaints: [], overflow: 0, barriers: [], inert: [] });
});

test("errors, foreign requests, violations of the policy and dialogs are seen", async () => {
  const error = (await judged("/error")).complaints.join("\n");
  assert.match(error, /broken/);
  assert.match(error, /thrown/);
  assert.match((await judged("/foreign")).complaints.join("\n"), /another origin: http:\/\/127\.0\.0\.1:9/);
  assert.match((await judged("/violates")).complaints.join("\n"), /violates the policy: script-src/);
  assert.match((await judged("/dialog")).complaints.join("\n"), /dialog: hello/);
});

test("what is wider than a narrow screen is seen, of the page and of the part that scrolls", async () => {
  assert.ok((await judged("/wide")).overflow > 2_000);
  assert.ok((await judged("/wide-inside")).overflow > 2_000);
});

test("barriers are seen", async () => {
  const found = (await judged("/contrast")).barriers.join("\n");
  assert.match(found, /color-contrast/);
  assert.match(found, /button-name/);
});

test("what would run, and controls that are not made visible, are seen", async () => {
  const found = (await judged("/runs")).inert.join("\n");
  for (const expected of [/javascript:/, /<img onerror>/, /bidi control/, /control character/]) assert.match(found, expected);
});

test("a pause between frames is seen", async () => {
  const { context, page } = await visitor(browser, { origin });
  await page.goto("/good");
  await page.evaluate(watchFrames);
  await page.waitForTimeout(500);
  await page.evaluate(() => {
    const until = performance.now() + 250;
    while (performance.now() < until);
  });
  await page.waitForTimeout(300);
  assert.ok((await page.evaluate(() => window.__frames.worst)) >= 240);
  await context.close();
});
