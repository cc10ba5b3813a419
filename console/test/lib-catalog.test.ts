import assert from "node:assert/strict";
import { test } from "node:test";
import { definitionText, hrefOf, isGlob, readCatalog, switchOf } from "../src/lib/catalog/entries";
import type { AdminEntry } from "../src/lib/catalog/entries";
import { find, prepare, stateOf } from "../src/lib/catalog/search";
import type { Filters } from "../src/lib/catalog/search";

const OWN = `{"tools":[{"name":"get-sum","title":"Get Sum Tool","description":"Returns the sum of \\"two\\" numbers }","inputSchema":{"type":"object","properties":{"a":{"maximum":9223372036854775807}}},"annotations":{"readOnlyHint":true},"backend":"everything","method":["GET","POST"]},
{"name":"delete_entities","description":"Delete entities [and] their relations","annotations":{"destructiveHint":true,"readOnlyHint":false},"_meta":{"tags":["graph"]},"backend":"memory"}],
"resources":[{"uri":"test://static","name":"static"},{"uri":"test://static","name":"static"}],"resourceTemplates":[{"uriTemplate":"test://items/{id}","name":"item"}],"prompts":[{"name":"greet"},{"noname":1},null]}`;
const admin = (entries: Partial<AdminEntry>[]) => entries.map((entry) => ({ backend: "b", own_name: entry.name ?? "", name: "", held: false, kind: "tools", ...entry })) as AdminEntry[];
const NONE: Filters = { query: "", kind: "", backend: "", hint: "", state: "" };
const names = (query: Partial<Filters>, catalog = readCatalog(OWN, undefined)) => find(prepare(catalog.entries, []), { ...NONE, ...query }, "relevance", false).map(({ entry }) => entry.name);

test("a catalog is one list, in which a resource of several backends is once", () => {
  const { entries, byKey } = readCatalog(OWN, undefined);
  assert.deepEqual(entries.map(({ kind, name }) => [kind, name]), [
    ["tools", "get-sum"], ["tools", "delete_entities"], ["resources", "test://static"], ["templates", "test://items/{id}"], ["prompts", "greet"],
  ]);
  assert.equal(byKey.get("tools get-sum")?.isReadOnly, true);
  assert.deepEqual(readCatalog('{"tools":5}', undefined).entries, []);
});

test("a definition is the text that arrived, with every digit", () => {
  const catalog = readCatalog(OWN, undefined);
  const text = definitionText(catalog, catalog.entries[0]!) ?? "";
  assert.match(text, /9223372036854775807/);
  assert.equal(JSON.parse(text).name, "get-sum");
  assert.equal(JSON.parse(definitionText(catalog, catalog.byKey.get("templates test://items/{id}")!) ?? "").name, "item");
  assert.equal(JSON.parse(definitionText(catalog, catalog.byKey.get("prompts greet")!) ?? "").name, "greet");
});

test("admins also see what is held back or switched off, and what callers do not", () => {
  const catalog = readCatalog(OWN, admin([
    { name: "get-sum", backend: "everything", tokens: 40, pin: "pinned", roles_call: ["admin"] },
    { name: "vendor__echo", own_name: "echo", backend: "vendor", held: true, pin: "changed", description: "Now sends more" },
    { name: "modern__blob", own_name: "blob", backend: "modern" },
    { name: "test://static", kind: "resources", backend: "lab" },
    { name: "test://static", kind: "resources", backend: "modern" },
  ]));
  assert.deepEqual(catalog.byKey.get("resources test://static")?.backends, ["lab", "modern"]);
  const killed = [{ scope: "tool", name: "modern.bl*", reason: "" }, { scope: "caller", name: "x", reason: "" }] as Parameters<typeof prepare>[1];
  const rows = prepare(catalog.entries, killed);
  const state = (name: string) => stateOf(rows.find(({ entry }) => entry.name === name)!);
  assert.deepEqual(["get-sum", "vendor__echo", "modern__blob", "delete_entities"].map(state), ["pinned", "held", "off", "usable"]);
  assert.deepEqual(find(rows, { ...NONE, state: "held" }, "relevance", false).map(({ entry }) => entry.name), ["vendor__echo"]);
  assert.deepEqual(find(rows, { ...NONE, state: "off" }, "relevance", false).map(({ entry }) => entry.name), ["modern__blob"]);
  assert.equal(catalog.byKey.get("tools get-sum")?.tokens, 40);
  assert.equal(switchOf(catalog.byKey.get("tools get-sum")!, [{ scope: "backend", name: "everything" } as never])?.scope, "backend");
});

test("half a word finds by name, title, description, backend and tag, the best first", () => {
  assert.deepEqual(names({ query: "sum" }), ["get-sum"]);
  assert.deepEqual(names({ query: "ENT" }), ["delete_entities"]);
  assert.deepEqual(names({ query: "graph" }), ["delete_entities"]);
  assert.deepEqual(names({ query: "memo del" }), ["delete_entities"]);
  assert.deepEqual(names({ query: "numb two" }), ["get-sum"]);
  assert.deepEqual(names({ query: "get nothing" }), []);
  assert.deepEqual(names({ query: "stat", kind: "resources" }), ["test://static"]);
  assert.deepEqual(names({ hint: "read-only" }), ["get-sum"]);
  assert.deepEqual(names({ hint: "writes" }), ["delete_entities"]);
  assert.deepEqual(names({ backend: "memory" }), ["delete_entities"]);
});

test("names like *.* are no patterns that take long", () => {
  assert.ok(isGlob("*a*b?", "xxaxxbc"));
  assert.ok(!isGlob("*a*b?", "xxaxxb"));
  assert.ok(isGlob("*", "") && isGlob("a.*", "a.b") && !isGlob("a", "ab"));
  const started = process.cpuUsage();
  isGlob("*a".repeat(50), "a".repeat(20_000));
  assert.ok(process.cpuUsage(started).user < 500_000);
});

test("every name has an address", () => {
  for (const name of ["a/b", "../../admin", "100%", "a%2Fb", "?#&", "tool name <b>", "ü"]) {
    const { pathname } = new URL(`http://x/console${hrefOf("tools", name)}`);
    assert.equal(decodeURIComponent(pathname.split("/").at(-1) ?? ""), name);
  }
  assert.equal(new URL(`http://x/console${hrefOf("tools", "..")}`).pathname, "/console/catalog/tools/_");
});

test("5,000 tools are searched within a few milliseconds", () => {
  const tools = Array.from({ length: 5_000 }, (_, index) => ({ name: `many_${index}`, title: `Number ${index}`, description: `Does the thing with the number ${index}. `.repeat(8), backend: `b${index % 20}` }));
  const rows = prepare(readCatalog(JSON.stringify({ tools }), undefined).entries, []);
  find(rows, NONE, "relevance", false);
  // Of this process alone: others share the machine.
  const started = process.cpuUsage();
  const queries = ["m", "ma", "many_4", "many_4999", "number 12", "zzz", "b7 thing"];
  for (const query of queries) find(rows, { ...NONE, query }, "relevance", false);
  const each = process.cpuUsage(started).user / 1_000 / queries.length;
  assert.ok(each < 50, `${each} ms a search`);
});
