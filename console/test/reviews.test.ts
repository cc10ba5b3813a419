import assert from "node:assert/strict";
import { test } from "node:test";
import { parseInline, parseMarkdown } from "../src/lib/markdown/parse";
import type { Message, Review } from "../src/lib/reviews/documents";
import { byUrgency, claimantOf, groupOf, standingOf } from "../src/lib/reviews/standing";
import { discussionOf, placeKey, readPlace, writePlace } from "../src/lib/reviews/threads";

const review = (more: Partial<Review>): Review => ({
  review_id: "r", status: "created", version: 1, intent: "", agent_type: "a", phase: "1", category: "code_change", priority: "normal", proposed_by: "dev",
  claim_generation: 0, affected_files: [], message_count: 0, patch_count: 1, created_at: "2026-01-02T00:00:00Z", updated_at: "2026-01-02T00:00:00Z", ...more,
});
const ada = { subject: "ada", isGuarded: true, name: "" };
const local = { subject: "local", isGuarded: false, name: "kim" };

test("a review is one's own by identity, or without [auth] by the chosen name", () => {
  assert.equal(claimantOf(ada), "caller:ada");
  assert.equal(claimantOf(local), "reviewer:kim");
  assert.equal(claimantOf({ ...local, name: "" }), undefined);
  assert.equal(groupOf(review({ status: "claimed", claimed_by: "caller:ada" }), ada), "mine");
  assert.equal(groupOf(review({ status: "claimed", claimed_by: "reviewer:codex-1" }), ada), "others");
  assert.equal(groupOf(review({ status: "in_discussion", claimed_by: "reviewer:kim" }), local), "mine");
  assert.equal(groupOf(review({}), local), "waiting");
  // A review that came to its end keeps its reviewer, and waits for nobody's review.
  assert.equal(groupOf(review({ status: "approved", claimed_by: "reviewer:kim" }), local), "decided");
});

test("each state offers what the broker takes there, and says it in words", () => {
  const rights = (status: Review["status"]) => {
    const { mayClaim, mayDiscuss, mayDecide, mayClose, text } = standingOf(review({ status, claimed_by: "reviewer:codex-1" }), local);
    assert.notEqual(text, "");
    return [mayClaim, mayDiscuss, mayDecide, mayClose];
  };
  assert.deepEqual(rights("created"), [true, false, false, false]);
  assert.deepEqual(rights("claimed"), [false, true, true, false]);
  assert.deepEqual(rights("in_discussion"), [false, true, true, false]);
  assert.deepEqual(rights("approved"), [false, false, false, true]);
  assert.deepEqual(rights("rejected"), [false, false, false, true]);
  assert.deepEqual(rights("closed"), [false, false, false, false]);
});

test("the most urgent and oldest come first, what is over latest first", () => {
  const sorted = (all: Review[]) => all.sort(byUrgency).map((one) => one.review_id);
  assert.deepEqual(
    sorted([review({ review_id: "new", created_at: "2026-02" }), review({ review_id: "low", priority: "low", created_at: "2025" }), review({ review_id: "old" }), review({ review_id: "critical", priority: "critical", created_at: "2026-03" })]),
    ["critical", "old", "new", "low"],
  );
  assert.deepEqual(sorted([review({ review_id: "a", status: "closed", updated_at: "2026-01" }), review({ review_id: "b", status: "closed", updated_at: "2026-05" })]), ["b", "a"]);
});

test("a message that begins with a line of the patch belongs to that line, in every form that is written", () => {
  const paths = new Set(["src/a b.rs", "src/a.rs"]);
  const read = (body: string) => {
    const { place, text } = readPlace(body, paths);
    return place === undefined ? undefined : [place.path, place.line, place.side, place.patch, text];
  };
  assert.deepEqual(read("`src/a.rs:7` is wrong"), ["src/a.rs", 7, "after", undefined, "is wrong"]);
  assert.deepEqual(read("src/a.rs:7: is wrong"), ["src/a.rs", 7, "after", undefined, "is wrong"]);
  assert.deepEqual(read("On `src/a b.rs:12` (before)\n\ntext"), ["src/a b.rs", 12, "before", undefined, "text"]);
  for (const body of ["12:30 is fine", "http://x:80 is down", "`src/other.rs:7` x", "see src/a.rs:7", "src/a.rs:7.5 x"]) assert.equal(read(body), undefined, body);
  for (const patch of [undefined, "0a1b2c3d"]) {
    for (const side of ["before", "after"] as const) {
      const place = { path: "src/a b.rs", line: 3, side, patch };
      const { place: again, text } = readPlace(writePlace(place, "so\n\nit is"), paths);
      assert.deepEqual(again, place);
      assert.equal(text, "so\n\nit is");
    }
  }
});

test("messages about one line are one thread, the others the general one", () => {
  const message = (body: string): Message => ({ message_id: body, role: "reviewer", body, posted_by: "x", created_at: "2026" });
  const { general, threads } = discussionOf([message("hello"), message("`a.rs:1` why?"), message("`a.rs:1` because"), message("`a.rs:2` and here?")], new Set(["a.rs"]));
  assert.deepEqual(general.map((post) => post.text), ["hello"]);
  assert.deepEqual([...threads.values()].map((thread) => thread.posts.map((post) => post.text)), [["why?", "because"], ["and here?"]]);
  assert.ok(threads.has(placeKey({ path: "a.rs", line: 2, side: "after", patch: undefined })));
});

test("Markdown becomes a tree of text: nothing in it is a link, an image or HTML", () => {
  assert.deepEqual(parseInline("a **b** `c*d*` *e* 2*3*4"), [
    { kind: "text", text: "a " },
    { kind: "strong", text: "b" },
    { kind: "text", text: " " },
    { kind: "code", text: "c*d*" },
    { kind: "text", text: " " },
    { kind: "emphasis", text: "e" },
    { kind: "text", text: " 2" },
    { kind: "emphasis", text: "3" },
    { kind: "text", text: "4" },
  ]);
  assert.deepEqual(parseInline("![x](http://a/b.png) <img src=x onerror=run()>"), [{ kind: "text", text: "![x](http://a/b.png) <img src=x onerror=run()>" }]);
  const kinds = parseMarkdown("# Title\ntext\nmore\n\n- one\n- two\n\n1. first\n\n> said\n> again\n\n```rs\nlet x = 1;\n```\nend").map((block) => block.kind);
  assert.deepEqual(kinds, ["heading", "paragraph", "list", "list", "quote", "code", "paragraph"]);
  const start = performance.now();
  parseMarkdown(`${"> ".repeat(20_000)}x`);
  parseMarkdown("*a ".repeat(8_000));
  parseMarkdown("`".repeat(20_000));
  assert.ok(performance.now() - start < 1_000);
});
