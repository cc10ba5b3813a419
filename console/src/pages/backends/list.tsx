// All backends with what an operator looks for first: is it up, what is wrong, what is it doing.

import { MoreHorizontal, Plus, Server } from "lucide-react";
import { Link, useLocation } from "wouter";
import { useQuery } from "../../api/use-query";
import { loadLimits } from "../../lib/control/contract";
import type { BackendStatus, CircuitNow } from "../../lib/control/contract";
import { backendHref, traffic, useBackends } from "../../lib/control/state";
import { healthOf, kindOf, needsAttention, plural } from "../../lib/control/words";
import { Badge, Button, Card, Count, EmptyState, ErrorState, IconButton, Loading, Menu, PageHeader, SearchInput, Select, Status, Table, Text, Toolbar, toneOf, useNow } from "../../ui";
import type { Column, SelectOption } from "../../ui";
import { useParam } from "../../shell/use-param";
import { AddBackend } from "./add";
import { useBackendActions } from "./actions";
import styles from "./backends.module.css";
import { CircuitStatus, Retry } from "./marks";

type Shown = "all" | "attention" | "up" | "off";

const SHOWN: readonly SelectOption<Shown>[] = [
  { value: "all", label: "All states" },
  { value: "attention", label: "Need attention" },
  { value: "up", label: "Up or asleep" },
  { value: "off", label: "Stopped or switched off" },
];

export function BackendList() {
  const { backends, error, refetch } = useBackends();
  const [, navigate] = useLocation();
  const [search, setSearch] = useParam("q");
  const [shown, setShown] = useParam("state", "all");
  const [add, setAdd] = useParam("add");
  const actions = useBackendActions(refetch);
  const limits = useQuery("admin/limits", loadLimits, { everyMs: 5_000 });
  const circuits = new Map(limits.data?.circuits.map((circuit) => [circuit.backend, circuit]));

  const wanted = search.trim().toLowerCase();
  const isShown = (backend: BackendStatus) =>
    (shown === "attention" ? needsAttention(backend) : shown === "up" ? backend.health === "up" || backend.health === "asleep" : shown === "off" ? backend.health === "stopped" || actions.isOff(backend.name) : true) &&
    `${backend.name} ${backend.type} ${kindOf(backend.type)} ${backend.target}`.toLowerCase().includes(wanted);
  const rows = backends?.filter(isShown) ?? [];
  const bad = backends?.filter(needsAttention).length ?? 0;

  return (
    <>
      <PageHeader
        title="Backends"
        description={backends === undefined ? "The servers behind this gateway." : summary(backends, bad)}
        actions={
          <Button variant="primary" icon={<Plus size={14} aria-hidden />} onClick={() => setAdd("paste", { push: true })}>
            Add a backend
          </Button>
        }
      />
      {error !== undefined && backends === undefined && <ErrorState error={error} onRetry={refetch} />}
      {error === undefined && backends === undefined && <Loading />}
      {backends?.length === 0 && (
        <EmptyState icon={<Server size={24} aria-hidden />} title="There is no backend yet" actions={<Button variant="primary" onClick={() => setAdd("paste", { push: true })}>Add a backend</Button>}>
          Paste the JSON of an MCP client, or take over the servers that clients of this machine have.
        </EmptyState>
      )}
      {backends !== undefined && backends.length > 0 && (
        <>
          <Toolbar label="Filters">
            <SearchInput label="Search backends" value={search} onChange={setSearch} />
            <Select<Shown> aria-label="State" value={shown as Shown} onChange={setShown} options={SHOWN} />
          </Toolbar>
          <Card flush>
            <Table
              label="Backends"
              columns={columns(circuits, actions)}
              rows={rows}
              rowKey={(backend) => backend.name}
              sort={{ id: "health", direction: "asc" }}
              onOpen={(backend) => navigate(backendHref(backend.name))}
              empty={
                <EmptyState
                  title="No backend is like that"
                  actions={
                    <Button
                      onClick={() => {
                        setSearch("");
                        setShown("all");
                      }}
                    >
                      Show all
                    </Button>
                  }
                />
              }
            />
          </Card>
        </>
      )}
      {actions.dialogs}
      <AddBackend way={add} onWay={(way) => setAdd(way)} onClose={() => setAdd("")} />
    </>
  );
}

function summary(backends: readonly BackendStatus[], bad: number): string {
  const tools = backends.reduce((sum, backend) => sum + backend.tools, 0);
  const state = bad === 0 ? "none needs attention" : `${bad} ${bad === 1 ? "needs" : "need"} attention`;
  return `${plural(backends.length, "backend")} with ${plural(tools, "tool")}; ${state}.`;
}

function columns(circuits: ReadonlyMap<string, CircuitNow>, actions: ReturnType<typeof useBackendActions>): Column<BackendStatus>[] {
  return [
    {
      id: "name",
      header: "Name",
      primary: true,
      sort: (backend) => backend.name,
      cell: (backend) => (
        <div className={styles.name}>
          <Link href={backendHref(backend.name)}>
            <Text value={backend.name} line />
          </Link>
          <div className={styles.target}>
            <Text value={backend.target} line mono />
          </div>
        </div>
      ),
    },
    {
      id: "health",
      header: "Health",
      narrow: "wide",
      width: "34%",
      sort: (backend) => (needsAttention(backend) ? 0 : backend.health === "starting" ? 1 : backend.health === "stopped" ? 2 : 3),
      cell: (backend) => <HealthCell backend={backend} circuit={circuits.get(backend.name)} actions={actions} />,
    },
    { id: "kind", header: "Kind", nowrap: true, narrow: "hide", sort: (backend) => backend.type, cell: (backend) => <KindCell backend={backend} /> },
    {
      id: "tools",
      header: "Tools",
      align: "end",
      sort: (backend) => backend.tools,
      cell: (backend) => <Count value={backend.tools} />,
    },
    {
      id: "calls",
      header: "In flight",
      align: "end",
      nowrap: true,
      sort: (backend) => backend.active + backend.queued,
      cell: (backend) => (
        <>
          <Count value={backend.active} />
          {backend.queued > 0 && (
            <>
              {" "}
              <Badge tone="warn">{backend.queued} waiting</Badge>
            </>
          )}
        </>
      ),
    },
    { id: "restarts", header: "Restarts", align: "end", narrow: "hide", sort: (backend) => backend.restarts, cell: (backend) => <Count value={backend.restarts} /> },
    {
      id: "more",
      header: <span className="visually-hidden">Actions</span>,
      align: "end",
      cell: (backend) => (
        <Menu
          align="end"
          trigger={<IconButton size="s" label={`Actions of ${backend.name}`} icon={<MoreHorizontal size={16} aria-hidden />} busy={actions.isBusy(backend.name)} />}
          items={[
            ...actions.items(backend),
            "separator",
            { label: "Records", href: traffic({ backend: backend.name }) },
            ...(backend.type === "stdio" ? [{ label: "Standard error", href: `${backendHref(backend.name)}?tab=stderr` }] : []),
          ]}
        />
      ),
    },
  ];
}

function KindCell({ backend }: { backend: BackendStatus }) {
  return (
    <>
      {kindOf(backend.type)}
      {(backend.revision ?? "") !== "" && <div className={styles.dim}>{backend.revision}</div>}
    </>
  );
}

function HealthCell({ backend, circuit, actions }: { backend: BackendStatus; circuit: CircuitNow | undefined; actions: ReturnType<typeof useBackendActions> }) {
  useNow();
  const health = healthOf(backend);
  return (
    <div className={styles.health}>
      <div className={styles.marks}>
        <Status tone={health.tone} title={health.meaning}>
          {health.word}
        </Status>
        {actions.isOff(backend.name) && (
          <Badge tone="error" title={actions.whyOff(backend.name)}>
            switched off
          </Badge>
        )}
        {circuit !== undefined && circuit.state !== "closed" && <CircuitStatus circuit={circuit} />}
        {!backend.listed && backend.health === "up" && <Badge tone={toneOf("held")}>not in the catalog</Badge>}
        <Retry backend={backend} />
      </div>
      {(backend.problem ?? "") !== "" && (
        <div className={styles.problem}>
          <Text value={backend.problem ?? ""} max={160} />
        </div>
      )}
    </div>
  );
}
