import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson, printJson } from "../src/ui/json-parse";
import type { JsonNode } from "../src/ui/json-parse";
import { memberOf, moveItem, nodeAt, pointerOf, put, renameMember, repeatedMembers, unfinishedNumbers } from "../src/lib/json/edit";
import { Exact, compact, compareNumbers, isInteger, isMultiple, isNumber, isSame, nodeOf, parseValue, plainOf, valueOf } from "../src/lib/json/value";

const read = (text: string) => parseJson(text) as JsonNode;

test("numbers keep their digits, through values and back", () => {
  const text = '{"a":12345678901234567890,"b":0.1,"c":1e3,"d":-0,"e":9007199254740993,"f":1e400,"g":0.30000000000000004}';
  assert.equal(compact(read(text)), text);
  const value = parseValue(text) as Record<string, unknown>;
  assert.deepEqual(value["a"], new Exact("12345678901234567890"));
  assert.equal(value["b"], 0.1);
  assert.equal(value["c"], 1000);
  assert.deepEqual(value["e"], new Exact("9007199254740993"));
  assert.deepEqual(value["f"], new Exact("1e400"));
  assert.equal(value["g"], 0.30000000000000004);
  assert.equal(compact(nodeOf(value["a"])), "12345678901234567890");
  assert.equal((plainOf(read("[12345678901234567890]")) as number[])[0], 12345678901234567000);
});

test("a member named __proto__ is a member", () => {
  const value = valueOf(read('{"__proto__":{"polluted":true},"constructor":1}')) as Record<string, unknown>;
  assert.deepEqual(Object.keys(value), ["__proto__", "constructor"]);
  assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
  assert.equal((plainOf(read('{"__proto__":{"polluted":true}}')) as Record<string, unknown>)["polluted"], undefined);
  assert.equal(compact(nodeOf(value)), '{"__proto__":{"polluted":true},"constructor":1}');
});

test("numbers of any length are compared exactly", () => {
  assert.equal(compareNumbers("9223372036854775807", "9223372036854775808"), -1);
  assert.equal(compareNumbers("1.50", "15e-1"), 0);
  assert.equal(compareNumbers("-2", "1e999999"), -1);
  assert.equal(isInteger("12345678901234567890.5"), false);
  assert.equal(isInteger("1.0"), true);
  assert.equal(isInteger("1e-1"), false);
  assert.equal(isMultiple("0.3", "0.1"), true);
  assert.equal(isMultiple("12345678901234567891", "10"), false);
  for (const bad of ["", "-", "1.", "01", "+1", "1e", "NaN", "0x1", " 1"]) assert.equal(isNumber(bad), false, bad);
});

test("an edit changes its place and leaves the rest as it was written", () => {
  const node = read('{"b":[1,{"x":2.50}],"a":null,"b2":12345678901234567890}');
  const next = put(node, ["b", 1, "x"], { kind: "string", value: "new" }) as JsonNode;
  assert.equal(compact(next), '{"b":[1,{"x":"new"}],"a":null,"b2":12345678901234567890}');
  assert.equal(memberOf(next, "b2"), memberOf(node, "b2"));
  assert.equal(compact(put(node, ["b", 0], undefined) as JsonNode), '{"b":[{"x":2.50}],"a":null,"b2":12345678901234567890}');
  assert.equal(compact(put(node, ["c", "d"], nodeOf(1)) as JsonNode), '{"b":[1,{"x":2.50}],"a":null,"b2":12345678901234567890,"c":{"d":1}}');
  assert.equal(put(node, [], undefined), undefined);
  assert.equal(nodeAt(node, ["b", 7, "x"]), undefined);
  assert.equal(pointerOf(["a/b", 0, "c~d"]), "/a~1b/0/c~0d");
});

test("items move, members are renamed, and what cannot be stays", () => {
  assert.equal(compact(moveItem(read("[1,2,3]"), 0, 2)), "[2,3,1]");
  assert.equal(compact(moveItem(read("[1,2,3]"), 0, 3)), "[1,2,3]");
  assert.equal(compact(renameMember(read('{"a":1,"b":2}'), "a", "c")), '{"c":1,"b":2}');
  assert.equal(compact(renameMember(read('{"a":1,"b":2}'), "a", "b")), '{"a":1,"b":2}');
});

test("of a name that occurs twice the last counts, and it is named", () => {
  const node = read('{"a":1,"x":[{"b":1,"b":2}],"a":2}');
  assert.deepEqual(repeatedMembers(node), ["b", "a"]);
  assert.equal(compact(memberOf(node, "a") as JsonNode), "2");
  assert.equal(compact(put(node, ["a"], nodeOf(3)) as JsonNode), '{"a":1,"x":[{"b":1,"b":2}],"a":3}');
});

test("equality is that of JSON", () => {
  assert.ok(isSame(read('{"a":1.0,"b":[true]}'), read('{"b":[true],"a":1}')));
  assert.ok(!isSame(read("[1,2]"), read("[2,1]")));
  assert.ok(!isSame(read('{"a":1}'), read('{"a":1,"b":null}')));
});

test("a number that is not written to its end is found", () => {
  const node: JsonNode = { kind: "object", entries: [["a", { kind: "array", items: [{ kind: "number", text: "1e" }] }]] };
  assert.deepEqual(unfinishedNumbers(node, isNumber), [{ path: ["a", 0], text: "1e" }]);
  assert.equal(printJson(node), '{\n  "a": [\n    1e\n  ]\n}');
});

