// What goes on now, as numbers. Each leads to the records, or the page, behind it.

import { useMemo } from "react";
import type { Overview } from "../../api/live";
import { between, courseOfHistory, courseOfTotals, joined, percentilesBetween, since } from "../../lib/overview/rates";
import { trafficHref } from "../../lib/records/filters";
import { Bytes, Count, Stat, formatCompact, formatCount, formatDuration, formatRate } from "../../ui";
import { useNarrow } from "../../ui/use-narrow";
import type { History } from "./use-figures";
import styles from "./overview.module.css";

/** A rate over less jumps with every call. */
const RATE_MS = 10_000;
const MINUTE_MS = 60_000;
/** Parts of all calls in five minutes that are worth a colour. */
const ERRORS_SHARE = 0.05;
const REFUSED_SHARE = 0.25;

interface Props {
  overview: Overview;
  history: readonly Overview[];
  recent: History | undefined;
}

/** Calls of the last five minutes: those that the store knows from before the stream, and those of the stream. */
function fiveMinutes(history: readonly Overview[], recent: History | undefined) {
  const [first, last] = [history[0] as Overview, history.at(-1) as Overview];
  const sum = between(first, last);
  const begin = last.at_ms - 5 * MINUTE_MS;
  for (const point of recent?.points ?? []) {
    if (point.at_ms < begin || point.at_ms + (recent?.step_ms ?? 0) > first.at_ms) continue;
    sum.calls += point.calls;
    sum.failed += point.errors;
    sum.refused += point.refused;
  }
  return sum;
}

/** Before the stream has told two totals: that of the store's last whole step. */
function recentRate(recent: History | undefined): number | undefined {
  if (recent === undefined) return undefined;
  const last = Math.floor(recent.until_ms / recent.step_ms) * recent.step_ms - recent.step_ms;
  const point = recent.points.find(({ at_ms }) => at_ms === last);
  return ((point?.calls ?? 0) * 1000) / recent.step_ms;
}

export function Now({ overview, history, recent }: Props) {
  const { rate, five, latency, isSinceStart, course } = useMemo(() => {
    const last = history.at(-1) as Overview;
    const now = between(since(history, RATE_MS) ?? last, last);
    // The stream is young, or nothing was called: what is known since the start.
    const minute = since(history, MINUTE_MS);
    const ofMinute = minute === undefined ? undefined : percentilesBetween(minute, last);
    const isSinceStart = ofMinute === undefined || ofMinute.p50 === null;
    return {
      rate: now.seconds > 0 ? now.calls / now.seconds : recentRate(recent),
      five: fiveMinutes(history, recent),
      latency: isSinceStart ? percentilesBetween(undefined, last) : ofMinute,
      isSinceStart,
      course: joined(recent === undefined ? undefined : courseOfHistory(recent), courseOfTotals(history.slice(-MINUTE_MS / 1000)), MINUTE_MS, last.at_ms),
    };
  }, [history, recent]);
  const isNarrow = useNarrow();
  // Beside a number there is no room for its course on a narrow screen; the charts below have it.
  const series = (values: readonly (number | null)[]) => (isNarrow ? {} : { series: values });
  const { admission, audit } = overview;
  const total = Object.values(overview.ended).reduce((sum, count) => sum + count, 0);
  const share = (count: number) => (five.calls === 0 ? undefined : `${formatPercent(count / five.calls)} of ${formatCompact(five.calls)} calls`);
  const duration = (us: number | null) => (us === null ? "–" : formatDuration(us));
  const up = overview.backends.filter(({ health }) => health === "up" || health === "asleep").length;
  const rejected = Object.values(admission?.rejected ?? {}).reduce((sum, count) => sum + count, 0);
  return (
    <div className={styles.stats}>
      <Stat
        label="Calls a second"
        value={rate === undefined ? "–" : formatRate(rate)}
        hint={`${formatCompact(total)} since the start`}
        href={trafficHref({ since: "5m" })}
        {...series(course.calls)}
      />
      <Stat
        label="Latency, p95"
        value={duration(latency.p95)}
        hint={`p50 ${duration(latency.p50)}, p99 ${duration(latency.p99)}, ${isSinceStart ? "since the start" : "last minute"}`}
        href={trafficHref({ since: isSinceStart ? "" : "5m", slower_than_ms: String(Math.max(0, Math.floor((latency.p95 ?? 0) / 1000))) })}
        {...series(course.p95)}
      />
      <Stat
        label="Errors, last 5 minutes"
        value={<Count value={five.failed} />}
        hint={share(five.failed) ?? "no calls"}
        href={trafficHref({ since: "5m", ended: "failed" })}
        tone={five.calls > 0 && five.failed / five.calls > ERRORS_SHARE ? "error" : "neutral"}
        {...series(course.failed)}
      />
      <Stat
        label="Refused, last 5 minutes"
        value={<Count value={five.refused} />}
        hint={share(five.refused) ?? "no calls"}
        href={trafficHref({ since: "5m", ended: "refused" })}
        tone={five.calls > 0 && five.refused / five.calls > REFUSED_SHARE ? "warn" : "neutral"}
        {...series(course.refused)}
      />
      {admission ? (
        <Stat
          label="Running now"
          value={<Count value={admission.active} />}
          unit={`of ${formatCount(admission.max)}`}
          hint={`${formatCount(admission.queued)} waiting${admission.returning > 0 ? `, ${formatCount(admission.returning)} returning` : ""}, ${formatCount(rejected)} turned away`}
          href="/limits"
          tone={admission.max > 0 && admission.active >= admission.max ? "warn" : "neutral"}
        />
      ) : (
        <Stat label="Running now" value="–" hint="Calls are not limited" href="/limits" />
      )}
      <Stat label="Backends ready" value={<Count value={up} />} unit={`of ${formatCount(overview.backends.length)}`} href="/backends" hint={restarts(overview)} />
      <Stat label="Sessions" value={<Count value={overview.sessions} />} hint={`${formatCount(overview.streams)} open ${overview.streams === 1 ? "stream" : "streams"}`} href="/limits" />
      <Stat
        label="Audit records"
        value={audit.enabled ? formatCompact(audit.records) : "Off"}
        hint={
          audit.enabled ? (
            <>
              {formatCount(audit.backlog)} on the way, spool <Bytes value={audit.spool_bytes} />
            </>
          ) : (
            "Nothing is kept"
          )
        }
        href="/traffic"
        tone={audit.dropped > 0 || audit.gaps > 0 ? "error" : "neutral"}
      />
    </div>
  );
}

function restarts(overview: Overview): string {
  const count = overview.backends.reduce((sum, backend) => sum + backend.restarts, 0);
  return count === 0 ? "none was restarted" : `${formatCount(count)} ${count === 1 ? "restart" : "restarts"} since the start`;
}

function formatPercent(part: number): string {
  if (part === 0) return "0 %";
  const percent = part * 100;
  return percent < 0.1 ? "<0.1 %" : `${percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}
