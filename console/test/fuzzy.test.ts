import assert from "node:assert/strict";
import { test } from "node:test";
import { index, search } from "../src/shell/fuzzy";

const find = (names: string[], query: string) => search(names.map((name) => index(name, name, "")), query, 50);

test("half a word and the beginnings of words find a name, the closest first", () => {
  const names = ["files__write", "files__read", "profile_rename", "search__web", "thread_list"];
  assert.equal(find(names, "read")[0], "files__read");
  assert.equal(find(names, "fr")[0], "files__read");
  assert.equal(find(names, "SW")[0], "search__web");
  assert.deepEqual(find(names, "zq"), []);
  assert.equal(find(names, "  ").length, names.length);
});

test("5,000 names are searched within 50 ms", () => {
  const all = Array.from({ length: 5_000 }, (_, i) => index(i, `backend_${i % 40}__some_long_tool_name_${i}`, "a description of what the tool does ".repeat(5)));
  search(all, "warm up", 50);
  for (const query of ["b", "sltn", "tool_name_4999", "does", "nothing like this"]) {
    const start = performance.now();
    search(all, query, 50);
    const took = performance.now() - start;
    assert.ok(took < 50, `${query} took ${took} ms`);
  }
});
