// Makes a call in one of the four ways, and says in one form how it ended.
//
// What a call asks on its way, questions and confirmations, goes to its listener; the page shows them.

import { EventParser } from "../../api/event-parser";
import type { JsonNode } from "../../ui/json-parse";
import { parseJson } from "../../ui/json-parse";
import { memberOf } from "../json/edit";
import { compact, member, nodeOf, textMember, valueOf } from "../json/value";
import type { Value } from "../json/value";
import { askOrGiveUp, chunks, giveUpSignal, isStream, nextId, object, post, questionOf, received, unreadable, wholeText, wire } from "../mcp/exchange";
import { parameterHeaders } from "../mcp/headers";
import type { LegacySession } from "../mcp/legacy";
import { ModernClient } from "../mcp/modern";
import { ROUNDS_MAX, Refused, SessionLost } from "../mcp/types";
import type { CallListener, Entries, Send } from "../mcp/types";
import { CONFIRMATION_META, failureOf, plainResultOf, problemOutcome, resultOf } from "./outcome";
import type { Outcome } from "./outcome";

export type Way = "modern" | "legacy" | "rest" | "rpc";

export const WAYS: readonly { way: Way; label: string }[] = [
  { way: "modern", label: "MCP 2026-07-28" },
  { way: "legacy", label: "MCP 2025-11-25" },
  { way: "rest", label: "REST" },
  { way: "rpc", label: "JSON-RPC" },
];

export type Target =
  | { kind: "tools"; name: string; schema: Value | undefined }
  | { kind: "prompts"; name: string }
  /** Also one that a template was filled to. */
  | { kind: "resources"; name: string };

/** Where the surfaces are; `null`: it is not served. */
export interface Paths {
  readonly mcp: string | null;
  readonly rest: string | null;
  readonly rpc: string | null;
}

export interface RunListener extends CallListener {
  /** Whether the call is meant; `words` is what the gateway says of it. */
  confirm: (words: string, signal: AbortSignal) => Promise<boolean>;
}

export interface Run {
  target: Target;
  input: JsonNode;
  way: Way;
  paths: Paths;
  send: Send;
  /** A session that is open, or opened now; `again`: the one before was lost. */
  session: (listener: CallListener, signal: AbortSignal, again: boolean) => Promise<LegacySession>;
  listener: RunListener;
  signal: AbortSignal;
}

/** Rows of a stream that are kept; a page shows no more. */
const ROWS_MAX = 2_000;

export async function runCall(run: Run): Promise<Outcome> {
  try {
    switch (run.way) {
      case "modern":
        return await confirmed(run, (token) => modern(run, token));
      case "legacy":
        return await confirmed(run, (token) => legacy(run, token));
      case "rest":
        return await confirmed(run, (token) => rest(run, token));
      case "rpc":
        return await confirmed(run, (token) => rpc(run, token));
    }
  } catch (error) {
    // Whatever broke when the call was given up.
    return run.signal.aborted ? { kind: "cancelled" } : failureOf(error);
  }
}

/** Repeats a call that has to be confirmed, once it is. */
async function confirmed(run: Run, attempt: (token: string | undefined) => Promise<Outcome>): Promise<Outcome> {
  const outcome = await attempt(undefined);
  const token = confirmationOf(outcome);
  if (token === undefined) return outcome;
  const words = outcome.kind === "refused" ? outcome.refusal.detail : "This operation has to be confirmed.";
  if (!(await run.listener.confirm(words, run.signal))) return { kind: "stopped", why: "The call was not confirmed." };
  return attempt(token);
}

function confirmationOf(outcome: Outcome): string | undefined {
  if (outcome.kind === "refused" && outcome.refusal.code === "confirmation_required") {
    const { raw } = outcome.refusal;
    return textAt(raw, "confirmationToken") ?? textAt(memberOf(raw, "data"), "confirmationToken") ?? textAt(memberOf(raw, "_meta"), CONFIRMATION_META);
  }
  return outcome.kind === "result" && outcome.isError ? textAt(outcome.meta, CONFIRMATION_META) : undefined;
}

function textAt(node: JsonNode | undefined, key: string): string | undefined {
  const found = memberOf(node, key);
  return found?.kind === "string" ? found.value : undefined;
}

const METHODS = { tools: "tools/call", prompts: "prompts/get", resources: "resources/read" } as const;

export function mcpMethod(target: Target): string {
  return METHODS[target.kind];
}

export function mcpParams(target: Target, input: JsonNode): Entries {
  if (target.kind === "resources") return [["uri", nodeOf(target.name)]];
  return [["name", nodeOf(target.name)], ["arguments", input]];
}

function confirmation(token: string | undefined): Entries {
  return token === undefined ? [] : [[CONFIRMATION_META, nodeOf(token)]];
}

async function modern({ target, input, paths, send, listener, signal }: Run, token: string | undefined): Promise<Outcome> {
  const client = new ModernClient(paths.mcp ?? "/mcp", send);
  const headers = target.kind === "tools" ? parameterHeaders(target.schema, input) : [];
  const options = { listener, signal, name: target.name, headers, isVerbose: true, meta: confirmation(token) };
  return resultOf(await client.call(mcpMethod(target), mcpParams(target, input), options));
}

async function legacy({ target, input, session, listener, signal }: Run, token: string | undefined): Promise<Outcome> {
  const options = { listener, signal, isVerbose: true, meta: confirmation(token) };
  const call = async (isAgain: boolean) => {
    const open = await session(listener, signal, isAgain);
    return open.call(mcpMethod(target), mcpParams(target, input), options);
  };
  try {
    return resultOf(await call(false));
  } catch (error) {
    // A request with an unknown session was not looked at; it can be sent again.
    if (error instanceof SessionLost) return resultOf(await call(true));
    throw error;
  }
}

/** What is asked by a problem document, answered; `undefined`: nothing is asked. */
async function answersTo(problem: JsonNode, { listener, signal }: Run, giveUp: (answers: Entries) => Promise<Response>): Promise<Entries | undefined> {
  if (textAt(problem, "code") !== "input_required") return undefined;
  const asked = memberOf(problem, "inputRequests");
  const state = memberOf(problem, "requestState");
  if (asked?.kind !== "object") return undefined;
  const questions = asked.entries.map(([key, node]) => questionOf(key, node));
  const echoed: Entries = state === undefined ? [] : [["requestState", state]];
  const replies = await askOrGiveUp(questions, listener, signal, (responses) => {
    giveUp([...echoed, ["inputResponses", responses]]).then((response) => response.body?.cancel()).catch(() => undefined);
  });
  const responses = questions.map(({ key, method }): [string, JsonNode] => {
    const reply = replies.get(key);
    if (reply?.result === undefined) throw new Refused(`${method}: ${reply?.refusal ?? "not answered"}`);
    return [key, reply.result];
  });
  return [...echoed, ["inputResponses", object(responses)]];
}

function encoded(name: string): string {
  return encodeURIComponent(name).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}

export function restPath(target: Target, rest: string): string {
  const between = target.kind === "prompts" ? "/prompts" : target.kind === "resources" ? "/resources" : "";
  return `${rest}${between}/${encoded(target.name)}`;
}

async function rest(run: Run, token: string | undefined): Promise<Outcome> {
  const { target, input, paths, send, listener, signal } = run;
  const path = restPath(target, paths.rest ?? "/api");
  const proof: [string, string][] = token === undefined ? [] : [["X-Confirmation-Token", token]];
  if (target.kind === "resources") {
    const headers: [string, string][] = [["Accept", "application/json"], ...proof];
    listener.onWire(wire("sent", `GET ${path}`, "", headers));
    const response = await send(path, { headers, signal, cache: "no-store" });
    listener.onWire(received(response));
    const text = await wholeText(response);
    listener.onWire(wire("received", "body", text));
    return bodyOutcome(response, text);
  }
  // A stream says how a call goes on; prompts have none.
  const accept = target.kind === "tools" ? "text/event-stream, application/json;q=0.9" : "application/json";
  let url = path;
  let body = input;
  for (let round = 0; round <= ROUNDS_MAX; round += 1) {
    const headers: [string, string][] = [["Content-Type", "application/json"], ["Accept", accept], ...proof];
    const response = await post({ url, send, headers, text: compact(body), signal, onWire: listener.onWire });
    const outcome = await restOutcome(response, run);
    const problem = outcome.kind === "refused" ? outcome.refusal.raw : undefined;
    const goOn = (answers: Entries) => object([["arguments", input], ...answers]);
    const giveUp = (answers: Entries) => post({ url: `${path}/continue`, send, headers, text: compact(goOn(answers)), signal: giveUpSignal(), onWire: listener.onWire, keepalive: true });
    const answers = problem === undefined ? undefined : await answersTo(problem, run, giveUp);
    if (answers === undefined) return outcome;
    url = `${path}/continue`;
    body = goOn(answers);
  }
  throw unreadable(`It asked more than ${ROUNDS_MAX} times.`);
}

function bodyOutcome(response: Response, text: string): Outcome {
  const node = parseJson(text);
  if (!response.ok) return problemOutcome(node ?? nodeOf({ title: `HTTP ${response.status} ${response.statusText}`.trim(), detail: text.slice(0, 2_000) }), response.status);
  if (node === undefined) return textResult(response, text);
  const outcome = plainResultOf(node);
  const next = response.headers.get("next-arguments");
  return outcome.kind === "result" && next !== null ? { ...outcome, next: parseJson(next) } : outcome;
}

/** A backend that answers a request by itself may answer with anything. */
function textResult(response: Response, text: string): Outcome {
  const item = { type: "text", text, mimeType: response.headers.get("content-type") ?? "" };
  return resultOf(nodeOf({ content: [item] }));
}

async function restOutcome(response: Response, { listener, signal }: Run): Promise<Outcome> {
  if (!isStream(response)) {
    const text = await wholeText(response);
    listener.onWire(wire("received", "body", text));
    return bodyOutcome(response, text);
  }
  const parser = new EventParser();
  const rows: JsonNode[] = [];
  let left = 0;
  for await (const chunk of chunks(response)) {
    for (const { data } of parser.push(chunk)) {
      const record = parseJson(data);
      const type = textAt(record, "type");
      if (type !== "row" || rows.length < 5) listener.onWire(wire("received", type ?? "event", data));
      if (record === undefined) throw unreadable("A record of the stream is no JSON.");
      if (type === "row") {
        const row = memberOf(record, "row");
        if (rows.length < ROWS_MAX && row !== undefined) rows.push(row);
        else left += 1;
      } else if (type === "progress") {
        const value = valueOf(record);
        const number = (key: string) => {
          const found = member(value, key);
          return typeof found === "number" ? found : undefined;
        };
        listener.onProgress({ progress: number("progress") ?? 0, total: number("total"), message: textMember(value, "message") });
      } else if (type === "log") {
        listener.onLog({ level: textAt(record, "level") ?? "info", logger: textAt(record, "logger"), data: memberOf(record, "data") ?? nodeOf(null) });
      } else if (type === "error") {
        return problemOutcome(memberOf(record, "error") ?? nodeOf({}));
      } else if (type === "result") {
        const outcome = plainResultOf(memberOf(record, "result") ?? nodeOf(null));
        if (outcome.kind !== "result") return outcome;
        const next = memberOf(record, "next");
        if (rows.length === 0) return { ...outcome, next };
        return { ...outcome, next, structured: withRows(outcome.structured, rows), rowsLeftOut: left };
      }
    }
  }
  if (signal.aborted) return { kind: "cancelled" };
  throw unreadable("The stream ended without a result.");
}

/** Rows that came one by one, in the place that they have in an answer at once. */
function withRows(structured: JsonNode | undefined, rows: JsonNode[]): JsonNode {
  const all: JsonNode = { kind: "array", items: rows };
  if (structured?.kind !== "object") return all;
  return { kind: "object", entries: structured.entries.map(([key, value]) => (key === "rows" ? [key, all] : [key, value])) };
}

export function rpcRequest(target: Target, input: JsonNode): { method: string; params: JsonNode } {
  if (target.kind === "tools") return { method: target.name, params: input };
  if (target.kind === "prompts") return { method: "rpc.getPrompt", params: object([["name", nodeOf(target.name)], ["arguments", input]]) };
  return { method: "rpc.readResource", params: object([["uri", nodeOf(target.name)]]) };
}

async function rpc(run: Run, token: string | undefined): Promise<Outcome> {
  const { target, input, paths, send, listener, signal } = run;
  const asked = rpcRequest(target, input);
  let { method, params } = asked;
  for (let round = 0; round <= ROUNDS_MAX; round += 1) {
    const id = nextId();
    listener.onRequest(id);
    const request = (called: string, given: JsonNode) => compact(object([["jsonrpc", nodeOf("2.0")], ["id", nodeOf(id)], ["method", nodeOf(called)], ["params", given]]));
    const headers: [string, string][] = [["Content-Type", "application/json"], ...(token === undefined ? [] : [["X-Confirmation-Token", token] as [string, string]])];
    const url = paths.rpc ?? "/rpc";
    const response = await post({ url, send, headers, text: request(method, params), signal, onWire: listener.onWire });
    const body = await wholeText(response);
    listener.onWire(wire("received", "body", body));
    const node = parseJson(body);
    const result = node === undefined ? undefined : memberOf(node, "result");
    if (result !== undefined) return plainResultOf(result);
    const error = node === undefined ? undefined : memberOf(node, "error");
    if (error === undefined) return bodyOutcome(response, body);
    const data = memberOf(error, "data");
    const goOn = (answers: Entries) => object([["method", nodeOf(asked.method)], ["params", asked.params], ...answers]);
    const giveUp = (answers: Entries) => post({ url, send, headers, text: request("rpc.continue", goOn(answers)), signal: giveUpSignal(), onWire: listener.onWire, keepalive: true });
    const answers = data === undefined ? undefined : await answersTo(data, run, giveUp);
    if (answers === undefined) return rpcFailure(error, data);
    method = "rpc.continue";
    params = goOn(answers);
  }
  throw unreadable(`It asked more than ${ROUNDS_MAX} times.`);
}

/** The error of a call: its `data` is the problem, its message what the problem has as `detail`. */
function rpcFailure(error: JsonNode, data: JsonNode | undefined): Outcome {
  const detail = memberOf(data, "detail") ?? memberOf(error, "message") ?? nodeOf("");
  const entries = data?.kind === "object" ? data.entries.filter(([key]) => key !== "detail") : [];
  const outcome = problemOutcome({ kind: "object", entries: [...entries, ["detail", detail]] });
  if (outcome.kind !== "refused") return { ...outcome, ...(outcome.kind === "result" && { raw: error }) };
  const code = memberOf(error, "code");
  const number = code?.kind === "number" ? Number(code.text) : undefined;
  const title = data === undefined ? "The backend reports an error" : outcome.refusal.title;
  return { kind: "refused", refusal: { ...outcome.refusal, title, number, raw: error } };
}
