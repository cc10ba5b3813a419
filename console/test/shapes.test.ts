import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { canonical, hash, lookUp, stable, typeWord } from "../src/lib/shapes/canonical";
import type { Value } from "../src/lib/shapes/canonical";
import { jaccard, neighbours } from "../src/lib/shapes/near";
import { ShapeIndex, compareProperties } from "../src/lib/shapes/shapes";

const same = (one: Value, other: Value) => stable(canonical(one)) === stable(canonical(other));

test("words, order and ways to write the same do not count", () => {
  const one = { type: "object", title: "T", description: "d", properties: { a: { type: "string", default: "x" }, b: { type: ["null", "integer"] } }, required: ["b", "a"] };
  const other = { $schema: "x", type: "object", required: ["a", "b"], properties: { b: { type: ["integer", "null"], examples: [1] }, a: { type: ["string"] } }, additionalProperties: {} };
  assert.ok(same(one, other));
  assert.ok(same({ enum: ["b", "a"] }, { enum: ["a", "b"] }));
  assert.ok(same({ const: 3 }, { enum: [3] }));
  assert.ok(same({ anyOf: [{ type: "string" }, { type: "null" }] }, { anyOf: [{ type: "null", description: "none" }, { type: "string" }] }));
  assert.ok(same({ properties: { a: true } }, { type: "object", properties: { a: {} } }));
  assert.ok(!same(one, { ...one, required: ["a"] }));
  assert.ok(!same(one, { ...one, additionalProperties: false }));
  // A property may be called like a keyword.
  assert.ok(!same({ properties: { title: { type: "string" } } }, { properties: { description: { type: "string" } } }));
  // Values of an enumeration are data.
  assert.ok(!same({ enum: [{ title: "a" }] }, { enum: [{ title: "b" }] }));
});

test("references are resolved, recursive ones end, and ones that lead nowhere stay", () => {
  const inline = { type: "object", properties: { home: { type: "object", properties: { street: { type: "string" } } } } };
  const referring = { type: "object", properties: { home: { $ref: "#/$defs/a~1b" } }, $defs: { "a/b": { type: "object", properties: { street: { type: "string" } } } } };
  assert.ok(same(inline, referring));
  const list = (at: string) => ({ $ref: `#/${at}/node`, [at]: { node: { type: "object", properties: { next: { $ref: `#/${at}/node` } } } } });
  assert.ok(same(list("$defs"), list("definitions")));
  assert.deepEqual(canonical({ $ref: "other.json#/x" }), { $ref: "other.json#/x" });
  assert.equal(lookUp({ a: [{ b: 1 }] }, "#/a/0/b"), 1);
  assert.equal(lookUp({}, "#/__proto__"), undefined);
  assert.ok(same({ $ref: "#/$defs/s", minLength: 3, $defs: { s: { type: "string" } } }, { type: "string", minLength: 3 }));
});

test("a schema that multiplies when it is resolved is cut in bounded time", () => {
  const $defs: Record<string, Value> = { d0: { type: "string" } };
  for (let at = 1; at <= 30; at += 1) $defs[`d${at}`] = { type: "object", properties: { a: { $ref: `#/$defs/d${at - 1}` }, b: { $ref: `#/$defs/d${at - 1}` } } };
  const start = performance.now();
  const text = stable(canonical({ $ref: "#/$defs/d30", $defs }));
  assert.ok(text.includes("cut"));
  assert.ok(performance.now() - start < 2_000);
});

test("types in words", () => {
  assert.equal(typeWord({ type: "array", items: { type: "integer" } }), "array of integer");
  assert.equal(typeWord({ type: "string", format: "date" }), "string (date)");
  assert.equal(typeWord({ anyOf: [{ type: "string" }, { type: "null" }] }), "null or string");
  assert.equal(typeWord({ enum: [1, 2] }), "one of 2 values");
  assert.equal(typeWord({}), "any");
});

test("near neighbours are those of comparing each with each", () => {
  let seed = 7;
  const random = (max: number) => (seed = (seed * 48_271) % 2_147_483_647) % max;
  const sets = Array.from({ length: 120 }, () => [...new Set(Array.from({ length: 3 + random(6) }, () => `m${random(18)}`))]);
  const numbers = (set: string[]) => set.map((member) => Number(member.slice(1))).sort((a, b) => a - b);
  for (const min of [0.5, 0.75]) {
    const found = neighbours(sets, min, 1_000);
    sets.forEach((set, index) => {
      const wanted = sets
        .map((other, at) => ({ at, similarity: jaccard(numbers(set), numbers(other)) }))
        .filter(({ at, similarity }) => at !== index && similarity >= min)
        .map(({ at }) => at)
        .sort((a, b) => a - b);
      assert.deepEqual((found[index] ?? []).map((one) => one.index).sort((a, b) => a - b), wanted);
    });
  }
  assert.equal(neighbours(sets, 0.5, 3).every((list) => list.length <= 3), true);
});

test("equal shapes are found across backends, in results, in items and in prompts, and near ones beside them", () => {
  const address = { type: "object", properties: { street: { type: "string" }, city: { type: "string" }, zip: { type: "string" } }, required: ["city"] };
  const index = new ShapeIndex();
  index.add({
    tools: [
      { name: "a_move", backend: "a", inputSchema: { type: "object", properties: { to: { $ref: "#/$defs/Address" } }, $defs: { Address: { title: "Address", ...address } } } },
      { name: "b_list", backend: "b", inputSchema: { type: "object" }, outputSchema: { type: "object", properties: { all: { type: "array", items: { description: "One.", title: "Address", ...address } } } } },
      { name: "c_add", backend: "c", inputSchema: { ...address, properties: { ...address.properties, country: { type: "string" } } } },
    ],
    prompts: [{ name: "greet", backend: "a", arguments: [{ name: "who", required: true }, { name: "how" }, { name: "when" }] }],
  });
  const { shapes, operations, schemas } = index.analysis();
  assert.deepEqual([operations, schemas], [4, 5]);
  const shape = shapes.find((one) => one.usages.length === 2);
  assert.deepEqual(shape?.usages.map(({ name, part, path }) => `${name} ${part} ${path}`), ["a_move input to", "b_list output all[]"]);
  assert.deepEqual(shape?.backends, ["a", "b"]);
  assert.equal(shape?.name, "Address");
  const near = shapes.find((one) => one.id === shape?.near[0]?.id);
  assert.equal(near?.usages[0]?.name, "c_add");
  assert.equal(shape?.near[0]?.similarity, 0.75);
  assert.deepEqual(compareProperties(shape?.properties ?? [], near?.properties ?? []).filter((row) => !row.isEqual).map((row) => row.name), ["country"]);
  assert.equal(JSON.parse(index.textOf(shape?.id ?? "") ?? "{}").type, "object");
  assert.equal(shapes.find((one) => one.usages[0]?.kind === "prompts")?.properties.length, 3);
  assert.notEqual(hash("a"), hash("b"));
});

test("5,000 tools are analysed within 5 s of processor time", () => {
  const names = Array.from({ length: 300 }, (_, at) => `property_${at}`);
  let seed = 3;
  const random = (max: number) => (seed = (seed * 48_271) % 2_147_483_647) % max;
  const tools = Array.from({ length: 5_000 }, (_, at) => {
    const properties = Object.fromEntries(
      ["id", "limit", "query", ...Array.from({ length: 6 }, () => names[random(300)] as string)].map((name) => [name, { type: ["string", "integer", "boolean"][name.length % 3] as string, description: "words ".repeat(20) }]),
    );
    const nested = { type: "object", properties: { page: { type: "integer" }, size: { type: "integer" }, [`sort_${at % 50}`]: { type: "string" } } };
    return { name: `tool_${at}`, backend: `backend_${at % 40}`, inputSchema: { type: "object", properties: { ...properties, paging: nested } } as Value };
  });
  const start = process.cpuUsage();
  const index = new ShapeIndex();
  index.add({ tools });
  const { shapes } = index.analysis();
  const { user, system } = process.cpuUsage(start);
  const took = (user + system) / 1_000;
  assert.ok(shapes.length > 5_000, `${shapes.length}`);
  assert.ok(took < 5_000, `took ${took} ms`);
});
