import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { parseJson } from "../src/ui/json-parse";
import type { JsonNode } from "../src/ui/json-parse";
import { compact, nodeOf, parseValue } from "../src/lib/json/value";
import { LegacySession } from "../src/lib/mcp/legacy";
import { SILENT } from "../src/lib/mcp/types";
import type { Question, Send } from "../src/lib/mcp/types";
import { blockOf, bytesOf, cellText, mediaOf, tableOf } from "../src/lib/calls/content";
import { FORMS, copyAs, pythonLiteral, pythonMember, shellWord } from "../src/lib/calls/copy";
import { CallHistory } from "../src/lib/calls/history";
import type { PastCall } from "../src/lib/calls/history";
import { runCall } from "../src/lib/calls/run";
import type { Target, Way } from "../src/lib/calls/run";
import type { Outcome, Result } from "../src/lib/calls/outcome";
import { expand, variablesOf } from "../src/lib/calls/uri-template";

const read = (text: string) => parseJson(text) as JsonNode;

interface Sent {
  url: string;
  headers: Headers;
  body: Record<string, unknown> & { id?: string; method?: string; params?: Record<string, unknown> };
}

/** A gateway that answers every way of calling as the real one does, by what `ends` says of the call. */
function gateway(ends: (call: { arguments: unknown; answers: Record<string, unknown> | undefined; token: string | null }) => { result?: object; problem?: { status: number; rpc: number; document: Record<string, unknown> } }) {
  const all: Sent[] = [];
  const json = (body: unknown, status = 200, headers: Record<string, string> = {}) => new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });
  const send: Send = async (url, init) => {
    const sent: Sent = { url, headers: new Headers(init.headers), body: JSON.parse(String(init.body ?? "{}")) };
    all.push(sent);
    const { body, headers } = sent;
    if (body.method === "initialize") return json({ jsonrpc: "2.0", id: body.id, result: { protocolVersion: "2025-11-25", capabilities: {} } }, 200, { "mcp-session-id": "s" });
    if (body.method === "notifications/initialized") return new Response(null, { status: 202 });
    const isContinued = url.endsWith("/continue") || body.method === "rpc.continue";
    const params = (body.params ?? {}) as Record<string, unknown>;
    const carrier = url === "/rpc" ? params : url === "/mcp" ? params : body;
    const input = url === "/mcp" ? params["arguments"] : isContinued ? (carrier["arguments"] ?? carrier["params"]) : url === "/rpc" ? params : body;
    const meta = (params["_meta"] ?? {}) as Record<string, unknown>;
    const token = headers.get("x-confirmation-token") ?? (meta["sentinel-gateway/confirmation"] as string | undefined) ?? null;
    const { result, problem } = ends({ arguments: input, answers: (carrier["inputResponses"] as Record<string, unknown>) ?? undefined, token });
    if (url === "/mcp") {
      if (result !== undefined) return json({ jsonrpc: "2.0", id: body.id, result: { resultType: "complete", ...result } });
      const document = problem?.document ?? {};
      if (document["code"] === "input_required") return json({ jsonrpc: "2.0", id: body.id, result: { resultType: "input_required", inputRequests: document["inputRequests"], requestState: document["requestState"] } });
      if (document["code"] === "tool_error") return json({ jsonrpc: "2.0", id: body.id, result: { content: document["content"], isError: true } });
      const written = { content: [{ type: "text", text: document["detail"] }], isError: true, _meta: { "sentinel-gateway/problem": document, "sentinel-gateway/confirmation": document["confirmationToken"] } };
      if (["confirmation_required", "invalid_arguments"].includes(String(document["code"]))) return json({ jsonrpc: "2.0", id: body.id, result: written });
      return json({ jsonrpc: "2.0", id: body.id, error: { code: problem?.rpc, message: document["detail"], data: document } });
    }
    const structured = (result as { structuredContent?: unknown } | undefined)?.structuredContent;
    const plain = structured ?? (result === undefined ? undefined : { content: (result as { content: unknown }).content });
    if (url === "/rpc") {
      if (plain !== undefined) return json({ jsonrpc: "2.0", id: body.id, result: plain });
      const { detail, ...data } = problem?.document ?? {};
      return json({ jsonrpc: "2.0", id: body.id, error: { code: problem?.rpc, message: detail, data } }, problem?.status);
    }
    if (plain === undefined) return json(problem?.document, problem?.status, { "Content-Type": "application/problem+json" });
    const records = [{ type: "progress", progress: 1 }, { type: "log", level: "info", data: "line" }, { type: "result", result: plain }];
    return new Response(records.map((record) => `event: ${record.type}\ndata: ${JSON.stringify(record)}\n\n`).join(""), { headers: { "Content-Type": "text/event-stream" } });
  };
  return { send, all };
}

const PATHS = { mcp: "/mcp", rest: "/api", rpc: "/rpc" };

function run(way: Way, send: Send, { input = "{}", signal = new AbortController().signal, confirms = true, target = { kind: "tools", name: "a b", schema: undefined } as Target } = {}) {
  const asked: Question[] = [];
  const confirmed: string[] = [];
  const listener = {
    ...SILENT,
    ask: async (questions: readonly Question[]) => {
      asked.push(...questions);
      return new Map(questions.map(({ key }) => [key, { result: nodeOf({ action: "accept", content: { name: "Ada" } }) }]));
    },
    confirm: async (words: string) => {
      confirmed.push(words);
      return confirms;
    },
  };
  const session = () => LegacySession.open("/mcp", send, SILENT, signal);
  const outcome = runCall({ target, input: read(input), way, paths: PATHS, send, session, listener, signal });
  return { outcome, asked, confirmed };
}

const WAYS: readonly Way[] = ["modern", "legacy", "rest", "rpc"];
const shown = (outcome: Outcome) => (outcome.kind === "result" ? { isError: outcome.isError, content: outcome.items.map(compact), structured: outcome.structured && compact(outcome.structured) } : outcome.kind);

test("each way of calling gives the same result", async () => {
  for (const result of [{ content: [{ type: "text", text: "hi" }] }, { content: [], structuredContent: { rows: [{ a: 1 }], content: "own" } }]) {
    const seen = [];
    for (const way of WAYS) {
      const { send, all } = gateway(() => ({ result }));
      seen.push(shown(await run(way, send, { input: '{"n":12345678901234567890}' }).outcome));
      if (way === "rest") assert.equal(all[0]?.url, "/api/a%20b");
    }
    for (const each of seen) assert.deepEqual(each, seen[0]);
  }
});

test("a tool that says it failed is told from a refusal, each way", async () => {
  for (const way of WAYS) {
    const document = { code: "tool_error", title: "The tool reports an error", detail: "no such customer", content: [{ type: "text", text: "no such customer" }] };
    const failed = await run(way, gateway(() => ({ problem: { status: 422, rpc: -32000, document } })).send).outcome;
    assert.deepEqual(shown(failed), { isError: true, content: ['{"type":"text","text":"no such customer"}'], structured: undefined }, way);
    const refusal = { code: "rate_limited", title: "Too many calls", detail: "wait", retryable: true, hint: "Wait.", retry_after_ms: 700 };
    const refused = await run(way, gateway(() => ({ problem: { status: 429, rpc: -32000, document: refusal } })).send).outcome;
    assert.equal(refused.kind, "refused", way);
    const of = (refused as Extract<Outcome, { kind: "refused" }>).refusal;
    assert.deepEqual([of.code, of.title, of.detail, of.hint, of.isRetryable, of.retryAfterMs], ["rate_limited", "Too many calls", "wait", "Wait.", true, 700], way);
    const wrong = { code: "invalid_arguments", title: "Invalid arguments", detail: "wrong", issues: [{ pointer: "/n", message: "too small", keyword: "minimum" }] };
    const invalid = await run(way, gateway(() => ({ problem: { status: 422, rpc: -32602, document: wrong } })).send).outcome;
    assert.deepEqual(invalid.kind === "refused" && invalid.refusal.issues, [{ pointer: "/n", message: "too small" }], way);
  }
});

test("a question is asked and answered, in every way that asks by answers", async () => {
  for (const way of ["modern", "rest", "rpc"] as const) {
    const inputRequests = { who: { method: "elicitation/create", params: { message: "who?" } } };
    const document = { code: "input_required", detail: "more", inputRequests, requestState: "S" };
    const { send, all } = gateway(({ answers, arguments: input }) => {
      if (answers === undefined) return { problem: { status: 409, rpc: -32000, document } };
      return { result: { content: [{ type: "text", text: JSON.stringify([input, answers]) }] } };
    });
    const { outcome, asked } = run(way, send, { input: '{"greeting":"hi"}' });
    const result = (await outcome) as Result;
    assert.deepEqual(asked.map(({ key, params }) => [key, params["message"]]), [["who", "who?"]], way);
    const text = parseValue(compact(result.items[0] as JsonNode)) as { text: string };
    assert.deepEqual(JSON.parse(text.text), [{ greeting: "hi" }, { who: { action: "accept", content: { name: "Ada" } } }], way);
    const state = way === "rest" ? all[1]?.body["requestState"] : all[1]?.body.params?.["requestState"];
    assert.equal(state, "S", way);
  }
});

test("a confirmation is asked for, and the same call is repeated with its token", async () => {
  for (const way of WAYS) {
    const document = { code: "confirmation_required", title: "A confirmation is needed", detail: "this deletes things", confirmationToken: "T0" };
    const answer = ({ token }: { token: string | null }) => (token === "T0" ? { result: { content: [] } } : { problem: { status: 409, rpc: -32000, document } });
    const yes = run(way, gateway(answer).send);
    assert.equal((await yes.outcome).kind, "result", way);
    assert.deepEqual(yes.confirmed, ["this deletes things"], way);
    const no = run(way, gateway(answer).send, { confirms: false });
    assert.equal((await no.outcome).kind, "stopped", way);
  }
});

test("a call that is given up says so, each way", async () => {
  for (const way of WAYS) {
    const controller = new AbortController();
    const send: Send = (_, init) => new Promise((_resolve, reject) => init.signal?.addEventListener("abort", () => reject(init.signal?.reason)));
    setTimeout(() => controller.abort(), 5);
    assert.equal((await run(way, send, { signal: controller.signal }).outcome).kind, "cancelled", way);
  }
});

test("rows that come one by one are the rows of the result", async () => {
  const lines = ['{"type":"row","row":{"id":1}}', '{"type":"row","row":{"id":12345678901234567890}}', '{"type":"result","result":{"rows":[],"truncated":false,"count":2},"next":{"offset":2}}'];
  const send: Send = async () => new Response(lines.map((line) => `data: ${line}\n\n`).join(""), { headers: { "Content-Type": "text/event-stream" } });
  const outcome = (await run("rest", send).outcome) as Result;
  assert.equal(compact(outcome.structured as JsonNode), '{"rows":[{"id":1},{"id":12345678901234567890}],"truncated":false,"count":2}');
  assert.equal(compact(outcome.next as JsonNode), '{"offset":2}');
  const broken = await run("rest", async () => new Response('data: {"type":"row","row":1}\n\n', { headers: { "Content-Type": "text/event-stream" } })).outcome;
  assert.equal(broken.kind, "refused");
});

test("content is what it says it is, and anything else is shown as it came", () => {
  const block = (value: unknown) => blockOf(nodeOf(value));
  assert.deepEqual(block({ type: "text", text: "x" }), { type: "text", text: "x", mimeType: undefined });
  assert.equal(block({ type: "image", data: "aGk=", mimeType: "image/png" }).type, "image");
  assert.equal(block({ type: "resource_link", uri: "a:b", name: "n" }).type, "link");
  assert.equal(block({ type: "resource", resource: { uri: "a:b", blob: "aGk=" } }).type, "resource");
  for (const odd of [{ type: "text" }, { type: "image" }, { type: "resource" }, { type: "resource_link" }, { type: "<b>" }, 7, null, []]) assert.equal(block(odd).type, "other");
  assert.equal(new TextDecoder().decode(bytesOf("aGk=")), "hi");
  assert.equal(bytesOf('no base64 "><script>'), undefined);
  assert.deepEqual(["image/png", "IMAGE/SVG+XML; charset=x", "text/html", "image/png\" onerror=1", "audio/wav", "audio/<b>"].map(mediaOf), ["image", "image", undefined, undefined, "audio", undefined]);
});

test("a list of flat objects is a table, wherever it is", () => {
  const table = tableOf(read('{"count":2,"orders":[{"id":1,"name":"a"},{"id":12345678901234567890,"tags":["x"],"more":null}]}'));
  assert.deepEqual([table?.name, table?.columns, table?.rows.length], ["orders", ["id", "name", "tags", "more"], 2]);
  assert.deepEqual(["id", "tags", "more", "name"].map((column) => cellText(table?.rows[1] as JsonNode, column)), ["12345678901234567890", '["x"]', "null", ""]);
  for (const none of ["[]", "[1,2]", '[{"a":{"b":1}}]', '{"a":1}', "[[1]]"]) assert.equal(tableOf(read(none)), undefined, none);
});

test("templates are filled as RFC 6570 says", () => {
  assert.deepEqual(variablesOf("a://{x}/{+path}{?q,r*}{&s:3}"), ["x", "path", "q", "r", "s"]);
  assert.equal(expand("a://{x}/{+path}{?q,r}", { x: "a b/c", path: "d/e f", q: "1&2", r: "" }), "a://a%20b%2Fc/d/e%20f?q=1%262");
  assert.equal(expand("a://{x:2}{/y}{.z}{#f}", { x: "äbc", y: "1", z: "txt", f: "top/x" }), "a://%C3%A4b/1.txt#top/x");
  assert.equal(expand("a://{__proto__}", {}), "a://");
});

const past = (index: number, input = "{}"): PastCall => ({ id: `${index}`, atMs: index, kind: "tools", name: `t${index}`, way: "rest", input, outcome: "result", durationMs: 1 });

function keeper(limit = Number.POSITIVE_INFINITY) {
  const kept = new Map<string, string>();
  return {
    kept,
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => {
      if (value.length > limit) throw new DOMException("full", "QuotaExceededError");
      kept.set(key, value);
    },
    removeItem: (key: string) => void kept.delete(key),
  };
}

test("the history is bounded, survives a reload, and is one caller's", () => {
  const storage = keeper();
  const history = new CallHistory(storage, "ada");
  for (let index = 0; index < 100; index += 1) history.add(past(index, index === 99 ? "x".repeat(100_000) : "{}"));
  assert.deepEqual([history.all().length, history.all()[0]?.name, history.all()[0]?.input], [60, "t99", null]);
  assert.equal(new CallHistory(storage, "ada").all().length, 60);
  assert.equal(new CallHistory(storage, "eve").all().length, 0);
  assert.equal(storage.kept.size, 0);
  const small = keeper(2_000);
  const full = new CallHistory(small, "ada");
  for (let index = 0; index < 60; index += 1) full.add(past(index));
  assert.equal(full.all().length, 60);
  const reloaded = new CallHistory(small, "ada").all();
  assert.ok(reloaded.length > 0 && reloaded[0]?.name === "t59", "the newest are kept");
  assert.equal(new CallHistory({ ...storage, getItem: () => "{nonsense" }, "ada").all().length, 0);
});

test("copied commands are one word each for a shell, whatever the arguments are", () => {
  const input = read('{"text":"it\'s \\"quoted\\" $HOME `id` \\\\ \\n new line","n":12345678901234567890}');
  const target: Target = { kind: "tools", name: "lab's tool/1", schema: undefined };
  for (const guarded of [true, false]) {
    for (const { form } of FORMS) {
      const text = copyAs(form, { target, input, origin: "http://127.0.0.1:9200", paths: PATHS, guarded });
      assert.equal(text.includes("SENTINEL_TOKEN"), guarded && form !== "mcp", form);
      if (!form.startsWith("curl") && form !== "cli") continue;
      const command = text.replace(/^#.*\n/gm, "").replace(/^(curl|sentinel) /, "printf '%s\\0' ");
      const words = spawnSync("sh", ["-c", command], { encoding: "utf8", env: { SENTINEL_TOKEN: "secret" } }).stdout.split("\0");
      if (form === "cli") assert.deepEqual(words.slice(-3, -1), ["lab's tool/1", compact(input)]);
      else assert.ok(words.some((word) => word.includes("12345678901234567890") && JSON.parse(word)), form);
      if (guarded && form !== "cli") assert.ok(words.includes("Authorization: Bearer secret"), form);
    }
  }
  assert.equal(shellWord("simple-1.0"), "simple-1.0");
});

test("names and literals of Python are those that the generated client has", () => {
  assert.deepEqual(["get-sum", "shop__getOrder", "__x", "1st", "class", "naïve tool", "../../admin"].map(pythonMember), ["get_sum", "shop__getOrder", "x", "t_1st", "class_", "na_ve_tool", "admin"]);
  const literal = pythonLiteral(read('{"a":[true,null,1e3,"\\u00e9\\n"],"b":{}}'));
  assert.equal(literal, '{\n    "a": [\n        True,\n        None,\n        1e3,\n        "é\\n",\n    ],\n    "b": {},\n}');
});
