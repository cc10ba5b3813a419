// What both eras of MCP have in common: messages, what a call says while it runs, and what it asks.

import type { JsonNode } from "../../ui/json-parse";
import type { Members } from "../json/value";

/** Answers with any status; the page's `send`, or node's `fetch` in tests. */
export type Send = (url: string, init: RequestInit) => Promise<Response>;

export type Entries = readonly (readonly [string, JsonNode])[];

/** A message on the wire, for whoever wants to see it. */
export interface WireEntry {
  atMs: number;
  direction: "sent" | "received";
  /** `POST /mcp`, `200 application/json`, `message`, `end of the stream`. */
  what: string;
  headers: readonly (readonly [string, string])[];
  /** Cut where it is long; `size` is that of all of it. */
  text: string;
  size: number;
}

export interface ProgressNote {
  progress: number;
  total: number | undefined;
  message: string | undefined;
}

export interface LogLine {
  level: string;
  logger: string | undefined;
  data: JsonNode;
}

/** Something that a server wants of whoever calls it. */
export interface Question {
  key: string;
  /** `elicitation/create`, `sampling/createMessage` or `roots/list`. */
  method: string;
  params: Members;
}

/** `result` is what MCP wants as the answer to the question. Without one it is refused. */
export type Reply = { result: JsonNode; refusal?: never } | { result?: never; refusal: string };

export interface TaskState {
  id: string;
  status: string;
  message: string | undefined;
}

/** What happens while a call runs. */
export interface CallListener {
  onWire: (entry: WireEntry) => void;
  onProgress: (note: ProgressNote) => void;
  onLog: (line: LogLine) => void;
  onTask: (task: TaskState) => void;
  /** The id of each request that is made. */
  onRequest: (id: string) => void;
  /** Resolves with a reply to each, by its key. */
  ask: (questions: readonly Question[], signal: AbortSignal) => Promise<ReadonlyMap<string, Reply>>;
}

export const SILENT: CallListener = {
  onWire: () => undefined,
  onProgress: () => undefined,
  onLog: () => undefined,
  onTask: () => undefined,
  onRequest: () => undefined,
  ask: () => Promise.resolve(new Map()),
};

/** An error of JSON-RPC, as it came. */
export class McpError extends Error {
  override readonly name = "McpError";
  constructor(
    readonly code: number,
    message: string,
    readonly data: Members | undefined,
    readonly status: number,
  ) {
    super(message);
  }
}

/** The call was given up here: what was asked was refused, and there is no way to say so. */
export class Refused extends Error {
  override readonly name = "Refused";
}

/** The server no longer knows the session. */
export class SessionLost extends Error {
  override readonly name = "SessionLost";
}

export const CLIENT_INFO = { name: "sentinel-console", title: "Sentinel Console", version: "1" };
export const TASKS = "io.modelcontextprotocol/tasks";
/** Rounds of questions that one call may have; other clients have the same limit. */
export const ROUNDS_MAX = 10;
