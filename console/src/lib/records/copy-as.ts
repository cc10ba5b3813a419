// A recorded request as text that makes it again: curl, an MCP message, JSON.
//
// Arguments are taken as they were written (`raw.ts`), so digits and spelling are those of the record.

import { EMPTY_OBJECT_DIGEST, isRedacted, leftOut } from "./explain";
import { rawMember } from "./raw";
import type { AuditRecord } from "./record";

export interface CopyContext {
  /** Of the gateway, as the page knows it. */
  origin: string;
  /** Where the surfaces are. */
  paths: { rest: string; rpc: string };
  /** Calls need a credential. */
  guarded: boolean;
  /** The name of the operation on the surface for everybody, where the record has that of one backend's own endpoint. */
  operation?: string;
}

/** `note`: what to do before it is used. `why`: there is nothing to copy. */
export type Copied = { text: string; note?: string } | { why: string };

/** The arguments as JSON text, or why there are none. */
export function recordedArguments(record: AuditRecord, raw: string | undefined): Copied {
  const args = record.args;
  if (args === null || args === undefined) {
    if (record.args_digest === EMPTY_OBJECT_DIGEST) return { text: "{}" };
    // A request without arguments has no digest either, and is the same as one with none in it.
    if (typeof record.args_digest !== "string") return { why: "Nothing of its arguments is on record." };
    return { why: "Only the digest of its arguments is on record." };
  }
  if (leftOut(args) !== undefined || typeof args !== "object") return { why: "Its arguments are not on record." };
  const text = (raw === undefined ? undefined : rawMember(raw, "args")) ?? JSON.stringify(args);
  return isRedacted(args) ? { text, note: "Each [redacted] stands for a secret: put it in before you use this." } : { text };
}

/** In single quotes for a POSIX shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A name as one segment of a path. */
function segment(name: string): string {
  return encodeURIComponent(name).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** JSON whose strings have control and direction characters as escapes: what is pasted into a terminal is what is seen. */
function escaped(json: string): string {
  return json.replace(/[\u007F-\u009F\u061C\u200E\u200F\u2028\u2029\u202A-\u202E\u2066-\u2069]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

const NOT_A_CALL: Copied = { why: "Only calls of tools, prompts and resources can be made again." };
const NAMELESS: Copied = { why: "The record has no operation." };

/** A request that makes the recorded one again. With `guarded` the key is a variable of the shell, `SENTINEL_KEY`. */
export function asCurl(record: AuditRecord, raw: string | undefined, context: CopyContext): Copied {
  const { origin, paths, guarded } = context;
  const name = context.operation ?? record.operation;
  const key = guarded ? [`-H "Authorization: Bearer $SENTINEL_KEY"`] : [];
  const joined = (parts: string[]) => parts.join(" \\\n  ");
  if (name === "") return NAMELESS;
  if (record.method === "resources/read") {
    return { text: joined([`curl -sS ${quoted(`${origin}${paths.rest}/resources/${segment(name)}`)}`, ...key]) };
  }
  if (record.method !== "tools/call" && record.method !== "prompts/get") return NOT_A_CALL;
  const args = recordedArguments(record, raw);
  if ("why" in args) return args;
  const isRpc = record.surface === "rpc";
  const path = isRpc ? paths.rpc : `${paths.rest}/${record.method === "prompts/get" ? "prompts/" : ""}${segment(name)}`;
  const body = isRpc ? `{"jsonrpc":"2.0","id":1,"method":${JSON.stringify(name)},"params":${args.text}}` : args.text;
  const text = joined([`curl -sS ${quoted(origin + path)}`, ...key, "-H 'Content-Type: application/json'", `--data-raw ${quoted(escaped(body))}`]);
  return { ...args, text };
}

/** The message of MCP that makes the call, as a client of any revision sends it after its handshake. */
export function asMcp(record: AuditRecord, raw: string | undefined): Copied {
  const operation = JSON.stringify(record.operation);
  if (record.operation === "") return NAMELESS;
  if (record.method === "resources/read") return { text: message("resources/read", `{"uri":${operation}}`) };
  if (record.method !== "tools/call" && record.method !== "prompts/get") return NOT_A_CALL;
  const args = recordedArguments(record, raw);
  if ("why" in args) return args;
  return { ...args, text: message(record.method, `{"name":${operation},"arguments":${args.text}}`) };
}

function message(method: string, params: string): string {
  return `{"jsonrpc":"2.0","id":1,"method":${JSON.stringify(method)},"params":${params}}`;
}

/** The whole record, as it arrived. */
export function asJson(record: AuditRecord, raw: string | undefined): string {
  return raw ?? JSON.stringify(record, undefined, 2);
}
