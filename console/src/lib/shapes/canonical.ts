// The structure of a JSON Schema, without its words: two schemas that accept the same by the same means have the same text.
//
// References within the document are resolved. Titles, descriptions, examples and defaults say nothing about structure and
// are left out. The order of properties, of required names, of enumerated values and of alternatives does not count.

export type Value = null | boolean | number | string | Value[] | { [key: string]: Value };
type Members = { [key: string]: Value };

/** Schemas that are larger when resolved are cut: they are generated, or refer to themselves in many ways. */
const NODES_MAX = 20_000;
const DEPTH_MAX = 40;

const WORDS = new Set(["title", "description", "$comment", "examples", "example", "default", "$schema", "$id", "id", "$anchor", "$defs", "definitions", "deprecated", "readOnly", "writeOnly", "$vocabulary", "contentDescription"]);
/** Names that are schemas of their own, by name. */
const MAPS = new Set(["properties", "patternProperties", "dependentSchemas"]);
/** Keywords whose values are data, not schemas. */
const DATA = new Set(["enum", "const"]);
/** Lists whose order does not count. */
const SETS = new Set(["anyOf", "oneOf", "allOf", "required", "type"]);

export function isMembers(value: Value | undefined): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** JSON with sorted names. */
export function stable(value: Value): string {
  if (Array.isArray(value)) return `[${value.map(stable).join(",")}]`;
  if (!isMembers(value)) return JSON.stringify(value);
  return `{${Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${stable(value[key] as Value)}`)
    .join(",")}}`;
}

function pointerParts(reference: string): string[] | undefined {
  if (reference === "#") return [];
  if (!reference.startsWith("#/")) return undefined;
  try {
    return decodeURIComponent(reference.slice(2))
      .split("/")
      .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  } catch {
    return undefined;
  }
}

/** What a reference within the document names. */
export function lookUp(root: Value, reference: string): Value | undefined {
  let at: Value | undefined = root;
  for (const part of pointerParts(reference) ?? ["\0"]) {
    if (Array.isArray(at)) at = at[Number(part)];
    else if (isMembers(at)) at = Object.hasOwn(at, part) ? at[part] : undefined;
    else return undefined;
  }
  return at;
}

class Resolver {
  nodes = 0;

  constructor(private readonly root: Value) {}

  /** `open`: references that are being resolved; meeting one again is a recursion. */
  schema(value: Value, open: readonly string[], depth: number): Value {
    if (typeof value === "boolean") return value ? {} : { not: {} };
    if (!isMembers(value)) return {};
    this.nodes += 1;
    if (this.nodes > NODES_MAX || depth > DEPTH_MAX) return { "…": "cut" };
    const reference = value["$ref"];
    if (typeof reference === "string") {
      // How many steps up it leads, so that equal recursions in different documents are equal.
      const before = open.lastIndexOf(reference);
      if (before >= 0) return { $recursive: open.length - before };
      const target = lookUp(this.root, reference);
      if (target === undefined) return { $ref: reference };
      const { $ref: _, ...beside } = value;
      const resolved = this.schema(target, [...open, reference], depth + 1);
      const own = this.members(beside, open, depth);
      // Since 2019-09 keywords beside a reference count; an earlier document has none there.
      return Object.keys(own).length === 0 ? resolved : isMembers(resolved) ? this.tidy({ ...resolved, ...own }) : own;
    }
    return this.members(value, open, depth);
  }

  private members(value: Members, open: readonly string[], depth: number): Members {
    const result: Members = {};
    for (const [key, member] of Object.entries(value)) {
      if (WORDS.has(key) || key.startsWith("x-")) continue;
      if (DATA.has(key)) result[key] = member;
      else if (MAPS.has(key) && isMembers(member)) {
        result[key] = Object.fromEntries(Object.entries(member).map(([name, schema]) => [name, this.schema(schema, open, depth + 1)]));
      } else if (Array.isArray(member)) result[key] = member.map((item) => (isMembers(item) || typeof item === "boolean" ? this.schema(item, open, depth + 1) : item));
      else if (isMembers(member)) result[key] = this.schema(member, open, depth + 1);
      else result[key] = member;
    }
    return this.tidy(result);
  }

  private tidy(schema: Members): Members {
    const { const: constant, ...rest } = schema;
    const tidied: Members = constant === undefined ? rest : { ...rest, enum: [constant] };
    for (const key of SETS) {
      const list = tidied[key];
      if (!Array.isArray(list)) continue;
      const texts = new Map(list.map((item) => [stable(item), item]));
      const sorted = [...texts.keys()].sort().map((text) => texts.get(text) as Value);
      if (sorted.length === 0 && key !== "type") delete tidied[key];
      else tidied[key] = key === "type" && sorted.length === 1 ? (sorted[0] as Value) : sorted;
    }
    const values = tidied["enum"];
    if (Array.isArray(values)) {
      const texts = new Map(values.map((item) => [stable(item), item]));
      tidied["enum"] = [...texts.keys()].sort().map((text) => texts.get(text) as Value);
    }
    // Both are what holds without them.
    const more = tidied["additionalProperties"];
    if (isMembers(more) && Object.keys(more).length === 0) delete tidied["additionalProperties"];
    const properties = tidied["properties"];
    if (isMembers(properties)) {
      if (Object.keys(properties).length === 0) delete tidied["properties"];
      else tidied["type"] ??= "object";
    }
    return tidied;
  }
}

export function canonical(schema: Value): Value {
  return new Resolver(schema).schema(schema, [], 0);
}

/** A short name of a text, the same in every browser. */
export function hash(text: string): string {
  let [a, b] = [0xdeadbeef, 0x41c6ce57];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    a = Math.imul(a ^ code, 2654435761);
    b = Math.imul(b ^ code, 1597334677);
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
  return `${(b >>> 0).toString(16).padStart(8, "0")}${(a >>> 0).toString(16).padStart(8, "0")}`;
}

/** The type of a canonical schema in a word: `string`, `array of integer`, `string or null`, `one of 3 values`. */
export function typeWord(schema: Value | undefined): string {
  if (!isMembers(schema)) return "any";
  const values = schema["enum"];
  if (Array.isArray(values)) return values.length === 1 ? `exactly ${JSON.stringify(values[0]).slice(0, 40)}` : `one of ${values.length} values`;
  for (const key of ["anyOf", "oneOf"]) {
    const all = schema[key];
    if (Array.isArray(all)) return [...new Set(all.map(typeWord))].sort().join(" or ");
  }
  const type = schema["type"];
  if (Array.isArray(type)) return type.map(String).join(" or ");
  if (type === "array") return `array of ${typeWord(schema["items"])}`;
  if (typeof type === "string") return typeof schema["format"] === "string" ? `${type} (${schema["format"]})` : type;
  if (schema["$recursive"] !== undefined) return "recursive";
  return Array.isArray(schema["allOf"]) ? "all of several" : "any";
}
