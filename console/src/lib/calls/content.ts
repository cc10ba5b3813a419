// What a result contains: content blocks of MCP, and lists that can be a table.

import type { JsonNode } from "../../ui/json-parse";
import { memberOf } from "../json/edit";
import { compact } from "../json/value";

export type Block =
  | { type: "text"; text: string; mimeType: string | undefined }
  | { type: "image" | "audio"; data: string; mimeType: string }
  | { type: "link"; uri: string; name: string; title: string | undefined; description: string | undefined; mimeType: string | undefined; size: number | undefined }
  | { type: "resource"; uri: string; mimeType: string | undefined; text: string | undefined; blob: string | undefined }
  | { type: "other"; node: JsonNode };

function text(node: JsonNode | undefined, key: string): string | undefined {
  const found = memberOf(node, key);
  return found?.kind === "string" ? found.value : undefined;
}

function number(node: JsonNode, key: string): number | undefined {
  const found = memberOf(node, key);
  return found?.kind === "number" ? Number(found.text) : undefined;
}

/** One block of `content`. What is not as MCP says is shown as JSON. */
export function blockOf(node: JsonNode): Block {
  const mimeType = text(node, "mimeType");
  switch (text(node, "type")) {
    case "text": {
      const value = text(node, "text");
      return value === undefined ? { type: "other", node } : { type: "text", text: value, mimeType };
    }
    case "image":
    case "audio": {
      const data = text(node, "data");
      return data === undefined ? { type: "other", node } : { type: text(node, "type") as "image", data, mimeType: mimeType ?? "" };
    }
    case "resource_link": {
      const uri = text(node, "uri");
      if (uri === undefined) return { type: "other", node };
      return { type: "link", uri, name: text(node, "name") ?? uri, title: text(node, "title"), description: text(node, "description"), mimeType, size: number(node, "size") };
    }
    case "resource": {
      const resource = memberOf(node, "resource");
      return resource === undefined ? { type: "other", node } : contentsOf(resource);
    }
    default:
      return { type: "other", node };
  }
}

/** One of the `contents` of a resource. */
export function contentsOf(node: JsonNode): Block {
  const uri = text(node, "uri");
  const [asText, blob] = [text(node, "text"), text(node, "blob")];
  if (asText === undefined && blob === undefined) return { type: "other", node };
  return { type: "resource", uri: uri ?? "", mimeType: text(node, "mimeType"), text: asText, blob };
}

/** Types that an `<img>` shows. SVG runs nothing there, and loads nothing. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "image/svg+xml", "image/x-icon", "image/vnd.microsoft.icon"]);
const SOUND = /^(audio|video)\/[a-z0-9.+-]+$/;

export function mediaOf(mimeType: string | undefined): "image" | "audio" | undefined {
  const plain = (mimeType ?? "").toLowerCase().split(";")[0]?.trim() ?? "";
  if (IMAGES.has(plain)) return "image";
  return SOUND.test(plain) && plain.startsWith("audio/") ? "audio" : undefined;
}

export function isJsonType(mimeType: string | undefined): boolean {
  return /[/+]json\b/.test((mimeType ?? "").toLowerCase());
}

/** The bytes of base64; `undefined`: it is none. */
export function bytesOf(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const binary = atob(base64.replace(/-/g, "+").replace(/_/g, "/"));
    const bytes = new Uint8Array(binary.length);
    for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
    return bytes;
  } catch {
    return undefined;
  }
}

export interface FlatTable {
  /** Where in the value the list is; empty: it is the value. */
  name: string;
  columns: string[];
  rows: JsonNode[];
  /** Columns that are not shown. */
  columnsLeftOut: number;
}

const COLUMNS_MAX = 30;
/** Rows that are looked at to find the columns. */
const SAMPLE = 200;

function isScalar(node: JsonNode): boolean {
  return node.kind !== "object" && node.kind !== "array";
}

/** Objects whose members are scalars, but for a few that are small. */
function isFlat(node: JsonNode): boolean {
  if (node.kind !== "object" || node.entries.length === 0) return false;
  const nested = node.entries.filter(([, value]) => !isScalar(value));
  return nested.length <= node.entries.length / 3 && nested.every(([, value]) => compact(value).length <= 200);
}

function tableIn(node: JsonNode, name: string): FlatTable | undefined {
  if (node.kind !== "array" || node.items.length === 0) return undefined;
  const sample = node.items.slice(0, SAMPLE);
  if (!sample.every(isFlat)) return undefined;
  const columns = new Set<string>();
  for (const row of sample) if (row.kind === "object") for (const [key] of row.entries) columns.add(key);
  const all = [...columns];
  return { name, columns: all.slice(0, COLUMNS_MAX), rows: node.items, columnsLeftOut: Math.max(0, all.length - COLUMNS_MAX) };
}

/** The list of flat objects that a value is, or that is the largest of its members. */
export function tableOf(node: JsonNode): FlatTable | undefined {
  const whole = tableIn(node, "");
  if (whole !== undefined || node.kind !== "object") return whole;
  const found = node.entries.map(([key, value]) => tableIn(value, key)).filter((table) => table !== undefined);
  return found.sort((a, b) => b.rows.length - a.rows.length)[0];
}

/** A cell of a table. */
export function cellText(row: JsonNode, column: string): string {
  const value = memberOf(row, column);
  if (value === undefined) return "";
  return value.kind === "string" ? value.value : compact(value);
}
