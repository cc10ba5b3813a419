// What a schema says once its references are followed and its `allOf` is merged.
//
// Schemas are others' text: they may refer to themselves, be of the wrong type anywhere, and branch without end. Nothing
// here fails for that; what cannot be used is left out and named in `notes`.

import { compareNumbers, isMembers, member, printValue } from "../json/value";
import { Exact } from "../json/value";
import type { Members, Value } from "../json/value";

export type Schema = boolean | Members;

/** Keywords of a schema with its references followed and its `allOf` merged. */
export interface Flat {
  /** Absent: any. */
  types: readonly string[] | undefined;
  /** Nothing is valid. */
  isNever: boolean;
  properties: ReadonlyMap<string, Schema>;
  required: ReadonlySet<string>;
  additional: Schema | undefined;
  patterns: ReadonlyMap<string, Schema>;
  prefix: readonly Schema[];
  items: Schema | undefined;
  choices: readonly { keyword: "oneOf" | "anyOf"; schemas: readonly Schema[] }[];
  constant: { value: Value } | undefined;
  values: readonly Value[] | undefined;
  /** Bounds and words: the narrowest of each, and the first of each word. */
  numbers: Readonly<Record<string, string>>;
  words: Readonly<Record<string, string>>;
  isUnique: boolean;
  isNullable: boolean;
  isDeprecated: boolean;
  fallback: { value: Value } | undefined;
  examples: readonly Value[];
  /** Names of the references that led here. */
  names: readonly string[];
  /** Keywords that only a check shows. */
  conditions: readonly string[];
  notes: readonly string[];
}

/** Members of one merged schema; a schema with more is looked at no further. */
const PARTS_MAX = 400;
/** References and parts within one another. */
const HOPS_MAX = 100;

const BOUNDS: Readonly<Record<string, "max" | "min">> = {
  minimum: "max", exclusiveMinimum: "max", minLength: "max", minItems: "max", minProperties: "max",
  maximum: "min", exclusiveMaximum: "min", maxLength: "min", maxItems: "min", maxProperties: "min",
};
const WORDS = ["title", "description", "format", "pattern", "contentEncoding", "contentMediaType", "$comment"];
const CONDITIONS = [
  "not", "if", "dependentRequired", "dependentSchemas", "dependencies", "contains", "propertyNames",
  "unevaluatedProperties", "unevaluatedItems", "minProperties", "maxProperties",
];
const TYPES = new Set(["null", "boolean", "object", "array", "number", "string", "integer"]);

const NOTHING: Flat = {
  types: undefined, isNever: false, properties: new Map(), required: new Set(), additional: undefined, patterns: new Map(),
  prefix: [], items: undefined, choices: [], constant: undefined, values: undefined, numbers: {}, words: {}, isUnique: false,
  isNullable: false, isDeprecated: false, fallback: undefined, examples: [], names: [], conditions: [], notes: [],
};

export function isSchema(value: unknown): value is Schema {
  return typeof value === "boolean" || isMembers(value);
}

function schemasOf(value: Value | undefined): Schema[] {
  return Array.isArray(value) ? value.filter(isSchema) : [];
}

function schemaMap(value: Value | undefined): ReadonlyMap<string, Schema> {
  return new Map(isMembers(value) ? Object.entries(value).filter((entry): entry is [string, Schema] => isSchema(entry[1])) : []);
}

function texts(value: Value | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

/** The digits of a number of a schema. */
export function digitsOf(value: Value | undefined): string | undefined {
  if (value instanceof Exact) return value.text;
  return typeof value === "number" && Number.isFinite(value) ? JSON.stringify(value) : undefined;
}

interface Walk {
  /** Schemas that may still be looked at. */
  left: number;
  /** Those whose parts are being looked at. */
  open: Set<Members>;
}

/** A document of schemas: follows references in it, and remembers what it found. */
export class SchemaDocument {
  readonly root: Schema;
  private readonly known = new Map<Members, Flat>();
  private readonly anchors = new Map<string, Schema>();
  private readonly ids = new Map<string, Schema>();
  private areAnchorsKnown = false;

  constructor(root: unknown) {
    this.root = isSchema(root) ? root : true;
  }

  /** What a reference within the document leads to. */
  resolve(reference: string): Schema | undefined {
    const hash = reference.indexOf("#");
    const [document, fragment] = hash < 0 ? [reference, ""] : [reference.slice(0, hash), reference.slice(hash + 1)];
    const base = document === "" ? this.root : this.byId(document);
    if (base === undefined || fragment === "") return base;
    if (fragment.startsWith("/")) return pointed(base, fragment);
    this.findAnchors();
    return this.anchors.get(fragment);
  }

  private byId(id: string): Schema | undefined {
    if (member(this.root, "$id") === id || member(this.root, "id") === id) return this.root;
    this.findAnchors();
    return this.ids.get(id);
  }

  private findAnchors(): void {
    if (this.areAnchorsKnown) return;
    this.areAnchorsKnown = true;
    // Where definitions are; other places are rare, and looking at all of a large document is work.
    for (const keyword of ["$defs", "definitions"]) {
      for (const schema of schemaMap(member(this.root, keyword)).values()) {
        for (const name of ["$anchor", "$dynamicAnchor"]) {
          const anchor = member(schema, name);
          if (typeof anchor === "string") this.anchors.set(anchor, schema);
        }
        const id = member(schema, "$id");
        if (typeof id === "string") this.ids.set(id, schema);
      }
    }
    const own = member(this.root, "$dynamicAnchor") ?? member(this.root, "$anchor");
    if (typeof own === "string") this.anchors.set(own, this.root);
  }

  flatten(schema: Schema): Flat {
    return this.flat(schema, { left: PARTS_MAX, open: new Set() });
  }

  private flat(schema: Schema, walk: Walk): Flat {
    if (schema === true) return NOTHING;
    if (schema === false) return { ...NOTHING, isNever: true };
    const known = this.known.get(schema);
    if (known !== undefined) return known;
    // What is made of itself says no more by that.
    if (walk.open.has(schema)) return NOTHING;
    walk.left -= 1;
    if (walk.open.size >= HOPS_MAX || walk.left < 0) return { ...NOTHING, notes: ["The schema is too complex for a form."] };
    walk.open.add(schema);
    let flat = own(schema);
    for (const keyword of ["$ref", "$dynamicRef", "$recursiveRef"]) {
      const reference = member(schema, keyword);
      if (typeof reference !== "string") continue;
      const target = this.resolve(reference);
      if (target === undefined) {
        flat = { ...flat, notes: [...flat.notes, `The reference ${reference} leads out of the schema, or nowhere.`] };
        continue;
      }
      const named = { ...this.flat(target, walk) };
      named.names = [nameOf(reference), ...named.names].filter((name) => name !== "").slice(0, 4);
      flat = merge(flat, named);
    }
    for (const part of schemasOf(member(schema, "allOf"))) flat = merge(flat, this.flat(part, walk));
    walk.open.delete(schema);
    this.known.set(schema, flat);
    return flat;
  }
}

function nameOf(reference: string): string {
  const last = reference.split(/[/#]/).at(-1) ?? "";
  try {
    return decodeURIComponent(last).replace(/~1/g, "/").replace(/~0/g, "~");
  } catch {
    return last;
  }
}

function pointed(base: Schema, pointer: string): Schema | undefined {
  let found: Value | undefined = base;
  for (const step of pointer.slice(1).split("/")) {
    let key = step;
    try {
      key = decodeURIComponent(step);
    } catch {
      // Taken as it is.
    }
    key = key.replace(/~1/g, "/").replace(/~0/g, "~");
    found = Array.isArray(found) ? found[/^\d+$/.test(key) ? Number(key) : -1] : member(found, key);
  }
  return isSchema(found) ? found : undefined;
}

/** The keywords of the schema itself. */
function own(schema: Members): Flat {
  const has = (keyword: string) => member(schema, keyword);
  const type = has("type");
  const types = (typeof type === "string" ? [type] : texts(type)).filter((each) => TYPES.has(each));
  const notes: string[] = [];
  if (type !== undefined && types.length === 0) notes.push(`The type ${printValue(type)} is none of JSON Schema.`);
  const numbers: Record<string, string> = {};
  for (const keyword of [...Object.keys(BOUNDS), "multipleOf"]) {
    const digits = digitsOf(has(keyword));
    if (digits !== undefined) numbers[keyword] = digits;
  }
  // Draft 4: the bound is in the other keyword.
  if (has("exclusiveMinimum") === true && numbers["minimum"] !== undefined) numbers["exclusiveMinimum"] = numbers["minimum"];
  if (has("exclusiveMaximum") === true && numbers["maximum"] !== undefined) numbers["exclusiveMaximum"] = numbers["maximum"];
  const words: Record<string, string> = {};
  for (const keyword of WORDS) {
    const word = has(keyword);
    if (typeof word === "string" && word !== "") words[keyword] = word;
  }
  const items = has("items");
  const isTuple = Array.isArray(items);
  const rest = isTuple ? has("additionalItems") : items;
  const choices: Flat["choices"] = (["oneOf", "anyOf"] as const)
    .map((keyword) => ({ keyword, schemas: schemasOf(has(keyword)) }))
    .filter(({ schemas }) => schemas.length > 0);
  const values = has("enum");
  const example = has("example");
  const examples = has("examples");
  const additional = has("additionalProperties");
  return {
    types: types.length === 0 ? undefined : types,
    isNever: false,
    properties: schemaMap(has("properties")),
    required: new Set(texts(has("required"))),
    additional: isSchema(additional) ? additional : undefined,
    patterns: schemaMap(has("patternProperties")),
    prefix: isTuple ? schemasOf(items) : schemasOf(has("prefixItems")),
    items: isSchema(rest) ? rest : undefined,
    choices,
    constant: Object.hasOwn(schema, "const") ? { value: has("const") ?? null } : undefined,
    values: Array.isArray(values) && values.length > 0 ? values : undefined,
    numbers,
    words,
    isUnique: has("uniqueItems") === true,
    isNullable: has("nullable") === true,
    isDeprecated: has("deprecated") === true,
    fallback: Object.hasOwn(schema, "default") ? { value: has("default") ?? null } : undefined,
    examples: [...(Array.isArray(examples) ? examples : []), ...(example === undefined ? [] : [example])].slice(0, 20),
    names: [],
    conditions: CONDITIONS.filter((keyword) => Object.hasOwn(schema, keyword)),
    notes,
  };
}

function both(a: Schema | undefined, b: Schema | undefined): Schema | undefined {
  if (a === undefined || a === true || a === b) return b ?? a;
  if (b === undefined || b === true) return a;
  if (a === false || b === false) return false;
  return { allOf: [a, b] };
}

function union(a: ReadonlyMap<string, Schema>, b: ReadonlyMap<string, Schema>): ReadonlyMap<string, Schema> {
  if (a.size === 0) return b;
  if (b.size === 0) return a;
  const joined = new Map(a);
  for (const [name, schema] of b) joined.set(name, both(joined.get(name), schema) ?? true);
  return joined;
}

function commonTypes(a: Flat["types"], b: Flat["types"]): Flat["types"] {
  if (a === undefined) return b;
  if (b === undefined) return a;
  const has = (types: readonly string[], type: string) => types.includes(type) || (type === "integer" && types.includes("number"));
  return [...new Set([...a.filter((type) => has(b, type)), ...b.filter((type) => has(a, type))])];
}

/** Both hold. Of what can only be one, the first wins: it is nearer to the place where the schema is used. */
export function merge(a: Flat, b: Flat): Flat {
  const types = commonTypes(a.types, b.types);
  const numbers: Record<string, string> = { ...b.numbers, ...a.numbers };
  for (const [keyword, which] of Object.entries(BOUNDS)) {
    const [x, y] = [a.numbers[keyword], b.numbers[keyword]];
    if (x === undefined || y === undefined) continue;
    numbers[keyword] = compareNumbers(x, y) > 0 === (which === "max") ? x : y;
  }
  const allowed = new Set(b.values?.map(printValue));
  const values = a.values === undefined ? b.values : b.values === undefined ? a.values : a.values.filter((value) => allowed.has(printValue(value)));
  return {
    types,
    isNever: a.isNever || b.isNever || types?.length === 0 || values?.length === 0,
    properties: union(a.properties, b.properties),
    required: b.required.size === 0 ? a.required : new Set([...a.required, ...b.required]),
    additional: both(a.additional, b.additional),
    patterns: union(a.patterns, b.patterns),
    prefix: a.prefix.length >= b.prefix.length ? a.prefix : b.prefix,
    items: both(a.items, b.items),
    choices: [...a.choices, ...b.choices],
    constant: a.constant ?? b.constant,
    values,
    numbers,
    words: { ...b.words, ...a.words },
    isUnique: a.isUnique || b.isUnique,
    isNullable: a.isNullable || b.isNullable,
    isDeprecated: a.isDeprecated || b.isDeprecated,
    fallback: a.fallback ?? b.fallback,
    examples: a.examples.length > 0 ? a.examples : b.examples,
    names: [...a.names, ...b.names].slice(0, 4),
    conditions: [...new Set([...a.conditions, ...b.conditions])],
    notes: [...new Set([...a.notes, ...b.notes])],
  };
}
