// JSON as values that can be looked into like any others, with numbers that keep their digits.
//
// What is edited stays a `JsonNode` (`ui/json-parse`), which also keeps order and members that occur twice. Schemas and
// messages are read as values.

import { parseJson } from "../../ui/json-parse";
import type { JsonNode } from "../../ui/json-parse";

/** A number that a JavaScript number would change. */
export class Exact {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }
}

export type Value = null | boolean | number | string | Exact | Value[] | { [key: string]: Value };
export type Members = { [key: string]: Value };

/** Digits that every double keeps. */
const DIGITS_KEPT = 15;

function keepsDigits(text: string): boolean {
  const digits = text.replace(/[eE].*$/, "").replace(/[-.]/g, "").replace(/^0+/, "");
  if (digits.length > DIGITS_KEPT) return String(Number(text)) === text;
  return Number.isFinite(Number(text));
}

function numberOf(text: string): number | Exact {
  return keepsDigits(text) ? Number(text) : new Exact(text);
}

/** Sets a member that may have any name, `__proto__` too. */
export function setMember<T>(object: { [key: string]: T }, key: string, value: T): void {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

function convert(node: JsonNode, ofNumber: (text: string) => Value): Value {
  switch (node.kind) {
    case "object": {
      const object: Members = {};
      for (const [key, value] of node.entries) setMember(object, key, convert(value, ofNumber));
      return object;
    }
    case "array":
      return node.items.map((item) => convert(item, ofNumber));
    case "string":
      return node.value;
    case "number":
      return ofNumber(node.text);
    case "word":
      return node.text === "null" ? null : node.text === "true";
  }
}

export function valueOf(node: JsonNode): Value {
  return convert(node, numberOf);
}

/** With JavaScript's numbers only, for code that knows no others. */
export function plainOf(node: JsonNode): unknown {
  return convert(node, Number);
}

/** `undefined`: it is no JSON. */
export function parseValue(text: string): Value | undefined {
  const node = parseJson(text);
  return node === undefined ? undefined : valueOf(node);
}

export function nodeOf(value: unknown): JsonNode {
  if (value instanceof Exact) return { kind: "number", text: value.text };
  if (typeof value === "string") return { kind: "string", value };
  if (typeof value === "number") return Number.isFinite(value) ? { kind: "number", text: JSON.stringify(value) } : NULL;
  if (typeof value === "boolean") return value ? TRUE : FALSE;
  if (Array.isArray(value)) return { kind: "array", items: value.map(nodeOf) };
  if (typeof value !== "object" || value === null) return NULL;
  const entries = Object.entries(value).filter(([, member]) => member !== undefined);
  return { kind: "object", entries: entries.map(([key, member]) => [key, nodeOf(member)]) };
}

export const NULL: JsonNode = { kind: "word", text: "null" };
export const TRUE: JsonNode = { kind: "word", text: "true" };
export const FALSE: JsonNode = { kind: "word", text: "false" };

export function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Exact);
}

/** An own member; inherited ones are none. */
export function member(value: unknown, key: string): Value | undefined {
  return isMembers(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

export function textMember(value: unknown, key: string): string | undefined {
  const found = member(value, key);
  return typeof found === "string" ? found : undefined;
}

/** On one line. */
export function compact(node: JsonNode): string {
  if (node.kind === "object") return `{${node.entries.map(([key, value]) => `${JSON.stringify(key)}:${compact(value)}`).join(",")}}`;
  if (node.kind === "array") return `[${node.items.map(compact).join(",")}]`;
  if (node.kind === "string") return JSON.stringify(node.value);
  return node.text === "" ? "null" : node.text;
}

export function printValue(value: Value): string {
  return compact(nodeOf(value));
}

/** Whether both say the same; the order of members does not count. */
export function isSame(a: JsonNode, b: JsonNode): boolean {
  if (a.kind === "object" && b.kind === "object") {
    const [left, right] = [new Map(a.entries), new Map(b.entries)];
    if (left.size !== right.size) return false;
    return [...left].every(([key, value]) => {
      const other = right.get(key);
      return other !== undefined && isSame(value, other);
    });
  }
  if (a.kind === "array" && b.kind === "array") {
    return a.items.length === b.items.length && a.items.every((item, index) => isSame(item, b.items[index] as JsonNode));
  }
  if (a.kind === "string" && b.kind === "string") return a.value === b.value;
  if (a.kind === "number" && b.kind === "number") return a.text === b.text || compareNumbers(a.text, b.text) === 0;
  return a.kind === "word" && b.kind === "word" && a.text === b.text;
}

const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
/** Further apart than this, digits are compared as doubles. */
const EXPONENT_MAX = 1_000;

export function isNumber(text: string): boolean {
  return NUMBER.test(text);
}

interface Decimal {
  /** The value is `digits` times ten to the power of `exponent`. */
  digits: bigint;
  exponent: number;
}

function decimalOf(text: string): Decimal | undefined {
  const found = NUMBER.exec(text);
  if (found === null) return undefined;
  const [, sign = "", whole = "0", fraction = "", exponent = "0"] = found;
  const shift = Number(exponent) - fraction.length;
  if (Math.abs(shift) > EXPONENT_MAX) return undefined;
  return { digits: BigInt(sign + whole + fraction), exponent: shift };
}

/** Exactly, however many digits there are. */
export function compareNumbers(a: string, b: string): number {
  const [left, right] = [decimalOf(a), decimalOf(b)];
  if (left === undefined || right === undefined) return Math.sign(Number(a) - Number(b));
  const exponent = Math.min(left.exponent, right.exponent);
  const [x, y] = [left, right].map((one) => one.digits * 10n ** BigInt(one.exponent - exponent)) as [bigint, bigint];
  return x < y ? -1 : x > y ? 1 : 0;
}

export function isInteger(text: string): boolean {
  const found = decimalOf(text);
  if (found === undefined) return Number.isInteger(Number(text));
  return found.exponent >= 0 || found.digits % 10n ** BigInt(-found.exponent) === 0n;
}

/** Whether one is a whole multiple of the other. */
export function isMultiple(text: string, step: string): boolean {
  const [value, unit] = [decimalOf(text), decimalOf(step)];
  if (value === undefined || unit === undefined || unit.digits === 0n) return true;
  const exponent = Math.min(value.exponent, unit.exponent);
  return (value.digits * 10n ** BigInt(value.exponent - exponent)) % (unit.digits * 10n ** BigInt(unit.exponent - exponent)) === 0n;
}
