// What an operator does on the pages Backends, Switches, Access, Keys, Limits and Config, by what the pages show, and what
// comes of it for callers.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { go, launch, newcomer, nothingElse, settled } from "./newcomer.mjs";

const world = JSON.parse(readFileSync(process.env.SENTINEL_WORLD, "utf8"));
let browser, context, seen, page;

before(async () => (browser = await launch()));
after(() => browser?.close());
beforeEach(async () => ({ context, seen, page } = await newcomer(browser, world, world.keys.ada)));
afterEach(async (test) => {
  if (!test.passed && process.env.SENTINEL_SHOTS) await page.screenshot({ path: `${process.env.SENTINEL_SHOTS}/failed-${test.name.replace(/\W+/g, "-")}.png` }).catch(() => {});
  await context.close();
});

/** A call of a program with its own key. */
async function calls(operation, input, key = world.keys.dev) {
  const answer = await fetch(`${world.url}/api/${operation}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${key}` },
    body: JSON.stringify(input),
  });
  return { status: answer.status, body: await answer.json() };
}

const notice = (text) => page.getByRole("region", { name: "Notifications" }).getByText(text).first();

test("A-20: a stopped backend refuses its calls with the reason until it is started", async () => {
  await go(page, "Backends");
  await page.getByRole("link", { name: "memory", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "memory" }).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/Reason/).fill("its disk is being moved");
  await dialog.getByRole("button", { name: "Stop" }).click();
  await page.getByText("It is stopped.", { exact: false }).first().waitFor();
  const refused = await calls("read_graph", {});
  assert.ok(refused.status >= 400, JSON.stringify(refused));
  assert.match(JSON.stringify(refused.body), /its disk is being moved/);
  await page.getByRole("button", { name: "Start" }).click();
  await notice(/memory was started/).waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  assert.equal((await calls("read_graph", {})).status, 200);
  nothingElse(seen);
});

test("A-20: a restart says what came of it, and standard error shows the new program's lines as they come", async () => {
  await go(page, "Backends");
  await page.getByRole("link", { name: "files", exact: true }).click();
  await page.getByRole("tab", { name: "Standard error" }).click();
  const log = page.getByRole("log");
  const line = log.getByText("Secure MCP Filesystem Server running", { exact: false });
  await line.first().waitFor();
  const lines = await line.count();
  await page.getByRole("button", { name: "Restart" }).click();
  await notice("files was restarted and is up").waitFor();
  await line.nth(lines).waitFor();
  nothingElse(seen);
});

test("A-20: a backend that does not answer says what is wrong and what to do", async () => {
  await go(page, "Backends");
  await page.getByRole("row").filter({ hasText: "Connection refused" }).first().waitFor();
  await page.getByRole("link", { name: "down", exact: true }).click();
  await page.getByText("Check that a server listens at its address", { exact: false }).waitFor();
  nothingElse(seen);
});

test("A-20: everything stops by two presses and not by one that is held, and goes on again", async () => {
  await go(page, "Switches");
  const stop = page.getByRole("button", { name: "Stop everything…" });
  await stop.focus();
  // A held key: one press that repeats.
  await page.keyboard.down("Enter");
  await page.getByRole("dialog").waitFor();
  for (let repeat = 0; repeat < 20; repeat += 1) await page.keyboard.down("Enter");
  await page.keyboard.up("Enter");
  assert.equal((await calls("get-sum", { a: 1, b: 2 })).status, 200);
  await page.getByRole("dialog").getByLabel(/Reason/).fill("a drill");
  await page.getByRole("dialog").getByRole("button", { name: "Stop everything" }).click();
  await page.getByText("Everything is switched off").first().waitFor();
  const refused = await calls("get-sum", { a: 1, b: 2 });
  assert.equal(refused.status, 503);
  assert.match(refused.body.detail, /a drill/);
  await page.getByRole("button", { name: "Switch everything on again" }).click();
  await stop.waitFor();
  assert.equal((await calls("get-sum", { a: 1, b: 2 })).status, 200);
  nothingElse(seen);
});

test("A-20: before a pattern is switched off, the page says how many operations it hits", async () => {
  await go(page, "Switches");
  await page.getByLabel("Name or pattern").fill("memory.*");
  const hits = page.getByText(/Hits \d+ operations/);
  await hits.waitFor();
  const count = Number(/Hits (\d+)/.exec(await hits.innerText())[1]);
  await page.keyboard.press("Escape");
  await page.getByLabel("Reason").fill("counting");
  await page.getByRole("button", { name: "Switch off", exact: true }).click();
  // The gateway counts for itself.
  await notice(`${count} operations are off.`).waitFor();
  await page.getByRole("button", { name: "Switch on memory.*" }).click();
  await page.getByRole("row").filter({ hasText: "counting" }).waitFor({ state: "detached" });
  nothingElse(seen);
});

test("A-20: why a caller is refused is asked by the name of its key", async () => {
  await go(page, "Access");
  await page.getByRole("tab", { name: "Why?" }).click();
  await page.getByLabel("Operation").fill("write_file");
  await page.keyboard.press("Escape");
  await page.getByLabel("Who").selectOption("caller");
  await page.getByRole("combobox", { name: "Caller", exact: true }).fill("dev");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Why?", exact: true }).click();
  await page.getByText("rbac.roles.developer.denied_tools: files.write_file").waitFor();
  nothingElse(seen);
});

test("A-20: a revoked key is refused from then on", async () => {
  await go(page, "Keys");
  await page.getByRole("button", { name: "Make a key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("to-be-revoked");
  await dialog.getByLabel("Role").selectOption("developer");
  await dialog.getByRole("button", { name: "Make the key" }).click();
  const key = (await dialog.getByText(/^sk_\w+/).first().innerText()).trim();
  await dialog.getByRole("button", { name: "Done" }).click();
  assert.equal((await calls("get-sum", { a: 1, b: 2 }, key)).status, 200);
  await page.getByRole("button", { name: "Revoke to-be-revoked" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("row").filter({ hasText: "to-be-revoked" }).getByText("revoked", { exact: true }).waitFor();
  assert.equal((await calls("get-sum", { a: 1, b: 2 }, key)).status, 401);
  nothingElse(seen);
});

/** The editor of the configuration, with the text of the file. */
async function editing() {
  await go(page, "Config");
  await page.getByRole("tab", { name: "Edit the file" }).click();
  const editor = page.getByRole("textbox", { name: "Configuration file" });
  await editor.waitFor();
  return editor;
}

test("A-20: a mistake is told at its line while it is typed, and nothing with one is applied", async () => {
  const editor = await editing();
  const text = await editor.inputValue();
  await editor.fill(text.replace("default_rpm", "defalt_rpm"));
  await page.getByText(/^1 mistake$/).waitFor();
  const line = text.slice(0, text.indexOf("default_rpm")).split("\n").length;
  await page.getByRole("button", { name: `Line ${line}`, exact: true }).click();
  const chosen = await editor.evaluate((area) => area.value.slice(area.selectionStart, area.selectionEnd));
  assert.match(chosen, /^defalt_rpm/);
  assert.ok(await page.getByRole("button", { name: "Review and apply…" }).isDisabled());
  assert.equal(readFileSync(world.config, "utf8"), text);
  await page.getByRole("button", { name: "Discard" }).click();
  assert.equal(await editor.inputValue(), text);
  nothingElse(seen);
});

test("A-20: the tab key indents, and Escape gives it back", async () => {
  const editor = await editing();
  await editor.evaluate((area) => area.setSelectionRange(0, 0));
  await editor.focus();
  await page.keyboard.press("Tab");
  assert.ok((await editor.inputValue()).startsWith("  "));
  await page.keyboard.press("Shift+Tab");
  assert.ok(!(await editor.inputValue()).startsWith(" "));
  await page.keyboard.press("Escape");
  await page.keyboard.press("Tab");
  assert.notEqual(await page.evaluate(() => document.activeElement.tagName), "TEXTAREA");
  nothingElse(seen);
});

test("A-20: a change is shown with what it does, applied, and in force", async () => {
  const editor = await editing();
  const text = await editor.inputValue();
  await editor.fill(text.replace(/default_rpm = \d+/, "default_rpm = 4321"));
  await page.getByRole("region", { name: "What a reload would do" }).getByText("rate_limits", { exact: false }).waitFor();
  await page.getByRole("button", { name: "Review and apply…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("4321").waitFor();
  await dialog.getByRole("button", { name: "Apply", exact: true }).click();
  await page.getByText("The configuration was reloaded").waitFor();
  assert.match(readFileSync(world.config, "utf8"), /default_rpm = 4321/);
  await go(page, "Limits");
  await page.getByText("4,321 a minute").waitFor();
  // Where a value comes from.
  await go(page, "Config");
  await page.getByRole("searchbox").fill("rate_limits.default_rpm");
  const row = page.getByRole("row").filter({ hasText: "4321" });
  await row.getByRole("link", { name: /^file, line \d+$/ }).click();
  const chosen = await page.getByRole("textbox", { name: "Configuration file" }).evaluate((area) => area.value.slice(area.selectionStart, area.selectionEnd));
  assert.equal(chosen, "default_rpm = 4321");
  nothingElse(seen);
});

test("A-20: a file that somebody else changed meanwhile is compared and not overwritten", async () => {
  const editor = await editing();
  const text = await editor.inputValue();
  await editor.fill(`${text}\n# mine\n`);
  await page.getByRole("button", { name: "Review and apply…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("# mine").waitFor();
  writeFileSync(world.config, `${text}\n# theirs\n`);
  await dialog.getByRole("button", { name: "Apply", exact: true }).click();
  await page.getByText("The file changed meanwhile").waitFor();
  await page.getByText("# theirs").first().waitFor();
  assert.match(readFileSync(world.config, "utf8"), /# theirs\n$/);
  await page.getByRole("button", { name: "Keep my text" }).click();
  await page.getByRole("button", { name: "Review and apply…" }).click();
  // What is lost is seen before it is.
  await page.getByRole("dialog").getByText("# theirs").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Apply", exact: true }).click();
  await page.getByText("The configuration was reloaded").waitFor();
  assert.match(readFileSync(world.config, "utf8"), /# mine\n$/);
  // The browser says in its console that the first attempt was refused.
  assert.deepEqual(seen.errors.filter((line) => !line.includes("409")), []);
});

test("A-20: a backend is added by the form, and its mistakes are told before anything is written", async () => {
  await go(page, "Backends");
  await page.getByRole("button", { name: "Add a backend" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("tab", { name: "Fill in" }).click();
  await dialog.getByLabel("Kind").selectOption("http");
  await dialog.getByLabel("Name").fill("lab");
  await dialog.getByLabel("URL").fill(world.modern);
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  // There is one of this name already.
  await dialog.getByText("The gateway would not take it").waitFor();
  await dialog.getByLabel("Name").fill("second");
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await dialog.getByRole("status", { name: "Added backends" }).getByText(/up with \d+ tools/).waitFor();
  await dialog.getByRole("button", { name: "Done" }).click();
  await page.getByRole("link", { name: "second", exact: true }).waitFor();
  nothingElse(seen);
});

test("A-20: the command palette restarts a backend and reloads the configuration", async () => {
  await page.keyboard.press("Control+k");
  const palette = page.getByRole("combobox", { name: /Find a page/ });
  await palette.fill("restart lab");
  await page.getByRole("option", { name: /Restart lab/ }).first().waitFor();
  await page.keyboard.press("Enter");
  await notice("lab was restarted and is up").waitFor();
  await page.keyboard.press("Control+k");
  await palette.fill("reload the conf");
  await page.getByRole("option", { name: /Reload the configuration/ }).first().waitFor();
  await page.keyboard.press("Enter");
  await notice("The configuration was reloaded").waitFor();
  nothingElse(seen);
});

test("A-20: to a viewer these pages say in one sentence that they are for administrators", async () => {
  const { page: theirs, seen: theirSeen, context: theirContext } = await newcomer(browser, world, world.keys.vera);
  for (const path of ["backends", "backends/lab", "switches", "pins", "keys", "access", "limits", "config"]) {
    await theirs.goto(`/console/${path}`);
    await theirs.getByText("This page is for administrators").waitFor();
    await settled(theirs);
  }
  nothingElse(theirSeen);
  await theirContext.close();
});
