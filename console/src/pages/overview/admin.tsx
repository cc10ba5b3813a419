// What an operator sees first: whether all is right, what goes on now, its course, the backends, and who calls what.

import { Plug, Plus, Server } from "lucide-react";
import { useMemo } from "react";
import { useLocation } from "wouter";
import { useLive } from "../../api/live";
import type { Overview } from "../../api/live";
import { findings } from "../../lib/overview/health";
import type { State } from "../../lib/overview/health";
import { RATE_WINDOW, courseOfHistory, courseOfTotals, joined } from "../../lib/overview/rates";
import type { Course } from "../../lib/overview/rates";
import { trafficHref } from "../../lib/records/filters";
import { useParam } from "../../shell/use-param";
import { Card, EmptyState, LineChart, LinkButton, Loading, PageHeader, Section, formatDuration, formatRate } from "../../ui";
import { BackendTiles } from "./backend-tiles";
import { HealthLine } from "./health-line";
import { Now } from "./now";
import { RANGES, rangeOf } from "./range";
import type { RangeWords } from "./range";
import { Tops } from "./tops";
import { useHistory } from "./use-figures";
import type { History } from "./use-figures";
import styles from "./overview.module.css";

/** Usual and unusual are told apart by the hour before. */
const BASELINE = { everyMs: 60_000 };

export function AdminOverview() {
  const { overview, history, state } = useLive();
  const [value, setValue] = useParam("range", "live");
  const range = rangeOf(value);
  const hour = useHistory("1h", BASELINE).data;
  // Once: what was before the page was opened. The stream tells the rest.
  const recent = useHistory("5m", { stepS: RATE_WINDOW }).data;
  const found = useMemo(() => findings(history as readonly State[], hour?.points), [history, hour]);

  if (overview === undefined) {
    return (
      <>
        <PageHeader title="Overview" />
        {state === "live" ? (
          <EmptyState title="This gateway tells no figures">It is older than this console. The other pages work.</EmptyState>
        ) : (
          <Loading label="Waiting for the gateway…" />
        )}
      </>
    );
  }
  const hasBackends = overview.backends.some((backend) => backend.type !== "builtin");
  const hasCalls = Object.values(overview.ended).some((count) => count > 0);
  const health = <HealthLine findings={found} overview={overview} isOffline={state === "offline"} />;
  if (!hasBackends && !hasCalls) {
    return (
      <>
        <PageHeader title="Overview" />
        {health}
        <FirstSteps />
      </>
    );
  }
  return (
    <>
      <PageHeader title="Overview" />
      {health}
      <Now overview={overview} history={history} recent={recent} />
      <Section
        title="Over time"
        description={`Of ${range.words}. Drag over a chart to see the records of that time.`}
        actions={<RangePicker range={range} onChange={setValue} />}
      >
        <Charts range={range} history={history} recent={recent} now={overview.at_ms} />
      </Section>
      {overview.backends.length > 0 && <BackendTiles backends={overview.backends} />}
      <Tops range={range} overview={overview} />
    </>
  );
}

/** A gateway without backends has nothing to offer yet. */
function FirstSteps() {
  return (
    <Card>
      <EmptyState
        icon={<Server size={24} aria-hidden />}
        title="No backends yet"
        actions={
          <>
            <LinkButton href="/backends?add=paste" variant="primary" icon={<Plus size={14} aria-hidden />}>
              Add a backend
            </LinkButton>
            <LinkButton href="/connect" icon={<Plug size={14} aria-hidden />}>
              Connect a client
            </LinkButton>
          </>
        }
      >
        Add a server whose tools the gateway offers, by pasting what you gave your client, or from those found on this machine. Then connect the
        client to the gateway in its place.
      </EmptyState>
    </Card>
  );
}

function RangePicker({ range, onChange }: { range: RangeWords; onChange: (value: string) => void }) {
  return (
    <div className={styles.ranges} role="group" aria-label="Time">
      {RANGES.map(({ value, label }) => (
        <button key={value} type="button" className={styles.range} aria-pressed={value === range.value} onClick={() => onChange(value)}>
          {label}
        </button>
      ))}
    </div>
  );
}

const NOTHING: Course = { times: [], calls: [], failed: [], refused: [], p50: [], p95: [], p99: [] };

interface ChartsProps {
  range: RangeWords;
  history: readonly Overview[];
  recent: History | undefined;
  now: number;
}

function Charts({ range, history, recent, now }: ChartsProps) {
  const [, navigate] = useLocation();
  const isLive = range.value === "live";
  const stored = useHistory(isLive ? null : range.since, { everyMs: range.everyMs });
  const course = useMemo(() => {
    if (!isLive) return stored.data === undefined ? NOTHING : courseOfHistory(stored.data);
    return joined(recent === undefined ? undefined : courseOfHistory(recent), courseOfTotals(history), range.ms, now);
  }, [isLive, stored.data, recent, history, range.ms, now]);
  const calls = useMemo(
    () => [
      { label: "Calls", values: course.calls, color: "--series-1" },
      { label: "Refused", values: course.refused, color: "--series-2" },
      { label: "Errors", values: course.failed, color: "--series-5" },
    ],
    [course],
  );
  const latency = useMemo(
    () => [
      { label: "p50", values: course.p50, color: "--series-3" },
      { label: "p95", values: course.p95, color: "--series-1" },
      { label: "p99", values: course.p99, color: "--series-4" },
    ],
    [course],
  );
  const end = isLive ? now : (stored.data?.until_ms ?? now);
  const rangeMs = useMemo(() => [end - range.ms, end] as const, [end, range.ms]);
  const select = (since: number, until: number) => navigate(trafficHref({ since: String(since), until: String(until) }));
  const isPartial = !isLive && stored.data?.complete === false;
  return (
    <>
      <div className={styles.charts} aria-busy={!isLive && stored.isLoading ? true : undefined}>
        <Card title="Calls a second">
          <LineChart label={`Calls a second, ${range.words}`} times={course.times} series={calls} format={formatRate} rangeMs={rangeMs} onSelect={select} height={150} />
        </Card>
        <Card title="How long calls take">
          <LineChart label={`Latency of calls, ${range.words}`} times={course.times} series={latency} format={formatDuration} rangeMs={rangeMs} onSelect={select} height={150} />
        </Card>
      </div>
      {isPartial && <p className={styles.partial}>The store took too long: the oldest part of this time is missing.</p>}
      {!isLive && stored.error !== undefined && stored.data === undefined && <p className={styles.partial}>{stored.error.title}: {stored.error.detail}</p>}
    </>
  );
}
