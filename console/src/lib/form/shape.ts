// What kind of field a schema is.
//
// A shape says one level; what is below it is a schema again, and becomes a shape when it is shown. So a schema that
// contains itself is no trouble.

import { isMembers, member, printValue } from "../json/value";
import type { Value } from "../json/value";
import type { Flat, Schema, SchemaDocument } from "./flatten";
import { merge } from "./flatten";

export interface Member {
  name: string;
  schema: Schema;
  isRequired: boolean;
}

export interface Option {
  label: string;
  description: string | undefined;
  schema: Schema;
}

interface Common {
  title: string | undefined;
  description: string | undefined;
  isNullable: boolean;
  isDeprecated: boolean;
  fallback: { value: Value } | undefined;
  examples: readonly Value[];
  /** What the form cannot show, in words. */
  notes: readonly string[];
}

export interface ObjectShape extends Common {
  kind: "object";
  members: readonly Member[];
  /** Of members that have no schema of their own; `false`: there are none. */
  rest: Schema;
  /** Whether it is a map: further members are what it is for. */
  isMap: boolean;
}

export interface ArrayShape extends Common {
  kind: "array";
  prefix: readonly Schema[];
  items: Schema;
  minItems: number;
  maxItems: number;
  isUnique: boolean;
}

export interface StringShape extends Common {
  kind: "string";
  format: string | undefined;
  minLength: string | undefined;
  maxLength: string | undefined;
  pattern: string | undefined;
  isBase64: boolean;
  mediaType: string | undefined;
  isLong: boolean;
}

export interface NumberShape extends Common {
  kind: "number";
  isInteger: boolean;
  bounds: Readonly<Record<string, string>>;
}

export interface EnumShape extends Common {
  kind: "enum";
  values: readonly { value: Value; label: string }[];
}

export interface ConstShape extends Common {
  kind: "const";
  value: Value;
}

export interface ChoiceShape extends Common {
  kind: "choice";
  options: readonly Option[];
}

export interface OtherShape extends Common {
  kind: "boolean" | "null" | "any" | "never";
}

export type Shape = ObjectShape | ArrayShape | StringShape | NumberShape | EnumShape | ConstShape | ChoiceShape | OtherShape;

/** A list of alternatives that is longer is edited as JSON. */
const OPTIONS_MAX = 200;
const UNBOUNDED = Number.MAX_SAFE_INTEGER;
/** A text that may be longer gets several lines. */
const LONG_CHARS = 300;

const CONDITION_WORDS: Readonly<Record<string, string>> = {
  not: "what must not be", if: "conditions (if, then, else)", dependentRequired: "members that need others",
  dependentSchemas: "members that change others", dependencies: "members that need others", contains: "what the list must contain",
  propertyNames: "how names must look", minProperties: "a least number of members", maxProperties: "a largest number of members",
  unevaluatedProperties: "which further members there may be", unevaluatedItems: "which further items there may be",
};

const shapes = new WeakMap<object, Shape>();

export function shapeOf(document: SchemaDocument, schema: Schema): Shape {
  const key = typeof schema === "boolean" ? undefined : schema;
  const known = key && shapes.get(key);
  if (known !== undefined) return known;
  const shape = make(document, document.flatten(schema));
  if (key !== undefined) shapes.set(key, shape);
  return shape;
}

/** What is only there to allow `null`. */
function isNull(document: SchemaDocument, schema: Schema): boolean {
  const flat = document.flatten(schema);
  if (flat.constant !== undefined) return flat.constant.value === null;
  return flat.types?.length === 1 && flat.types[0] === "null";
}

function make(document: SchemaDocument, flat: Flat): Shape {
  const conditions = flat.conditions.map((keyword) => CONDITION_WORDS[keyword] ?? keyword);
  const notes = [...flat.notes];
  if (conditions.length > 0) notes.push(`Checked, but not shown here: ${[...new Set(conditions)].join(", ")}.`);
  const common: Common = {
    title: flat.words["title"],
    description: flat.words["description"],
    isNullable: flat.isNullable,
    isDeprecated: flat.isDeprecated,
    fallback: flat.fallback,
    examples: flat.examples,
    notes,
  };
  if (flat.isNever) return { ...common, kind: "never" };
  if (flat.constant !== undefined) return { ...common, kind: "const", value: flat.constant.value };
  if (flat.values !== undefined) return enumOf(common, flat.values);
  return chosen(document, flat, common) ?? simple(flat, common);
}

function enumOf(common: Common, values: readonly Value[], labels?: readonly (string | undefined)[]): EnumShape {
  const label = (value: Value) => (typeof value === "string" && value !== "" ? value : printValue(value));
  return { ...common, kind: "enum", values: values.map((value, index) => ({ value, label: labels?.[index] ?? label(value) })) };
}

/** Where there are alternatives: by `oneOf` and `anyOf`, or by several types. */
function chosen(document: SchemaDocument, flat: Flat, common: Common): Shape | undefined {
  const choice = flat.choices.find(({ schemas }) => !isRequirement(schemas));
  const requirement = flat.choices.find(({ schemas }) => isRequirement(schemas));
  const notes = [...common.notes];
  if (requirement !== undefined) notes.push(`Checked, but not shown here: ${requirementOf(requirement.schemas)}.`);
  if (choice === undefined) {
    const types = flat.types?.filter((type) => type !== "null");
    const isNullable = common.isNullable || (flat.types?.includes("null") === true && types?.length !== 0);
    if (types !== undefined && types.length > 1) {
      const options = types.map((type): Option => ({ label: type, description: undefined, schema: narrowed(flat, type) }));
      return { ...common, notes, isNullable, kind: "choice", options };
    }
    if (isNullable && !common.isNullable) return simple({ ...flat, types }, { ...common, notes, isNullable });
    return notes.length === common.notes.length ? undefined : simple(flat, { ...common, notes });
  }
  if (choice.schemas.length > OPTIONS_MAX) {
    return { ...common, kind: "any", notes: [...notes, `There are ${choice.schemas.length} alternatives: too many for a form.`] };
  }
  if (flat.choices.filter(({ schemas }) => !isRequirement(schemas)).length > 1) {
    notes.push("Checked, but not shown here: a second set of alternatives.");
  }
  const real = choice.schemas.filter((schema) => !isNull(document, schema));
  const isNullable = common.isNullable || real.length < choice.schemas.length;
  const base: Flat = { ...flat, choices: [], notes: [], conditions: [] };
  const flats = real.map((schema) => document.flatten(schema));
  if (flats.length > 0 && flats.every((each) => each.constant !== undefined)) {
    const values = flats.map((each) => each.constant?.value ?? null);
    return enumOf({ ...common, notes, isNullable }, values, flats.map((each) => each.words["title"]));
  }
  if (real.length === 0) return { ...common, notes, kind: "null" };
  if (real.length === 1) {
    const only = merge(base, flats[0] as Flat);
    const shape = make(document, only);
    return { ...shape, isNullable: isNullable || shape.isNullable, notes: [...notes, ...shape.notes] };
  }
  const isBaseEmpty = base.properties.size === 0 && base.required.size === 0 && base.additional === undefined && base.types === undefined;
  const labels = labelsOf(flats);
  const options = real.map(
    (schema, index): Option => ({
      label: labels[index] as string,
      description: flats[index]?.words["description"],
      schema: isBaseEmpty ? schema : { allOf: [schema, remainder(flat)] },
    }),
  );
  return { ...common, notes, isNullable, kind: "choice", options };
}

/** The part of an object that is there whatever is chosen, as a schema. */
function remainder(flat: Flat): Schema {
  const schema: Record<string, Value> = {};
  if (flat.types !== undefined) schema["type"] = [...flat.types.filter((type) => type !== "null")];
  if (flat.properties.size > 0) schema["properties"] = Object.fromEntries(flat.properties);
  if (flat.required.size > 0) schema["required"] = [...flat.required];
  if (flat.additional !== undefined) schema["additionalProperties"] = flat.additional;
  for (const [keyword, digits] of Object.entries(flat.numbers)) schema[keyword] = Number(digits);
  return schema;
}

function narrowed(flat: Flat, type: string): Schema {
  const schema = remainder(flat) as Record<string, Value>;
  schema["type"] = type;
  if (type !== "object") for (const keyword of ["properties", "required", "additionalProperties"]) delete schema[keyword];
  if (type === "array") {
    if (flat.items !== undefined) schema["items"] = flat.items;
    if (flat.prefix.length > 0) schema["prefixItems"] = [...flat.prefix];
  }
  if (type === "string") for (const keyword of ["format", "pattern"]) if (flat.words[keyword] !== undefined) schema[keyword] = flat.words[keyword];
  return schema;
}

/** `anyOf: [{required: ["a"]}, {required: ["b"]}]` is a condition, and no choice. */
function isRequirement(schemas: readonly Schema[]): boolean {
  return schemas.every((schema) => isMembers(schema) && Object.keys(schema).length > 0 && Object.keys(schema).every((key) => key === "required" || key === "not"));
}

function requirementOf(schemas: readonly Schema[]): string {
  const names = schemas.map((schema) => member(schema, "required")).filter(Array.isArray);
  const each = names.map((list) => list.map(String).join(" and ")).filter((text) => text !== "");
  return each.length > 0 ? `one of these has to be there: ${each.slice(0, 10).join("; ")}` : "which members exclude each other";
}

function labelsOf(flats: readonly Flat[]): string[] {
  const labels = flats.map((flat, index) => labelOf(flat) ?? `Alternative ${index + 1}`);
  return labels.map((label, index) => (labels.indexOf(label) === index ? label : `${label} (${index + 1})`));
}

/** What tells an alternative from the others. */
function labelOf(flat: Flat): string | undefined {
  const title = flat.words["title"];
  if (title !== undefined) return title;
  for (const [name, schema] of flat.properties) {
    const only = member(schema, "const") ?? singleOf(member(schema, "enum"));
    if (typeof only === "string") return flat.required.has(name) || flat.properties.size > 0 ? only : undefined;
  }
  if (flat.names[0] !== undefined) return flat.names[0];
  if (flat.constant !== undefined) return printValue(flat.constant.value);
  if (flat.values !== undefined) return flat.values.slice(0, 3).map(printValue).join(" | ");
  if (flat.types?.length === 1) {
    const type = flat.types[0] as string;
    const format = flat.words["format"];
    if (type === "object" && flat.properties.size > 0) return `object with ${[...flat.properties.keys()].slice(0, 3).join(", ")}`;
    if (type === "array" && isMembers(flat.items) && typeof flat.items["type"] === "string") return `list of ${flat.items["type"]}`;
    return format === undefined ? type : `${type} (${format})`;
  }
  return undefined;
}

function singleOf(value: Value | undefined): Value | undefined {
  return Array.isArray(value) && value.length === 1 ? value[0] : undefined;
}

function count(digits: string | undefined, otherwise: number): number {
  const number = Number(digits);
  return digits !== undefined && Number.isSafeInteger(number) && number >= 0 ? number : otherwise;
}

function simple(flat: Flat, common: Common): Shape {
  switch (flat.types?.[0] ?? guessed(flat)) {
    case "object":
      return objectOf(flat, common);
    case "array":
      return {
        ...common,
        kind: "array",
        prefix: flat.prefix,
        items: flat.items ?? true,
        minItems: count(flat.numbers["minItems"], 0),
        maxItems: Math.min(count(flat.numbers["maxItems"], UNBOUNDED), flat.items === false ? flat.prefix.length : UNBOUNDED),
        isUnique: flat.isUnique,
      };
    case "string":
      return stringOf(flat, common);
    case "number":
      return { ...common, kind: "number", isInteger: false, bounds: flat.numbers };
    case "integer":
      return { ...common, kind: "number", isInteger: true, bounds: flat.numbers };
    case "boolean":
      return { ...common, kind: "boolean" };
    case "null":
      return { ...common, kind: "null" };
    default:
      return { ...common, kind: "any" };
  }
}

/** Many schemas name no type, but have keywords of one. */
function guessed(flat: Flat): string | undefined {
  if (flat.properties.size > 0 || flat.additional !== undefined || flat.patterns.size > 0) return "object";
  if (flat.prefix.length > 0 || flat.items !== undefined || flat.numbers["minItems"] !== undefined) return "array";
  if (["format", "pattern", "contentEncoding"].some((word) => flat.words[word] !== undefined) || flat.numbers["maxLength"] !== undefined) return "string";
  if (["minimum", "maximum", "multipleOf"].some((bound) => flat.numbers[bound] !== undefined)) return "number";
  return undefined;
}

function objectOf(flat: Flat, common: Common): ObjectShape {
  const members = [...flat.properties].map(([name, schema]): Member => ({ name, schema, isRequired: flat.required.has(name) }));
  // Asked for without a word of what they are.
  for (const name of flat.required) if (!flat.properties.has(name)) members.push({ name, schema: flat.additional || true, isRequired: true });
  const patterned = flat.patterns.size === 1 ? [...flat.patterns.values()][0] : flat.patterns.size > 1 ? true : undefined;
  const rest = flat.additional === undefined || flat.additional === false ? (patterned ?? flat.additional ?? true) : flat.additional;
  const isMap = rest !== false && (members.length === 0 || (flat.additional !== undefined && flat.additional !== true) || patterned !== undefined);
  const notes = flat.patterns.size > 0 ? [...common.notes, `Names of further members: ${[...flat.patterns.keys()].slice(0, 5).join(", ")}.`] : common.notes;
  return { ...common, notes, kind: "object", members, rest, isMap };
}

function stringOf(flat: Flat, common: Common): StringShape {
  const { format, pattern, contentEncoding, contentMediaType } = flat.words;
  const isBase64 = contentEncoding?.toLowerCase() === "base64" || ["byte", "binary", "base64"].includes(format ?? "");
  const long = count(flat.numbers["maxLength"], 0) >= LONG_CHARS;
  const isText = contentMediaType?.startsWith("text/") === true || ["markdown", "multiline", "textarea", "text"].includes(format ?? "");
  return {
    ...common,
    kind: "string",
    format,
    pattern,
    minLength: flat.numbers["minLength"],
    maxLength: flat.numbers["maxLength"],
    isBase64,
    mediaType: contentMediaType,
    isLong: long || isText,
  };
}
