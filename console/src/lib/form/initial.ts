// What a form begins with, and which alternative a value is.

import type { JsonNode } from "../../ui/json-parse";
import { memberOf } from "../json/edit";
import { FALSE, NULL, isInteger, isMembers, isSame, member, nodeOf } from "../json/value";
import type { Value } from "../json/value";
import type { Schema, SchemaDocument } from "./flatten";
import { shapeOf } from "./shape";
import type { Option, Shape } from "./shape";

export interface InitialOptions {
  /** Also members that need not be there, if they have a default. */
  withDefaults?: boolean;
}

/** Required members within required members within required members... */
const DEPTH_MAX = 8;
/** Items that a list has to have are made, up to this many. */
const ITEMS_MAX = 10;
/** All nodes together. */
const NODES_MAX = 2_000;

interface Making extends InitialOptions {
  left: number;
}

/** What has to be there; `undefined` where only a person can say. */
export function initial(document: SchemaDocument, schema: Schema, options: InitialOptions = {}): JsonNode | undefined {
  return make(document, schema, { ...options, left: NODES_MAX }, 0);
}

/** Something of the schema's kind, for an item that is added: it is to be filled in. */
export function blank(document: SchemaDocument, schema: Schema): JsonNode {
  const made = initial(document, schema);
  if (made !== undefined) return made;
  const shape = shapeOf(document, schema);
  switch (shape.kind) {
    case "string":
      return { kind: "string", value: "" };
    case "number":
      return { kind: "number", text: "" };
    case "enum":
      return nodeOf(shape.values[0]?.value ?? null);
    case "choice":
      return shape.options[0] === undefined ? NULL : blank(document, shape.options[0].schema);
    default:
      return NULL;
  }
}

function make(document: SchemaDocument, schema: Schema, making: Making, depth: number): JsonNode | undefined {
  making.left -= 1;
  if (depth > DEPTH_MAX || making.left < 0) return undefined;
  const shape = shapeOf(document, schema);
  if (shape.fallback !== undefined) return nodeOf(shape.fallback.value);
  switch (shape.kind) {
    case "const":
      return nodeOf(shape.value);
    case "enum":
      return shape.values.length === 1 ? nodeOf(shape.values[0]?.value) : undefined;
    case "boolean":
      return FALSE;
    case "null":
      return NULL;
    case "choice": {
      if (shape.isNullable) return NULL;
      const first = shape.options[0];
      return first === undefined ? undefined : make(document, first.schema, making, depth + 1);
    }
    case "array": {
      const wanted = Math.min(Math.max(shape.minItems, 0), ITEMS_MAX);
      const items: JsonNode[] = [];
      for (let index = 0; index < wanted; index += 1) {
        const each = shape.prefix[index] ?? shape.items;
        items.push(make(document, each, making, depth + 1) ?? blankScalar(document, each));
      }
      return { kind: "array", items };
    }
    case "object": {
      const entries: [string, JsonNode][] = [];
      for (const { name, schema: of, isRequired } of shape.members) {
        if (making.left < 0) break;
        const isWanted = isRequired || (making.withDefaults === true && shapeOf(document, of).fallback !== undefined);
        const value = isWanted ? make(document, of, making, depth + 1) : undefined;
        if (value !== undefined) entries.push([name, value]);
      }
      return { kind: "object", entries };
    }
    default:
      return undefined;
  }
}

function blankScalar(document: SchemaDocument, schema: Schema): JsonNode {
  const { kind } = shapeOf(document, schema);
  if (kind === "string") return { kind: "string", value: "" };
  return kind === "number" ? { kind: "number", text: "" } : NULL;
}

/** Items of a list that are looked at to tell alternatives apart. */
const SAMPLE = 3;
const FIT_DEPTH = 4;
/** Not possible. */
const NEVER = -1_000_000;

/** How well a value is what the schema wants, by its types, its constants and its members. */
export function fit(document: SchemaDocument, schema: Schema, node: JsonNode, depth = 0): number {
  if (depth > FIT_DEPTH) return 0;
  const shape = shapeOf(document, schema);
  if (node.kind === "word" && node.text === "null" && shape.isNullable) return 1;
  switch (shape.kind) {
    case "never":
      return NEVER;
    case "any":
      return 0;
    case "const":
      return isSame(nodeOf(shape.value), node) ? 10 : NEVER;
    case "enum":
      return shape.values.some(({ value }) => isSame(nodeOf(value), node)) ? 5 : NEVER;
    case "boolean":
      return node.kind === "word" && node.text !== "null" ? 2 : NEVER;
    case "null":
      return node.kind === "word" && node.text === "null" ? 2 : NEVER;
    case "string":
      return node.kind === "string" ? 2 : NEVER;
    case "number":
      if (node.kind !== "number") return NEVER;
      return !shape.isInteger || node.text === "" ? 2 : isInteger(node.text) ? 3 : NEVER;
    case "choice":
      return Math.max(NEVER, ...shape.options.slice(0, 20).map((option) => fit(document, option.schema, node, depth + 1)));
    case "array": {
      if (node.kind !== "array") return NEVER;
      const scores = node.items.slice(0, SAMPLE).map((item, index) => Math.max(-5, fit(document, shape.prefix[index] ?? shape.items, item, depth + 1)));
      return 2 + scores.reduce((sum, score) => sum + score, 0);
    }
    case "object":
      return node.kind === "object" ? fitMembers(document, shape, node, depth) : NEVER;
  }
}

function fitMembers(document: SchemaDocument, shape: Extract<Shape, { kind: "object" }>, node: JsonNode & { kind: "object" }, depth: number): number {
  let score = 2;
  const named = new Set<string>();
  for (const { name, schema, isRequired } of shape.members.slice(0, 100)) {
    named.add(name);
    const value = memberOf(node, name);
    if (value === undefined) {
      score -= isRequired ? 1 : 0;
      continue;
    }
    const of = fit(document, schema, value, depth + 1);
    // A constant tells alternatives apart; another member may be wrong only for now.
    const isTelling = ["const", "enum"].includes(shapeOf(document, schema).kind);
    if (of <= NEVER && isTelling) return NEVER;
    score += of <= NEVER ? -2 : 1 + Math.min(of, 10);
  }
  if (shape.rest === false) score -= 2 * node.entries.filter(([key]) => !named.has(key)).length;
  return score;
}

/** The alternative that a value is; -1 if it is none. */
export function optionOf(document: SchemaDocument, options: readonly Option[], node: JsonNode | undefined): number {
  if (node === undefined) return -1;
  let best = -1;
  let score = NEVER;
  options.forEach((option, index) => {
    const of = fit(document, option.schema, node);
    if (of > score) [best, score] = [index, of];
  });
  return best;
}

/** What a value becomes when another alternative is chosen: members of the same name that fit are kept. */
export function switched(document: SchemaDocument, schema: Schema, node: JsonNode | undefined): JsonNode {
  const made = blank(document, schema);
  const shape = shapeOf(document, schema);
  if (node === undefined || shape.kind !== "object" || node.kind !== "object" || made.kind !== "object") {
    return node !== undefined && fit(document, schema, node) > NEVER && shape.kind !== "any" ? node : made;
  }
  const entries = [...made.entries];
  for (const { name, schema: of } of shape.members) {
    const value = memberOf(node, name);
    if (value === undefined || fit(document, of, value) <= NEVER) continue;
    const index = entries.findIndex(([key]) => key === name);
    if (index < 0) entries.push([name, value]);
    else entries[index] = [name, value];
  }
  return { kind: "object", entries };
}

/** The schema of a tool or a question; anything else is one that says nothing. */
export function isObjectSchema(value: Value | undefined): boolean {
  return isMembers(value) && (member(value, "type") === "object" || member(value, "type") === undefined);
}
