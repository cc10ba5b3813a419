// Names, descriptions, results, markdown, pictures, callers and records that want to run in the page: nothing runs, nothing leaves
// the origin, and what is shown of them is text.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { complaints, inert, launch, settled, visitor } from "./browser.mjs";
import { addressOf, apiOf, PAGES, recordKey } from "./pages.mjs";

const world = JSON.parse(readFileSync(process.env.SENTINEL_WORLD, "utf8"));
let browser, signedIn;

before(async () => {
  browser = await launch();
  signedIn = await visitor(browser, { origin: world.url, key: world.key });
});
after(() => browser?.close());

/** Opens an address and judges what is there; `places` are the hostile texts that it has to show, as text. */
async function judge(address, places = [], act = async () => {}) {
  const { context, seen } = signedIn;
  for (const list of [seen.errors, seen.foreign, seen.violations, seen.dialogs]) list.length = 0;
  const page = await context.newPage();
  try {
    await page.goto(address);
    await settled(page);
    await act(page);
    for (const place of places) await page.getByText(`window.ran='${place}'`).first().waitFor();
    assert.deepEqual(await page.evaluate(inert), []);
    assert.deepEqual(complaints(seen), []);
  } finally {
    await page.close();
  }
}

for (const [name, address] of Object.entries(PAGES)) {
  test(`P-S11: hostile texts are inert on the page ${name}`, async () => judge(await addressOf(address, signedIn.context)));
}

// A map, for an object has some of these names already.
const SHOWN = new Map([
  ["tool name", ["tool name"]],
  ["show", ["tool title", "tool description"]],
]);
for (const kind of ["tool name", "safe", "../../admin", "__proto__", "constructor", "described_at_length", "nnnnnn", "show"]) {
  test(`P-S11: the tool whose name has ${kind} in it has a page`, async () => {
    const catalog = await apiOf(signedIn.context)("GET", "/admin/api/catalog");
    const found = catalog.find((one) => one.backend === "hostile" && one.kind === "tools" && one.own_name.includes(kind));
    await judge(`/console/catalog/tools/${encodeURIComponent(found.name)}`, SHOWN.get(kind));
  });
}

test("P-S11: a hostile caller, its operation and its ids are text in a record", async () => {
  const key = await recordKey(apiOf(signedIn.context), "outcome=denied&kind=unknown_name&surface=rest&tenant=" + encodeURIComponent(world.tenant));
  await judge(`/console/traffic?record=${key}`, ["caller", "unknown operation"]);
});

test("P-S11: a hostile review and its diff are text", async () => judge(`/console/reviews/${world.review}`, ["intent", "file", "diff"]));
test("P-S11: a hostile discussion is text", async () => {
  await judge(`/console/reviews/${world.review}`, ["message"], (page) => page.getByRole("tab", { name: /Discussion/ }).click());
});
test("P-S11: hostile lines on standard error are text", async () => judge("/console/backends/hostile?tab=stderr", ["stderr"]));
test("P-S11: the reason of a switch is text", async () => judge("/console/switches", ["reason", "switched off"]));

