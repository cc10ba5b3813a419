// The shapes of objects over a catalog: which tools and prompts take or give the same, and which nearly the same.

import { canonical, hash, isMembers, stable, typeWord } from "./canonical";
import type { Value } from "./canonical";
import { neighbours } from "./near";

/** What of a tool has the shape. */
export type Part = "input" | "output" | "arguments";

export interface Usage {
  kind: "tools" | "prompts";
  name: string;
  backend: string;
  part: Part;
  /** Where in it, as names of properties; empty for the whole. `[]` are the items of an array. */
  path: string;
}

export interface Property {
  name: string;
  type: string;
  isRequired: boolean;
}

export interface Shape {
  id: string;
  /** A title that a schema has, else where it is used first. */
  name: string;
  properties: Property[];
  usages: Usage[];
  backends: string[];
  /** Other shapes and how much they share, the nearest first. */
  near: { id: string; similarity: number }[];
}

export interface Analysis {
  shapes: Shape[];
  operations: number;
  /** Schemas that were looked at. */
  schemas: number;
}

interface Tool {
  name: string;
  backend?: string;
  inputSchema?: Value;
  outputSchema?: Value;
}

interface Prompt {
  name: string;
  backend?: string;
  arguments?: { name: string; required?: boolean }[];
}

export interface Catalog {
  tools?: Tool[];
  prompts?: Prompt[];
}

/** Shapes kept; further ones are not looked at. */
const SHAPES_MAX = 50_000;
/** Objects within one schema. */
const NESTED_MAX = 500;
/** Objects with fewer properties are nearly equal to too many. */
const NEAR_PROPERTIES_MIN = 3;
const NEAR_MIN = 0.5;
const NEAR_PER_SHAPE_MAX = 20;

interface Growing {
  canonical: Value;
  title: string | undefined;
  shape: Shape;
}

export class ShapeIndex {
  private readonly byText = new Map<string, Growing>();
  private readonly byId = new Map<string, Growing>();
  private schemas = 0;
  private operations = 0;

  add(catalog: Catalog): void {
    for (const tool of catalog.tools ?? []) this.addTool(tool);
    for (const prompt of catalog.prompts ?? []) this.addPrompt(prompt);
  }

  addTool({ name, backend = "", inputSchema, outputSchema }: Tool): void {
    this.operations += 1;
    const usage = { kind: "tools", name, backend } as const;
    if (inputSchema !== undefined) this.addSchema(inputSchema, { ...usage, part: "input", path: "" });
    if (outputSchema !== undefined && outputSchema !== null) this.addSchema(outputSchema, { ...usage, part: "output", path: "" });
  }

  addPrompt({ name, backend = "", arguments: given = [] }: Prompt): void {
    this.operations += 1;
    if (given.length === 0) return;
    const required = given.filter((argument) => argument.required === true).map((argument) => argument.name);
    const properties = Object.fromEntries(given.map((argument) => [argument.name, { type: "string" }]));
    this.addSchema({ type: "object", properties, required }, { kind: "prompts", name, backend, part: "arguments", path: "" });
  }

  private addSchema(schema: Value, usage: Usage): void {
    this.schemas += 1;
    const titles = new Map<string, string>();
    collectTitles(schema, titles);
    const found: { schema: Value; path: string }[] = [];
    collectObjects(canonical(schema), "", found);
    for (const { schema: object, path } of found) this.addObject(object, { ...usage, path }, path === "" ? titles.get("") : titles.get(path));
  }

  private addObject(schema: Value, usage: Usage, title: string | undefined): void {
    const text = stable(schema);
    let growing = this.byText.get(text);
    if (growing === undefined) {
      if (this.byText.size >= SHAPES_MAX) return;
      const id = hash(text);
      growing = { canonical: schema, title, shape: { id, name: "", properties: propertiesOf(schema), usages: [], backends: [], near: [] } };
      this.byText.set(text, growing);
      this.byId.set(id, growing);
    }
    growing.title ??= title;
    // Alternatives of one place may be the same.
    const last = growing.shape.usages.at(-1);
    if (last?.name === usage.name && last.kind === usage.kind && last.part === usage.part && last.path === usage.path) return;
    growing.shape.usages.push(usage);
  }

  analysis(): Analysis {
    const all = [...this.byText.values()];
    for (const { shape, title } of all) {
      shape.backends = [...new Set(shape.usages.map((usage) => usage.backend))].sort();
      shape.name = title ?? nameOf(shape.usages[0]);
    }
    const candidates = all.filter(({ shape }) => shape.properties.length >= NEAR_PROPERTIES_MIN);
    const features = candidates.map(({ shape }) => shape.properties.map((property) => `${property.name}\n${property.type}`));
    neighbours(features, NEAR_MIN, NEAR_PER_SHAPE_MAX).forEach((near, index) => {
      const shape = candidates[index]?.shape;
      if (shape === undefined) return;
      shape.near = near.map(({ index: other, similarity }) => ({ id: (candidates[other] as Growing).shape.id, similarity }));
    });
    return { shapes: all.map(({ shape }) => shape), operations: this.operations, schemas: this.schemas };
  }

  /** The structure of a shape, for people. */
  textOf(id: string): string | undefined {
    const growing = this.byId.get(id);
    return growing === undefined ? undefined : JSON.stringify(sorted(growing.canonical), null, 2);
  }
}

function sorted(value: Value): Value {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isMembers(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sorted(value[key] as Value)]),
  );
}

function nameOf(usage: Usage | undefined): string {
  if (usage === undefined) return "";
  return usage.path === "" ? `${usage.name} ${usage.part}` : `${usage.name} ${usage.part} ${usage.path}`;
}

function propertiesOf(schema: Value): Property[] {
  const properties = isMembers(schema) ? schema["properties"] : undefined;
  const required = isMembers(schema) && Array.isArray(schema["required"]) ? new Set(schema["required"]) : new Set();
  if (!isMembers(properties)) return [];
  return Object.keys(properties)
    .sort()
    .map((name) => ({ name, type: typeWord(properties[name]), isRequired: required.has(name) }));
}

/** Objects with properties, anywhere in a canonical schema. */
function collectObjects(schema: Value, path: string, found: { schema: Value; path: string }[]): void {
  if (!isMembers(schema) || found.length >= NESTED_MAX) return;
  const properties = schema["properties"];
  if (isMembers(properties)) {
    found.push({ schema, path });
    for (const [name, property] of Object.entries(properties)) collectObjects(property, path === "" ? name : `${path}.${name}`, found);
  }
  for (const key of ["items", "additionalProperties", "contains", "not", "if", "then", "else"]) {
    const inner = schema[key];
    if (inner !== undefined) collectObjects(inner, key === "items" ? `${path}[]` : path, found);
  }
  for (const key of ["anyOf", "oneOf", "allOf", "prefixItems"]) {
    const list = schema[key];
    if (Array.isArray(list)) for (const inner of list) collectObjects(inner, key === "prefixItems" ? `${path}[]` : path, found);
  }
}

/** Longer titles are sentences. */
const TITLE_CHARS_MAX = 80;

/** The titles of objects by their paths, as far as they are written in place. */
function collectTitles(schema: Value, titles: Map<string, string>, path = "", depth = 0): void {
  if (!isMembers(schema) || depth > 12 || titles.size > NESTED_MAX) return;
  const title = schema["title"];
  if (typeof title === "string" && title !== "" && title.length <= TITLE_CHARS_MAX && !titles.has(path)) titles.set(path, title);
  const properties = schema["properties"];
  if (isMembers(properties)) for (const [name, property] of Object.entries(properties)) collectTitles(property, titles, path === "" ? name : `${path}.${name}`, depth + 1);
  const items = schema["items"];
  if (items !== undefined) collectTitles(items, titles, `${path}[]`, depth + 1);
}

/** What differs between the properties of two shapes. */
export function compareProperties(one: readonly Property[], other: readonly Property[]): { name: string; before?: Property; after?: Property; isEqual: boolean }[] {
  const [first, second] = [byName(one), byName(other)];
  return [...new Set([...first.keys(), ...second.keys()])].sort().map((name) => {
    const [before, after] = [first.get(name), second.get(name)];
    const isEqual = before !== undefined && after !== undefined && before.type === after.type && before.isRequired === after.isRequired;
    return { name, isEqual, ...(before && { before }), ...(after && { after }) };
  });
}

function byName(properties: readonly Property[]): Map<string, Property> {
  return new Map(properties.map((property) => [property.name, property]));
}
