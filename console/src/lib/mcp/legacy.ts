// MCP 2025-11-25 and before it: a session, opened by `initialize` and ended by DELETE.
//
// The server asks by requests on the stream of a call, or on the stream of the session; each is answered by a POST. The end
// of a connection cancels nothing: that takes a notification. A stream that broke off is taken up where it ended.

import type { JsonNode } from "../../ui/json-parse";
import { memberOf } from "../json/edit";
import { compact, isMembers, member, nodeOf, textMember, valueOf } from "../json/value";
import type { Members } from "../json/value";
import { isStream, logOf, messages, nextId, object, pause, post, progressOf, questionOf, received, resultOf, throwFailure, unreadable, wire } from "./exchange";
import type { Message, StreamPlace } from "./exchange";
import { CLIENT_INFO, SILENT, SessionLost } from "./types";
import type { CallListener, Entries, Send } from "./types";

export const VERSION = "2025-11-25";
/** The handshake, and what ends a session. */
const HANDSHAKE_MS_MAX = 20_000;
/** Attempts to take up one stream. */
const RESUMES_MAX = 10;
const RETRY_MS = 1_000;
const RETRY_MAX_MS = 10_000;

const CAPABILITIES: Members = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

export interface LegacyOptions {
  listener: CallListener;
  signal: AbortSignal;
  isVerbose?: boolean;
  meta?: Entries;
}

export class LegacySession {
  version = VERSION;
  id: string | undefined;
  serverCapabilities: Members = {};
  /** Notifications of the session's own stream. */
  onNotification: (method: string, params: Members) => void = () => undefined;
  private readonly ended = new AbortController();
  /** Whoever called last answers what is asked on the session's own stream. */
  private asking: CallListener = SILENT;
  private isListening = false;

  private constructor(
    private readonly url: string,
    private readonly send: Send,
  ) {}

  static async open(url: string, send: Send, listener: CallListener, signal: AbortSignal): Promise<LegacySession> {
    const session = new LegacySession(url, send);
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(HANDSHAKE_MS_MAX)]);
    const id = nextId();
    const params = { protocolVersion: VERSION, capabilities: CAPABILITIES, clientInfo: CLIENT_INFO };
    const response = await session.post(request(id, "initialize", Object.entries(params).map(([key, value]) => [key, nodeOf(value)])), listener, bounded, true);
    if (!response.ok) return throwFailure(response, listener.onWire);
    session.id = response.headers.get("mcp-session-id") ?? undefined;
    let result: JsonNode | undefined;
    for await (const message of messages(response, listener.onWire)) if (message.id === id) result = resultOf(message, response.status);
    if (result === undefined) throw unreadable("initialize has no answer.");
    const value = valueOf(result);
    session.version = textMember(value, "protocolVersion") ?? VERSION;
    const capabilities = member(value, "capabilities");
    session.serverCapabilities = isMembers(capabilities) ? capabilities : {};
    await session.notify("notifications/initialized", [], listener, bounded);
    if (session.serverCapabilities["logging"] !== undefined) {
      await session.call("logging/setLevel", [["level", nodeOf("debug")]], { listener, signal: bounded }).catch(() => undefined);
    }
    return session;
  }

  /** A request and its result; what the server asks meanwhile is answered. */
  async call(method: string, params: Entries, { listener, signal, isVerbose = false, meta = [] }: LegacyOptions): Promise<JsonNode> {
    const id = nextId();
    listener.onRequest(id);
    const about: Entries = isVerbose ? [["progressToken", nodeOf(id)], ...meta] : meta;
    const all: Entries = about.length === 0 ? params : [...params, ["_meta", object(about)]];
    // Ends with the call, so that nothing it asked is waited for.
    const over = new AbortController();
    const inner = AbortSignal.any([signal, over.signal]);
    this.asking = listener;
    const cancel = () => {
      const reason: Entries = [["requestId", nodeOf(id)], ["reason", nodeOf("cancelled in the console")]];
      void this.notify("notifications/cancelled", reason, listener, AbortSignal.timeout(HANDSHAKE_MS_MAX)).catch(() => undefined);
    };
    signal.addEventListener("abort", cancel, { once: true });
    try {
      const place: StreamPlace = { lastId: undefined, retryMs: undefined };
      let response = await this.post(request(id, method, all), listener, inner);
      for (let resumed = 0; ; resumed += 1) {
        if (!response.ok) {
          if (response.status === 404 && this.id !== undefined) {
            await response.body?.cancel();
            throw new SessionLost("The gateway no longer knows this session.");
          }
          return await throwFailure(response, listener.onWire);
        }
        const result = await this.until(id, response, place, listener, inner);
        if (result !== undefined) return result;
        if (!isStream(response) || place.lastId === undefined || resumed >= RESUMES_MAX) throw unreadable("The stream ended without a result.");
        await pause(Math.min(place.retryMs ?? RETRY_MS, RETRY_MAX_MS), inner);
        response = await this.get(listener, inner, place.lastId);
      }
    } finally {
      signal.removeEventListener("abort", cancel);
      over.abort();
    }
  }

  /** Reads a stream up to the result of a request; `undefined`: it ended before. */
  private async until(id: string, response: Response, place: StreamPlace, listener: CallListener, signal: AbortSignal): Promise<JsonNode | undefined> {
    try {
      for await (const message of messages(response, listener.onWire, place)) {
        if (message.method === undefined && message.id === id) return resultOf(message, response.status);
        this.take(message, listener, signal);
      }
    } catch (error) {
      // A connection that breaks is no end of the call, if it can be taken up.
      if (!(error instanceof TypeError) || signal.aborted) throw error;
    }
    return undefined;
  }

  private take(message: Message, listener: CallListener, signal: AbortSignal): void {
    if (message.method === undefined) return;
    if (message.id !== undefined) void this.reply(message, listener, signal);
    else if (message.method === "notifications/progress") listener.onProgress(progressOf(message.params));
    else if (message.method === "notifications/message") listener.onLog(logOf(message.params));
    else this.onNotification(message.method, (message.params === undefined ? {} : valueOf(message.params)) as Members);
  }

  /** Answers a request of the server. */
  private async reply(message: Message, listener: CallListener, signal: AbortSignal): Promise<void> {
    const head: Entries = [["jsonrpc", nodeOf("2.0")], ["id", memberOf(message.node, "id") ?? nodeOf(null)]];
    const answered = async (): Promise<Entries> => {
      if (message.method === "ping") return [["result", object([])]];
      const question = { ...questionOf("", message.node), key: String(message.id) };
      if (!["elicitation/create", "sampling/createMessage", "roots/list"].includes(question.method)) {
        return [["error", nodeOf({ code: -32601, message: "not offered by this client" })]];
      }
      const replies = await listener.ask([question], signal);
      const reply = replies.get(question.key);
      if (reply?.result !== undefined) return [["result", reply.result]];
      return [["error", nodeOf({ code: -1, message: reply?.refusal ?? "refused by the user" })]];
    };
    try {
      const response = await this.post(object([...head, ...(await answered())]), listener, signal);
      await response.body?.cancel();
    } catch {
      // The call that asked is over, or says itself what went wrong.
    }
  }

  async notify(method: string, params: Entries, listener: CallListener, signal: AbortSignal): Promise<void> {
    const body = object([["jsonrpc", nodeOf("2.0")], ["method", nodeOf(method)], ...(params.length === 0 ? [] : [["params", object(params)] as const])]);
    const response = await this.post(body, listener, signal);
    if (!response.ok) return throwFailure(response, listener.onWire);
    await response.body?.cancel();
  }

  /** Keeps the session's own stream open: news that belong to no call. Once per session. */
  async listen(listener: CallListener): Promise<void> {
    if (this.isListening) return;
    this.isListening = true;
    const { signal } = this.ended;
    const place: StreamPlace = { lastId: undefined, retryMs: undefined };
    try {
      while (!signal.aborted) {
        const response = await this.get(listener, signal, place.lastId);
        if (!response.ok || !isStream(response)) {
          await response.body?.cancel();
          return;
        }
        for await (const message of messages(response, listener.onWire, place)) this.take(message, { ...this.asking, onWire: listener.onWire }, signal);
        await pause(Math.min(place.retryMs ?? RETRY_MS, RETRY_MAX_MS), signal);
      }
    } catch {
      // The session ended, or the gateway went away; the next call says so.
    } finally {
      this.isListening = false;
    }
  }

  /** Ends the session. The request outlives the page. */
  async close(listener: CallListener = SILENT): Promise<void> {
    this.ended.abort();
    if (this.id === undefined) return;
    const headers = this.headers();
    listener.onWire(wire("sent", `DELETE ${this.url}`, "", headers));
    const signal = AbortSignal.timeout(HANDSHAKE_MS_MAX);
    const response = await this.send(this.url, { method: "DELETE", headers: headers.map(([name, value]): [string, string] => [name, value]), keepalive: true, signal });
    listener.onWire(received(response));
    await response.body?.cancel();
  }

  private headers(): (readonly [string, string])[] {
    const session: [string, string][] = this.id === undefined ? [] : [["Mcp-Session-Id", this.id]];
    return [...session, ["MCP-Protocol-Version", this.version]];
  }

  private post(body: JsonNode, listener: CallListener, signal: AbortSignal, isFirst = false): Promise<Response> {
    return post({
      url: this.url,
      send: this.send,
      headers: [
        ["Content-Type", "application/json"],
        ["Accept", "application/json, text/event-stream"],
        ...(isFirst ? [] : this.headers()),
      ],
      text: compact(body),
      signal,
      onWire: listener.onWire,
    });
  }

  private async get(listener: CallListener, signal: AbortSignal, lastId: string | undefined): Promise<Response> {
    const headers: (readonly [string, string])[] = [["Accept", "text/event-stream"], ...this.headers(), ...(lastId === undefined ? [] : [["Last-Event-ID", lastId] as const])];
    listener.onWire(wire("sent", `GET ${this.url}`, "", headers));
    const response = await this.send(this.url, { headers: headers.map(([name, value]): [string, string] => [name, value]), signal, cache: "no-store" });
    listener.onWire(received(response));
    return response;
  }
}

function request(id: string, method: string, params: Entries): JsonNode {
  return object([["jsonrpc", nodeOf("2.0")], ["id", nodeOf(id)], ["method", nodeOf(method)], ["params", object(params)]]);
}
