// The page Connect: what it says to paste works as it stands, and it sees the client arrive.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { go, launch, newcomer, nothingElse } from "./newcomer.mjs";

const world = JSON.parse(readFileSync(process.env.SENTINEL_WORLD, "utf8"));
let browser, context, seen, page;

before(async () => (browser = await launch()));
after(() => browser?.close());
beforeEach(async () => {
  ({ context, seen, page } = await newcomer(browser, world, world.keys.ada));
  await go(page, "Connect");
});
afterEach(() => context.close());

/** What the page has for a client, as somebody copies it. */
async function copied(client, where) {
  await page.getByRole("group", { name: "Clients" }).getByRole("button", { name: client }).click();
  return page.getByRole("region", { name: `${client}: ${where}` }).innerText();
}

function run(program, args, options = {}) {
  return execFileSync(program, args, { encoding: "utf8", timeout: 40_000, ...options });
}

test("A-18: a key made on the spot is in what is pasted, and the page sees the client that uses it arrive", async () => {
  await page.getByLabel("Name").fill("python-of-ada");
  await page.getByLabel("Role").selectOption("developer");
  await page.getByRole("button", { name: "Make the key" }).click();
  const key = (await page.getByRole("region", { name: "The new key" }).innerText()).trim();
  await page.getByText("Waiting for a client").waitFor();

  const script = join(world.folder, "client.py");
  writeFileSync(script, await copied("Python SDK", "Python"));
  assert.match(readFileSync(script, "utf8"), new RegExp(key));
  assert.match(run(world.python, [script]), /^get-sum$/m);

  const arrivals = page.getByRole("listitem").filter({ hasText: "Your client has arrived" });
  await arrivals.first().waitFor();
  const said = await arrivals.first().innerText();
  assert.match(said, new RegExp(`key:${key.split("_")[1]}`));
  assert.match(said, /developer/);
  assert.match(said, /MCP 20\d\d-\d\d-\d\d over http/);
  // Each leads to its record.
  await arrivals.first().getByRole("link", { name: "Record" }).click();
  await page.getByRole("dialog").waitFor();
  // Nowhere in the page's address or storage.
  const kept = await page.evaluate(() => location.href + JSON.stringify({ ...localStorage }) + JSON.stringify({ ...sessionStorage }));
  assert.ok(!kept.includes(key));
  nothingElse(seen);
});

test("A-18: a pasted key is filled into every snippet, and the programs among them run as they stand", async () => {
  const key = world.keys.dev;
  await page.getByLabel("Key or token").fill(key);
  for (const where of ["MCP 2026-07-28", "REST", "JSON-RPC"]) {
    const command = await copied("curl", where);
    assert.match(run("bash", ["-c", command]), /get-sum/, command);
  }
  // In a folder whose modules are those of the tests.
  const script = join(world.folder, "client.mjs");
  const modules = createRequire(import.meta.url);
  const typescript = (await copied("TypeScript SDK", "TypeScript")).replace(/from "(@modelcontextprotocol[^"]+)"/g, (_, name) => `from ${JSON.stringify(modules.resolve(name))}`);
  writeFileSync(script, typescript);
  assert.match(run(process.execPath, [script]), /^get-sum$/m);
  for (const [client, where] of [["Claude Code", "Shell"], ["Claude Code", ".mcp.json"], ["Cursor", ".cursor/mcp.json"], ["Claude Desktop", "claude_desktop_config.json"],
    ["Windsurf", "~/.codeium/windsurf/mcp_config.json"], ["Zed", "settings.json"], ["Cline", "cline_mcp_settings.json"], ["Gemini CLI", ".gemini/settings.json"], ["Another client", "JSON"]]) {
    const text = await copied(client, where);
    assert.ok(text.includes(key) && text.includes(`${world.url}/mcp`), `${client}: ${text}`);
    if (where.endsWith("json") || where === "JSON") JSON.parse(text);
  }
  nothingElse(seen);
});

test("A-18: one backend alone has an address of its own", async () => {
  await page.getByLabel("Connect to").selectOption("lab");
  await page.getByLabel("Key or token").fill(world.keys.dev);
  const said = run("bash", ["-c", await copied("curl", "MCP 2026-07-28")]);
  assert.match(said, /"name":"structured"/);
  assert.doesNotMatch(said, /get-sum/);
  nothingElse(seen);
});
