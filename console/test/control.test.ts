import assert from "node:assert/strict";
import { test } from "node:test";
import { hitBy, matches } from "../src/lib/control/glob";
import { distance, listed, reloadLines, reloadSentence } from "../src/lib/control/words";
import { indexed, permissionMeaning, rowsOf } from "../src/pages/access/matrix-rows";
import { appended, mistakesOf, quoted, tomlOf, EMPTY } from "../src/pages/backends/toml";
import { indented, lineCount, lineNumbers, lineRange } from "../src/pages/config/lines";
import { expiryOf, secondsOf, stateOf } from "../src/pages/keys/expiry";
import { compared, isSame } from "../src/pages/pins/definition";

test("a star stands for any run of characters, as in the gateway", () => {
  // The rows of the gateway's own test of patterns.
  const rows: [string, string, boolean][] = [
    ["*", "", true],
    ["*", "x", true],
    ["echo", "echo", true],
    ["echo", "echo2", false],
    ["delete_*", "delete_all", true],
    ["delete_*", "undelete_all", false],
    ["*_all", "delete_all", true],
    ["a*b*c", "a-b-c", true],
    ["a*b*c", "a-c-b", false],
    ["a*a", "a", false],
    ["**", "x", true],
  ];
  for (const [pattern, name, want] of rows) assert.equal(matches(pattern, name), want, `${pattern} and ${name}`);
});

test("what a switch hits is counted by merged names, and by own names of its backend", () => {
  const operations = [
    { backend: "lab", name: "lab__echo", own_name: "echo" },
    { backend: "lab", name: "lab__crash", own_name: "crash" },
    { backend: "demo", name: "echo", own_name: "echo" },
  ];
  const names = (scope: string, name: string) => hitBy(scope, name, operations)?.map((one) => one.name);
  assert.deepEqual(names("tool", "echo"), ["echo"]);
  assert.deepEqual(names("tool", "lab.echo"), ["lab__echo"]);
  assert.deepEqual(names("tool", "lab.*"), ["lab__echo", "lab__crash"]);
  assert.deepEqual(names("tool", "*echo"), ["lab__echo", "echo"]);
  assert.deepEqual(names("tool", ""), []);
  assert.deepEqual(names("backend", "demo"), ["echo"]);
  assert.equal(names("all", "")?.length, 3);
  assert.equal(names("caller", "ada"), undefined);
});

const NOTHING = { added: [], removed: [], replaced: [], kept: [], changed: [], restart_needed: [], notices: [] };

test("a reload is told in sentences, the most important first", () => {
  assert.equal(reloadSentence(NOTHING), "Nothing is different.");
  const lines = reloadLines({ ...NOTHING, added: ["a", "b"], removed: ["c"], kept: ["d"], restart_needed: ["gateway.listen"] }, "would");
  assert.deepEqual(
    lines.map((line) => line.text),
    ["Adds the backends a and b.", "Removes the backend c.", "Takes effect when the gateway starts again: gateway.listen.", "1 backend stays as it is."],
  );
  assert.equal(lines[1]?.tone, "warn");
});

test("long lists of names are cut, and say how many are left", () => {
  assert.equal(listed(["a"]), "a");
  assert.equal(listed(["a", "b", "c"]), "a, b and c");
  assert.equal(listed(["a", "b", "c", "d", "e", "f"], 2), "a, b and 4 more");
});

test("a distance in time has one unit", () => {
  assert.equal(distance(1_000, 0), "in 1 second");
  assert.equal(distance(0, 90_000), "1 minute ago");
  assert.equal(distance(30 * 86_400_000, 0), "in 30 days");
});

test("a draft becomes a table of the configuration, with every text quoted", () => {
  assert.equal(quoted('a"b\\c\n\u007f'), '"a\\"b\\\\c\\n\\u007f"');
  const draft = { ...EMPTY, name: "files", command: "npx", args: "-y\n@scope/server\n", env: "API_KEY=FILES_KEY" };
  assert.equal(tomlOf(draft), '[[backends]]\nname = "files"\ntype = "stdio"\ncommand = "npx"\nargs = ["-y", "@scope/server"]\nenv = { API_KEY_ENV = "FILES_KEY" }\n');
  const api = { ...EMPTY, kind: "openapi" as const, name: "shop", spec: "shop.json", credential: "SHOP_TOKEN" };
  assert.equal(tomlOf(api), '[[backends]]\nname = "shop"\ntype = "openapi"\nspec = "shop.json"\n[backends.auth]\nbearer_env = "SHOP_TOKEN"\n');
  assert.equal(appended("a = 1", ["[[backends]]\n"]), "a = 1\n\n[[backends]]\n");
});

test("a draft that cannot be right is told before it is sent", () => {
  assert.deepEqual(Object.keys(mistakesOf({ ...EMPTY, name: "Bad Name" })), ["name", "command"]);
  assert.deepEqual(Object.keys(mistakesOf({ ...EMPTY, name: "a", command: "x", env: "A=sk-secret value" })), ["env"]);
  assert.deepEqual(Object.keys(mistakesOf({ ...EMPTY, kind: "http", name: "a", url: "http://x", credential: "Bearer x" })), ["credential"]);
  assert.deepEqual(mistakesOf({ ...EMPTY, kind: "http", name: "a", url: "http://x" }), {});
});

test("lines of the editor are counted, found, numbered and indented", () => {
  assert.equal(lineCount("a\nb\n"), 3);
  assert.equal(lineNumbers(3), "1\n2\n3");
  assert.deepEqual(lineRange("ab\ncd\nef", 2), [3, 5]);
  assert.deepEqual(lineRange("ab\ncd", 9), [3, 5]);
  const text = "a\nb\n\nc";
  const more = indented(text, 0, 3, false);
  assert.equal(more.text, "  a\n  b\n\nc");
  assert.equal(indented(more.text, more.start, more.end, true).text, text);
});

const KEY = { id: "1", name: "ci", role: "viewer", state: "good" as const, created_at: 0, expires_at: null, revoked_at: null };

test("keys that expire within a week are marked, and the rest is in words", () => {
  const now = 1_000_000_000_000;
  const at = (days: number) => now / 1000 + days * 86_400;
  assert.equal(stateOf(KEY, now).word, "good");
  assert.equal(expiryOf(KEY, now), "never");
  assert.deepEqual([stateOf({ ...KEY, expires_at: at(3) }, now).word, expiryOf({ ...KEY, expires_at: at(3) }, now)], ["expires soon", "in 3 days"]);
  assert.equal(stateOf({ ...KEY, expires_at: at(30) }, now).word, "good");
  // The list is older than the expiry.
  assert.equal(stateOf({ ...KEY, expires_at: at(-1) }, now).word, "expired");
  assert.equal(stateOf({ ...KEY, state: "revoked", revoked_at: at(-2) }, now).word, "revoked");
  assert.equal(secondsOf("never", "", now), null);
  assert.equal(secondsOf("7", "", now), 7 * 86_400);
  assert.equal(secondsOf("date", "1999-01-01", now), undefined);
  assert.equal(secondsOf("date", "", now), undefined);
});

test("definitions are compared part by part, whatever the order of members", () => {
  const approved = { name: "echo", description: "Says it.", inputSchema: { type: "object", properties: { a: {}, b: {} } }, annotations: { readOnlyHint: true } };
  const offered = { name: "echo", description: "Says it, and mails it.", inputSchema: { properties: { b: {}, a: {} }, type: "object" }, annotations: { readOnlyHint: true }, icons: [1] };
  const { changed, same } = compared(approved, offered);
  assert.deepEqual(changed.map((part) => part.label), ["Description", "Other members"]);
  assert.deepEqual(same, ["Input schema", "Annotations"]);
  assert.ok(isSame(approved.inputSchema, offered.inputSchema));
  assert.ok(!isSame(approved, offered));
});

test("the matrix groups operations by backend, and filters them", () => {
  const operation = (backend: string, name: string, calls: string[], sees: string[]) => ({ backend, name, own_name: name, kind: "tools", held: false, title: null, description: null, tokens: 0, pin: "none" as const, roles_call: calls, roles_see: sees });
  const all = indexed([operation("a", "one", ["admin"], ["admin", "viewer"]), operation("a", "two", ["admin", "viewer"], ["admin", "viewer"]), operation("b", "three", ["admin"], ["admin"])], ["admin", "viewer"]);
  const rows = (filter: object, closed: string[] = []) =>
    rowsOf(all, 2, { search: "", kind: "", differing: false, ...filter }, new Set(closed)).map((row) => (row.type === "group" ? `${row.backend}:${row.calls.join(",")}` : `${row.operation.name}:${row.states.join(",")}`));
  assert.deepEqual(rows({}), ["a:2,1", "one:calls,sees", "two:calls,calls", "b:1,0", "three:calls,hidden"]);
  assert.deepEqual(rows({ differing: true }), ["a:1,0", "one:calls,sees", "b:1,0", "three:calls,hidden"]);
  assert.deepEqual(rows({ search: "thr" }), ["b:1,0", "three:calls,hidden"]);
  assert.deepEqual(rows({}, ["a", "b"]), ["a:2,1", "b:1,0"]);
  assert.equal(permissionMeaning("lab.*"), "Sees and calls everything of the backend lab.");
});
