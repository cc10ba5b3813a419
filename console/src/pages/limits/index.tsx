// Limits as they stand: places, rates, circuits, sessions and streams.

import { useMemo, useState } from "react";
import { Link } from "wouter";
import { useQuery } from "../../api/use-query";
import { loadLimits } from "../../lib/control/contract";
import type { CircuitNow, LimitsNow, RateBucket } from "../../lib/control/contract";
import { Callout, Meter, NotHere, isMissing } from "../../lib/control/parts";
import { CallerName, useCallerNames } from "../../lib/records/caller-name";
import type { CallerNames } from "../../lib/records/caller-name";
import { backendHref, traffic, useBackends } from "../../lib/control/state";
import { plural } from "../../lib/control/words";
import { Button, Card, Count, DefinitionList, EmptyState, ErrorState, InlineCode, Loading, PageHeader, SearchInput, Section, Stat, StatGrid, Status, Table, Text, Toolbar, formatCount, formatDuration } from "../../ui";
import type { Column, Tone } from "../../ui";
import { useParam } from "../../shell/use-param";
import { CircuitStatus, circuitMeaning } from "../backends/marks";
import styles from "./limits.module.css";
import { bucketKey, used } from "./numbers";

const ASK_EVERY_MS = 1_000;
/** Of the rates in use that are shown at first. */
const FIRST_ROWS = 10;

export default function Limits() {
  const limits = useQuery("admin/limits", loadLimits, { everyMs: ASK_EVERY_MS });
  const { data } = limits;
  return (
    <>
      <PageHeader title="Limits" description="What is used of each bound at this moment. The bounds are in the configuration; a reload changes them." />
      {isMissing(limits.error) && data === undefined && <NotHere what="how its limits stand" />}
      {limits.error !== undefined && !isMissing(limits.error) && data === undefined && <ErrorState error={limits.error} onRetry={limits.refetch} />}
      {limits.isLoading && <Loading />}
      {data !== undefined && (
        <>
          <Gauges limits={data} />
          <Rates limits={data} />
          <Places limits={data} />
          <Circuits circuits={data.circuits} />
        </>
      )}
    </>
  );
}

function toneOfShare(value: number, max: number): Tone {
  if (max <= 0 || value < max * 0.75) return "neutral";
  return value >= max ? "error" : "warn";
}

function Gauges({ limits }: { limits: LimitsNow }) {
  const { admission, sessions, streams } = limits;
  const gauge = (label: string, value: number, max: number, hint: string, href: string) => (
    <Stat label={label} value={formatCount(value)} unit={max > 0 ? `of ${formatCount(max)}` : "no bound"} hint={hint} tone={toneOfShare(value, max)} href={href} />
  );
  return (
    <StatGrid>
      {admission !== null && (
        <>
          {gauge("Calls that run", admission.active, admission.max, "admission.max_concurrent", "/config?q=admission.max_concurrent")}
          {gauge("Calls that wait", admission.queued, admission.queue_max, `at most ${formatDuration(admission.queue_timeout_ms * 1000)} each`, "/config?q=admission.queue")}
        </>
      )}
      {gauge("Sessions", sessions.open, sessions.max, "limits.sessions", "/config?q=limits.sessions")}
      {gauge("Streams", streams.open, streams.max, `${formatCount(streams.per_caller_max)} for each caller`, "/config?q=limits.streams")}
    </StatGrid>
  );
}

function Rates({ limits }: { limits: LimitsNow }) {
  const [search, setSearch] = useParam("q");
  const { rates, buckets, buckets_total } = limits;
  const names = useCallerNames();
  const columns = useMemo(() => bucketColumns(names), [names]);
  const wanted = search.trim().toLowerCase();
  const shown = useMemo(() => (wanted === "" ? buckets : buckets.filter((bucket) => `${names.get(bucket.caller) ?? ""} ${bucket.caller} ${bucket.tool} ${bucket.backend}`.toLowerCase().includes(wanted))), [buckets, names, wanted]);
  const perTool = Object.entries(rates.per_tool);
  const [isAll, setAll] = useState(false);
  const isCut = !isAll && wanted === "" && shown.length > FIRST_ROWS;
  return (
    <Section
      title="Rates"
      description={
        rates.default_rpm === 0 && perTool.length === 0
          ? "Callers may call as often as they like."
          : `Calls in a minute of each caller and tool${rates.shared ? ", counted together with other gateways; these are the calls at this one" : ""}.`
      }
    >
      <div className={styles.columns}>
        <Card title="As configured">
          <DefinitionList
            items={[
              ["Each tool", rates.default_rpm === 0 ? "no limit" : `${formatCount(rates.default_rpm)} a minute`],
              ["At once", rates.burst === 0 ? "the allowance of a minute" : plural(rates.burst, "call")],
              ...perTool.map(([name, rpm]) => [<InlineCode key={name}>{name}</InlineCode>, rpm === 0 ? "no limit" : `${formatCount(rpm)} a minute`] as const),
            ]}
          />
          <p className={styles.foot}>
            <Link href="/config?q=rate_limits">Configuration</Link>
          </p>
        </Card>
        <Card flush>
          {buckets.length > 10 && (
            <div className={styles.search}>
              <Toolbar label="Filters">
                <SearchInput label="Search callers and tools" value={search} onChange={setSearch} />
              </Toolbar>
            </div>
          )}
          <Table
            label="Rates in use"
            columns={columns}
            rows={isCut ? shown.slice(0, FIRST_ROWS) : shown}
            rowKey={bucketKey}
            height="420px"
            empty={<EmptyState title={buckets.length === 0 ? "Nobody used anything of a rate" : "No rate in use is like that"}>{buckets.length === 0 ? "Calls of the last minute are here, the fullest first." : undefined}</EmptyState>}
          />
          {buckets.length > 0 && (isCut || buckets_total > shown.length) && (
            <p className={styles.more}>
              <span>
                {isCut ? `The ${FIRST_ROWS} fullest` : plural(shown.length, "rate")} of {formatCount(buckets_total)}.
              </span>
              {isCut && (
                <Button size="s" variant="ghost" onClick={() => setAll(true)}>
                  Show {formatCount(shown.length)}
                </Button>
              )}
            </p>
          )}
        </Card>
      </div>
    </Section>
  );
}

const bucketColumns = (names: CallerNames): readonly Column<RateBucket>[] => [
  {
    id: "caller",
    header: "Caller",
    primary: true,
    width: "26%",
    cell: (bucket) => (
      <Link href={traffic({ caller: bucket.caller, tool: bucket.tool })}>
        <CallerName caller={bucket.caller} names={names} />
      </Link>
    ),
  },
  { id: "tool", header: "Tool", cell: (bucket) => <Text value={bucket.tool} max={80} /> },
  { id: "used", header: "Used", width: "190px", cell: (bucket) => <Meter label={`Used by ${bucket.caller} of ${bucket.tool}`} value={used(bucket)} max={bucket.burst} /> },
  {
    id: "left",
    header: "State",
    width: "170px",
    cell: (bucket) =>
      bucket.remaining === 0 ? <Status tone="error">refused for {formatDuration(bucket.renews_in_ms * 1000)}</Status> : <span>{formatCount(bucket.remaining)} left at once</span>,
  },
];

interface PlacesRow {
  name: string;
  max: number;
  queue_max: number;
  active: number;
  queued: number;
}

const PLACES: readonly Column<PlacesRow>[] = [
  {
    id: "name",
    header: "Backend",
    primary: true,
    width: "30%",
    sort: (row) => row.name,
    cell: (row) => (
      <Link href={backendHref(row.name)}>
        <Text value={row.name} />
      </Link>
    ),
  },
  { id: "active", header: "Running", sort: (row) => row.active, cell: (row) => <Meter label={`Calls of ${row.name} that run`} value={row.active} max={row.max} /> },
  { id: "queued", header: "Waiting", sort: (row) => row.queued, cell: (row) => <Meter label={`Calls of ${row.name} that wait`} value={row.queued} max={row.queue_max} /> },
];

function Places({ limits }: { limits: LimitsNow }) {
  const { admission } = limits;
  return (
    <Section title="Places" description="Calls that run at the same time, for each backend. Further ones wait, and when the queue is full they are refused.">
      {admission === null ? (
        <Callout tone="info">Calls are not limited.</Callout>
      ) : (
        <Card flush>
          <Table label="Places of backends" columns={PLACES} rows={admission.backends} rowKey={(row) => row.name} empty={<EmptyState title="There is no backend yet" />} />
        </Card>
      )}
    </Section>
  );
}

function Circuits({ circuits }: { circuits: readonly CircuitNow[] }) {
  const { backends } = useBackends();
  const problem = (name: string) => backends?.find((backend) => backend.name === name)?.problem ?? "";
  // What is open comes first.
  const rank = { open: 0, half_open: 1, closed: 2 } as const;
  const rows = circuits.filter((circuit) => circuit.state !== "closed" || circuit.failures > 0).sort((a, b) => rank[a.state] - rank[b.state]);
  const quiet = circuits.length - rows.length;
  return (
    <Section title="Circuits" description="After so many failures in a row calls of a backend are refused at once, until one is let through to see.">
      <Card flush>
        <Table
          label="Circuits of backends"
          rows={rows}
          rowKey={(circuit) => circuit.backend}
          empty={<EmptyState title={circuits.length === 0 ? "There is no circuit yet" : "Every circuit is closed"}>{circuits.length === 0 ? "Every backend has one." : "No backend failed lately."}</EmptyState>}
          columns={[
            {
              id: "backend",
              header: "Backend",
              primary: true,
              width: "24%",
              cell: (circuit) => (
                <Link href={backendHref(circuit.backend)}>
                  <Text value={circuit.backend} />
                </Link>
              ),
            },
            { id: "state", header: "State", width: "160px", cell: (circuit) => <CircuitStatus circuit={circuit} /> },
            { id: "failures", header: "Failures in a row", width: "150px", align: "end", cell: (circuit) => <Count value={circuit.failures} /> },
            {
              id: "meaning",
              header: "What that means",
              narrow: "wide",
              cell: (circuit) => (
                <>
                  {circuitMeaning(circuit)}
                  {circuit.state !== "closed" && problem(circuit.backend) !== "" && (
                    <div className={styles.dim}>
                      <Text value={problem(circuit.backend)} max={160} />
                    </div>
                  )}
                </>
              ),
            },
          ]}
        />
        {rows.length > 0 && quiet > 0 && <p className={styles.more}>{quiet === 1 ? "The circuit of the other backend is" : `The circuits of ${formatCount(quiet)} other backends are`} closed.</p>}
      </Card>
    </Section>
  );
}
