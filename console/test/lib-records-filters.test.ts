import assert from "node:assert/strict";
import { test } from "node:test";

import { PRESETS, filterWords, filtersOf, isShown, paramsOf, presetChanges, presetOf, readFilters, serverQuery, timeWords, trafficHref } from "../src/lib/records/filters";
import { sample } from "./lib-record";

test("filters of an address become the same address again", () => {
  const query = "caller=dev+%26+co&tool=lab__fail&outcome=error&slower_than_ms=250&since=1h&ended=failed&all=true";
  const filters = readFilters(new URLSearchParams(query));
  assert.equal(filters.caller, "dev & co");
  assert.equal(filters.until, "");
  assert.equal(new URLSearchParams(paramsOf(filters)).toString(), query);
  assert.equal(trafficHref(filters), `/traffic?${query}`);
  assert.equal(trafficHref({}), "/traffic");
  assert.equal(trafficHref({ caller: "a" }, { record: "n.1.2" }), "/traffic?caller=a&record=n.1.2");
});

test("words that the address may not have are no filters, and values are bounded", () => {
  const filters = readFilters(new URLSearchParams(`ended=maybe&all=1&failed=yes&nothing=x&text=${"x".repeat(5_000)}`));
  assert.deepEqual([filters.ended, filters.all, filters.failed], ["", "", ""]);
  assert.equal(filters.text.length, 2_000);
  assert.equal("nothing" in filters, false);
});

test("the gateway is asked for what it can answer, and the rest is left to the page", () => {
  const filters = filtersOf({ caller: "a b", ended: "refused", all: "true" });
  assert.equal(serverQuery(filters, { limit: 5 }), "caller=a+b&failed=true&limit=5");
  const failed = sample();
  const refused = sample({ decision: "deny", outcome: "denied", kind: "forbidden" });
  assert.deepEqual([isShown(failed, filters), isShown(refused, filters)], [false, true]);
  assert.deepEqual([isShown(failed, filtersOf({ ended: "failed" })), isShown(refused, filtersOf({ ended: "failed" }))], [true, false]);
});

test("anchors and reads of the admin API are left out unless asked for, changes and refusals never", () => {
  const anchor = sample({ surface: "gateway", method: "audit/anchor", outcome: "success", kind: "", operation: "" });
  const read = sample({ surface: "admin", method: "admin/backends", bytes_in: 0, outcome: "success", kind: "" });
  const left = sample({ surface: "admin", method: "admin/usage", bytes_in: 0, outcome: "cancelled", kind: "cancelled" });
  const change = sample({ surface: "admin", method: "admin/kill", bytes_in: 79, outcome: "success", kind: "" });
  const reload = sample({ surface: "admin", method: "admin/reload", bytes_in: 0, outcome: "success", kind: "" });
  const refused = sample({ surface: "admin", method: "admin/status", bytes_in: 0, decision: "deny", outcome: "denied", kind: "forbidden" });
  const shown = (filters: Parameters<typeof filtersOf>[0]) => [anchor, read, change, reload, refused].map((record) => isShown(record, filtersOf(filters)));
  assert.equal(isShown(left, filtersOf({})), false);
  assert.deepEqual(shown({}), [false, false, true, true, true]);
  assert.deepEqual(shown({ all: "true" }), [true, true, true, true, true]);
  assert.equal(isShown(anchor, filtersOf({ method: "audit/anchor" })), true);
});

test("a preset replaces what presets are made of, and is recognised again", () => {
  for (const preset of PRESETS) {
    const filters = { ...filtersOf({ caller: "dev", outcome: "error", slower_than_ms: "5" }), ...presetChanges(preset) };
    assert.equal(filters.caller, "dev");
    assert.equal(presetOf(filters), preset.id);
  }
  assert.equal(presetOf(filtersOf({ outcome: "denied" })), undefined);
  assert.equal(presetOf(filtersOf({ tool: "x" })), "all");
});

test("filters are told in words", () => {
  const time = (ms: number) => `at ${ms}`;
  assert.equal(timeWords("15m", time), "15 minutes ago");
  assert.equal(timeWords("1h", time), "1 hour ago");
  assert.equal(timeWords("1000", time), "at 1000");
  assert.equal(timeWords("2026-07-28T10:00:00Z", time), "at 1785232800000");
  assert.equal(timeWords("soon", time), "soon");
  const words = filterWords(filtersOf({ outcome: "killed", surface: "rpc", slower_than_ms: "20", since: "7d" }), time);
  assert.deepEqual(
    words.map(({ label, value }) => `${label}: ${value}`),
    ["Outcome: Switched off", "Surface: JSON-RPC", "Slower than: 20 ms", "From: 7 days ago"],
  );
});
