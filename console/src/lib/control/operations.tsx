// Operations of one backend, with a link to each of them in the catalog.

import { useMemo } from "react";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { Badge, Card, Count, EmptyState, SearchInput, Table, Text, Toolbar } from "../../ui";
import type { Column } from "../../ui";
import { useParam } from "../../shell/use-param";
import type { CatalogEntry } from "./contract";
import { operationHref } from "./state";

const KINDS: Readonly<Record<string, string>> = { tools: "tool", resources: "resource", resourceTemplates: "template", prompts: "prompt" };

export function kindWord(kind: string | null | undefined): string {
  return KINDS[kind ?? ""] ?? "method";
}

export function Operations({ operations, empty }: { operations: readonly CatalogEntry[]; empty: ReactNode }) {
  const [search, setSearch] = useParam("q");
  const wanted = search.trim().toLowerCase();
  const shown = useMemo(
    () => (wanted === "" ? operations : operations.filter((one) => `${one.name} ${one.own_name} ${one.title ?? ""} ${one.description ?? ""}`.toLowerCase().includes(wanted))),
    [operations, wanted],
  );
  if (operations.length === 0) return <>{empty}</>;
  return (
    <>
      <Toolbar label="Filters">
        <SearchInput label="Search operations" value={search} onChange={setSearch} />
      </Toolbar>
      <Card flush>
        <Table label="Operations" columns={COLUMNS} rows={shown} rowKey={(one) => `${one.kind} ${one.name}`} empty={<EmptyState title="No operation is like that" />} />
      </Card>
    </>
  );
}

const COLUMNS: readonly Column<CatalogEntry>[] = [
  {
    id: "name",
    header: "Name",
    primary: true,
    width: "30%",
    sort: (one) => one.name,
    cell: (one) => (
      <Link href={operationHref(one)}>
        <Text value={one.name} max={120} />
      </Link>
    ),
  },
  { id: "kind", header: "Kind", width: "90px", sort: (one) => kindWord(one.kind), cell: (one) => kindWord(one.kind) },
  { id: "about", header: "Description", narrow: "wide", cell: (one) => <Text value={one.description ?? one.title ?? ""} line /> },
  { id: "tokens", header: "Tokens", width: "90px", align: "end", sort: (one) => one.tokens, cell: (one) => <Count value={one.tokens} /> },
  {
    id: "state",
    header: "Pin",
    width: "110px",
    sort: (one) => one.pin,
    cell: (one) =>
      one.held ? (
        <Link href="/pins">
          <Badge tone="warn">held back</Badge>
        </Link>
      ) : one.pin === "changed" || one.pin === "new" ? (
        <Link href="/pins">
          <Badge tone="warn">{one.pin}</Badge>
        </Link>
      ) : (
        <span>{one.pin === "pinned" ? "pinned" : "–"}</span>
      ),
  },
];
