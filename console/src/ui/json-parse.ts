// Reads JSON into nodes that keep what JavaScript values lose: the digits of numbers, members that occur twice, and order.

export type JsonNode =
  | { kind: "object"; entries: [string, JsonNode][] }
  | { kind: "array"; items: JsonNode[] }
  | { kind: "string"; value: string }
  /** As it was written. */
  | { kind: "number"; text: string }
  | { kind: "word"; text: "true" | "false" | "null" };

/** Deeper values are shown raw: reading them takes a frame of the stack a level. */
const DEPTH_MAX = 200;

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;

class Reader {
  at = 0;
  constructor(readonly text: string) {}

  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }

  /** After white space. */
  peek(): string | undefined {
    this.match(SPACE);
    return this.text[this.at];
  }

  take(character: string): boolean {
    if (this.peek() !== character) return false;
    this.at += 1;
    return true;
  }

  string(): string | undefined {
    if (this.peek() !== '"') return undefined;
    const start = this.at;
    let end = start + 1;
    for (;;) {
      end = this.text.indexOf('"', end);
      if (end < 0) return undefined;
      let slashes = 0;
      while (this.text[end - 1 - slashes] === "\\") slashes += 1;
      end += 1;
      if (slashes % 2 === 0) break;
    }
    this.at = end;
    return JSON.parse(this.text.slice(start, end)) as string;
  }

  value(depth: number): JsonNode | undefined {
    if (depth > DEPTH_MAX) return undefined;
    const next = this.peek();
    if (next === '"') {
      const value = this.string();
      return value === undefined ? undefined : { kind: "string", value };
    }
    if (next === "{") return this.object(depth);
    if (next === "[") return this.array(depth);
    const number = this.match(NUMBER);
    if (number !== undefined && number !== "") return { kind: "number", text: number };
    const word = this.match(WORD);
    return word === undefined ? undefined : { kind: "word", text: word as "true" };
  }

  private object(depth: number): JsonNode | undefined {
    this.at += 1;
    const entries: [string, JsonNode][] = [];
    if (this.take("}")) return { kind: "object", entries };
    do {
      const key = this.string();
      if (key === undefined || !this.take(":")) return undefined;
      const value = this.value(depth + 1);
      if (value === undefined) return undefined;
      entries.push([key, value]);
    } while (this.take(","));
    return this.take("}") ? { kind: "object", entries } : undefined;
  }

  private array(depth: number): JsonNode | undefined {
    this.at += 1;
    const items: JsonNode[] = [];
    if (this.take("]")) return { kind: "array", items };
    do {
      const value = this.value(depth + 1);
      if (value === undefined) return undefined;
      items.push(value);
    } while (this.take(","));
    return this.take("]") ? { kind: "array", items } : undefined;
  }
}

/** The value of a text; otherwise where reading it stopped, in characters. */
export function readJson(text: string): { node: JsonNode; at?: never } | { node?: never; at: number } {
  const reader = new Reader(text);
  try {
    const node = reader.value(0);
    if (node !== undefined && reader.peek() === undefined) return { node };
  } catch {
    // A string that is not one.
  }
  return { at: Math.min(reader.at, text.length) };
}

/** `undefined`: it is no JSON, or too deep. */
export function parseJson(text: string): JsonNode | undefined {
  return readJson(text).node;
}

/** The node as text with two spaces a level. */
export function printJson(node: JsonNode, indent = ""): string {
  const inner = `${indent}  `;
  if (node.kind === "object") {
    if (node.entries.length === 0) return "{}";
    const entries = node.entries.map(([key, value]) => `${inner}${JSON.stringify(key)}: ${printJson(value, inner)}`);
    return `{\n${entries.join(",\n")}\n${indent}}`;
  }
  if (node.kind === "array") {
    if (node.items.length === 0) return "[]";
    return `[\n${node.items.map((item) => inner + printJson(item, inner)).join(",\n")}\n${indent}]`;
  }
  return node.kind === "string" ? JSON.stringify(node.value) : node.text;
}
