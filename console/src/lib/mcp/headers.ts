// Values of headers that repeat what is in the body (2026-07-28): protocol.md 3.1, "Value encoding".

import type { JsonNode } from "../../ui/json-parse";
import { memberOf } from "../json/edit";
import { isMembers, member } from "../json/value";
import type { Value } from "../json/value";

const PLAIN = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const MARKED = /^=\?base64\?.*\?=$/;

export function base64OfText(text: string): string {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

export function headerValue(text: string): string {
  if (text === "" || (PLAIN.test(text) && !MARKED.test(text))) return text;
  return `=?base64?${base64OfText(text)}?=`;
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Deeper marks are not looked for. */
const DEPTH_MAX = 16;

/** `Mcp-Param-*` of the arguments that a tool's schema marks with `x-mcp-header`; `null` and what is not there have none. */
export function parameterHeaders(schema: Value | undefined, input: JsonNode | undefined): [string, string][] {
  const found: [string, string][] = [];
  collect(schema, input, found, 0);
  return found;
}

function collect(schema: Value | undefined, node: JsonNode | undefined, found: [string, string][], depth: number): void {
  const properties = member(schema, "properties");
  if (!isMembers(properties) || node?.kind !== "object" || depth > DEPTH_MAX) return;
  for (const [name, of] of Object.entries(properties)) {
    const value = memberOf(node, name);
    if (value === undefined) continue;
    const mark = member(of, "x-mcp-header");
    if (typeof mark === "string" && TOKEN.test(mark)) {
      const text = textOf(value);
      if (text !== undefined) found.push([`Mcp-Param-${mark}`, headerValue(text)]);
    }
    collect(of, value, found, depth + 1);
  }
}

function textOf(node: JsonNode): string | undefined {
  if (node.kind === "string") return node.value;
  if (node.kind === "number") return node.text;
  return node.kind === "word" && node.text !== "null" ? node.text : undefined;
}
