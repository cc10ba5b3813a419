// Answers to what servers ask of whoever calls them, in the form that MCP gives them.

import type { JsonNode } from "../../ui/json-parse";
import { isMembers, member, nodeOf, textMember } from "../json/value";
import type { Members, Value } from "../json/value";
import { object } from "../mcp/exchange";
import type { Question, Reply } from "../mcp/types";

export type Asked =
  | { kind: "form"; message: string; schema: Value }
  | { kind: "url"; message: string; url: string }
  | { kind: "sampling"; messages: SamplingMessage[]; system: string | undefined; maxTokens: string | undefined; models: string[]; params: Members }
  | { kind: "roots" }
  /** What this page cannot answer. */
  | { kind: "unknown"; method: string };

export interface SamplingMessage {
  role: string;
  content: readonly Value[];
}

/** Messages of one question that are shown. */
const MESSAGES_MAX = 50;

export function askedOf({ method, params }: Question): Asked {
  const message = textMember(params, "message") ?? "";
  if (method === "roots/list") return { kind: "roots" };
  if (method === "elicitation/create") {
    const url = textMember(params, "url");
    if (textMember(params, "mode") === "url" || (url !== undefined && member(params, "requestedSchema") === undefined)) return { kind: "url", message, url: url ?? "" };
    return { kind: "form", message, schema: member(params, "requestedSchema") ?? { type: "object", properties: {} } };
  }
  if (method === "sampling/createMessage") {
    const messages = member(params, "messages");
    const hints = member(member(params, "modelPreferences"), "hints");
    const most = member(params, "maxTokens");
    return {
      kind: "sampling",
      messages: (Array.isArray(messages) ? messages : []).slice(0, MESSAGES_MAX).filter(isMembers).map((each) => {
        const content = member(each, "content");
        return { role: textMember(each, "role") ?? "user", content: Array.isArray(content) ? content : content === undefined ? [] : [content] };
      }),
      system: textMember(params, "systemPrompt"),
      maxTokens: most === undefined ? undefined : String(most),
      models: (Array.isArray(hints) ? hints : []).map((hint) => textMember(hint, "name")).filter((name) => name !== undefined),
      params,
    };
  }
  return { kind: "unknown", method };
}

/** The server behind a question, where the gateway says so. */
export function askerOf({ params }: Question): string | undefined {
  return textMember(member(params, "_meta"), "sentinel-gateway/backend");
}

export function accepted(content: JsonNode | undefined): Reply {
  return { result: object([["action", nodeOf("accept")], ...(content === undefined ? [] : [["content", content] as const])]) };
}

export function declined(action: "decline" | "cancel"): Reply {
  return { result: nodeOf({ action }) };
}

export function sampled(text: string): Reply {
  return { result: nodeOf({ role: "assistant", content: { type: "text", text }, model: "a person at the console", stopReason: "endTurn" }) };
}

export function rooted(uris: readonly string[]): Reply {
  return { result: nodeOf({ roots: uris.map((uri) => ({ uri })) }) };
}

/** An address that may be opened from here. */
export function isWebAddress(url: string): boolean {
  try {
    return ["http:", "https:"].includes(new URL(url).protocol);
  } catch {
    return false;
  }
}
