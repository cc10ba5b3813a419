// Switches: what is off and why, switching off and on again, and stopping everything.

import { OctagonX, Power } from "lucide-react";
import { Link } from "wouter";
import { useMemo, useState } from "react";
import { useQuery } from "../../api/use-query";
import { hitBy } from "../../lib/control/glob";
import { loadCatalog, loadRecords } from "../../lib/control/contract";
import type { AuditRecord, CatalogEntry } from "../../lib/control/contract";
import { Callout, Switched, switchOn } from "../../lib/control/parts";
import { traffic, useSwitches } from "../../lib/control/state";
import type { SwitchedOff } from "../../lib/control/state";
import { CallerName, useCallerNames } from "../../lib/records/caller-name";
import type { CallerNames } from "../../lib/records/caller-name";
import { keyOf } from "../../lib/records/record";
import { listed, plural } from "../../lib/control/words";
import { Ago, Badge, Button, Card, EmptyState, ErrorState, Loading, PageHeader, Section, Table, Text, Tooltip, toastProblem, visible } from "../../ui";
import type { Column } from "../../ui";
import { useParam } from "../../shell/use-param";
import { StopEverything } from "./stop";
import { SwitchOff } from "./switch-off";
import styles from "./switches.module.css";

/** Of the newest records of the kill switch: what is older is shown without when. */
const RECORDS = 500;

/** The newest records about switching off, by what they are about. */
function useSince(): ReadonlyMap<string, AuditRecord> {
  const { data } = useQuery("audit-of-kills", (signal) => loadRecords({ method: "admin/kill", outcome: "success", limit: RECORDS }, signal), { everyMs: 10_000 });
  return useMemo(() => {
    const newest = new Map<string, AuditRecord>();
    for (const record of data?.records ?? []) {
      if (record.method === "admin/kill" && !newest.has(record.operation)) newest.set(record.operation, record);
    }
    return newest;
  }, [data]);
}

function about(one: SwitchedOff): string {
  return `${one.scope} ${one.name}`.trim();
}

/** A key that was named by its name is off by its id, too; the record has the name. */
function recordOf(one: SwitchedOff, since: ReadonlyMap<string, AuditRecord>, names: CallerNames): AuditRecord | undefined {
  return since.get(about(one)) ?? (one.scope === "caller" ? since.get(`caller ${names.get(one.name) ?? ""}`) : undefined);
}

export default function Switches() {
  const { all, error, refetch } = useSwitches();
  const catalog = useQuery("admin/catalog", loadCatalog, { everyMs: 15_000 });
  const since = useSince();
  const names = useCallerNames();
  const [stop, setStop] = useParam("stop");
  const operations = catalog.data ?? [];
  const everything = all?.find((one) => one.scope === "all");
  return (
    <>
      <PageHeader
        title="Switches"
        description="What is switched off stays off until somebody switches it on again, also over a restart of the gateway."
        actions={
          everything === undefined && (
            <button type="button" className={styles.stop} onClick={() => setStop("all")}>
              <OctagonX size={16} aria-hidden />
              Stop everything…
            </button>
          )
        }
      />
      {error !== undefined && all === undefined && <ErrorState error={error} onRetry={refetch} />}
      {all === undefined && error === undefined && <Loading />}
      <div>
        {everything !== undefined && <EverythingIsOff one={everything} record={since.get("all")} names={names} onChange={refetch} />}
        <Section title="Switch off">
          <SwitchOff operations={catalog.data} onChange={refetch} />
        </Section>
        {all !== undefined && (
          <Section title="Off now" description={all.length === 0 ? undefined : `${plural(all.length, "switch", "switches")} ${all.length === 1 ? "is" : "are"} off.`}>
            <Card flush>
              <Table
                label="What is off"
                columns={columns(operations, since, names, refetch)}
                rows={all}
                rowKey={(one) => `${one.source} ${about(one)}`}
                empty={<EmptyState icon={<Power size={24} aria-hidden />} title="Everything is on">Nobody switched anything off.</EmptyState>}
              />
            </Card>
          </Section>
        )}
      </div>
      {stop === "all" && <StopEverything onClose={() => setStop("")} onChange={refetch} />}
    </>
  );
}

function EverythingIsOff({ one, record, names, onChange }: { one: SwitchedOff; record: AuditRecord | undefined; names: CallerNames; onChange: () => void }) {
  const [isRunning, setRunning] = useState(false);
  const on = () => {
    setRunning(true);
    switchOn("all", "", onChange)
      .catch(toastProblem)
      .finally(() => setRunning(false));
  };
  return (
    <Callout
      tone="error"
      title="Everything is switched off"
      isNews
      actions={
        one.source === "runtime" && (
          <Button variant="primary" busy={isRunning} onClick={on}>
            Switch everything on again
          </Button>
        )
      }
    >
      <span>
        Every call of every caller is refused{one.reason === "" ? "." : <>: <Text value={one.reason} /></>}
        {record !== undefined && (
          <>
            {" "}
            Since <Ago ms={record.at_ms} />, by <CallerName caller={record.caller} names={names} />.
          </>
        )}
        {one.source === "configuration" && " The configuration says so: kill_switch.everything."}
      </span>
    </Callout>
  );
}

function columns(operations: readonly CatalogEntry[], since: ReadonlyMap<string, AuditRecord>, names: CallerNames, onChange: () => void): Column<SwitchedOff>[] {
  return [
    {
      id: "what",
      header: "What",
      primary: true,
      sort: about,
      cell: (one) => (
        <span className={styles.what}>
          <Switched scope={one.scope} name={one.name} />
          {one.scope === "caller" && names.get(one.name) !== undefined && <span className={styles.dim}>the key {visible(names.get(one.name) ?? "")}</span>}
          <Hits one={one} operations={operations} />
        </span>
      ),
    },
    { id: "reason", header: "Reason", narrow: "wide", cell: (one) => (one.reason === "" ? <span className={styles.dim}>{one.source === "configuration" ? "stands in the configuration" : "none was given"}</span> : <Text value={one.reason} max={200} />) },
    {
      id: "since",
      header: "Since",
      nowrap: true,
      sort: (one) => recordOf(one, since, names)?.at_ms ?? 0,
      cell: (one) => <Since one={one} record={recordOf(one, since, names)} names={names} />,
    },
    {
      id: "on",
      header: <span className="visually-hidden">Action</span>,
      align: "end",
      cell: (one) =>
        one.source === "runtime" ? (
          <Button size="s" aria-label={`Switch on ${one.scope === "all" ? "everything" : visible(one.name)}`} onClick={() => void switchOn(one.scope, one.name, onChange).catch(toastProblem)}>
            Switch on
          </Button>
        ) : (
          <Link href="/config?q=kill_switch">Configuration</Link>
        ),
    },
  ];
}

function Hits({ one, operations }: { one: SwitchedOff; operations: readonly CatalogEntry[] }) {
  const hit = hitBy(one.scope, one.name, operations);
  if (hit === undefined || operations.length === 0) return null;
  return (
    <Tooltip content={hit.length === 0 ? "No operation of the catalog has that name now." : visible(listed(hit.map((operation) => operation.name), 8))}>
      <span>
        <Badge tone={hit.length === 0 ? "warn" : "neutral"}>{plural(hit.length, "operation")}</Badge>
      </span>
    </Tooltip>
  );
}

function Since({ one, record, names }: { one: SwitchedOff; record: AuditRecord | undefined; names: CallerNames }) {
  if (one.source === "configuration") return <span className={styles.dim}>the configuration</span>;
  if (record === undefined) return <span className={styles.dim}>–</span>;
  return (
    <>
      <Link href={traffic({ record: keyOf(record), method: "admin/kill" })}>
        <Ago ms={record.at_ms} />
      </Link>
      <div className={styles.dim}>by <CallerName caller={record.caller} names={names} /></div>
    </>
  );
}
