import assert from "node:assert/strict";
import { test } from "node:test";

import { adviceTable, argumentsNote, explain, isRedacted, switchesOf } from "../src/lib/records/explain";
import { OUTCOME_WORDS, outcomeTone, outcomeWord, subjectOf } from "../src/lib/records/record";
import { sample } from "./lib-record";
import { timeParts, timeline } from "../src/lib/records/story";

const ADVICE = adviceTable({
  problems: [
    { code: "forbidden", title: "Not allowed", meaning: "The credential is good, but its role does not allow this.", hint: "Ask an operator." },
    { code: "backend_error", title: "The backend reports an error", meaning: "It answered with an error.", hint: "Read `detail`." },
    { code: "unauthorized", title: "Not authenticated", meaning: "The request has no credential.", hint: "Send one." },
    { title: "no code" },
  ],
});

test("a refusal says who refused, why, what to do and where", () => {
  const refused = explain(sample({ decision: "deny", outcome: "denied", kind: "forbidden", operation: "files/write", caller: "dev" }), ADVICE);
  assert.equal(refused.title, "Not allowed");
  assert.equal(refused.what, "The gateway did not let the call through; no backend ran it. The credential is good, but its role does not allow this.");
  assert.equal(refused.code, "forbidden");
  assert.match(refused.todo, /role/);
  assert.deepEqual(refused.next, [{ label: "Why may this caller not call it?", href: "/access?tab=why&operation=files%2Fwrite&caller=dev" }]);
});

test("a failure of a backend is none of the gateway, and leads to the backend", () => {
  const failed = explain(sample({ kind: "backend_timeout", backend: "a b" }), ADVICE);
  assert.match(failed.what, /failed at its backend/);
  assert.deepEqual(failed.next, [{ label: "Look at the backend", href: "/backends/a%20b" }]);
  // What the tool said is not on record, so the advice to read it would lead nowhere.
  const told = explain(sample(), ADVICE);
  assert.match(told.what, /not on record/);
  assert.match(told.todo, /inspector/);
});

test("what is switched off now is found for a call that was refused", () => {
  const killed = [
    { scope: "tool", name: "lab__fail", reason: "it fails" },
    { scope: "tool", name: "lab" },
    { scope: "backend", name: "lab" },
    { scope: "caller", name: "lab__fail" },
    { scope: "caller", name: "dev" },
    { scope: "backend", name: "" },
  ];
  assert.deepEqual(switchesOf(sample(), killed), [killed[0], killed[2], killed[4]]);
  assert.deepEqual(switchesOf(sample({ backend: "" }), killed.slice(5)), []);
  assert.equal(switchesOf(sample(), [{ scope: "all" }]).length, 1);
  const tools = (names: string[]) => switchesOf(sample(), names.map((name) => ({ scope: "tool", name }))).map(({ name }) => name);
  assert.deepEqual(tools(["lab.*", "lab.fail", "lab.f*l", "lab.f*i*l", "lab.ok*", "lab.*x", "other.fail", "lab.fa*ail"]), ["lab.*", "lab.fail", "lab.f*l", "lab.f*i*l"]);
});

test("every outcome is explained in a sentence, with or without advice", () => {
  for (const [outcome] of OUTCOME_WORDS) {
    for (const kind of ["", "overloaded", "something_new", "replayed"]) {
      for (const advice of [ADVICE, adviceTable(null), adviceTable({ problems: "no" })]) {
        const { title, what } = explain(sample({ outcome, kind }), advice);
        assert.ok(title !== "" && what.endsWith("."), `${outcome} ${kind}: ${title} ${what}`);
      }
    }
  }
});

test("requests that were refused unread are counted by their address", () => {
  const away = (count: number) =>
    explain(sample({ method: "", operation: "", decision: "deny", outcome: "denied", kind: "unauthorized", args: { address: "10.0.0.1", count } }), ADVICE).what;
  assert.equal(away(1), "A request from 10.0.0.1 was refused before it was read. The request has no credential.");
  assert.equal(away(7), "7 requests from 10.0.0.1 were refused before they were read. The request has no credential.");
});

test("it is said why arguments are not there", () => {
  assert.equal(argumentsNote(sample()), undefined);
  assert.match(argumentsNote(sample({ args: null })) ?? "", /Only the digest/);
  assert.match(argumentsNote(sample({ args: { left_out: "too long" } })) ?? "", /256 KiB/);
  assert.match(argumentsNote(sample({ args: { left_out: "unreadable" } })) ?? "", /no valid JSON/);
  assert.match(argumentsNote(sample({ args: { deep: [{ token: "[redacted]" }] } })) ?? "", /Secrets/);
  assert.match(argumentsNote(sample({ args: null, args_digest: null })) ?? "", /audit\] arguments is off/);
  assert.equal(argumentsNote(sample({ args: null, args_digest: null, method: "tools/list" })), undefined);
  assert.equal(isRedacted({ url: "https://[redacted]@host/" }), true);
  assert.equal(isRedacted({ left_out: "too long" }), false);
});

test("words for outcomes tell a refusal from a failure", () => {
  assert.equal(outcomeWord({ decision: "deny", outcome: "error" }), "Refused");
  assert.equal(outcomeTone({ decision: "deny", outcome: "error" }), "warn");
  assert.equal(outcomeWord({ decision: "allow", outcome: "error" }), "Error");
  assert.equal(outcomeWord({ decision: "allow", outcome: "brand_new" }), "brand_new");
  assert.equal(subjectOf(sample({ operation: "", method: "tools/list" })), "Listed tools");
  assert.equal(subjectOf(sample({ operation: "", method: "" })), "A request that was not read");
});

test("the story has words for each step, and for steps that are new", () => {
  const entries = timeline([
    { step: "authorize", verdict: "passed", at_us: 12, took_us: 3, note: null },
    { step: "limit", verdict: "refused", note: "6 a minute" },
    { step: "backend", verdict: "failed", note: "backend_timeout" },
    { step: "teleport", verdict: "not_reached" },
  ]);
  assert.deepEqual(
    entries.map(({ label, verdictWord, note }) => [label, verdictWord, note]),
    [
      ["May the caller use it?", "Passed", undefined],
      ["Within the rate limit?", "Ended here", "6 a minute"],
      ["Call the backend", "Failed here", "backend_timeout"],
      ["teleport", "Not reached", undefined],
    ],
  );
});

test("the parts of a call's time make the whole", () => {
  assert.equal(timeParts(10_000, 1_000, null), undefined);
  assert.deepEqual(timeParts(10_000, 1_000, 7_000), { queueUs: 1_000, backendUs: 7_000, gatewayUs: 2_000 });
  assert.deepEqual(timeParts(10_000, 10, 7_000), { queueUs: 0, backendUs: 7_000, gatewayUs: 3_000 });
  assert.deepEqual(timeParts(10_000, null, 17_000), { queueUs: 0, backendUs: 10_000, gatewayUs: 0 });
});
