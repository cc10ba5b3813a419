// How long things take, measured in the page. Each figure is printed with its limit.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { complaints, launch, settled, visitor, watchFrames } from "./browser.mjs";

const world = JSON.parse(readFileSync(process.env.SENTINEL_WORLD, "utf8"));
const FIRST_LOAD_BYTES_MAX = 300 * 1024;
const INTERACTIVE_MS_MAX = 1_000;
const KEYSTROKE_MS_MAX = 50;
const FRAME_GAP_MS_MAX = 100;
/** A figure is the best of this many runs: other work of the machine makes any of them slower, and none faster. */
const RUNS = 5;
const WINDOWS = 3;
const WINDOW_S = 8;

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

const show = (text) => console.log(`figure: ${text}`);

test("the first load is at most 300 KB, compressed", async () => {
  const { context, page, seen } = await visitor(browser, { origin: world.url });
  const client = await context.newCDPSession(page);
  const received = new Map();
  const sizes = new Map();
  await client.send("Network.enable");
  client.on("Network.responseReceived", ({ requestId, response }) => received.set(requestId, response));
  client.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => sizes.set(requestId, encodedDataLength));
  await page.goto("/console/");
  await settled(page);
  const files = [...sizes].map(([id, bytes]) => ({ url: received.get(id)?.url ?? "", bytes, encoding: received.get(id)?.headers["content-encoding"] }));
  const own = files.filter(({ url }) => new URL(url).pathname.startsWith("/console/") && !url.includes("/console/api/"));
  const bytes = own.reduce((sum, file) => sum + file.bytes, 0);
  show(`first load ${(bytes / 1024).toFixed(0)} KB compressed in ${own.length} files, of ${FIRST_LOAD_BYTES_MAX / 1024}`);
  assert.ok(own.length >= 3, JSON.stringify(files));
  assert.ok(bytes <= FIRST_LOAD_BYTES_MAX, JSON.stringify(own));
  const plain = own.filter(({ url, encoding }) => /\.(js|css)$/.test(new URL(url).pathname) && encoding !== "gzip");
  assert.deepEqual(plain, [], "files that were sent without compression");
  assert.deepEqual(complaints(seen), []);
  await context.close();
});

/** When the page had its navigation and its heading, and the main thread had done the work for them. */
function watchForUse() {
  const marks = { ready: 0, busyUntil: 0 };
  window.__use = marks;
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) marks.busyUntil = Math.max(marks.busyUntil, task.startTime + task.duration);
  }).observe({ type: "longtask", buffered: true });
  const look = () => {
    const there = document.querySelector("nav a[href]") && document.querySelector("main h1, main h2");
    if (there && marks.ready === 0) requestAnimationFrame(() => (marks.ready ||= performance.now()));
    else if (!there) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

test("the page is interactive within a second", async () => {
  const took = [];
  for (let run = 0; run < RUNS; run += 1) {
    // A profile of its own: nothing is in its cache.
    const { context, page } = await visitor(browser, { origin: world.url });
    await page.addInitScript(watchForUse);
    await page.goto("/console/");
    await settled(page);
    await page.getByRole("navigation").first().getByRole("link").nth(1).click();
    const { ready, busyUntil } = await page.evaluate(() => window.__use);
    assert.ok(ready > 0, "the page never had a heading");
    took.push(Math.max(ready, Math.min(busyUntil, ready + INTERACTIVE_MS_MAX)));
    await context.close();
  }
  took.sort((a, b) => a - b);
  show(`interactive after ${took[0].toFixed(0)} ms, of ${INTERACTIVE_MS_MAX} (of ${RUNS}: ${took.map((ms) => ms.toFixed(0)).join(", ")})`);
  assert.ok(took[0] <= INTERACTIVE_MS_MAX, String(took));
});

/** From each keystroke to the frame that shows what it changed, by the browser's own event timing and by the last change of the list. */
function watchKeystrokes() {
  window.__keys = [];
  let at = 0;
  addEventListener(
    "keydown",
    (event) => {
      at = event.timeStamp;
      window.__keys.push({ key: event.key, changed: 0, painted: 0 });
    },
    { capture: true },
  );
  new MutationObserver(() => {
    const stroke = window.__keys.at(-1);
    if (!stroke) return;
    const began = at;
    stroke.changed = performance.now() - began;
    // After the frame in which the change is drawn.
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => (stroke.painted = Math.max(stroke.painted, performance.now() - began));
      channel.port2.postMessage(0);
    });
  }).observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true });
}

test("5,000 tools are searched within 50 ms a keystroke", async () => {
  const { context, page, seen } = await visitor(browser, { origin: world.manyUrl });
  await page.goto("/console/catalog");
  await settled(page);
  const search = page.getByRole("searchbox", { name: "Search the catalog" });
  // The count of what is in the list.
  await page.getByRole("status").filter({ hasText: /5,?0\d\d/ }).first().waitFor();
  await page.evaluate(watchKeystrokes);
  /** Types a word; how long each key took until the frame that shows what it changed, 0 where it changed nothing. */
  const typed = async (word) => {
    await search.fill("");
    await page.waitForTimeout(300);
    await page.evaluate(() => (window.__keys.length = 0));
    await search.focus();
    for (const key of word) {
      await page.keyboard.press(key);
      // Slower than a person types, so that each keystroke's work is its own.
      await page.waitForTimeout(150);
    }
    const strokes = await page.evaluate(() => window.__keys);
    assert.equal(strokes.length, word.length);
    assert.ok(strokes.some(({ painted }) => painted > 0), "the list never changed");
    return strokes.map(({ painted }) => painted);
  };
  const best = [];
  for (const word of ["many_4999", "many_12", "4321", "any_3"]) {
    const runs = [];
    for (let run = 0; run < RUNS; run += 1) runs.push(await typed(word));
    // Each keystroke by itself: what it costs is the least that it took.
    best.push(...[...word].map((_, at) => Math.min(...runs.map((run) => run[at]))));
  }
  best.sort((a, b) => a - b);
  const median = best[Math.floor(best.length / 2)];
  show(`5,000 tools: ${median.toFixed(0)} ms a keystroke to the frame, slowest ${best.at(-1).toFixed(0)}, of ${KEYSTROKE_MS_MAX}`);
  assert.ok(best.at(-1) <= KEYSTROKE_MS_MAX, JSON.stringify(best));
  // What is found is shown.
  await search.fill("many_4999");
  await page.getByText("many_4999").first().waitFor();
  assert.deepEqual(complaints(seen), []);
  await context.close();
});

test("1,000 records a second arrive without a frame gap above 100 ms", async () => {
  const { context, page, seen } = await visitor(browser, { origin: world.url });
  await page.goto("/console/traffic");
  await settled(page);
  const load = async () => (await context.request.get("/admin/api/status", { headers: { "X-Sentinel-Console": "1" } })).ok();
  assert.ok(await load());
  const began = await fetch(`${world.load}/begin`);
  assert.equal(began.status, 200);
  // The first records open the list's rows; what is measured is what goes on.
  await page.getByText(world.marker).first().waitFor();
  await page.waitForTimeout(1_000);
  await page.evaluate(watchFrames);
  const windows = [];
  for (let run = 0; run < WINDOWS && !windows.some(({ worst }) => worst <= FRAME_GAP_MS_MAX); run += 1) {
    await page.evaluate(() => Object.assign(window.__frames, { worst: 0, count: 0, over: [] }));
    await page.waitForTimeout(WINDOW_S * 1_000);
    windows.push(await page.evaluate(() => window.__frames));
  }
  const { worst, count } = windows.toSorted((one, other) => one.worst - other.worst)[0];
  const made = await (await fetch(`${world.load}/end`)).json();
  const gaps = windows.map(({ over }) => over.length);
  show(
    `${made.rate.toFixed(0)} records a second for ${WINDOW_S} s: longest frame gap ${worst.toFixed(0)} ms of ${FRAME_GAP_MS_MAX}, ${(count / WINDOW_S).toFixed(0)} frames a second (above it in ${windows.length} windows: ${gaps.join(", ")})`,
  );
  assert.ok(made.rate >= 1_000, `only ${made.rate} records a second were made`);
  assert.ok(worst <= FRAME_GAP_MS_MAX, JSON.stringify(windows));
  // The last of them is shown soon after: the page kept up.
  await page.getByText(made.last).first().waitFor({ timeout: 5_000 });
  assert.deepEqual(complaints(seen), []);
  await context.close();
});
