// The page Reviews, beside agents that propose and review over REST. Nobody signs in here: a reviewer chooses a name.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { complaints, launch, settled, visitor } from "./browser.mjs";
import { go } from "./newcomer.mjs";

const world = JSON.parse(readFileSync(process.env.SENTINEL_WORLD, "utf8"));
let browser, context, seen, page;

before(async () => (browser = await launch()));
after(() => browser?.close());
beforeEach(async () => {
  ({ context, seen, page } = await visitor(browser, { origin: world.url }));
  await page.goto("/");
  await settled(page);
});
afterEach(() => context.close());

/** What an agent does. */
async function agent(tool, input) {
  const answer = await fetch(`${world.url}/api/${tool}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(input) });
  const said = await answer.json();
  assert.equal(answer.status, 200, `${tool}: ${JSON.stringify(said).slice(0, 500)}`);
  return said;
}

const propose = (intent, diff, more = {}) => agent("submit_proposal", { intent, diff, agent_type: "claude-code", phase: "1", ...more });

const lines = (count, word) => Array.from({ length: count }, (_, at) => ` ${word} ${at + 2}`).join("\n");
const BASE = (word) => `--- a/src/price.rs\n+++ b/src/price.rs\n@@ -1,14 +1,14 @@\n-let price = 1;\n+let price = ${word};\n${lines(12, "kept")}\n-let tax = 1;\n+let tax = 2;\n`;

async function open(intent) {
  await go(page, "Reviews");
  await page.getByRole("link", { name: intent }).click();
  await page.getByRole("heading", { level: 1, name: intent }).waitFor();
}

test("without [auth] a reviewer chooses a name once, and comments on a line, where the thread then stands", async () => {
  const { review_id } = await propose("Name the price", BASE("2"));
  await open("Name the price");
  await page.getByLabel("Your name as a reviewer").fill("kim");
  await page.getByRole("button", { name: "Use this name" }).click();
  await page.getByRole("button", { name: "Claim this review" }).click();
  await page.getByText("You review this.").waitFor();
  await page.getByRole("button", { name: "Comment on line 1 after in src/price.rs" }).click();
  await page.getByLabel("Comment on line 1", { exact: true }).fill("Why **two**?");
  await page.getByRole("button", { name: "Post", exact: true }).click();
  await page.getByRole("article").filter({ hasText: "Why two?" }).first().waitFor();
  // An agent reads the place in words, and answers there.
  const { items } = await agent("get_messages", { review_id });
  assert.equal(items[0].body, "`src/price.rs:1`\n\nWhy **two**?");
  await agent("post_message", { review_id, role: "proposer", body: "src/price.rs:1: The ticket says so." });
  // It comes into the page by itself.
  await page.getByRole("article").filter({ hasText: "The ticket says so." }).first().waitFor();
  await page.getByRole("tab", { name: /Discussion/ }).click();
  const thread = page.getByRole("region", { name: "src/price.rs line 1" });
  assert.equal(await thread.getByRole("article").count(), 2);
  // Rejecting takes words.
  await page.getByRole("button", { name: "Reject", exact: true }).click();
  await page.getByText("Write what you want to say, or what has to change.").waitFor();
  await page.getByLabel("Comment", { exact: true }).fill("Not without a test.");
  await page.getByRole("button", { name: "Reject", exact: true }).click();
  await page.getByText("The proposer follows up").waitFor();
  const { status, claimed_by, verdicts } = await agent("get_proposal", { review_id });
  assert.deepEqual([status, claimed_by, verdicts[0].reason], ["rejected", "reviewer:kim", "Not without a test."]);
  // The name is known the next time, and the queue says where the review is.
  await page.reload();
  await go(page, "Reviews");
  await page.getByRole("row").filter({ hasText: "Name the price" }).filter({ hasText: "Rejected" }).waitFor();
  assert.deepEqual(complaints(seen), []);
});

test("a reviewer's patch and a follow-up are compared with the proposal: only what they leave different shows", async () => {
  const { review_id } = await propose("Price in cents", BASE("100"));
  await agent("claim_review", { review_id, reviewer_id: "codex-1" });
  await agent("submit_patch", { review_id, role: "reviewer", diff: BASE("100u64"), description: "Unsigned." });
  const { claim_generation } = await agent("claim_review", { review_id, reviewer_id: "codex-1" });
  await agent("submit_verdict", { review_id, decision: "rejected", reason: "Signed.", claim_generation });
  await propose("Price in unsigned cents", BASE("100u64"), { parent_id: review_id });
  await open("Price in cents");
  await page.getByLabel("Show", { exact: true }).selectOption({ label: "Patch 1 by the reviewer: Unsigned." });
  await page.getByLabel("Compared with").selectOption({ label: "The proposal" });
  const changes = page.getByRole("region", { name: "Changes" });
  await changes.getByText("let price = 100u64;").waitFor();
  const shown = await changes.innerText();
  assert.match(shown, /let price = 100;/);
  // Both change the tax alike, so that it is no difference.
  assert.doesNotMatch(shown, /\+\s*let tax/);
  // The follow-up is what the reviewer asked for.
  const label = await page.getByLabel("Compared with").locator("option").filter({ hasText: "Later attempt" }).first().innerText();
  await page.getByLabel("Compared with").selectOption({ label });
  await page.getByText("Both leave the code the same").waitFor();
  // The address leads a colleague to the same.
  await page.reload();
  await page.getByText("Both leave the code the same").waitFor();
  assert.deepEqual(complaints(seen), []);
});

test("a diff of 3 MiB is read in pages, and only what is seen of it is laid out", async () => {
  let diff = "";
  let files = 0;
  const hunk = Array.from({ length: 30 }, (_, at) => `-let value_${at} = old_function(argument_${at});\n+let value_${at} = new_function(argument_${at});`).join("\n");
  for (; diff.length < 2_950_000; files += 1) {
    diff += `--- a/src/module_${files}.rs\n+++ b/src/module_${files}.rs\n`;
    for (let at = 0; at < 10; at += 1) diff += `@@ -${1 + at * 100},30 +${1 + at * 100},30 @@\n${hunk}\n`;
  }
  await propose("Rename a function everywhere", diff);
  await open("Rename a function everywhere");
  await page.getByRole("button", { name: "src/module_0.rs", exact: true }).first().waitFor();
  const count = () => page.getByRole("region", { name: "Changes" }).evaluate((region) => region.querySelectorAll("*").length);
  assert.ok((await count()) < 6_000, `${await count()} elements`);
  // The last file is found by its name and is where the page then is.
  const last = `src/module_${files - 1}.rs`;
  await page.getByRole("navigation", { name: "Files" }).getByRole("searchbox").fill(last);
  await page.getByRole("navigation", { name: "Files" }).getByRole("button", { name: last }).click();
  await page.getByRole("region", { name: "Changes" }).getByRole("button", { name: last }).waitFor();
  assert.ok((await count()) < 6_000, `${await count()} elements`);
  assert.deepEqual(complaints(seen), []);
});
