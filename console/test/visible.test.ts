import assert from "node:assert/strict";
import { test } from "node:test";
import { cut, visible, visibleParts } from "../src/ui/visible";

test("characters that cannot be seen become marks, and text of every script stays", () => {
  assert.equal(visible("\u202Egnp.exe\u001B[31m\u0000\u200B\u{E0041}\uD800\u007F\u0085"), "‹U+202E›gnp.exe‹ESC›[31m‹NUL›‹U+200B›‹U+E0041›‹U+D800›‹DEL›‹U+0085›");
  const fine = "日本語 עברית العربية 👩‍👩‍👧 e\u0301 tab\tline\nend";
  assert.equal(visible(fine), fine);
  assert.equal(visible("a\r\nb\rc"), "a\nb‹CR›c");
});

test("the parts are the same text as the string", () => {
  for (const text of ["", "plain", "\u202Ea\u202Cb\u0000\u0001c\r\nd", "\r\n\r\n", "\u0000".repeat(10), "x\u0000".repeat(10_000)]) {
    const parts = visibleParts(text);
    assert.equal(parts.map((part) => part.text).join(""), visible(text));
    assert.ok(parts.length <= 1_002, `${parts.length} parts`);
  }
});

test("a cut leaves no half of a pair", () => {
  assert.equal(cut("a😀b", 2), "a");
  assert.equal(cut("a😀b", 3), "a😀");
  assert.equal(cut("ab", 5), "ab");
});
