// Rates and percentiles from the totals that the gateway tells each second.

export interface Totals {
  at_ms: number;
  ended: Readonly<Record<string, number>>;
  errors: Readonly<Record<string, number>>;
  latency: { readonly bounds_us: readonly number[]; readonly counts: readonly number[] };
}

/** How a total is counted: as the figures of the gateway do (`core::audit::figures`). */
const REFUSALS = ["denied", "rate_limited", "killed", "circuit_open", "overloaded"];

/** Calls that went well, failed, or were refused, since the start. Arguments that do not fit count as refused. */
export interface Sum {
  calls: number;
  failed: number;
  refused: number;
}

/** Kinds of the outcome `error` that are refusals: no backend ran the call. Records tell for each call, totals do not. */
const REFUSED_AS_ERROR = [
  "invalid_arguments",
  "invalid_params",
  "invalid_parameter",
  "invalid_request",
  "confirmation_required",
  "confirmation_invalid",
  "idempotency_in_progress",
  "idempotency_mismatch",
  "bad_state",
  "missing_capability",
  "audit_unavailable",
  "going_down",
];

export function sumOf(totals: Totals): Sum {
  const of = (name: string) => totals.ended[name] ?? 0;
  const calls = Object.values(totals.ended).reduce((sum, count) => sum + count, 0);
  const asError = REFUSED_AS_ERROR.reduce((sum, kind) => sum + (totals.errors[kind] ?? 0), 0);
  const refused = REFUSALS.reduce((sum, name) => sum + of(name), 0) + Math.min(asError, of("error"));
  return { calls, failed: Math.max(0, of("error") - asError), refused };
}

export interface Rate extends Sum {
  /** Of the time between the two. */
  seconds: number;
}

/** What happened between two totals of one run of the gateway. */
export function between(before: Totals, after: Totals): Rate {
  const [a, b] = [sumOf(before), sumOf(after)];
  return {
    calls: Math.max(0, b.calls - a.calls),
    failed: Math.max(0, b.failed - a.failed),
    refused: Math.max(0, b.refused - a.refused),
    seconds: Math.max(0, after.at_ms - before.at_ms) / 1000,
  };
}

/** Calls of each class of latency between two totals. */
export function countsBetween(before: Totals | undefined, after: Totals): number[] {
  return after.latency.counts.map((count, index) => Math.max(0, count - (before?.latency.counts[index] ?? 0)));
}

/** The percentile of counted latencies, in microseconds, as if calls were spread evenly within their class. */
export function percentile(boundsUs: readonly number[], counts: readonly number[], percent: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const rank = (total * percent) / 100;
  let seen = 0;
  for (const [index, count] of counts.entries()) {
    if (count === 0 || seen + count < rank) {
      seen += count;
      continue;
    }
    const low = index === 0 ? 0 : (boundsUs[index - 1] ?? 0);
    // The last class has no upper bound: its lower one is all that is known.
    const high = boundsUs[index] ?? low;
    return low + (high - low) * ((rank - seen) / count);
  }
  return boundsUs.at(-1) ?? null;
}

export interface Percentiles {
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

export function percentilesBetween(before: Totals | undefined, after: Totals): Percentiles {
  const counts = countsBetween(before, after);
  const of = (percent: number) => percentile(after.latency.bounds_us, counts, percent);
  return { p50: of(50), p95: of(95), p99: of(99) };
}

/** The oldest of the totals that is at most so old, where one before it is known; the first otherwise. */
export function since<T extends Totals>(history: readonly T[], ms: number): T | undefined {
  const last = history.at(-1);
  if (last === undefined) return undefined;
  return history.find((each) => each.at_ms >= last.at_ms - ms);
}

export interface Course {
  times: number[];
  /** A second. */
  calls: (number | null)[];
  failed: (number | null)[];
  refused: (number | null)[];
  p50: (number | null)[];
  p95: (number | null)[];
  p99: (number | null)[];
}

export interface Point {
  at_ms: number;
  calls: number;
  errors: number;
  refused: number;
  p50_us: number;
  p95_us: number;
  p99_us: number;
}

function empty(): Course {
  return { times: [], calls: [], failed: [], refused: [], p50: [], p95: [], p99: [] };
}

/** The course from what the audit store knows: steps without calls are left out there, and are zero here. */
export function courseOfHistory(history: { since_ms: number; until_ms: number; step_ms: number; points: readonly Point[] }): Course {
  const { since_ms, until_ms, step_ms } = history;
  const course = empty();
  const known = new Map(history.points.map((point) => [point.at_ms, point]));
  const first = Math.floor(since_ms / step_ms) * step_ms;
  const steps = Math.min(STEPS_MAX, Math.ceil((until_ms - first) / step_ms));
  for (let step = 0; step < steps; step += 1) {
    const at = first + step * step_ms;
    const point = known.get(at);
    // The first and the last step are parts of one.
    const seconds = (Math.min(at + step_ms, until_ms) - Math.max(at, since_ms)) / 1000;
    const aSecond = (count: number | undefined) => (seconds > 0 ? (count ?? 0) / seconds : 0);
    course.times.push(at);
    course.calls.push(aSecond(point?.calls));
    course.failed.push(aSecond(point?.errors));
    course.refused.push(aSecond(point?.refused));
    course.p50.push(point === undefined || point.calls === 0 ? null : point.p50_us);
    course.p95.push(point === undefined || point.calls === 0 ? null : point.p95_us);
    course.p99.push(point === undefined || point.calls === 0 ? null : point.p99_us);
  }
  return course;
}

/** The gateway answers at most as many. */
const STEPS_MAX = 2_001;
/** A second with few calls says little: each point is of the last seconds, of more of them for percentiles. */
export const RATE_WINDOW = 5;
const LATENCY_WINDOW = 10;

/** The course of what the live stream told, one point for each of its events. */
export function courseOfTotals(history: readonly Totals[]): Course {
  const course = empty();
  for (let index = 1; index < history.length; index += 1) {
    const after = history[index] as Totals;
    const rate = between(history[Math.max(0, index - RATE_WINDOW)] as Totals, after);
    const aSecond = (count: number) => (rate.seconds > 0 ? count / rate.seconds : 0);
    const { p50, p95, p99 } = percentilesBetween(history[Math.max(0, index - LATENCY_WINDOW)], after);
    course.times.push(after.at_ms);
    course.calls.push(aSecond(rate.calls));
    course.failed.push(aSecond(rate.failed));
    course.refused.push(aSecond(rate.refused));
    course.p50.push(p50);
    course.p95.push(p95);
    course.p99.push(p99);
  }
  return course;
}

/** The stored course up to where the live one begins, and then the live one, no longer than `ms`. */
export function joined(stored: Course | undefined, live: Course, ms: number, now: number): Course {
  const begin = live.times[0] ?? Number.POSITIVE_INFINITY;
  const course = empty();
  const take = (from: Course, isWanted: (at: number) => boolean) => {
    from.times.forEach((at, index) => {
      if (at < now - ms || !isWanted(at)) return;
      course.times.push(at);
      for (const name of ["calls", "failed", "refused", "p50", "p95", "p99"] as const) course[name].push(from[name][index] ?? null);
    });
  };
  if (stored !== undefined) take(stored, (at) => at < begin);
  take(live, () => true);
  return course;
}
