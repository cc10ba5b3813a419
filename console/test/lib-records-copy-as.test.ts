import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import { asCurl, asJson, asMcp, quoted } from "../src/lib/records/copy-as";
import { EMPTY_OBJECT_DIGEST } from "../src/lib/records/explain";
import { rawMember } from "../src/lib/records/raw";
import { sample } from "./lib-record";

const CONTEXT = { origin: "http://127.0.0.1:9200", paths: { rest: "/api", rpc: "/rpc" }, guarded: false };

function text(copied: ReturnType<typeof asCurl>): string {
  assert.ok("text" in copied, JSON.stringify(copied));
  return copied.text;
}

/** What a shell makes of the command: the arguments of curl. */
function parsed(command: string): string[] {
  const script = `curl() { for each in "$@"; do printf '%s\\0' "$each"; done; }\n${command}`;
  return execFileSync("sh", ["-c", script], { encoding: "utf8", env: { ...process.env, SENTINEL_KEY: "sk_1" } }).split("\0").slice(0, -1);
}

test("a call becomes one request of curl, whatever its arguments have", () => {
  const nasty = { text: "it's $HOME `id` \"quoted\" \\ \n line, 日本語", n: 1 };
  const command = text(asCurl(sample({ args: nasty }), undefined, CONTEXT));
  const [flags, url, ...rest] = parsed(command);
  assert.deepEqual([flags, url], ["-sS", "http://127.0.0.1:9200/api/lab__fail"]);
  assert.deepEqual(rest.slice(0, 3), ["-H", "Content-Type: application/json", "--data-raw"]);
  assert.deepEqual(JSON.parse(rest[3] ?? ""), nasty);
});

test("digits and order of the arguments are those of the record", () => {
  const args = `{"amount": 12345678901234567890.10, "a":-0,"b":{"c":[1e2,"}"]}}`;
  const raw = `{"node":"n","args_digest":"}","args":${args},"policy_version":347233655826849111}`;
  const command = text(asCurl(sample({ args: JSON.parse(args) as unknown }), raw, CONTEXT));
  assert.equal(parsed(command).at(-1), args);
  assert.equal(asJson(sample(), raw), raw);
});

test("names are one segment of the path, and a key is a variable of the shell", () => {
  const command = text(asCurl(sample({ operation: "../admin/kill?x='$(id)'" }), undefined, { ...CONTEXT, guarded: true }));
  const [, url, , header] = parsed(command);
  assert.equal(url, "http://127.0.0.1:9200/api/..%2Fadmin%2Fkill%3Fx%3D%27%24%28id%29%27");
  assert.equal(header, "Authorization: Bearer sk_1");
});

test("characters that a terminal would obey are escapes", () => {
  const command = text(asCurl(sample({ args: { text: "\u202Egnp\u009b31m" } }), `{"args":{"text":"\u202Egnp\u009b31m"}}`, CONTEXT));
  assert.doesNotMatch(command, /[\u0080-\u009f\u202e]/);
  assert.equal((JSON.parse(parsed(command).at(-1) ?? "") as { text: string }).text, "\u202Egnp\u009b31m");
});

test("prompts, resources and JSON-RPC have their own addresses", () => {
  assert.match(text(asCurl(sample({ method: "prompts/get", operation: "simple-prompt" }), undefined, CONTEXT)), /\/api\/prompts\/simple-prompt'/);
  const resource = sample({ method: "resources/read", operation: "demo://a b/c", args: null, args_digest: null });
  assert.equal(parsed(text(asCurl(resource, undefined, CONTEXT)))[1], "http://127.0.0.1:9200/api/resources/demo%3A%2F%2Fa%20b%2Fc");
  const rpc = parsed(text(asCurl(sample({ surface: "rpc" }), undefined, CONTEXT)));
  assert.equal(rpc[1], "http://127.0.0.1:9200/rpc");
  assert.deepEqual(JSON.parse(rpc.at(-1) ?? ""), { jsonrpc: "2.0", id: 1, method: "lab__fail", params: { text: "the disk is full" } });
  const named = text(asCurl(sample({ surface: "http", operation: "fail" }), undefined, { ...CONTEXT, operation: "lab__fail" }));
  assert.match(named, /\/api\/lab__fail'/);
});

test("what is not on record cannot be copied, and it is said why", () => {
  const why = (some: Parameters<typeof sample>[0]) => {
    const copied = asCurl(sample(some), undefined, CONTEXT);
    return "why" in copied ? copied.why : copied.text;
  };
  assert.match(why({ args: null }), /digest/);
  assert.match(why({ args: { left_out: "too long" } }), /not on record/);
  assert.match(why({ args: null, args_digest: null }), /Nothing/);
  assert.match(why({ method: "tools/list", operation: "" }), /no operation/);
  assert.match(why({ method: "admin/kill", operation: "tool x" }), /Only calls/);
  assert.equal(parsed(text(asCurl(sample({ args: null, args_digest: EMPTY_OBJECT_DIGEST }), undefined, CONTEXT))).at(-1), "{}");
  const redacted = asCurl(sample({ args: { token: "[redacted]" } }), undefined, CONTEXT);
  assert.match("note" in redacted ? (redacted.note ?? "") : "", /stands for a secret/);
});

test("the message of MCP has the call's own name", () => {
  const copied = asMcp(sample(), undefined);
  assert.deepEqual(JSON.parse(text(copied)), { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "lab__fail", arguments: { text: "the disk is full" } } });
  assert.deepEqual(JSON.parse(text(asMcp(sample({ method: "resources/read", operation: "a://b" }), undefined))), {
    jsonrpc: "2.0",
    id: 1,
    method: "resources/read",
    params: { uri: "a://b" },
  });
});

test("a member of a JSON text is cut out as it is", () => {
  assert.equal(rawMember(`{"a":"}\\"{","b" : [1, {"c":2}] ,"d":1.0}`, "b"), `[1, {"c":2}]`);
  assert.equal(rawMember(`{"a":"}\\"{","b":[1],"d":1.0}`, "d"), "1.0");
  assert.equal(rawMember(`{"a":"}\\"{"}`, "a"), `"}\\"{"`);
  assert.equal(rawMember(` { "\\u0061" : true , "x":1}`, "a"), "true");
  assert.equal(rawMember(`{"a":{"b":1}}`, "b"), undefined);
  for (const broken of ["", "[]", "{", `{"a`, `{"a"`, `{"a":`, `{"a":[`, `{"a":"x`, "null"]) assert.equal(rawMember(broken, "b"), undefined);
  assert.equal(quoted("a'b"), `'a'\\''b'`);
});
