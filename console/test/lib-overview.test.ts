import assert from "node:assert/strict";
import { test } from "node:test";

import { findings } from "../src/lib/overview/health";
import type { State } from "../src/lib/overview/health";
import { between, courseOfHistory, courseOfTotals, joined, percentile, since, sumOf } from "../src/lib/overview/rates";

const BOUNDS = [1_000, 10_000, 100_000];

function state(at_s: number, some: Partial<State> = {}): State {
  return {
    at_ms: at_s * 1000,
    ended: {},
    errors: {},
    latency: { bounds_us: BOUNDS, counts: [0, 0, 0, 0] },
    uptime_s: 7200,
    admission: { active: 0, queued: 0, max: 64 },
    audit: { enabled: true, dropped: 0, gaps: 0, backlog: 0 },
    backends: [],
    killed: [],
    pins_waiting: 0,
    draining: false,
    ...some,
  };
}

test("calls are told apart as the figures of the audit store are", () => {
  const totals = state(1, { ended: { success: 5, error: 4, denied: 2, killed: 1, cancelled: 1 }, errors: { invalid_arguments: 3, backend_error: 1, forbidden: 2 } });
  assert.deepEqual(sumOf(totals), { calls: 13, failed: 1, refused: 6 });
  const later = state(11, { ended: { success: 25, error: 4, denied: 2, killed: 1, cancelled: 1 }, errors: { invalid_arguments: 3, backend_error: 1 } });
  assert.deepEqual(between(totals, later), { calls: 20, failed: 0, refused: 0, seconds: 10 });
});

test("percentiles lie within their class", () => {
  assert.equal(percentile(BOUNDS, [0, 0, 0, 0], 50), null);
  assert.equal(percentile(BOUNDS, [10, 0, 0, 0], 50), 500);
  assert.equal(percentile(BOUNDS, [0, 10, 0, 0], 100), 10_000);
  assert.equal(percentile(BOUNDS, [50, 45, 5, 0], 95), 10_000);
  assert.equal(percentile(BOUNDS, [0, 0, 0, 3], 99), 100_000);
  assert.equal(percentile(BOUNDS, [1, 0, 0, 1], 99), 100_000);
});

test("the course of the totals has one point for each second, and none before the second event", () => {
  assert.deepEqual(courseOfTotals([]).times, []);
  assert.deepEqual(courseOfTotals([state(1)]).times, []);
  const course = courseOfTotals([state(1), state(2, { ended: { success: 3 }, latency: { bounds_us: BOUNDS, counts: [3, 0, 0, 0] } }), state(4, { ended: { success: 3, denied: 4 } })]);
  assert.deepEqual(course.times, [2000, 4000]);
  // Of the seconds up to then: 3 in one, 7 in three.
  assert.deepEqual(course.calls, [3, 7 / 3]);
  assert.deepEqual(course.refused, [0, 4 / 3]);
  assert.equal(course.p50[0], 500);
  const steady = courseOfTotals(Array.from({ length: 20 }, (_, second) => state(second, { ended: { success: second * 4 } })));
  assert.deepEqual(new Set(steady.calls), new Set([4]));
});

test("steps without calls are zero, and have no latency", () => {
  const point = { at_ms: 60_000, calls: 30, errors: 6, refused: 3, p50_us: 1, p95_us: 2, p99_us: 3 };
  const course = courseOfHistory({ since_ms: 30_000, until_ms: 180_000, step_ms: 60_000, points: [point] });
  assert.deepEqual(course.times, [0, 60_000, 120_000]);
  assert.deepEqual(course.calls, [0, 0.5, 0]);
  assert.deepEqual(course.failed, [0, 0.1, 0]);
  assert.deepEqual(course.p99, [null, 3, null]);
});

test("the stored course ends where the live one begins", () => {
  const stored = courseOfHistory({ since_ms: 0, until_ms: 10_000, step_ms: 1_000, points: [] });
  const live = courseOfTotals([state(7), state(8), state(9)]);
  assert.deepEqual(joined(stored, live, 5_000, 9_000).times, [4000, 5000, 6000, 7000, 8000, 9000]);
  assert.deepEqual(joined(undefined, live, 5_000, 9_000).times, [8000, 9000]);
});

test("a window begins at the oldest event that is young enough", () => {
  assert.equal(since([state(1), state(50), state(100)], 60_000)?.at_ms, 50_000);
  assert.equal(since([], 60_000), undefined);
});

test("a gateway where all is right has no findings", () => {
  const backends = [
    { name: "a", type: "stdio", health: "up", listed: true },
    { name: "b", type: "stdio", health: "asleep", listed: true },
    { name: "c", type: "http", health: "starting", listed: false },
  ];
  assert.deepEqual(findings([state(1, { backends })], undefined), []);
  assert.deepEqual(findings([], undefined), []);
});

test("what is wrong is named, worst first, with the page that helps", () => {
  const backends = ["down", "down", "failing", "stopped"].map((health, index) => ({ name: `b${index}`, type: "http", health, listed: false }));
  const found = findings(
    [
      state(1, {
        backends,
        killed: [{ scope: "tool", name: "x" }],
        pins_waiting: 2,
        draining: true,
        audit: { enabled: true, dropped: 3, gaps: 1, backlog: 9_000 },
        admission: { active: 64, queued: 1, max: 64 },
      }),
    ],
    undefined,
  );
  assert.deepEqual(
    found.map(({ text, href }) => [text, href]),
    [
      ["the gateway is shutting down and takes no new calls", "/limits"],
      ["b0 and b1 are down", "/backends"],
      ["3 audit records were lost", "/traffic?method=audit%2Fgap"],
      ["1 switch is off", "/switches"],
      ["b2 is failing", "/backends/b2"],
      ["9,000 audit records wait for the store", "/traffic"],
      ["all 64 places are taken and 1 call waits", "/limits"],
      ["2 changed definitions wait for approval", "/pins"],
      ["b3 is stopped", "/backends/b3"],
    ],
  );
});

test("refusals are named when they are more than usual, and not when they are usual", () => {
  const history = [state(0, { ended: { success: 10 } }), state(60, { ended: { success: 40, denied: 12 } })];
  const hour = (refused: number) => [{ at_ms: 0, calls: 600, errors: 0, refused, p50_us: 900, p95_us: 900, p99_us: 900 }];
  assert.deepEqual(findings(history, hour(60)).map(({ id }) => id), ["refused"]);
  assert.deepEqual(findings(history, hour(600)), []);
  assert.deepEqual(findings(history, undefined), []);
  // Two seconds of the stream are not judged.
  assert.deepEqual(findings([state(58, { ended: {} }), history[1] as State], hour(0)), []);
});

test("calls that take much longer than usual are named", () => {
  const slow = [state(0), state(60, { ended: { success: 20 }, latency: { bounds_us: [1_000, 400_000], counts: [0, 20, 0] } })];
  const hour = [{ at_ms: 0, calls: 600, errors: 0, refused: 0, p50_us: 900, p95_us: 2_000, p99_us: 900 }];
  assert.deepEqual(findings(slow, hour).map(({ id, href }) => [id, href]), [["slow", "/traffic?since=2m&slower_than_ms=2"]]);
});
