import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson, printJson, readJson } from "../src/ui/json-parse";
import type { JsonNode } from "../src/ui/json-parse";

test("numbers keep their digits, and members their order and their number", () => {
  const text = '{"b":12345678901234567890123,"a":1.10,"a":-0.0,"e":1E+400}';
  const node = parseJson(text);
  assert.ok(node);
  assert.equal(printJson(node).replace(/\s/g, ""), text);
});

test("what JSON.parse accepts is read alike, and what it refuses is refused", () => {
  const texts = [
    "0", "-0", "-", "01", "1.", ".5", "1e5", "1e", "+1", "true", "truex", "nul", "null", '""', '"\\""', '"\\\\"', '"\\\\\\""', '"\\u00e9"', '"\\u12"', '"\\x"', '"a\nb"',
    '"unended', '"\\', "[]", "[", "[1,]", "[,1]", "[1 2]", "{}", '{"a"}', '{"a":}', '{"a":1,}', "{a:1}", '{"a":1}x', "", " ", " [ 1 , { \"a\" : [ ] } ] ", '{"__proto__":1}', "\uFEFF1", "NaN",
  ];
  for (const text of texts) {
    let expected: unknown;
    let isValid = true;
    try {
      expected = JSON.parse(text);
    } catch {
      isValid = false;
    }
    const node: JsonNode | undefined = parseJson(text);
    assert.equal(node !== undefined, isValid, text);
    if (node !== undefined) assert.deepEqual(JSON.parse(printJson(node)), expected, text);
  }
});

test("a value too deep for the stack is refused, and a large one is read in time", () => {
  assert.equal(parseJson("[".repeat(100_000)), undefined);
  const large = JSON.stringify({ text: "\\\"".repeat(500_000), list: Array.from({ length: 100_000 }, (_, i) => i) });
  const start = performance.now();
  assert.ok(parseJson(large));
  assert.ok(performance.now() - start < 2_000);
  assert.equal(parseJson(`"${"\\".repeat(1_000_001)}"`), undefined);
});

test("where reading stopped is known", () => {
  const stopped = { '{"a": 1,}': 8, '{"a": tru}': 6, "": 0, "1 2": 2 };
  for (const [text, at] of Object.entries(stopped)) assert.equal(readJson(text).at, at, text);
  assert.ok(readJson("[".repeat(100_000)).at !== undefined);
});
