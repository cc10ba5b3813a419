// MCP 2026-07-28: every request stands alone.
//
// Questions come as results (`input_required`) and are answered by the same request with `inputResponses`; a tool may
// answer with a task, which is asked after until it ends. Ending the response is what cancels a call.

import type { JsonNode } from "../../ui/json-parse";
import { memberOf } from "../json/edit";
import { compact, nodeOf, valueOf } from "../json/value";
import type { Members } from "../json/value";
import { askOrGiveUp, giveUpSignal, isStream, logOf, messages, nextId, object, pause, post, progressOf, questionOf, resultOf, throwFailure, unreadable } from "./exchange";
import { headerValue } from "./headers";
import { CLIENT_INFO, ROUNDS_MAX, Refused, SILENT, TASKS } from "./types";
import type { CallListener, Entries, Reply, Send, TaskState } from "./types";

export const VERSION = "2026-07-28";
const META = "io.modelcontextprotocol/";
/** Where a server names no pace. */
const POLL_MS = 1_000;
const POLL_MIN_MS = 100;
const POLL_MAX_MS = 10_000;
/** Results that only ask to try again: the pause doubles from the one to the other. */
const AGAIN_MIN_MS = 50;
const AGAIN_MAX_MS = 250;

export interface ModernOptions {
  listener: CallListener;
  signal: AbortSignal;
  /** `Mcp-Name`: the tool, the prompt or the URI. */
  name?: string;
  headers?: readonly (readonly [string, string])[];
  /** Asks for progress and log lines. */
  isVerbose?: boolean;
  /** Further members of `_meta`. */
  meta?: Entries;
  /** The page may be gone before it is answered. */
  isLast?: boolean;
}

export class ModernClient {
  /** What this client answers. Requests that nobody waits at declare nothing. */
  capabilities: Members = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {}, extensions: { [TASKS]: {} } };

  constructor(
    private readonly url: string,
    private readonly send: Send,
  ) {}

  /** A request, with everything that it asks on the way to its result. */
  async call(method: string, params: Entries, options: ModernOptions): Promise<JsonNode> {
    const { listener, signal } = options;
    let again: Entries = [];
    let pauseMs = AGAIN_MIN_MS;
    for (let round = 0; round <= ROUNDS_MAX; round += 1) {
      const result = await this.request(method, [...params, ...again], options);
      const type = memberOf(result, "resultType");
      const kind = type?.kind === "string" ? type.value : "complete";
      if (kind === "complete") return result;
      if (kind === "task") return this.follow(result, options);
      if (kind !== "input_required") throw unreadable(`A result of the type ${kind}, which this page did not ask for.`);
      const state = memberOf(result, "requestState");
      const asked = memberOf(result, "inputRequests");
      const next: [string, JsonNode][] = state === undefined ? [] : [["requestState", state]];
      if (asked?.kind === "object" && asked.entries.length > 0) {
        const giveUp = (responses: JsonNode) => this.giveUp(method, [...params, ["inputResponses", responses], ...next], options);
        next.unshift(["inputResponses", await answers(asked, listener, signal, giveUp)]);
      } else {
        await pause(pauseMs, signal);
        pauseMs = Math.min(pauseMs * 2, AGAIN_MAX_MS);
      }
      again = next;
    }
    throw unreadable(`It asked more than ${ROUNDS_MAX} times.`);
  }

  /** One request and its result, whatever its type. */
  async request(method: string, params: Entries, options: ModernOptions): Promise<JsonNode> {
    const { listener, signal } = options;
    const id = nextId();
    listener.onRequest(id);
    const response = await this.post(id, method, params, options);
    if (!response.ok) return throwFailure(response, listener.onWire);
    for await (const message of messages(response, listener.onWire)) {
      if (message.method === "notifications/progress") listener.onProgress(progressOf(message.params));
      else if (message.method === "notifications/message") listener.onLog(logOf(message.params));
      else if (message.id === id || message.method === undefined) return resultOf(message, response.status);
    }
    if (signal.aborted) throw new DOMException("The call was cancelled", "AbortError");
    throw unreadable(isStream(response) ? "The stream ended without a result." : "There was no answer in it.");
  }

  /** Tells that nobody will answer; what comes back concerns nobody. */
  private giveUp(method: string, params: Entries, options: ModernOptions): void {
    const listener = { ...SILENT, onWire: options.listener.onWire };
    void this.request(method, params, { ...options, listener, signal: giveUpSignal(), isLast: true }).catch(() => undefined);
  }

  /** Notifications of one `subscriptions/listen`, until the signal aborts or the server ends it. */
  async listen(filter: Members, onNotification: (method: string, params: Members) => void, options: ModernOptions): Promise<void> {
    const id = nextId();
    const response = await this.post(id, "subscriptions/listen", [["notifications", nodeOf(filter)]], options);
    if (!response.ok) return throwFailure(response, options.listener.onWire);
    for await (const message of messages(response, options.listener.onWire)) {
      if (message.method === undefined) {
        resultOf(message, response.status);
        return;
      }
      const value = message.params === undefined ? {} : valueOf(message.params);
      onNotification(message.method, value as Members);
    }
  }

  private post(id: string, method: string, params: Entries, { listener, signal, name, headers = [], isVerbose = false, meta = [], isLast = false }: ModernOptions): Promise<Response> {
    const about: [string, JsonNode][] = [
      [`${META}protocolVersion`, nodeOf(VERSION)],
      [`${META}clientCapabilities`, nodeOf(this.capabilities)],
      [`${META}clientInfo`, nodeOf(CLIENT_INFO)],
    ];
    if (isVerbose) about.push(["progressToken", nodeOf(id)], [`${META}logLevel`, nodeOf("debug")]);
    const body = object([
      ["jsonrpc", nodeOf("2.0")],
      ["id", nodeOf(id)],
      ["method", nodeOf(method)],
      ["params", object([...params, ["_meta", object([...about, ...meta])]])],
    ]);
    return post({
      url: this.url,
      send: this.send,
      headers: [
        ["Content-Type", "application/json"],
        ["Accept", "application/json, text/event-stream"],
        ["MCP-Protocol-Version", VERSION],
        ["Mcp-Method", method],
        ...(name === undefined ? [] : [["Mcp-Name", headerValue(name)] as const]),
        ...headers,
      ],
      text: compact(body),
      signal,
      onWire: listener.onWire,
      keepalive: isLast,
    });
  }

  /** Asks after a task until it has ended. */
  private async follow(created: JsonNode, options: ModernOptions): Promise<JsonNode> {
    const { listener, signal } = options;
    const taskId = textAt(created, "taskId");
    if (taskId === undefined) throw unreadable("A task without an id.");
    const about = { ...options, name: taskId, headers: [], meta: [] };
    const answered = new Set<string>();
    let task = created;
    try {
      for (;;) {
        // What was created may already have ended; its result is told only when it is asked for.
        task = await this.request("tasks/get", [["taskId", nodeOf(taskId)]], about);
        const state: TaskState = { id: taskId, status: textAt(task, "status") ?? "working", message: textAt(task, "statusMessage") };
        listener.onTask(state);
        if (state.status === "completed") {
          const result = memberOf(task, "result");
          if (result === undefined) throw unreadable("A task that ended without a result.");
          return result;
        }
        if (state.status === "failed") return resultOf({ node: task, id: undefined, method: undefined, params: undefined }, 200);
        if (state.status === "cancelled") throw new DOMException("The task was cancelled", "AbortError");
        const asked = memberOf(task, "inputRequests");
        const open = asked?.kind === "object" ? asked.entries.filter(([key]) => !answered.has(key)) : [];
        if (state.status === "input_required" && open.length > 0) {
          const responses = await answers({ kind: "object", entries: open }, listener, signal);
          await this.request("tasks/update", [["taskId", nodeOf(taskId)], ["inputResponses", responses]], about);
          open.forEach(([key]) => answered.add(key));
          continue;
        }
        const pace = Number(textAt(task, "pollIntervalMs") ?? POLL_MS);
        await pause(Math.min(Math.max(pace, POLL_MIN_MS), POLL_MAX_MS), signal);
      }
    } catch (error) {
      // A task goes on without its caller, unless it is told.
      if (signal.aborted) {
        const rest = { ...about, signal: AbortSignal.timeout(POLL_MAX_MS) };
        await this.request("tasks/cancel", [["taskId", nodeOf(taskId)]], rest).then(
          () => listener.onTask({ id: taskId, status: "cancelled", message: undefined }),
          () => undefined,
        );
      }
      throw error;
    }
  }
}

function textAt(node: JsonNode, key: string): string | undefined {
  const found = memberOf(node, key);
  return found?.kind === "string" ? found.value : found?.kind === "number" ? found.text : undefined;
}

async function answers(asked: JsonNode & { kind: "object" }, listener: CallListener, signal: AbortSignal, giveUp?: (responses: JsonNode) => void): Promise<JsonNode> {
  const questions = asked.entries.map(([key, node]) => questionOf(key, node));
  const replies = await askOrGiveUp(questions, listener, signal, giveUp);
  const entries: [string, JsonNode][] = [];
  for (const { key, method } of questions) {
    const reply: Reply | undefined = replies.get(key);
    // MCP has no way to say no to one of these; the request is not sent again.
    if (reply?.result === undefined) throw new Refused(`${method}: ${reply?.refusal ?? "not answered"}`);
    entries.push([key, reply.result]);
  }
  return { kind: "object", entries };
}
