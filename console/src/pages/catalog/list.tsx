// The list: search, filters, and every entry in order.

import { PackageOpen, SearchX } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { useSession } from "../../api/session";
import { Badge, Button, EmptyState, ErrorState, LinkButton, Loading, PageHeader, SearchInput, Select, Status, Table, Text, Toolbar, formatCount } from "../../ui";
import type { Column, SelectOption, Sorting } from "../../ui";
import { useParamSet } from "../../shell/use-param";
import { KINDS, KIND_WORDS, hrefOf, keyOf } from "../../lib/catalog/entries";
import type { Kind } from "../../lib/catalog/entries";
import { find, prepare, stateOf, titleOf } from "../../lib/catalog/search";
import type { Filters, Hint, Order, Row, StateFilter } from "../../lib/catalog/search";
import { KIND_ICONS, keepList } from "./common";
import { useCatalog, useKilled } from "./use-catalog";
import styles from "./list.module.css";

/** The address follows a search a moment later: browsers bound how often it may change. */
const ADDRESS_AFTER_MS = 400;

const HINTS: readonly SelectOption<Hint>[] = [
  { value: "", label: "Any effect" },
  { value: "read-only", label: "Read-only" },
  { value: "writes", label: "Not read-only" },
  { value: "destructive", label: "Destructive" },
];

const STATES: readonly SelectOption<StateFilter>[] = [
  { value: "", label: "Any state" },
  { value: "usable", label: "Usable" },
  { value: "pinned", label: "Pinned" },
  { value: "changed", label: "Changed since pinned" },
  { value: "new", label: "New since pinned" },
  { value: "held", label: "Held back" },
  { value: "off", label: "Switched off" },
];

const ORDERS: Readonly<Record<string, Order>> = { name: "name", title: "title", backend: "backend", tokens: "tokens", state: "state" };

export function CatalogList() {
  const { isAdmin } = useSession();
  const { data: catalog, error, isFetching, refetch } = useCatalog();
  const killed = useKilled();
  const [params, setParams] = useParamSet();
  const [, navigate] = useLocation();
  const [query, setQuery] = useState(params.get("q") ?? "");
  const [sorting, setSorting] = useState<Sorting>();
  const address = params.get("q") ?? "";

  // Both ways: what is typed goes to the address, and a link that was followed to the field.
  const written = useRef(address);
  useEffect(() => {
    if (query === address) return;
    if (address !== written.current) {
      written.current = address;
      setQuery(address);
      return;
    }
    const timer = window.setTimeout(() => {
      written.current = query;
      setParams({ q: query });
    }, ADDRESS_AFTER_MS);
    return () => window.clearTimeout(timer);
  }, [query, address, setParams]);
  useEffect(() => {
    keepList(params.toString());
  }, [params]);

  const rows = useMemo(() => (catalog === undefined ? undefined : prepare(catalog.entries, killed)), [catalog, killed]);
  const kind = (KINDS.find((each) => each === params.get("kind")) ?? "") as Kind | "";
  const backend = params.get("backend") ?? "";
  const hint = (HINTS.find(({ value }) => value === params.get("hint"))?.value ?? "") as Hint;
  const state = (STATES.find(({ value }) => value === params.get("state"))?.value ?? "") as StateFilter;
  const order: Order = sorting === undefined ? "relevance" : (ORDERS[sorting.id] ?? "relevance");
  const isDescending = sorting?.direction === "desc";
  const found = useMemo(() => {
    const filters: Filters = { query, kind, backend, hint, state };
    return rows === undefined ? [] : find(rows, filters, order, isDescending);
  }, [rows, query, kind, backend, hint, state, order, isDescending]);

  const backends = useMemo(() => {
    const names = new Set((catalog?.entries ?? []).flatMap((entry) => entry.backends));
    const sorted = [...names].sort((a, b) => a.localeCompare(b));
    return [{ value: "", label: "Every backend" }, ...sorted.map((name) => ({ value: name, label: name.slice(0, 60) }))];
  }, [catalog]);
  const kinds = useMemo(() => {
    const count = (of: Kind) => catalog?.entries.filter((entry) => entry.kind === of).length ?? 0;
    return [{ value: "" as const, label: "Every kind" }, ...KINDS.map((each) => ({ value: each, label: `${KIND_WORDS[each].many} (${formatCount(count(each))})` }))];
  }, [catalog]);

  const knowsMore = catalog?.isAdmin === true;
  const columns = useMemo(() => columnsOf(knowsMore), [knowsMore]);
  const isFiltered = query.trim() !== "" || kind !== "" || backend !== "" || hint !== "" || state !== "";
  const clear = () => {
    setQuery("");
    written.current = "";
    setParams({ q: "", kind: "", backend: "", hint: "", state: "" });
  };
  return (
    <>
      <PageHeader title="Catalog" description="Tools, resources, templates and prompts. Open one to read its definition and to call it." />
      {catalog === undefined && error === undefined && <Loading label="Reading the catalog…" />}
      {error !== undefined && <ErrorState error={error} onRetry={refetch} compact={catalog !== undefined} />}
      {catalog !== undefined && rows !== undefined && (
        <>
          <Toolbar label="Search and filters">
            <div className={styles.search}>
              <SearchInput label="Search the catalog" placeholder="Search by half a word" value={query} onChange={setQuery} />
            </div>
            <Select<Kind | ""> aria-label="Kind" value={kind} onChange={(value) => setParams({ kind: value })} options={kinds} />
            {backends.length > 2 && <Select aria-label="Backend" value={backend} onChange={(value) => setParams({ backend: value })} options={backends} />}
            <Select<Hint> aria-label="Effect" value={hint} onChange={(value) => setParams({ hint: value })} options={HINTS} />
            {knowsMore && <Select<StateFilter> aria-label="State" value={state} onChange={(value) => setParams({ state: value })} options={STATES} />}
          </Toolbar>
          <p className={styles.count} role="status" aria-busy={isFetching && rows.length === 0}>
            {isFiltered ? `${formatCount(found.length)} of ${formatCount(rows.length)}` : `${formatCount(rows.length)} in all`}
            {isFiltered && (
              <Button size="s" variant="ghost" onClick={clear}>
                Show all
              </Button>
            )}
          </p>
          {rows.length === 0 ? (
            <EmptyState
              icon={<PackageOpen size={22} aria-hidden />}
              title="Nothing is offered yet"
              actions={isAdmin && <LinkButton href="/backends">Open the backends</LinkButton>}
            >
              {isAdmin ? "Add a backend, or see why those that there are offer nothing." : "You see no tool, resource or prompt. Ask whoever runs this gateway for a role that does."}
            </EmptyState>
          ) : (
            <Table<Row>
              label="Catalog"
              columns={columns}
              rows={found}
              rowKey={(row) => keyOf(row.entry.kind, row.entry.name)}
              onOpen={(row) => navigate(hrefOf(row.entry.kind, row.entry.name))}
              {...(sorting !== undefined && { sort: sorting })}
              onSort={setSorting}
              height="calc(100vh - 230px)"
              empty={
                <EmptyState icon={<SearchX size={22} aria-hidden />} title="Nothing matches" actions={<Button onClick={clear}>Show all</Button>}>
                  Names, titles, descriptions, backends and tags are searched, every word of the search has to be somewhere.
                </EmptyState>
              }
            />
          )}
        </>
      )}
    </>
  );
}

function NameCell({ row }: { row: Row }) {
  const Icon = KIND_ICONS[row.entry.kind];
  return (
    <span className={styles.name}>
      <Icon size={14} aria-hidden className={styles.icon} />
      <span className="visually-hidden">{KIND_WORDS[row.entry.kind].one} </span>
      <Text value={row.entry.name} line max={200} />
    </span>
  );
}

function columnsOf(knowsMore: boolean): Column<Row>[] {
  const sortable = () => 0;
  const columns: Column<Row>[] = [
    { id: "name", header: "Name", width: "27%", primary: true, sort: sortable, cell: (row) => <NameCell row={row} /> },
    {
      id: "title",
      header: "Title",
      sort: sortable,
      narrow: "wide",
      cell: ({ entry }) => {
        const title = titleOf(entry);
        const text = title === "" || title === entry.name ? (entry.description ?? "") : title;
        return (
          <span className={title === "" || title === entry.name ? styles.quiet : undefined}>
            <Text value={text} line max={160} />
          </span>
        );
      },
    },
    { id: "backend", header: "Backend", width: "108px", sort: sortable, cell: ({ entry }) => <Backends names={entry.backends} /> },
    { id: "effect", header: "Effect", width: "100px", cell: ({ entry }) => <Effect isReadOnly={entry.isReadOnly} isDestructive={entry.isDestructive} /> },
  ];
  if (!knowsMore) return columns;
  return [
    ...columns,
    { id: "callers", header: "Callable by", width: "100px", narrow: "hide", cell: ({ entry }) => <Callers roles={entry.callers} /> },
    { id: "tokens", header: "Tokens", width: "76px", align: "end", sort: sortable, cell: ({ entry }) => (entry.tokens === undefined || entry.tokens === 0 ? "–" : formatCount(entry.tokens)) },
    { id: "state", header: "State", width: "116px", sort: sortable, cell: (row) => <State row={row} /> },
  ];
}

function Backends({ names }: { names: readonly string[] }) {
  const [first] = names;
  if (first === undefined) return <span className={styles.quiet}>–</span>;
  return (
    <span className={styles.backends} title={names.length > 1 ? names.join(", ").slice(0, 300) : undefined}>
      <Text value={first} line max={40} />
      {names.length > 1 && <span className={styles.quiet}>+{names.length - 1}</span>}
    </span>
  );
}

function Effect({ isReadOnly, isDestructive }: { isReadOnly: boolean | undefined; isDestructive: boolean | undefined }) {
  if (isDestructive === true) return <Badge tone="warn">destructive</Badge>;
  if (isReadOnly === true) return <Badge>read-only</Badge>;
  return null;
}

function Callers({ roles }: { roles: readonly string[] | undefined }) {
  if (roles === undefined) return <span className={styles.quiet}>–</span>;
  if (roles.length === 0) return <span className={styles.quiet}>no role</span>;
  return (
    <span title={roles.join(", ").slice(0, 400)}>
      <Text value={roles.length > 2 ? `${roles.length} roles` : roles.join(", ")} line max={60} />
    </span>
  );
}

function State({ row }: { row: Row }) {
  switch (stateOf(row)) {
    case "off":
      return <Status tone="error">switched off</Status>;
    case "held":
      return <Status tone="warn">held back</Status>;
    case "changed":
      return <Status tone="warn">changed</Status>;
    case "new":
      return <Status tone="info">new</Status>;
    case "pinned":
      return <Status tone="ok">pinned</Status>;
    case "usable":
      return <span className={styles.quiet}>not pinned</span>;
  }
}
