// What a schema demands, in words: for the hint below a field, and for reading a definition.

import { cut } from "../../ui/visible";
import { compareNumbers, isInteger, isMultiple, isNumber, printValue } from "../json/value";
import type { SchemaDocument } from "./flatten";
import { shapeOf } from "./shape";
import type { Shape } from "./shape";

/** Values of a default or an example that are longer are cut. */
const VALUE_CHARS = 120;
const PATTERN_CHARS = 80;

/** `string`, `list of integer`, `map of number`, `one of 3`. */
export function typeWord(document: SchemaDocument, shape: Shape, depth = 0): string {
  const word = plainWord(document, shape, depth);
  return shape.isNullable && shape.kind !== "null" && shape.kind !== "any" ? `${word} or null` : word;
}

function plainWord(document: SchemaDocument, shape: Shape, depth: number): string {
  switch (shape.kind) {
    case "number":
      return shape.isInteger ? "integer" : "number";
    case "array":
      if (shape.prefix.length > 0) return shape.items === false ? `tuple of ${shape.prefix.length}` : "list";
      return depth > 3 || shape.items === true ? "list" : `list of ${typeWord(document, shapeOf(document, shape.items), depth + 1)}`;
    case "object":
      if (shape.isMap && shape.members.length === 0 && shape.rest !== true && depth <= 3) {
        return `map of ${typeWord(document, shapeOf(document, shape.rest), depth + 1)}`;
      }
      return "object";
    case "enum":
      return shape.values.length === 1 ? "constant" : `one of ${shape.values.length}`;
    case "choice":
      return `one of ${shape.options.length} kinds`;
    case "const":
      return "constant";
    case "never":
      return "nothing";
    case "any":
      return "anything";
    default:
      return shape.kind;
  }
}

/** What is demanded of a value, each in a few words. */
export function factsOf(shape: Shape): string[] {
  const facts: string[] = [];
  if (shape.kind === "string") {
    const { minLength, maxLength, pattern, format, isBase64 } = shape;
    if (isBase64) facts.push("base64");
    else if (format !== undefined) facts.push(format);
    const length = between(minLength === "0" ? undefined : minLength, maxLength);
    if (length !== undefined) facts.push(`${length} character${length === "exactly 1" || length === "at most 1" ? "" : "s"}`);
    if (pattern !== undefined) facts.push(`matches ${cut(pattern, PATTERN_CHARS)}${pattern.length > PATTERN_CHARS ? "…" : ""}`);
  }
  if (shape.kind === "number") {
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = shape.bounds;
    const from = exclusiveMinimum !== undefined ? `more than ${exclusiveMinimum}` : undefined;
    const to = exclusiveMaximum !== undefined ? `less than ${exclusiveMaximum}` : undefined;
    if (from === undefined && to === undefined) {
      const both = between(minimum, maximum);
      if (both !== undefined) facts.push(both);
    } else {
      if (from !== undefined) facts.push(from);
      else if (minimum !== undefined) facts.push(`at least ${minimum}`);
      if (to !== undefined) facts.push(to);
      else if (maximum !== undefined) facts.push(`at most ${maximum}`);
    }
    if (multipleOf !== undefined && multipleOf !== "1") facts.push(`a multiple of ${multipleOf}`);
  }
  if (shape.kind === "array") {
    const most = shape.maxItems < Number.MAX_SAFE_INTEGER ? String(shape.maxItems) : undefined;
    const items = between(shape.minItems > 0 ? String(shape.minItems) : undefined, most);
    if (items !== undefined) facts.push(`${items} item${/ 1$/.test(items) ? "" : "s"}`);
    if (shape.isUnique) facts.push("no item twice");
  }
  if (shape.isDeprecated) facts.push("deprecated");
  if (shape.fallback !== undefined && shape.kind !== "const") facts.push(`default ${short(printValue(shape.fallback.value))}`);
  return facts;
}

export function short(text: string): string {
  return text.length > VALUE_CHARS ? `${cut(text, VALUE_CHARS)}…` : text;
}

function between(least: string | undefined, most: string | undefined): string | undefined {
  if (least !== undefined && most !== undefined) return least === most ? `exactly ${least}` : `${least} to ${most}`;
  if (least !== undefined) return `at least ${least}`;
  return most === undefined ? undefined : `at most ${most}`;
}

/** What is wrong with the digits of a number, however long they are. */
export function numberIssue(shape: Extract<Shape, { kind: "number" }>, text: string): string | undefined {
  if (text === "") return undefined;
  if (!isNumber(text)) return "This is no number.";
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = shape.bounds;
  if (shape.isInteger && !isInteger(text)) return "This has to be a whole number.";
  if (exclusiveMinimum !== undefined && compareNumbers(text, exclusiveMinimum) <= 0) return `This has to be more than ${exclusiveMinimum}.`;
  if (exclusiveMaximum !== undefined && compareNumbers(text, exclusiveMaximum) >= 0) return `This has to be less than ${exclusiveMaximum}.`;
  if (minimum !== undefined && compareNumbers(text, minimum) < 0) return `This has to be at least ${minimum}.`;
  if (maximum !== undefined && compareNumbers(text, maximum) > 0) return `This has to be at most ${maximum}.`;
  if (multipleOf !== undefined && !isMultiple(text, multipleOf)) return `This has to be a multiple of ${multipleOf}.`;
  return undefined;
}
