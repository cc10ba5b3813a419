// The page Other servers: a server that is in nobody's catalog, looked at and called.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, afterEach, before, test } from "node:test";

import { complaints, launch, settled, visitor } from "./browser.mjs";
import { call, go } from "./newcomer.mjs";

const world = JSON.parse(readFileSync(process.env.SENTINEL_WORLD, "utf8"));
let browser, context, seen, page;

before(async () => (browser = await launch()));
after(() => browser?.close());
afterEach(() => context?.close());

async function open(origin) {
  ({ context, seen, page } = await visitor(browser, { origin }));
  await page.goto("/");
  await settled(page);
  await go(page, "Other servers");
}

test("A-18: a server is looked at by its address: its tools are listed, called in both eras, and in no catalog", async () => {
  await open(world.url);
  await page.getByLabel("Address of the MCP server").fill(world.server);
  await page.getByLabel("Bearer token").fill(world.bearer);
  await page.getByRole("button", { name: "Look at it" }).click();
  const offer = page.getByRole("navigation", { name: "What it offers" });
  await offer.getByRole("searchbox").fill("ask");
  await offer.getByRole("button", { name: "ask", exact: true }).click();
  for (const era of ["MCP 2026-07-28", "MCP 2025-11-25"]) {
    await page.getByLabel("Call as").selectOption({ label: era });
    await call(page, { message: `Who is there in ${era}?` });
    // What it asks is answered in the page.
    await page.getByText(`Who is there in ${era}?`).last().waitFor();
    await page.getByRole("textbox", { name: /^name/ }).last().fill("Grace");
    await page.getByRole("button", { name: /Answer|Accept|Send|Submit/ }).last().click();
    await page.getByText("hello Grace").first().waitFor();
    await page.reload();
    await settled(page);
  }
  await offer.getByRole("searchbox").fill("riddle");
  await offer.getByRole("button", { name: "riddle", exact: true }).waitFor();
  const catalog = await (await fetch(`${world.url}/api/catalog`)).json();
  assert.deepEqual(catalog.tools.filter((tool) => tool.name.endsWith("riddle")), []);
  await page.getByRole("button", { name: "End the visit" }).click();
  await page.getByText("None yet").waitFor();
  assert.deepEqual(complaints(seen), []);
});

test("A-18: a server that wants a credential, or is not there, is named with its reason", async () => {
  await open(world.url);
  await page.getByLabel("Address of the MCP server").fill(world.server);
  await page.getByRole("button", { name: "Look at it" }).click();
  await page.getByRole("alert").filter({ hasText: "401" }).first().waitFor();
  await page.getByRole("button", { name: "End the visit" }).click();
  await page.getByLabel("Address of the MCP server").fill("http://127.0.0.1:1/mcp");
  await page.getByRole("button", { name: "Look at it" }).click();
  await page.getByRole("alert").filter({ hasText: "cannot be reached" }).first().waitFor();
  await page.getByRole("button", { name: "End the visit" }).click();
  await page.getByLabel("Address of the MCP server").waitFor();
  await settled(page);
  assert.equal(await page.getByText("http://127.0.0.1:1/mcp").count(), 0);
});

test("A-18: where it is switched off the page says so, and how to switch it on", async () => {
  await open(world.off);
  await page.getByRole("heading", { name: "Switched off" }).waitFor();
  assert.match(await page.getByRole("region", { name: "Configuration" }).innerText(), /\[console\]\s+connect = "public"/);
  assert.equal(await page.getByLabel("Address of the MCP server").count(), 0);
  assert.deepEqual(complaints(seen), []);
});
