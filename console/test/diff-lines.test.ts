import assert from "node:assert/strict";
import { test } from "node:test";
import { DIFF_CHARS_MAX, DIFF_LINES_MAX, diffPieces, diffRows } from "../src/ui/diff-lines";

const side = (rows: ReturnType<typeof diffRows>, of: "before" | "after") => rows?.flatMap((row) => row[of] ?? []);

test("both texts can be read back from the rows, with their numbers", () => {
  const before = "a\nb\nc\nd\ne\n";
  const after = "a\nB\nc\nx\ny\ne\nf";
  const rows = diffRows(before, after);
  for (const [of, text] of [["before", before], ["after", after]] as const) {
    const lines = side(rows, of);
    assert.deepEqual(lines?.map((line) => line.text), text.replace(/\n$/, "").split("\n"));
    assert.deepEqual(lines?.map((line) => line.number), lines?.map((_, index) => index + 1));
  }
  assert.deepEqual(rows?.map((row) => row.kind), ["same", "changed", "same", "changed", "added", "same", "added"]);
});

test("texts beyond the bounds are not compared, and different ones end in time", () => {
  assert.equal(diffRows("x".repeat(DIFF_CHARS_MAX), "y"), undefined);
  assert.equal(diffRows("x\n".repeat(DIFF_LINES_MAX), "y"), undefined);
  const lines = (of: string) => Array.from({ length: DIFF_LINES_MAX / 2 }, (_, i) => `${of}${(i * 7919) % 10_007}`).join("\n");
  const start = performance.now();
  assert.equal(side(diffRows(lines("a"), lines("b")), "after")?.length, DIFF_LINES_MAX / 2);
  assert.ok(performance.now() - start < 5_000);
});

test("words that differ are marked on both sides", () => {
  const [old, young] = diffPieces("reads a file", "reads the file");
  assert.deepEqual(old.filter((piece) => piece.isChanged).map((piece) => piece.text), ["a"]);
  assert.deepEqual(young.filter((piece) => piece.isChanged).map((piece) => piece.text), ["the"]);
  assert.equal(young.map((piece) => piece.text).join(""), "reads the file");
});
