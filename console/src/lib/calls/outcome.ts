// How a call ended, in the same words whichever way it was made.

import { Problem } from "../../api/problem";
import type { JsonNode } from "../../ui/json-parse";
import { memberOf } from "../json/edit";
import { isMembers, member, nodeOf, textMember, valueOf } from "../json/value";
import { McpError, Refused } from "../mcp/types";

/** Why the gateway turned a call away, or why it could not be made. */
export interface Refusal {
  code: string;
  title: string;
  detail: string;
  hint: string;
  isRetryable: boolean;
  retryAfterMs: number | undefined;
  issues: readonly { pointer: string; message: string }[];
  /** Of HTTP or JSON-RPC, where there is one. */
  number: number | undefined;
  instance: string | undefined;
  /** As it arrived. */
  raw: JsonNode;
}

export interface Result {
  kind: "result";
  /** The operation ran, and says that it failed. */
  isError: boolean;
  /** Content blocks of a tool, contents of a resource, or messages of a prompt. */
  view: "content" | "contents" | "messages";
  items: readonly JsonNode[];
  structured: JsonNode | undefined;
  meta: JsonNode | undefined;
  /** What a prompt says of itself. */
  description: string | undefined;
  /** Arguments for the next page. */
  next: JsonNode | undefined;
  /** Rows that were left out of `structured`: more came than are kept. */
  rowsLeftOut: number;
  raw: JsonNode;
}

export type Outcome = Result | { kind: "refused"; refusal: Refusal } | { kind: "cancelled" } | { kind: "stopped"; why: string };

/** Of codes that reach callers of MCP without a title. */
const TITLES: Readonly<Record<string, string>> = {
  parse_error: "Malformed JSON", invalid_request: "Invalid request", method_not_found: "Unknown method", unknown_name: "Unknown operation",
  unknown_resource: "Unknown resource", invalid_arguments: "Invalid arguments", unauthorized: "Not signed in", forbidden: "Not allowed",
  rate_limited: "Too many calls", disabled: "Switched off", circuit_open: "The backend keeps failing", overloaded: "Too much at once",
  backend_unavailable: "The backend is away", backend_bad_reply: "The backend answered badly", backend_timeout: "The backend took too long",
  tool_error: "The tool reports an error", input_required: "More input is needed", confirmation_required: "A confirmation is needed",
  confirmation_invalid: "The confirmation does not hold", internal: "The gateway failed", backend_error: "The backend reports an error",
  going_down: "The gateway shuts down",
};

function titleOf(code: string): string {
  return TITLES[code] ?? "The call was refused";
}

export const PROBLEM_META = "sentinel-gateway/problem";
export const CONFIRMATION_META = "sentinel-gateway/confirmation";

/** The result of `tools/call`, `resources/read` or `prompts/get`. */
export function resultOf(raw: JsonNode): Outcome {
  const content = memberOf(raw, "content");
  const contents = memberOf(raw, "contents");
  const messages = memberOf(raw, "messages");
  const meta = memberOf(raw, "_meta");
  const failed = memberOf(raw, "isError");
  const isError = failed?.kind === "word" && failed.text === "true";
  const written = memberOf(meta, PROBLEM_META);
  // The gateway wrote this one: the tool never ran.
  if (isError && written !== undefined) {
    const document = valueOf(written);
    const code = textMember(document, "code") ?? "refused";
    return { kind: "refused", refusal: refusalOf(document, { code, title: titleOf(code), detail: textOf(content) }, undefined, raw) };
  }
  const description = memberOf(raw, "description");
  const items = contents ?? messages ?? content;
  return {
    kind: "result",
    isError,
    view: contents !== undefined ? "contents" : messages !== undefined ? "messages" : "content",
    items: items?.kind === "array" ? items.items : [],
    structured: memberOf(raw, "structuredContent"),
    meta,
    description: description?.kind === "string" ? description.value : undefined,
    next: undefined,
    rowsLeftOut: 0,
    raw,
  };
}

/** The body of REST or the result of JSON-RPC: structured content where there is some, otherwise `{"content": [...]}`. */
export function plainResultOf(body: JsonNode): Outcome {
  if (body.kind === "object") {
    const keys = body.entries.map(([key]) => key);
    const content = memberOf(body, "content");
    const isContent = content?.kind === "array" && content.items.every((item) => memberOf(item, "type")?.kind === "string");
    if ((isContent && keys.length === 1) || memberOf(body, "contents")?.kind === "array" || memberOf(body, "messages")?.kind === "array") return resultOf(body);
  }
  return {
    kind: "result", isError: false, view: "content", items: [], structured: body, meta: undefined, description: undefined, next: undefined, rowsLeftOut: 0, raw: body,
  };
}

function textOf(content: JsonNode | undefined): string {
  const items = content?.kind === "array" ? content.items : [];
  const texts = items.map((item) => memberOf(item, "text")).filter((text) => text?.kind === "string");
  return texts.map((text) => (text as { value: string }).value).join("\n");
}

function refusalOf(document: unknown, words: { code: string; title: string; detail: string }, number: number | undefined, raw: JsonNode): Refusal {
  const issues = member(document, "issues");
  const after = member(document, "retry_after_ms");
  return {
    code: words.code,
    title: words.title,
    detail: words.detail,
    hint: textMember(document, "hint") ?? "",
    isRetryable: member(document, "retryable") === true,
    retryAfterMs: typeof after === "number" ? after : undefined,
    issues: (Array.isArray(issues) ? issues : []).filter(isMembers).map((issue) => ({
      pointer: textMember(issue, "pointer") ?? "",
      message: textMember(issue, "message") ?? "",
    })),
    number,
    instance: textMember(document, "instance"),
    raw,
  };
}

/** A problem document, as REST answers it, or inside of a stream or of an error of JSON-RPC. */
export function problemOutcome(raw: JsonNode, status?: number): Outcome {
  const document = valueOf(raw);
  const code = textMember(document, "code") ?? (status === undefined ? "refused" : `http_${status}`);
  if (code === "tool_error" && isMembers(document)) {
    const content = memberOf(raw, "content");
    const items = content?.kind === "array" ? content.items : [nodeOf({ type: "text", text: textMember(document, "detail") ?? "" })];
    const structured = memberOf(raw, "structuredContent");
    return { kind: "result", isError: true, view: "content", items, structured, meta: undefined, description: undefined, next: undefined, rowsLeftOut: 0, raw };
  }
  const known = member(document, "status");
  const number = status ?? (typeof known === "number" ? known : undefined);
  const words = { code, title: textMember(document, "title") ?? titleOf(code), detail: textMember(document, "detail") ?? "" };
  return { kind: "refused", refusal: refusalOf(document, words, number, raw) };
}

/** Whatever was thrown while a call was made. */
export function failureOf(error: unknown): Outcome {
  if (error instanceof DOMException && error.name === "AbortError") return { kind: "cancelled" };
  if (error instanceof Refused) return { kind: "stopped", why: error.message };
  if (error instanceof McpError) {
    const raw = nodeOf({ code: error.code, message: error.message, ...(error.data !== undefined && { data: error.data }) });
    const code = textMember(error.data, "code");
    const words = { code: code ?? "json_rpc_error", title: code === undefined ? "The backend reports an error" : titleOf(code), detail: error.message };
    return { kind: "refused", refusal: refusalOf(error.data, words, error.code, raw) };
  }
  if (error instanceof Problem) {
    const raw = nodeOf(error.document);
    if (error.code === "tool_error") return problemOutcome(raw, error.status);
    const words = { code: error.code, title: error.title, detail: error.detail };
    return { kind: "refused", refusal: refusalOf(error.document, words, error.status || undefined, raw) };
  }
  const detail = error instanceof Error ? error.message : String(error);
  return { kind: "refused", refusal: refusalOf({}, { code: "unreadable", title: "The call failed in this page", detail }, undefined, nodeOf({ message: detail })) };
}
