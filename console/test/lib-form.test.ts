import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson } from "../src/ui/json-parse";
import type { JsonNode } from "../src/ui/json-parse";
import { compact, parseValue } from "../src/lib/json/value";
import { Checker } from "../src/lib/form/check";
import { factsOf, numberIssue, typeWord } from "../src/lib/form/facts";
import { SchemaDocument } from "../src/lib/form/flatten";
import type { Schema } from "../src/lib/form/flatten";
import { blank, initial, optionOf, switched } from "../src/lib/form/initial";
import { shapeOf } from "../src/lib/form/shape";
import type { ArrayShape, ChoiceShape, EnumShape, NumberShape, ObjectShape, Shape } from "../src/lib/form/shape";

function open(schema: unknown) {
  const document = new SchemaDocument(typeof schema === "string" ? parseValue(schema) : parseValue(JSON.stringify(schema)));
  return { document, shape: shapeOf(document, document.root) };
}

function memberShape(document: SchemaDocument, shape: Shape, name: string): Shape {
  assert.equal(shape.kind, "object");
  const found = (shape as ObjectShape).members.find((member) => member.name === name);
  assert.ok(found, `no member ${name}`);
  return shapeOf(document, found.schema);
}

const read = (text: string) => parseJson(text) as JsonNode;
const begin = (schema: unknown, withDefaults = false) => {
  const { document } = open(schema);
  const made = initial(document, document.root, { withDefaults });
  return made === undefined ? undefined : compact(made);
};

const length = { type: "number", exclusiveMinimum: 0, maximum: 1000 };
/** As the tests' own server has it, with everything that makes a schema real. */
const MEASURE = {
  type: "object",
  required: ["shapes", "unit"],
  additionalProperties: false,
  properties: {
    shapes: { type: "array", maxItems: 20, items: { $ref: "#/$defs/Shape" } },
    unit: { enum: ["mm", "cm", "m"], description: "Of every length" },
    note: { type: ["string", "null"], maxLength: 100 },
    origin: { type: "array", prefixItems: [{ type: "number" }, { type: "number" }], items: false, minItems: 2 },
    weights: { type: "object", additionalProperties: { type: "number", minimum: 0, maximum: 10 } },
    tree: { $ref: "#/$defs/Node" },
    options: { type: "object", additionalProperties: false, properties: { "round-to": { type: "integer", minimum: 0, maximum: 9, default: 3 } } },
  },
  $defs: {
    Shape: { oneOf: [{ $ref: "#/$defs/Circle" }, { $ref: "#/$defs/Rectangle" }] },
    Circle: { type: "object", required: ["kind", "radius"], additionalProperties: false, properties: { kind: { const: "circle" }, radius: length } },
    Rectangle: {
      type: "object",
      required: ["kind", "width", "height"],
      additionalProperties: false,
      properties: { kind: { const: "rectangle" }, width: length, height: length },
    },
    Node: {
      type: "object",
      required: ["name"],
      additionalProperties: false,
      properties: { name: { type: "string", maxLength: 100 }, children: { type: "array", maxItems: 5, items: { $ref: "#/$defs/Node" } } },
    },
  },
};

test("a real schema becomes fields of every kind", () => {
  const { document, shape } = open(MEASURE);
  const of = (name: string) => memberShape(document, shape, name);
  assert.equal((shape as ObjectShape).rest, false);
  assert.deepEqual((shape as ObjectShape).members.filter((member) => member.isRequired).map((member) => member.name), ["shapes", "unit"]);
  const shapes = of("shapes") as ArrayShape;
  const item = shapeOf(document, shapes.items) as ChoiceShape;
  assert.deepEqual(item.options.map((option) => option.label), ["circle", "rectangle"]);
  assert.deepEqual((of("unit") as EnumShape).values.map(({ label }) => label), ["mm", "cm", "m"]);
  assert.deepEqual([of("note").kind, of("note").isNullable], ["string", true]);
  assert.equal((of("origin") as ArrayShape).maxItems, 2);
  assert.equal((of("weights") as ObjectShape).isMap, true);
  // A schema that contains itself goes on for ever, one level at a time.
  let node: Shape = of("tree");
  for (let depth = 0; depth < 50; depth += 1) node = shapeOf(document, (memberShape(document, node, "children") as ArrayShape).items);
  assert.equal(memberShape(document, node, "name").kind, "string");
  assert.equal(begin(MEASURE), '{"shapes":[]}');
  assert.deepEqual(["shapes", "note", "origin", "weights", "tree"].map((name) => typeWord(document, of(name))), [
    "list of one of 2 kinds", "string or null", "tuple of 2", "map of number", "object",
  ]);
});

test("what pydantic, zod and schemars write is understood", () => {
  const optional = open({ type: "object", properties: { a: { anyOf: [{ type: "integer" }, { type: "null" }], default: null, title: "A" } } });
  const a = memberShape(optional.document, optional.shape, "a") as NumberShape;
  assert.deepEqual([a.kind, a.isInteger, a.isNullable, a.title], ["number", true, true, "A"]);
  const nested = open({
    $defs: { Color: { enum: ["red", "green"], title: "Color", type: "string" } },
    type: "object",
    properties: { color: { $ref: "#/$defs/Color", default: "red" }, wrapped: { allOf: [{ $ref: "#/$defs/Color" }], description: "Of the wall" } },
  });
  const wrapped = memberShape(nested.document, nested.shape, "wrapped");
  assert.deepEqual([wrapped.kind, wrapped.description], ["enum", "Of the wall"]);
  const tagged = open({
    oneOf: [
      { type: "object", properties: { type: { type: "string", const: "a" }, x: { type: "integer", format: "uint8", minimum: 0, maximum: 255 } }, required: ["type", "x"] },
      { type: "object", properties: { type: { type: "string", enum: ["b"] } }, required: ["type"] },
    ],
  });
  assert.deepEqual((tagged.shape as ChoiceShape).options.map((option) => option.label), ["a", "b"]);
  const titled = open({ type: "string", oneOf: [{ const: "r", title: "Red" }, { const: "g", title: "Green" }], default: "r" });
  assert.deepEqual((titled.shape as EnumShape).values, [{ value: "r", label: "Red" }, { value: "g", label: "Green" }]);
  const draft7 = open({ definitions: { Pair: { items: [{ type: "string" }, { type: "integer" }], additionalItems: false } }, type: "object", properties: { p: { $ref: "#/definitions/Pair" } } });
  assert.equal((memberShape(draft7.document, draft7.shape, "p") as ArrayShape).prefix.length, 2);
  const untyped = open({ properties: { list: { items: { type: "string" } }, at: { format: "date-time" }, n: { minimum: 1 } } });
  assert.deepEqual(["list", "at", "n"].map((name) => memberShape(untyped.document, untyped.shape, name).kind), ["array", "string", "number"]);
  const file = open({ type: "object", properties: { f: { type: "string", contentEncoding: "base64", contentMediaType: "image/png" } } });
  assert.equal((memberShape(file.document, file.shape, "f") as Extract<Shape, { kind: "string" }>).isBase64, true);
});

test("allOf is merged to what all of it demands", () => {
  const { document, shape } = open({
    type: "object",
    allOf: [
      { properties: { a: { type: ["integer", "string"], minimum: 1 } }, required: ["a"] },
      { properties: { a: { type: "number", minimum: 3, maximum: 10 }, b: { type: "boolean" } }, required: ["c"] },
    ],
  });
  const a = memberShape(document, shape, "a") as NumberShape;
  assert.deepEqual([a.kind, a.isInteger, a.bounds], ["number", true, { minimum: "3", maximum: "10" }]);
  assert.deepEqual((shape as ObjectShape).members.map(({ name, isRequired }) => [name, isRequired]), [["a", true], ["b", false], ["c", true]]);
  assert.equal(open({ allOf: [{ type: "string" }, { type: "number" }] }).shape.kind, "never");
});

test("alternatives beside members have both", () => {
  const { document, shape } = open({
    type: "object",
    properties: { id: { type: "string" } },
    required: ["id"],
    oneOf: [{ properties: { card: { type: "string" } }, required: ["card"] }, { properties: { iban: { type: "string" } }, required: ["iban"] }],
  });
  assert.equal(shape.kind, "choice");
  const [card, iban] = (shape as ChoiceShape).options.map((option) => shapeOf(document, option.schema) as ObjectShape);
  assert.deepEqual(card?.members.map(({ name }) => name).sort(), ["card", "id"]);
  assert.deepEqual(iban?.members.filter(({ isRequired }) => isRequired).map(({ name }) => name).sort(), ["iban", "id"]);
  const condition = open({ type: "object", properties: { a: {}, b: {} }, anyOf: [{ required: ["a"] }, { required: ["b"] }] });
  assert.equal(condition.shape.kind, "object");
  assert.match(condition.shape.notes.join(), /one of these has to be there: a; b/);
});

test("the alternative that a value is, is found, and switching keeps what fits", () => {
  const { document, shape } = open({ $ref: "#/$defs/Shape", $defs: MEASURE.$defs });
  const { options } = shape as ChoiceShape;
  const at = (text: string) => optionOf(document, options, read(text));
  assert.equal(at('{"kind":"rectangle"}'), 1);
  assert.equal(at('{"kind":"circle","radius":"wrong for now"}'), 0);
  assert.equal(at('{"width":2}'), 1);
  assert.equal(at("7"), -1);
  assert.equal(compact(switched(document, options[1]?.schema as Schema, read('{"kind":"circle","width":3}'))), '{"kind":"rectangle","width":3}');
  const union = open({ type: ["string", "integer", "array"], items: { type: "string" } });
  const labels = (union.shape as ChoiceShape).options.map((option) => option.label);
  assert.deepEqual(labels, ["string", "integer", "array"]);
  assert.equal(optionOf(union.document, (union.shape as ChoiceShape).options, read('["a"]')), 2);
  assert.equal(optionOf(union.document, (union.shape as ChoiceShape).options, read("1.5")), -1);
});

test("a form begins with what has to be there", () => {
  assert.equal(begin({ type: "object", required: ["a", "b", "c", "d"], properties: { a: { const: 1 }, b: { type: "boolean" }, c: { type: "string" }, d: { type: "object", required: ["e"], properties: { e: { default: [1] } } }, f: { default: 2 } } }), '{"a":1,"b":false,"d":{"e":[1]}}');
  assert.equal(begin({ type: "object", properties: { f: { default: 2 }, g: { type: "string" } } }, true), '{"f":2}');
  assert.equal(begin('{"type":"object","required":["n"],"properties":{"n":{"default":12345678901234567890}}}'), '{"n":12345678901234567890}');
  const { document } = open({ type: "array", prefixItems: [{ type: "number" }, { type: "string" }], minItems: 2, items: false });
  assert.deepEqual(blank(document, document.root), { kind: "array", items: [{ kind: "number", text: "" }, { kind: "string", value: "" }] });
  // Required within required, without end.
  assert.ok((begin({ $ref: "#/$defs/N", $defs: { N: { type: "object", required: ["n"], properties: { n: { $ref: "#/$defs/N" } } } } }) ?? "").length < 200);
});

test("facts are in words, with every digit", () => {
  const facts = (text: string) => factsOf(open(text).shape);
  assert.deepEqual(facts('{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}'), ["-9223372036854775808 to 9223372036854775807"]);
  assert.deepEqual(facts('{"type":"string","minLength":1,"maxLength":64,"pattern":"^[a-z]+$","default":"x"}'), ["1 to 64 characters", "matches ^[a-z]+$", 'default "x"']);
  assert.deepEqual(facts('{"type":"number","exclusiveMinimum":0,"maximum":1,"multipleOf":0.1}'), ["more than 0", "at most 1", "a multiple of 0.1"]);
  assert.deepEqual(facts('{"type":"array","minItems":1,"uniqueItems":true}'), ["at least 1 item", "no item twice"]);
  assert.deepEqual(facts('{"type":"number","minimum":0,"exclusiveMinimum":true}'), ["more than 0"]);
  const int64 = open('{"type":"integer","maximum":9223372036854775807}').shape as NumberShape;
  assert.equal(numberIssue(int64, "9223372036854775807"), undefined);
  assert.equal(numberIssue(int64, "9223372036854775808"), "This has to be at most 9223372036854775807.");
  assert.equal(numberIssue(int64, "1.5"), "This has to be a whole number.");
  assert.equal(numberIssue(int64, "1e"), "This is no number.");
});

test("schemas of hostile servers neither fail nor take long", () => {
  const maze: Record<string, unknown> = { type: "object", properties: { x: { $ref: "#/$defs/way0" } } };
  const defs: Record<string, unknown> = { way30: { type: ["string", "number"] } };
  for (let at = 0; at < 30; at += 1) defs[`way${at}`] = { allOf: [{ $ref: `#/$defs/way${at + 1}` }, { $ref: `#/$defs/way${at + 1}` }] };
  maze["$defs"] = defs;
  const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`p${index}`, { type: "string" }]));
  let deep: unknown = { type: "string" };
  for (let depth = 0; depth < 150; depth += 1) deep = { allOf: [deep] };
  const hostile: unknown[] = [
    maze,
    { type: "object", properties: many },
    { type: "object", properties: { deep } },
    { $ref: "#" },
    { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } },
    { allOf: [{ $ref: "#" }, { $ref: "#" }] },
    { oneOf: [{ $ref: "#" }, { $ref: "#" }] },
    { type: "any", properties: "no", required: "x", items: 5, enum: [], allOf: {}, oneOf: "x", minLength: -1, pattern: 3, $ref: 7 },
    { type: "object", properties: { __proto__: 1, constructor: { type: "string" }, toString: { const: 1 } }, required: ["__proto__", "hasOwnProperty"] },
    { oneOf: Array.from({ length: 5_000 }, () => ({ type: "object" })) },
    { type: "object", properties: { d: { $ref: "https://example.com/far.json" }, e: { $ref: "#/$defs/none" }, f: { $ref: "#/%E0%A4%A" } } },
    true, false, null, 7, "x", [],
  ];
  // Of this process alone: others share the machine.
  const started = process.cpuUsage();
  for (const schema of hostile) {
    const { document, shape } = open(schema);
    initial(document, document.root, { withDefaults: true });
    factsOf(shape);
    typeWord(document, shape);
    if (shape.kind === "object") for (const member of shape.members.slice(0, 50)) factsOf(shapeOf(document, member.schema));
    if (shape.kind === "choice") optionOf(document, shape.options, read('{"a":[{"b":1}]}'));
    // Whoever checks this one has to be ended: `checker.ts` does.
    if (schema !== maze) new Checker(JSON.stringify(schema)).check('{"x":"a","d":1,"toString":2}');
  }
  const tookMs = process.cpuUsage(started).user / 1_000;
  assert.ok(tookMs < 3_000, `${tookMs} ms`);
  const way = open(maze);
  assert.deepEqual((memberShape(way.document, way.shape, "x") as ChoiceShape).options.map((option) => option.label), ["string", "number"]);
});

function issues(schema: unknown, value: string) {
  return new Checker(typeof schema === "string" ? schema : JSON.stringify(schema)).check(value).issues.map(({ pointer, message }) => `${pointer}: ${message}`);
}

test("each mistake has one message, at its place", () => {
  assert.deepEqual(issues(MEASURE, '{"shapes":[{"kind":"circle","radius":-1},{"kind":"rectangle","width":1}],"unit":"ft","note":5,"tree":{"name":"a","children":[{}]},"x":1}'), [
    "/shapes/0/radius: -1 is less than 0.",
    "/shapes/1/height: This is required.",
    '/unit: This has to be one of "mm","cm","m".',
    "/note: This is a number; it has to be a string or null.",
    "/tree/children/0/name: This is required.",
    "/x: There is no such member.",
  ]);
  assert.deepEqual(issues(MEASURE, '{"shapes":[],"unit":"mm","origin":[1,2],"weights":{"circle":3}}'), []);
  assert.deepEqual(issues({ type: "object", required: ["a/b"], properties: { e: { format: "email" } } }, '{"e":"x"}'), ["/a~1b: This is required.", "/e: This is no email."]);
  assert.deepEqual(issues({ oneOf: [{ type: "string" }, { minLength: 1 }] }, '"x"'), [": This fits more than one alternative; it has to fit one."]);
});

test("a part of a schema that cannot be used does not keep the rest from being checked", () => {
  const checked = new Checker(JSON.stringify({
    type: "object",
    properties: { a: { type: "string", pattern: "(?<!x" }, b: { $ref: "https://example.com/far.json" }, c: { type: "integer" } },
    required: "c",
  })).check('{"a":1,"b":2,"c":"three"}');
  assert.deepEqual(checked.issues.map(({ pointer }) => pointer), ["/a", "/c"]);
  assert.equal(checked.notes.length, 2);
  assert.deepEqual(issues({ type: "number", minimum: 0, exclusiveMinimum: true }, "0"), [": 0 is less than 0."]);
  assert.deepEqual(issues("not a schema", "1"), []);
});
