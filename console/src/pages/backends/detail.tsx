// One backend: its state, what is wrong and what to do, its operations, its records, its standard error, its configuration.

import { Activity, MoreHorizontal, Play, RotateCw, Square } from "lucide-react";
import { useMemo } from "react";
import { useLocation } from "wouter";
import { useQuery } from "../../api/use-query";
import { ConfigKeys } from "../../lib/control/config-keys";
import { loadCatalog, loadConfigFile, loadHour, loadLimits, loadRecords } from "../../lib/control/contract";
import type { AuditRecord, BackendStatus } from "../../lib/control/contract";
import { Operations } from "../../lib/control/operations";
import { Callout, Meter, NotHere, isMissing } from "../../lib/control/parts";
import { traffic, useBackends } from "../../lib/control/state";
import { CallerName, useCallerNames } from "../../lib/records/caller-name";
import { keyOf, outcomeTone, outcomeWord } from "../../lib/records/record";
import { advice, healthOf, kindOf, needsAttention } from "../../lib/control/words";
import {
  Ago,
  Badge,
  Button,
  Card,
  Count,
  DefinitionList,
  Duration,
  EmptyState,
  ErrorState,
  IconButton,
  LinkButton,
  Loading,
  Menu,
  PageHeader,
  Stat,
  StatGrid,
  Status,
  Table,
  Tabs,
  Text,
  formatCount,
  formatDuration,
  useNow,
} from "../../ui";
import type { TabItem } from "../../ui";
import { useParam } from "../../shell/use-param";
import { isBuiltin, useBackendActions } from "./actions";
import type { BackendActions } from "./actions";
import styles from "./backends.module.css";
import { CircuitStatus, Retry, circuitMeaning } from "./marks";
import { StandardError } from "./stderr";

type Tab = "state" | "operations" | "stderr" | "config";

export function BackendDetail({ name }: { name: string }) {
  const { backends, error, refetch } = useBackends();
  const [tab, setTab] = useParam("tab", "state");
  const actions = useBackendActions(refetch);
  const catalog = useQuery("admin/catalog", loadCatalog, { everyMs: 15_000 });
  const operations = useMemo(() => catalog.data?.filter((operation) => operation.backend === name), [catalog.data, name]);
  const backend = backends?.find((each) => each.name === name);
  const back = { href: "/backends", label: "Backends" };
  if (backend === undefined) {
    return (
      <>
        <PageHeader title={name} back={back} />
        {error !== undefined ? (
          <ErrorState error={error} onRetry={refetch} />
        ) : backends === undefined ? (
          <Loading />
        ) : (
          <EmptyState title="There is no backend of this name" actions={<LinkButton href="/backends">Show all backends</LinkButton>}>
            It may have been removed from the configuration, or have another name now.
          </EmptyState>
        )}
      </>
    );
  }
  const items: TabItem<Tab>[] = [
    { value: "state", label: "State" },
    { value: "operations", label: "Operations", ...(operations !== undefined && { count: operations.length }) },
    ...(backend.type === "stdio" ? [{ value: "stderr" as const, label: "Standard error" }] : []),
    { value: "config", label: "Configuration" },
  ];
  const shown = items.some((item) => item.value === tab) ? (tab as Tab) : "state";
  return (
    <>
      <PageHeader
        title={name}
        description={<Text value={`${kindOf(backend.type)}: ${backend.target}`} max={200} />}
        back={back}
        actions={<Actions backend={backend} actions={actions} />}
      />
      <Tabs label={`About ${name}`} items={items} value={shown} onChange={setTab}>
        {shown === "state" && <State backend={backend} actions={actions} onTab={setTab} />}
        {shown === "operations" && (
          <>
            {catalog.error !== undefined && operations === undefined && <ErrorState error={catalog.error} onRetry={catalog.refetch} />}
            {catalog.isLoading && <Loading />}
            {operations !== undefined && (
              <Operations
                operations={operations}
                empty={
                  <EmptyState title="It offers nothing">
                    {backend.listed ? "Its lists of tools, resources and prompts are empty." : "It is not in the catalog: it did not answer yet, or it is down."}
                  </EmptyState>
                }
              />
            )}
          </>
        )}
        {shown === "stderr" && <StandardError backend={backend} />}
        {shown === "config" && <Configuration name={name} />}
      </Tabs>
      {actions.dialogs}
    </>
  );
}

function Actions({ backend, actions }: { backend: BackendStatus; actions: BackendActions }) {
  const isStopped = backend.health === "stopped";
  const isBusy = actions.isBusy(backend.name);
  const others = actions.items(backend).slice(isBuiltin(backend) ? 0 : 2);
  return (
    <>
      {!isBuiltin(backend) && !isStopped && (
        <>
          <Button icon={<RotateCw size={14} aria-hidden />} busy={isBusy} onClick={() => actions.restart(backend)}>
            Restart
          </Button>
          <Button icon={<Square size={14} aria-hidden />} disabled={isBusy} onClick={() => actions.stop(backend)}>
            Stop
          </Button>
        </>
      )}
      {isStopped && (
        <Button variant="primary" icon={<Play size={14} aria-hidden />} busy={isBusy} onClick={() => actions.start(backend)}>
          Start
        </Button>
      )}
      <Menu
        align="end"
        trigger={<IconButton variant="default" label={`More actions of ${backend.name}`} icon={<MoreHorizontal size={16} aria-hidden />} />}
        items={[...others, "separator", { label: "Records", icon: <Activity size={14} />, href: traffic({ backend: backend.name }) }]}
      />
    </>
  );
}

function State({ backend, actions, onTab }: { backend: BackendStatus; actions: BackendActions; onTab: (tab: string) => void }) {
  useNow();
  const { name } = backend;
  const limits = useQuery("admin/limits", loadLimits, { everyMs: 2_000 });
  const usage = useQuery(`usage-of-backend:${name}`, (signal) => loadHour(name, signal), { everyMs: 10_000 });
  const health = healthOf(backend);
  const circuit = limits.data?.circuits.find((each) => each.backend === name);
  const places = limits.data?.admission?.backends.find((each) => each.name === name);
  const hour = usage.data?.rows.find((row) => row.name === name);
  const isOff = actions.isOff(name);
  return (
    <div className={styles.stack}>
      {isOff && (
        <Callout
          tone="error"
          title={`${name} is switched off`}
          actions={
            <Button size="s" onClick={() => actions.switchOn(name)}>
              Switch on again
            </Button>
          }
        >
          <span>{actions.whyOff(name) === "" ? "Calls of it are refused." : <>Calls of it are refused: <Text value={actions.whyOff(name)} /></>}</span>
        </Callout>
      )}
      {(needsAttention(backend) || backend.health === "stopped") && (
        <Callout
          tone={health.tone === "ok" ? "warn" : health.tone}
          title={`It is ${health.word}. ${health.meaning}`}
          actions={
            backend.type === "stdio" &&
            backend.health !== "stopped" && (
              <Button size="s" onClick={() => onTab("stderr")}>
                Standard error
              </Button>
            )
          }
        >
          {(backend.problem ?? "") !== "" && <Text value={backend.problem ?? ""} block />}
          <span>{advice(backend)}</span>
        </Callout>
      )}
      {circuit !== undefined && circuit.state !== "closed" && (
        <Callout tone={circuit.state === "open" ? "error" : "warn"} title={circuit.state === "open" ? "Its circuit is open" : "Its circuit is half open"}>
          <span>{circuitMeaning(circuit)}</span>
        </Callout>
      )}
      {!isMissing(usage.error) && (
        <StatGrid>
          <Stat label="Calls in the last hour" value={hour === undefined ? (usage.data === undefined ? "–" : "0") : formatCount(hour.calls)} href={traffic({ backend: name, since: "1h" })} />
          <Stat
            label="Errors"
            value={hour === undefined ? (usage.data === undefined ? "–" : "0") : formatCount(hour.errors)}
            href={traffic({ backend: name, since: "1h", failed: "true" })}
            tone={hour !== undefined && hour.errors > 0 ? "error" : "neutral"}
          />
          <Stat label="Refused" value={hour === undefined ? (usage.data === undefined ? "–" : "0") : formatCount(hour.refused)} href={traffic({ backend: name, since: "1h" })} />
          <Stat
            label="95 % within"
            value={hour === undefined || hour.calls === 0 ? "–" : formatDuration(hour.p95_us)}
            {...(hour !== undefined && hour.calls > 0 && { hint: `longest ${formatDuration(hour.max_us)}` })}
            href={traffic({ backend: name, since: "1h" })}
          />
        </StatGrid>
      )}
      <div className={styles.columns}>
        <Card title="Now">
          <DefinitionList
            items={[
              [
                "Health",
                <div key="health" className={styles.marks}>
                  <Status tone={health.tone}>{health.word}</Status>
                  <Retry backend={backend} />
                </div>,
              ],
              ["Kind", kindOf(backend.type)],
              ["Target", <Text key="target" value={backend.target} mono max={300} />],
              ["MCP revision", (backend.revision ?? "") === "" ? (backend.type === "openapi" || backend.type === "postgres" ? undefined : "not known yet") : backend.revision],
              ["In the catalog", backend.listed ? "yes" : "no"],
              ["Tools", <Count key="tools" value={backend.tools} />],
              ["In flight", places === undefined ? <Count key="active" value={backend.active} /> : <Meter key="active" label="Calls in flight" value={backend.active} max={places.max} />],
              ["Waiting", places === undefined ? <Count key="queued" value={backend.queued} /> : <Meter key="queued" label="Calls that wait" value={backend.queued} max={places.queue_max} />],
              ["Restarts", isBuiltin(backend) ? undefined : <Count key="restarts" value={backend.restarts} />],
              [
                "Circuit",
                circuit === undefined ? undefined : (
                  <div key="circuit" className={styles.tight}>
                    <span>
                      <CircuitStatus circuit={circuit} />
                    </span>
                    <span className={styles.dim}>{circuitMeaning(circuit)}</span>
                  </div>
                ),
              ],
            ]}
          />
        </Card>
        <Recent name={name} hasTools={backend.tools > 0} />
      </div>
    </div>
  );
}

/** A look; the rest is on the page of the traffic. */
const RECENT = 10;

function Recent({ name, hasTools }: { name: string; hasTools: boolean }) {
  const [, navigate] = useLocation();
  const names = useCallerNames();
  const records = useQuery(`recent-records:${name}`, (signal) => loadRecords({ backend: name, limit: RECENT }, signal), { everyMs: 3_000 });
  const open = (record: AuditRecord) => navigate(traffic({ backend: name, record: keyOf(record) }));
  return (
    <Card
      title="Newest records"
      flush
      actions={
        <LinkButton size="s" variant="ghost" href={traffic({ backend: name })}>
          All records
        </LinkButton>
      }
    >
      {records.error !== undefined && records.data === undefined && <ErrorState error={records.error} onRetry={records.refetch} compact />}
      {records.isLoading && <Loading />}
      {records.data !== undefined && (
        <Table
          label="Newest records"
          rows={records.data.records}
          rowKey={keyOf}
          onOpen={open}
          empty={<EmptyState title="Nobody called it yet">{hasTools ? "Try one of its operations." : "It offers no tools at the moment."}</EmptyState>}
          columns={[
            { id: "operation", header: "Operation", primary: true, cell: (record) => <Text value={record.operation || record.method} max={80} /> },
            { id: "outcome", header: "Outcome", nowrap: true, cell: (record) => <Status tone={outcomeTone(record)}>{outcomeWord(record)}</Status> },
            { id: "caller", header: "Caller", cell: (record) => <CallerName caller={record.caller} names={names} /> },
            { id: "took", header: "Took", align: "end", nowrap: true, cell: (record) => <Duration us={record.latency_us} /> },
            { id: "at", header: "When", align: "end", nowrap: true, cell: (record) => <Ago ms={record.at_ms} /> },
          ]}
        />
      )}
    </Card>
  );
}

function Configuration({ name }: { name: string }) {
  const file = useQuery("admin/config/file", loadConfigFile);
  const prefix = `backends.${name}.`;
  const keys = file.data?.keys.filter((key) => key.key.startsWith(prefix));
  if (isMissing(file.error)) return <NotHere what="where the configuration of a backend comes from" />;
  if (file.error !== undefined && keys === undefined) return <ErrorState error={file.error} onRetry={file.refetch} />;
  if (keys === undefined) return <Loading />;
  return (
    <div className={styles.stack}>
      <p className={styles.dim}>
        As it is in force. <Badge>restart</Badge> marks what takes effect only when the gateway starts again.
      </p>
      <ConfigKeys keys={keys} prefix={prefix} empty={<EmptyState title="It has no configuration">It is built into the gateway.</EmptyState>} />
    </div>
  );
}
