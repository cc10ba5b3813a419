// Changes to JSON at a place in it. What is not changed stays the same object, so that only what changed is drawn again.

import type { JsonNode } from "../../ui/json-parse";

/** Members by name, items by number. */
export type Path = readonly (string | number)[];

/** As a JSON Pointer. */
export function pointerOf(path: Path): string {
  return path.map((step) => `/${String(step).replace(/~/g, "~0").replace(/\//g, "~1")}`).join("");
}

/** The last of a name counts, as with every reader of JSON. */
export function memberOf(node: JsonNode | undefined, key: string): JsonNode | undefined {
  if (node?.kind !== "object") return undefined;
  for (let index = node.entries.length - 1; index >= 0; index -= 1) {
    const entry = node.entries[index];
    if (entry?.[0] === key) return entry[1];
  }
  return undefined;
}

export function nodeAt(node: JsonNode | undefined, path: Path): JsonNode | undefined {
  let found = node;
  for (const step of path) {
    if (typeof step === "string") found = memberOf(found, step);
    else found = found?.kind === "array" ? found.items[step] : undefined;
  }
  return found;
}

/** Replaces what is at the place; `undefined` takes it away. Members on the way that are not there are made. */
export function put(node: JsonNode | undefined, path: Path, value: JsonNode | undefined): JsonNode | undefined {
  const [step, ...rest] = path;
  if (step === undefined) return value;
  if (typeof step === "string") {
    const entries = node?.kind === "object" ? node.entries : [];
    const next = put(memberOf(node, step), rest, value);
    if (next === undefined) return { kind: "object", entries: entries.filter(([key]) => key !== step) };
    const index = entries.findLastIndex(([key]) => key === step);
    if (index < 0) return { kind: "object", entries: [...entries, [step, next]] };
    return { kind: "object", entries: entries.map((entry, at) => (at === index ? [step, next] : entry)) };
  }
  const items = node?.kind === "array" ? node.items : [];
  const next = put(items[step], rest, value);
  if (next === undefined) return { kind: "array", items: items.filter((_, index) => index !== step) };
  return { kind: "array", items: step >= items.length ? [...items, next] : items.map((item, index) => (index === step ? next : item)) };
}

/** Puts the item of one number at another. */
export function moveItem(node: JsonNode, from: number, to: number): JsonNode {
  if (node.kind !== "array" || from < 0 || to < 0 || from >= node.items.length || to >= node.items.length) return node;
  const items = [...node.items];
  items.splice(to, 0, ...items.splice(from, 1));
  return { kind: "array", items };
}

/** Gives a member another name, at the same place. A name that is taken changes nothing. */
export function renameMember(node: JsonNode, from: string, to: string): JsonNode {
  if (node.kind !== "object" || from === to || memberOf(node, to) !== undefined) return node;
  return { kind: "object", entries: node.entries.map(([key, value]) => [key === from ? to : key, value]) };
}

/** Names that occur twice in one object somewhere: a form shows the last only. */
export function repeatedMembers(node: JsonNode, found: string[] = []): string[] {
  if (found.length >= 5) return found;
  if (node.kind === "array") node.items.forEach((item) => repeatedMembers(item, found));
  if (node.kind !== "object") return found;
  const seen = new Set<string>();
  for (const [key, value] of node.entries) {
    if (seen.has(key)) found.push(key);
    seen.add(key);
    repeatedMembers(value, found);
  }
  return found;
}

/** Places of numbers that are not written to their end, such as `1e`. */
export function unfinishedNumbers(node: JsonNode, isNumber: (text: string) => boolean, path: Path = []): { path: Path; text: string }[] {
  if (node.kind === "number") return isNumber(node.text) ? [] : [{ path, text: node.text }];
  if (node.kind === "array") return node.items.flatMap((item, index) => unfinishedNumbers(item, isNumber, [...path, index]));
  if (node.kind === "object") return node.entries.flatMap(([key, value]) => unfinishedNumbers(value, isNumber, [...path, key]));
  return [];
}
