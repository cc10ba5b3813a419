// One POST of JSON-RPC and the messages that come back, as JSON or as an event stream.

import { EventParser } from "../../api/event-parser";
import { Problem, problemOf } from "../../api/problem";
import type { JsonNode } from "../../ui/json-parse";
import { parseJson } from "../../ui/json-parse";
import { cut } from "../../ui/visible";
import { memberOf } from "../json/edit";
import { isMembers, nodeOf, valueOf } from "../json/value";
import type { Members, Value } from "../json/value";
import { McpError } from "./types";
import type { CallListener, Entries, LogLine, ProgressNote, Question, Reply, Send, WireEntry } from "./types";

/** An answer that is larger is not read: the page would stand still. */
const ANSWER_CHARS_MAX = 64 << 20;
/** Of a message that is kept to be looked at. */
const WIRE_CHARS_MAX = 64 << 10;

export interface Message {
  node: JsonNode;
  id: string | number | undefined;
  method: string | undefined;
  params: JsonNode | undefined;
}

export interface Post {
  url: string;
  send: Send;
  headers: readonly (readonly [string, string])[];
  text: string;
  signal: AbortSignal;
  onWire: (entry: WireEntry) => void;
  /** Outlives the page. Browsers take up to 64 KiB of such. */
  keepalive?: boolean;
}

export function object(entries: Entries): JsonNode {
  return { kind: "object", entries: entries.map(([key, value]) => [key, value]) };
}

export function wire(direction: WireEntry["direction"], what: string, text: string, headers: WireEntry["headers"] = []): WireEntry {
  return { atMs: Date.now(), direction, what, headers, text: cut(text, WIRE_CHARS_MAX), size: text.length };
}

/** What of an answer's headers says something about it. */
const SHOWN = /^(content-type|content-length|mcp-|retry-after|ratelimit|server-timing|idempotency|location|www-authenticate|next-arguments|etag)/;

export function received(response: Response): WireEntry {
  const headers = [...response.headers].filter(([name]) => SHOWN.test(name));
  return wire("received", `${response.status} ${response.statusText}`.trim(), "", headers);
}

export async function post({ url, send, headers, text, signal, onWire, keepalive = false }: Post): Promise<Response> {
  onWire(wire("sent", `POST ${url}`, text, headers));
  const sent = headers.map(([name, value]): [string, string] => [name, value]);
  const response = await send(url, { method: "POST", headers: sent, body: text, signal, cache: "no-store", ...(keepalive && { keepalive }) });
  onWire(received(response));
  return response;
}

/** The chunks of a body as text, up to a bound. */
export async function* chunks(response: Response): AsyncGenerator<string> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const text = decoder.decode(value, { stream: true });
      size += text.length;
      if (size > ANSWER_CHARS_MAX) throw Problem.local("unreadable", "The answer is too large for this page", "", "Call it from a program: see “Copy as”.");
      yield text;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

export async function wholeText(response: Response): Promise<string> {
  const parts: string[] = [];
  for await (const chunk of chunks(response)) parts.push(chunk);
  return parts.join("");
}

export function isStream(response: Response): boolean {
  return (response.headers.get("content-type") ?? "").startsWith("text/event-stream");
}

export interface StreamPlace {
  /** The last event that had an id. */
  lastId: string | undefined;
  retryMs: number | undefined;
}

/** The messages of a body, in order; `place` is kept up to date, so that a stream can be taken up again. */
export async function* messages(response: Response, onWire: (entry: WireEntry) => void, place?: StreamPlace): AsyncGenerator<Message> {
  if (!isStream(response)) {
    const text = await wholeText(response);
    onWire(wire("received", "message", text));
    yield* read(text);
    return;
  }
  const parser = new EventParser();
  for await (const chunk of chunks(response)) {
    for (const { data } of parser.push(chunk)) {
      if (place !== undefined) {
        place.lastId = parser.lastId ?? place.lastId;
        place.retryMs = parser.retryMs ?? place.retryMs;
      }
      if (data === "") continue;
      onWire(wire("received", "message", data));
      yield* read(data);
    }
  }
  onWire(wire("received", "end of the stream", ""));
}

function* read(text: string): Generator<Message> {
  const node = parseJson(text);
  if (node === undefined) throw unreadable("The answer is no JSON.");
  // Only 2025-03-26 has several messages in one.
  for (const each of node.kind === "array" ? node.items : [node]) yield messageOf(each);
}

export function unreadable(detail: string): Problem {
  return Problem.local("unreadable", "The answer cannot be read", detail, "See the messages below.");
}

function messageOf(node: JsonNode): Message {
  const id = memberOf(node, "id");
  const method = memberOf(node, "method");
  return {
    node,
    id: id?.kind === "string" ? id.value : id?.kind === "number" ? Number(id.text) : undefined,
    method: method?.kind === "string" ? method.value : undefined,
    params: memberOf(node, "params"),
  };
}

/** The result of a response; throws its error. */
export function resultOf(message: Message, status: number): JsonNode {
  const result = memberOf(message.node, "result");
  if (result !== undefined) return result;
  const error = memberOf(message.node, "error");
  if (error === undefined) throw unreadable("It has neither a result nor an error.");
  throw errorOf(valueOf(error), status);
}

export function errorOf(error: Value, status: number): McpError {
  const members: Members = isMembers(error) ? error : {};
  const { code, message, data } = members;
  return new McpError(typeof code === "number" ? code : 0, typeof message === "string" ? message : "", isMembers(data) ? data : undefined, status);
}

/** Throws what an answer without success says: an error of JSON-RPC, or a problem document. */
export async function throwFailure(response: Response, onWire: (entry: WireEntry) => void): Promise<never> {
  const text = await wholeText(response);
  onWire(wire("received", "message", text));
  const node = parseJson(text);
  const error = node === undefined ? undefined : memberOf(node, "error");
  if (error?.kind === "object") throw errorOf(valueOf(error), response.status);
  throw await problemOf(new Response(text, { status: response.status, statusText: response.statusText, headers: response.headers }));
}

export function progressOf(params: JsonNode | undefined): ProgressNote {
  const value = params === undefined ? {} : valueOf(params);
  const { progress, total, message } = isMembers(value) ? value : {};
  return {
    progress: typeof progress === "number" ? progress : 0,
    total: typeof total === "number" ? total : undefined,
    message: typeof message === "string" ? message : undefined,
  };
}

export function logOf(params: JsonNode | undefined): LogLine {
  const level = memberOf(params, "level");
  const logger = memberOf(params, "logger");
  return {
    level: level?.kind === "string" ? level.value : "info",
    logger: logger?.kind === "string" ? logger.value : undefined,
    data: memberOf(params, "data") ?? nodeOf(null),
  };
}

export function questionOf(key: string, node: JsonNode): Question {
  const value = valueOf(node);
  const { method, params } = isMembers(value) ? value : {};
  return { key, method: typeof method === "string" ? method : "", params: isMembers(params) ? params : {} };
}

/** How long the answers may take that end a call which was given up. */
const GIVE_UP_MS = 10_000;

export function giveUpSignal(): AbortSignal {
  return AbortSignal.timeout(GIVE_UP_MS);
}

/** Answers that say to nobody's question yes: a call whose questions nobody answers holds a place at its backend until they
 *  expire. `undefined`: one of them has no such answer. */
function dismissals(questions: readonly Question[]): JsonNode | undefined {
  const entries: [string, JsonNode][] = [];
  for (const { key, method } of questions) {
    if (method === "elicitation/create") entries.push([key, nodeOf({ action: "cancel" })]);
    else if (method === "roots/list") entries.push([key, nodeOf({ roots: [] })]);
    else return undefined;
  }
  return object(entries);
}

/** The replies to questions; if the call is given up while they are open, `giveUp` is told what to answer instead. */
export async function askOrGiveUp(questions: readonly Question[], listener: CallListener, signal: AbortSignal, giveUp?: (responses: JsonNode) => void): Promise<ReadonlyMap<string, Reply>> {
  try {
    return await listener.ask(questions, signal);
  } catch (error) {
    const responses = signal.aborted ? dismissals(questions) : undefined;
    if (responses !== undefined) giveUp?.(responses);
    throw error;
  }
}

/** Waits, unless the signal says otherwise. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = () => {
      clearTimeout(timer);
      reject(new DOMException("The call was cancelled", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", fail);
      resolve();
    }, ms);
    if (signal.aborted) fail();
    else signal.addEventListener("abort", fail, { once: true });
  });
}

let count = 0;
const run = Math.random().toString(36).slice(2, 8);

/** Found again in the gateway's records. */
export function nextId(): string {
  count += 1;
  return `console-${run}-${count}`;
}
