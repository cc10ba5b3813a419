import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { interdiff } from "../src/lib/patch/interdiff";
import { parsePatch, unquote } from "../src/lib/patch/parse";
import { layOut, viewOf } from "../src/lib/patch/rows";
import type { Item } from "../src/lib/patch/rows";

const GIT = `From 1234 Mon Sep 17 00:00:00 2001
Subject: move things

diff --git a/src/a.rs b/src/a.rs
index 1..2 100644
--- a/src/a.rs
+++ b/src/a.rs
@@ -1,4 +1,5 @@ fn main
 one
-two
+TWO
+two and a half
 three
 four
@@ -20 +21 @@
-old
\\ No newline at end of file
+new
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
--- a line that looks like a header
diff --git a/old name b/new name
similarity index 100%
rename from old name
rename to new name
diff --git a/picture.png b/picture.png
new file mode 100644
Binary files /dev/null and b/picture.png differ
diff --git "a/caf\\303\\251.txt" "b/caf\\303\\251.txt"
old mode 100644
new mode 100755
`;

test("a diff of git is read: hunks, a deleted file, a rename, binary content, modes and quoted names", () => {
  const { files, preamble } = parsePatch(GIT);
  assert.match(preamble, /Subject: move things/);
  assert.deepEqual(
    files.map(({ path, change, added, removed }) => [path, change, added, removed]),
    [
      ["src/a.rs", "modify", 3, 2],
      ["gone.txt", "delete", 0, 1],
      ["new name", "rename", 0, 0],
      ["picture.png", "create", 0, 0],
      ["café.txt", "modify", 0, 0],
    ],
  );
  assert.equal(files[0]?.hunks.length, 2);
  assert.equal(files[0]?.hunks[0]?.section, "fn main");
  assert.equal(files[1]?.hunks[0]?.lines[0]?.text, "-- a line that looks like a header");
  assert.deepEqual(files[3]?.notes, ["Binary content, which is not shown"]);
  assert.deepEqual(files[4]?.notes, ["old mode 100644", "new mode 100755"]);
});

test("lines beyond what a hunk says are shown at its end, and the next file is read", () => {
  const text = "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n+b\n left over\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-c\n+d\n";
  const { files } = parsePatch(text);
  assert.deepEqual(files.map(({ path, added, rest }) => [path, added, rest]), [["x", 1, [" left over"]], ["y", 1, []]]);
  const items = layOut(files.map(viewOf), { closed: new Set(), open: new Set(), isSplit: true });
  assert.equal(items.filter((item) => item.type === "note").length, 1);
});

test("quoted paths are decoded, with characters beyond ASCII and escapes", () => {
  assert.equal(unquote('"a/caf\\303\\251 \\"x\\"\\t\\\\"'), 'a/café "x"\t\\');
  assert.equal(unquote('"😀\\303\\251"'), "😀é");
  assert.equal(unquote("plain"), "plain");
});

function texts(items: readonly Item[]): string[] {
  return items.map((item) => {
    if (item.type === "row") {
      const { before, after } = item.row;
      if (item.only !== undefined) return `${item.only === "before" ? "-" : "+"}${item.row[item.only]?.text}`;
      return `${before?.number ?? ""}:${before?.text ?? ""}|${after?.number ?? ""}:${after?.text ?? ""}`;
    }
    return item.type === "gap" ? `gap ${item.text}` : item.type === "fold" ? `fold ${item.count}` : item.type;
  });
}

test("lines that replaced each other stand beside each other, or above each other in one column, with their numbers", () => {
  const files = parsePatch(GIT).files.slice(0, 1).map(viewOf);
  const how = { closed: new Set<string>(), open: new Set<string>() };
  assert.deepEqual(texts(layOut(files, { ...how, isSplit: true })), [
    "file",
    "gap fn main",
    "1:one|1:one",
    "2:two|2:TWO",
    ":|3:two and a half",
    "3:three|4:three",
    "4:four|5:four",
    "gap 15 lines are not in the patch",
    "20:old (no line feed at the end)|21:new",
  ]);
  assert.deepEqual(texts(layOut(files, { ...how, isSplit: false })).slice(2, 6), ["1:one|1:one", "-two", "+TWO", "+two and a half"]);
  assert.deepEqual(texts(layOut(files, { ...how, isSplit: true, closed: new Set(["src/a.rs"]) })), ["file"]);
});

test("long equal parts are folded, but for lines with a discussion", () => {
  const same = Array.from({ length: 40 }, (_, i) => ` line ${i + 2}`).join("\n");
  const diff = `--- a/x\n+++ b/x\n@@ -1,41 +1,42 @@\n+first\n line 1\n${same}\n`;
  const files = parsePatch(diff).files.map(viewOf);
  const how = { closed: new Set<string>(), open: new Set<string>(), isSplit: true };
  const folded = layOut(files, how);
  assert.deepEqual(texts(folded), ["file", ":|1:first", "1:line 1|2:line 1", "2:line 2|3:line 2", "3:line 3|4:line 3", "fold 38"]);
  const key = folded.find((item) => item.type === "fold")?.key ?? "";
  assert.equal(layOut(files, { ...how, open: new Set([key]) }).length, 43);
  const noted = layOut(files, { ...how, hasBelow: (_, side, line) => side === "after" && line === 20 });
  assert.ok(texts(noted).includes("below"));
  assert.deepEqual(texts(noted).filter((text) => text.startsWith("fold")), ["fold 12", "fold 19"]);
});

const BASE = (body: string) => `--- a/x\n+++ b/x\n${body}`;

test("two patches of the same code: only what they leave different is shown, with the lines of their results", () => {
  const proposal = BASE("@@ -1,4 +1,5 @@\n a\n-b\n+B\n+extra\n c\n d\n@@ -30,3 +31,3 @@\n x\n-y\n+Y\n z\n");
  const better = BASE("@@ -1,4 +1,4 @@\n a\n-b\n+B better\n c\n d\n@@ -30,3 +30,3 @@\n x\n-y\n+Y\n z\n");
  const [file, ...more] = interdiff(parsePatch(proposal).files, parsePatch(better).files);
  assert.equal(more.length, 0);
  assert.equal(file?.blocks.length, 1);
  assert.deepEqual(
    file?.blocks[0]?.rows.map((row) => [row.kind, row.before?.number, row.before?.text, row.after?.number, row.after?.text]),
    [
      ["same", 1, "a", 1, "a"],
      ["changed", 2, "B", 2, "B better"],
      ["removed", 3, "extra", undefined, undefined],
      ["same", 4, "c", 3, "c"],
      ["same", 5, "d", 4, "d"],
    ],
  );
  assert.deepEqual([file?.added, file?.removed], [1, 2]);
  assert.deepEqual(interdiff(parsePatch(proposal).files, parsePatch(proposal).files), []);
});

test("a change that only one of two patches makes shows as that change", () => {
  const one = BASE("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
  const both = BASE("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -10,2 +10,3 @@\n k\n+new\n l\n");
  const [file] = interdiff(parsePatch(one).files, parsePatch(both).files);
  assert.deepEqual(
    file?.blocks.map(({ rows }) => rows.map((row) => `${row.kind} ${row.before?.text ?? ""}|${row.after?.text ?? ""}`)),
    [["same k|k", "added |new", "same l|l"]],
  );
  const other = parsePatch("--- a/other\n+++ b/other\n@@ -1 +1 @@\n-p\n+q\n").files;
  const files = interdiff(parsePatch(one).files, [...parsePatch(one).files, ...other]);
  assert.deepEqual(files.map(({ path, notes }) => [path, notes[0]]), [["other", "Only the second patch changes this file"]]);
});

test("patches for different versions of a file are compared as they are, and it says so", () => {
  const one = BASE("@@ -1,2 +1,2 @@\n a\n-b\n+B\n");
  const rebased = BASE("@@ -1,3 +1,3 @@\n new head\n a\n-b\n+B!\n");
  const [file] = interdiff(parsePatch(one).files, parsePatch(rebased).files);
  assert.match(file?.notes[0] ?? "", /different versions/);
  assert.ok(file?.blocks[0]?.rows.some((row) => row.kind === "changed" && row.after?.text === "B!"));
});

test("a diff of 3 MiB is read and laid out within 1.5 s of processor time", () => {
  const hunk = Array.from({ length: 60 }, (_, i) => (i % 3 === 0 ? `-    let value_${i} = old;` : i % 3 === 1 ? `+    let value_${i} = new;` : `     call(value_${i});`)).join("\n");
  let text = "";
  for (let file = 0; text.length < 3 << 20; file += 1) {
    text += `--- a/src/file_${file}.rs\n+++ b/src/file_${file}.rs\n`;
    for (let at = 0; at < 20; at += 1) text += `@@ -${1 + at * 100},40 +${1 + at * 100},40 @@\n${hunk}\n`;
  }
  const start = process.cpuUsage();
  const files = parsePatch(text).files.map(viewOf);
  const items = layOut(files, { closed: new Set(), open: new Set(), isSplit: true });
  const { user, system } = process.cpuUsage(start);
  const took = (user + system) / 1_000;
  assert.ok(items.length > 50_000, `${items.length}`);
  assert.ok(took < 1_500, `took ${took} ms`);
});
