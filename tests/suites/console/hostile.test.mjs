// Names, descriptions, results, markdown, pictures, callers and records that want to run in the page: nothing runs, nothing leaves
// the origin, and what is shown of them is text.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { complaints, launch, settled, visitor } from "./browser.mjs";
import { addressOf, apiOf, PAGES, recordKey } from "./pages.mjs";

const world = JSON.parse(readFileSync(process.env.SENTINEL_WORLD, "utf8"));
let browser, signedIn;

before(async () => {
  browser = await launch();
  signedIn = await visitor(browser, { origin: world.url, key: world.key });
});
after(() => browser?.close());

/** What in the document could have run, or would if it were clicked; and controls that are not made visible. */
function looking() {
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
    // eslint-disable-next-line no-control-regex
    if (/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(node.data)) found.push(`a control character in ${JSON.stringify(node.data.slice(0, 60))}`);
    if (/[\u202a-\u202e\u2066-\u2069]/.test(node.data)) found.push(`a bidi control in ${JSON.stringify(node.data.slice(0, 60))}`);
  }
  return found;
}

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
    assert.deepEqual(await page.evaluate(looking), []);
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
  const key = await recordKey(apiOf(signedIn.context), "outcome=denied&kind=unknown_name&tenant=" + encodeURIComponent(world.tenant));
  await judge(`/console/traffic?record=${key}`, ["caller", "unknown operation"]);
});

test("P-S11: a hostile review is text, its diff and its discussion too", async () => judge(`/console/reviews/${world.review}`, ["intent", "message"]));
test("P-S11: hostile lines on standard error are text", async () => judge("/console/backends/hostile?tab=stderr", ["stderr"]));
test("P-S11: the reason of a switch is text", async () => judge("/console/switches", ["reason", "switched off"]));
