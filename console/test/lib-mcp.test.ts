import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../src/api/problem";
import { parseJson } from "../src/ui/json-parse";
import type { JsonNode } from "../src/ui/json-parse";
import { compact, nodeOf, parseValue } from "../src/lib/json/value";
import { headerValue, parameterHeaders } from "../src/lib/mcp/headers";
import { LegacySession } from "../src/lib/mcp/legacy";
import { ModernClient } from "../src/lib/mcp/modern";
import { McpError, Refused, SILENT, SessionLost } from "../src/lib/mcp/types";
import type { CallListener, Question, Reply, Send } from "../src/lib/mcp/types";

interface Sent {
  method: string;
  headers: Headers;
  body: Record<string, unknown> & { id: string; method: string; params: Record<string, unknown> };
  text: string;
}

/** Answers each request by a function; keeps what was sent. */
function server(answer: (sent: Sent, index: number) => Response | Promise<Response>): { send: Send; all: Sent[] } {
  const all: Sent[] = [];
  const send: Send = async (_url, init) => {
    const text = String(init.body ?? "");
    const sent: Sent = { method: init.method ?? "GET", headers: new Headers(init.headers), body: text === "" ? {} : JSON.parse(text), text };
    all.push(sent);
    return answer(sent, all.length - 1);
  };
  return { send, all };
}

const json = (body: unknown, status = 200, headers: Record<string, string> = {}) =>
  new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });
const accepted = () => new Response(null, { status: 202 });
const events = (...list: unknown[]) =>
  new Response(list.map((each) => (typeof each === "string" ? each : `data: ${JSON.stringify(each)}\n\n`)).join(""), { headers: { "Content-Type": "text/event-stream" } });
const done = (id: string, result: unknown) => json({ jsonrpc: "2.0", id, result });

function watcher(reply: (question: Question) => Reply = () => ({ refusal: "no" })) {
  const seen = { progress: [] as number[], logs: [] as string[], tasks: [] as string[], asked: [] as Question[], wire: [] as string[], ids: [] as string[] };
  const listener: CallListener = {
    onWire: (entry) => void seen.wire.push(`${entry.direction} ${entry.what}`),
    onProgress: (note) => void seen.progress.push(note.progress),
    onLog: (line) => void seen.logs.push(compact(line.data)),
    onTask: (task) => void seen.tasks.push(task.status),
    onRequest: (id) => void seen.ids.push(id),
    ask: async (questions) => {
      seen.asked.push(...questions);
      return new Map(questions.map((question) => [question.key, reply(question)]));
    },
  };
  return { seen, listener };
}

const signal = () => new AbortController().signal;
const argument = (text: string) => parseJson(text) as JsonNode;
const NAMED: [string, JsonNode][] = [["name", nodeOf("t")], ["arguments", argument('{"n":12345678901234567890,"n":1.50}')]];

test("modern: a request says of itself what the revision demands, and arguments leave as they were written", async () => {
  const { send, all } = server((sent) => done(sent.body.id, { resultType: "complete", content: [] }));
  const { listener, seen } = watcher();
  const client = new ModernClient("/mcp", send);
  await client.call("tools/call", NAMED, { listener, signal: signal(), name: "naïve tool", headers: [["Mcp-Param-Region", "eu"]], isVerbose: true });
  const { headers, body, text } = all[0] as Sent;
  assert.equal(headers.get("accept"), "application/json, text/event-stream");
  assert.equal(headers.get("mcp-protocol-version"), "2026-07-28");
  assert.equal(headers.get("mcp-method"), "tools/call");
  assert.equal(headers.get("mcp-name"), "=?base64?bmHDr3ZlIHRvb2w=?=");
  assert.equal(headers.get("mcp-param-region"), "eu");
  assert.equal(headers.get("mcp-session-id"), null);
  const meta = body.params["_meta"] as Record<string, unknown>;
  assert.equal(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
  assert.deepEqual(meta["io.modelcontextprotocol/clientCapabilities"], { elicitation: { form: {}, url: {} }, sampling: {}, roots: {}, extensions: { "io.modelcontextprotocol/tasks": {} } });
  assert.equal(meta["progressToken"], body.id);
  assert.equal(meta["io.modelcontextprotocol/logLevel"], "debug");
  assert.ok(text.includes('"arguments":{"n":12345678901234567890,"n":1.50}'), text);
  assert.deepEqual(seen.ids, [body.id]);
  assert.deepEqual(seen.wire, ["sent POST /mcp", "received 200", "received message"]);
});

test("modern: progress and log lines come before the result, which keeps its digits", async () => {
  const { send } = server((sent) =>
    events(
      ": keep-alive\n\n",
      { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: "x", progress: 1, total: 2 } },
      { jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: { line: 1 } } },
      `data: {"jsonrpc":"2.0","id":"${sent.body.id}","result":{"resultType":"complete","n":12345678901234567890}}\n\n`,
    ),
  );
  const { listener, seen } = watcher();
  const result = await new ModernClient("/mcp", send).call("tools/call", NAMED, { listener, signal: signal() });
  assert.equal(compact(result), '{"resultType":"complete","n":12345678901234567890}');
  assert.deepEqual([seen.progress, seen.logs], [[1], ['{"line":1}']]);
});

test("modern: questions are answered by the same request, with the state as it came and a new id", async () => {
  const rounds = [
    { resultType: "input_required", inputRequests: { a: { method: "elicitation/create", params: { message: "who?" } }, b: { method: "roots/list", params: {} } }, requestState: "s/1" },
    { resultType: "input_required", requestState: "s/2" },
    { resultType: "complete", content: [{ type: "text", text: "hello" }] },
  ];
  const { send, all } = server((sent, index) => done(sent.body.id, rounds[index]));
  const { listener, seen } = watcher((question) => ({ result: nodeOf(question.method === "roots/list" ? { roots: [] } : { action: "accept", content: { name: "Ada" } }) }));
  const result = await new ModernClient("/mcp", send).call("tools/call", NAMED, { listener, signal: signal(), name: "t" });
  assert.equal(compact(result), '{"resultType":"complete","content":[{"type":"text","text":"hello"}]}');
  assert.deepEqual(seen.asked.map(({ key, method }) => [key, method]), [["a", "elicitation/create"], ["b", "roots/list"]]);
  const [first, second, third] = all.map(({ body }) => body.params);
  assert.equal(new Set(all.map(({ body }) => body.id)).size, 3);
  assert.equal(first?.["requestState"], undefined);
  assert.deepEqual(second?.["inputResponses"], { a: { action: "accept", content: { name: "Ada" } }, b: { roots: [] } });
  assert.equal(second?.["requestState"], "s/1");
  assert.deepEqual([third?.["inputResponses"], third?.["requestState"]], [undefined, "s/2"]);
  assert.deepEqual(all.map(({ body }) => (body.params["arguments"] as { n: number }).n), [1.5, 1.5, 1.5]);
});

test("modern: a question that is refused ends the call, for there is no word for it; and nobody is asked for ever", async () => {
  const asking = { resultType: "input_required", inputRequests: { a: { method: "sampling/createMessage", params: {} } }, requestState: "s" };
  const refusing = server((sent) => done(sent.body.id, asking));
  await assert.rejects(new ModernClient("/mcp", refusing.send).call("tools/call", NAMED, { listener: watcher().listener, signal: signal() }), Refused);
  assert.equal(refusing.all.length, 1);
  const endless = server((sent) => done(sent.body.id, asking));
  const { listener } = watcher(() => ({ result: nodeOf({ role: "assistant" }) }));
  await assert.rejects(new ModernClient("/mcp", endless.send).call("tools/call", NAMED, { listener, signal: signal() }), /asked more than 10 times/);
});

test("modern: a task is asked after until it ends, its questions are answered once, and its result is the call's", async () => {
  const states = [
    { status: "working", pollIntervalMs: 1 },
    { status: "input_required", pollIntervalMs: 1, inputRequests: { why: { method: "elicitation/create", params: { message: "why?" } } } },
    { status: "input_required", pollIntervalMs: 1, inputRequests: { why: { method: "elicitation/create", params: { message: "why?" } } } },
    { status: "completed", result: { content: [], isError: true } },
  ];
  let at = 0;
  const { send, all } = server(({ body }) => {
    if (body.method === "tools/call") return done(body.id, { resultType: "task", taskId: "T/ä", status: "working" });
    if (body.method === "tasks/update") return done(body.id, { resultType: "complete" });
    return done(body.id, { resultType: "complete", taskId: "T/ä", ...states[at++] });
  });
  const { listener, seen } = watcher(() => ({ result: nodeOf({ action: "decline" }) }));
  const result = await new ModernClient("/mcp", send).call("tools/call", NAMED, { listener, signal: signal(), name: "t" });
  assert.equal(compact(result), '{"content":[],"isError":true}');
  assert.deepEqual(seen.tasks, ["working", "input_required", "input_required", "completed"]);
  assert.equal(all.filter(({ body }) => body.method === "tasks/update").length, 1);
  for (const { headers, body } of all.slice(1)) assert.deepEqual([headers.get("mcp-name"), body.params["taskId"]], ["=?base64?VC/DpA==?=", "T/ä"]);
});

test("modern: cancelling a task tells the server", async () => {
  const controller = new AbortController();
  const { send, all } = server(({ body }) => {
    if (body.method === "tools/call") return done(body.id, { resultType: "task", taskId: "T1", status: "working" });
    if (body.method === "tasks/get") setTimeout(() => controller.abort(), 5);
    return done(body.id, { resultType: "complete", status: "working", pollIntervalMs: 60_000 });
  });
  const { listener, seen } = watcher();
  await assert.rejects(new ModernClient("/mcp", send).call("tools/call", NAMED, { listener, signal: controller.signal }), { name: "AbortError" });
  assert.equal(all.at(-1)?.body.method, "tasks/cancel");
  assert.equal(seen.tasks.at(-1), "cancelled");
});

test("errors come as errors: of JSON-RPC with any status, and of HTTP as problems", async () => {
  const call = (response: Response) => new ModernClient("/mcp", server(() => response).send).call("tools/call", NAMED, { listener: SILENT, signal: signal() });
  const error = { jsonrpc: "2.0", id: null, error: { code: -32020, message: "headers differ", data: { code: "invalid_request" } } };
  await assert.rejects(call(json(error, 400)), (thrown: McpError) => thrown.code === -32020 && thrown.status === 400 && thrown.data?.["code"] === "invalid_request");
  await assert.rejects(call(json({ title: "No", code: "unauthorized", detail: "who?" }, 401, { "Content-Type": "application/problem+json" })), (thrown: Problem) => thrown.code === "unauthorized");
  await assert.rejects(call(json("<html>", 502)), (thrown: Problem) => thrown.status === 502);
  await assert.rejects(call(json("nonsense")), (thrown: Problem) => thrown.code === "unreadable");
  await assert.rejects(call(events(": nothing\n\n")), /ended without a result/);
  await assert.rejects(call(json({ jsonrpc: "2.0", id: 1, result: { resultType: "odd" } })), /type odd/);
});

const GREETING = { protocolVersion: "2025-06-18", capabilities: { logging: {} }, serverInfo: { name: "s", version: "1" } };

function legacyServer(answer: (sent: Sent) => Response | Promise<Response>) {
  return server((sent) => {
    if (sent.body.method === "initialize") return json({ jsonrpc: "2.0", id: sent.body.id, result: GREETING }, 200, { "Mcp-Session-Id": "abc" });
    if (sent.body.method === "notifications/initialized") return accepted();
    if (sent.body.method === "logging/setLevel") return done(sent.body.id, {});
    return answer(sent);
  });
}

test("legacy: a session is opened, used with its id and revision, and ended", async () => {
  const { send, all } = legacyServer((sent) => (sent.method === "DELETE" ? accepted() : done(sent.body.id, { content: [] })));
  const session = await LegacySession.open("/mcp", send, SILENT, signal());
  await session.call("tools/call", NAMED, { listener: SILENT, signal: signal(), isVerbose: true });
  await session.close();
  assert.deepEqual(all.map(({ method, body }) => body.method ?? method), ["initialize", "notifications/initialized", "logging/setLevel", "tools/call", "DELETE"]);
  const [first, ...others] = all;
  assert.deepEqual([first?.headers.get("mcp-session-id"), first?.headers.get("mcp-protocol-version")], [null, null]);
  for (const { headers } of others) assert.deepEqual([headers.get("mcp-session-id"), headers.get("mcp-protocol-version")], ["abc", "2025-06-18"]);
  assert.equal(first?.body.params["protocolVersion"], "2025-11-25");
  assert.equal("id" in (all[1]?.body ?? {}), false);
  assert.equal((all[3]?.body.params["_meta"] as Record<string, unknown>)["progressToken"], all[3]?.body.id);
  assert.equal(all[3]?.headers.get("mcp-method"), null);
});

test("legacy: what the server asks on the stream of a call is answered by POSTs, while the stream is read on", async () => {
  let answered: (() => void) | undefined;
  const both = new Promise<void>((resolve) => (answered = resolve));
  let posts = 0;
  const { send, all } = legacyServer((sent) => {
    if (sent.body.method !== "tools/call") {
      posts += 1;
      if (posts === 4) answered?.();
      return accepted();
    }
    const encoder = new TextEncoder();
    const say = (message: unknown) => encoder.encode(`data: ${JSON.stringify(message)}\n\n`);
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(say({ jsonrpc: "2.0", id: 7, method: "elicitation/create", params: { message: "who?" } }));
        controller.enqueue(say({ jsonrpc: "2.0", id: "p", method: "ping" }));
        controller.enqueue(say({ jsonrpc: "2.0", id: "s", method: "sampling/createMessage", params: {} }));
        controller.enqueue(say({ jsonrpc: "2.0", id: "o", method: "odd/method", params: {} }));
        await both;
        controller.enqueue(say({ jsonrpc: "2.0", id: sent.body.id, result: { content: [] } }));
        controller.close();
      },
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  });
  const session = await LegacySession.open("/mcp", send, SILENT, signal());
  const { listener } = watcher((question) => (question.method === "elicitation/create" ? { result: nodeOf({ action: "accept", content: { name: "Ada" } }) } : { refusal: "not now" }));
  assert.equal(compact(await session.call("tools/call", NAMED, { listener, signal: signal() })), '{"content":[]}');
  const replies = all.filter(({ body }) => body.method === undefined).map(({ body }) => [body["id"], body["result"] ?? body["error"]]);
  assert.deepEqual(Object.fromEntries(replies.map(([id, value]) => [String(id), value])), {
    7: { action: "accept", content: { name: "Ada" } },
    p: {},
    s: { code: -1, message: "not now" },
    o: { code: -32601, message: "not offered by this client" },
  });
  assert.equal(typeof replies.find(([id]) => String(id) === "7")?.[0], "number");
});

test("legacy: a stream that broke off is taken up where it ended", async () => {
  const { send, all } = legacyServer((sent) => {
    if (sent.method === "GET") return events({ jsonrpc: "2.0", id: all[3]?.body.id, result: { content: ["late"] } });
    return events("id: 1-0\nretry: 1\ndata: \n\n", "id: 1-1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":1}}\n\n");
  });
  const session = await LegacySession.open("/mcp", send, SILENT, signal());
  const { listener, seen } = watcher();
  assert.equal(compact(await session.call("tools/call", NAMED, { listener, signal: signal() })), '{"content":["late"]}');
  assert.equal(all.at(-1)?.headers.get("last-event-id"), "1-1");
  assert.deepEqual(seen.progress, [1]);
});

test("legacy: cancelling a call is a notification, and a lost session is told from other refusals", async () => {
  const controller = new AbortController();
  const waiting = legacyServer((sent) => (sent.body.method === "tools/call" ? new Promise<Response>((_, reject) => controller.signal.addEventListener("abort", () => reject(controller.signal.reason))) : accepted()));
  const session = await LegacySession.open("/mcp", waiting.send, SILENT, signal());
  const call = session.call("tools/call", NAMED, { listener: SILENT, signal: controller.signal });
  setTimeout(() => controller.abort(), 5);
  await assert.rejects(call, { name: "AbortError" });
  const last = waiting.all.at(-1);
  assert.deepEqual([last?.body.method, last?.body.params["requestId"]], ["notifications/cancelled", waiting.all.at(-2)?.body.id]);
  const lost = legacyServer(() => json({ jsonrpc: "2.0", id: null, error: { code: -32001, message: "no such session" } }, 404));
  const gone = await LegacySession.open("/mcp", lost.send, SILENT, signal());
  await assert.rejects(gone.call("tools/call", NAMED, { listener: SILENT, signal: signal() }), SessionLost);
});

test("values of headers are as they are where they can be, and marked base64 otherwise", () => {
  const rows: [string, string][] = [
    ["lab__echo", "lab__echo"], ["", ""], ["a b", "a b"], [" a", "=?base64?IGE=?="], ["a ", "=?base64?YSA=?="], ["ä", "=?base64?w6Q=?="],
    ["a\nb", "=?base64?YQpi?="], ["=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="], ["test://x?y=1", "test://x?y=1"],
  ];
  for (const [text, header] of rows) assert.equal(headerValue(text), header, text);
  const schema = parseValue('{"properties":{"region":{"type":"string","x-mcp-header":"Region"},"deep":{"properties":{"level":{"x-mcp-header":"Level"}}},"bad":{"x-mcp-header":"a b"},"off":{"x-mcp-header":"Off"}}}');
  assert.deepEqual(parameterHeaders(schema, argument('{"region":"zürich","deep":{"level":42},"bad":"x","off":null}')), [
    ["Mcp-Param-Region", "=?base64?esO8cmljaA==?="], ["Mcp-Param-Level", "42"],
  ]);
});
