// Who calls what, and how that ends: the slowest and the busiest operations, the loudest callers, and the reasons of
// failures. From the audit store, for the same time as the charts.

import { useState } from "react";
import { Link } from "wouter";
import type { Overview } from "../../api/live";
import type { Query } from "../../api/use-query";
import { CallerName, useCallerNames } from "../../lib/records/caller-name";
import { trafficHref } from "../../lib/records/filters";
import { useAdvice } from "../../lib/records/use-advice";
import { Card, Count, Duration, ErrorState, Loading, Section, Table, Text } from "../../ui";
import type { Column, Sorting } from "../../ui";
import type { RangeWords } from "./range";
import { useUsage } from "./use-figures";
import type { Usage, UsageRow } from "./use-figures";
import styles from "./overview.module.css";

/** Rows of each list. */
const TOP = 6;
/** The slowest are found among so many of the busiest. */
const OPERATIONS_MAX = 1_000;

export function Tops({ range, overview }: { range: RangeWords; overview: Overview }) {
  const { since, everyMs, words } = range;
  const operations = useUsage("operation", since, OPERATIONS_MAX, everyMs);
  const callers = useUsage("caller", since, TOP, everyMs);
  const names = useCallerNames();
  const kinds = useUsage("kind", since, 50, everyMs);
  const named = operations.data?.rows.filter((row) => row.name !== "") ?? [];
  const isPartial = [operations, callers, kinds].some(({ data }) => data?.complete === false);
  return (
    <Section title="Operations and callers" description={`Of ${words}.${isPartial ? " The store took too long, or there are very many: these are not all." : ""}`}>
      <div className={styles.tops}>
        <Card title="Slowest operations" flush>
          <List query={operations}>
            <Slowest rows={named} since={since} />
          </List>
        </Card>
        <Card title="Busiest operations" flush>
          <List query={operations}>
            <Rows
              label="Busiest operations"
              rows={named.slice(0, TOP)}
              columns={[name("Operation", (row) => trafficHref({ tool: row.name, since })), calls(since, "tool"), ended(since, "tool", "errors"), ended(since, "tool", "refused")]}
            />
          </List>
        </Card>
        <Card title="Loudest callers" flush>
          <List query={callers}>
            <Rows
              label="Loudest callers"
              rows={(callers.data?.rows ?? []).filter((row) => row.name !== "")}
              columns={[name("Caller", (row) => trafficHref({ caller: row.name, since }), (row) => <CallerName caller={row.name} names={names} />), calls(since, "caller"), ended(since, "caller", "errors"), ended(since, "caller", "refused")]}
            />
          </List>
        </Card>
        <Card title="Why calls fail or are refused" flush>
          <List query={kinds}>
            <Reasons rows={kinds.data?.rows ?? []} since={since} />
          </List>
          <TurnedAway overview={overview} />
        </Card>
      </div>
    </Section>
  );
}

function List({ query, children }: { query: Query<Usage>; children: React.ReactNode }) {
  if (query.data !== undefined) return <div aria-busy={query.isLoading || undefined}>{children}</div>;
  if (query.error !== undefined) return <ErrorState error={query.error} onRetry={query.refetch} compact />;
  return (
    <div className={styles.none} aria-busy="true">
      <Loading />
    </div>
  );
}

type Of = "tool" | "caller";

function name(header: string, href: (row: UsageRow) => string, shown = (row: UsageRow): React.ReactNode => <Text value={row.name} line />): Column<UsageRow> {
  return {
    id: "name",
    header,
    primary: true,
    cell: (row) => (
      <Link href={href(row)} className={styles.topName}>
        {shown(row)}
      </Link>
    ),
  };
}

function calls(since: string, of: Of): Column<UsageRow> {
  return {
    id: "calls",
    header: "Calls",
    align: "end",
    width: "76px",
    cell: (row) => (
      <Link href={trafficHref({ [of]: row.name, since })} className={styles.number}>
        <Count value={row.calls} />
      </Link>
    ),
  };
}

function ended(since: string, of: Of, what: "errors" | "refused"): Column<UsageRow> {
  return {
    id: what,
    header: what === "errors" ? "Errors" : "Refused",
    align: "end",
    width: "76px",
    cell: (row) =>
      row[what] === 0 ? (
        <span className={styles.zero}>0</span>
      ) : (
        <Link href={trafficHref({ [of]: row.name, since, ended: what === "errors" ? "failed" : "refused" })} className={styles.number}>
          <Count value={row[what]} />
        </Link>
      ),
  };
}

const TIMES = ["p50_us", "p95_us", "p99_us", "max_us"] as const;
type Time = (typeof TIMES)[number];

/** By one of their percentiles; the others are columns to sort by. */
function Slowest({ rows, since }: { rows: readonly UsageRow[]; since: string }) {
  const [sort, setSort] = useState<Sorting>({ id: "p95_us", direction: "desc" });
  const by = TIMES.find((member) => member === sort.id) ?? "p95_us";
  // What the gateway refused took no time, and says nothing of the operation.
  const sorted = rows.filter((row) => row.calls > row.refused).sort((a, b) => (sort.direction === "desc" ? b[by] - a[by] : a[by] - b[by]));
  const time = (header: string, member: Time): Column<UsageRow> => ({
    id: member,
    header,
    align: "end",
    width: "78px",
    nowrap: true,
    ...(member === "p50_us" || member === "p99_us" ? { narrow: "hide" as const } : {}),
    sort: (row) => row[member],
    cell: (row) => (
      <Link href={trafficHref({ tool: row.name, since, slower_than_ms: String(Math.max(0, Math.floor(row[member] / 1000) - 1)) })} className={styles.number}>
        <Duration us={row[member]} />
      </Link>
    ),
  });
  return (
    <Table
      label="Slowest operations"
      rows={sorted.slice(0, TOP)}
      columns={[name("Operation", (row) => trafficHref({ tool: row.name, since })), time("p50", "p50_us"), time("p95", "p95_us"), time("p99", "p99_us"), time("Max", "max_us")]}
      rowKey={keyOf}
      sort={sort}
      onSort={setSort}
      empty={<p className={styles.none}>No calls in this time.</p>}
    />
  );
}

function keyOf(row: UsageRow): string {
  return `${row.backend} ${row.name}`;
}

function Rows({ label, rows, columns }: { label: string; rows: readonly UsageRow[]; columns: readonly Column<UsageRow>[] }) {
  return <Table label={label} rows={rows} columns={columns} rowKey={keyOf} empty={<p className={styles.none}>No calls in this time.</p>} />;
}

/** Kinds of failures and refusals, with the gateway's own title of each. */
function Reasons({ rows, since }: { rows: readonly UsageRow[]; since: string }) {
  const advice = useAdvice();
  const reasons = rows.filter((row) => row.name !== "" && row.errors + row.refused > 0).slice(0, TOP);
  const most = Math.max(...reasons.map((row) => row.errors + row.refused), 1);
  if (reasons.length === 0) return <p className={styles.none}>No call failed or was refused in this time.</p>;
  return (
    <ul className={styles.reasons}>
      {reasons.map((row) => {
        const count = row.errors + row.refused;
        const isRefusal = row.refused >= row.errors;
        return (
          <li key={row.name}>
            <Link href={trafficHref({ kind: row.name, since })} className={styles.reason}>
              <span className={styles.reasonName}>{advice.get(row.name)?.title ?? <Text value={row.name} max={60} />}</span>
              <span className={styles.reasonEnd}>{isRefusal ? "refused" : "failed"}</span>
              <span className={styles.reasonBar} aria-hidden>
                <span className={isRefusal ? styles.barRefused : styles.barFailed} style={{ width: `${Math.max(2, (count / most) * 100)}%` }} />
              </span>
              <span className={styles.reasonCount}>
                <Count value={count} />
              </span>
            </Link>
          </li>
        );
      })}
    </ul>
  );
}

/** Requests that were refused before it was known what they are: they are no calls. */
function TurnedAway({ overview }: { overview: Overview }) {
  const advice = useAdvice();
  const away = Object.entries((overview as { turned_away?: Record<string, number> }).turned_away ?? {}).filter(([, count]) => count > 0);
  if (away.length === 0) return null;
  return (
    <p className={styles.away}>
      Turned away unread since the start:{" "}
      {away.map(([kind, count], index) => (
        <span key={kind}>
          {index > 0 && ", "}
          <Link href={trafficHref({ kind })}>
            {advice.get(kind)?.title ?? kind} <Count value={count} />
          </Link>
        </span>
      ))}
    </p>
  );
}
