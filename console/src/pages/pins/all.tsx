// Every pinned tool, with when it was pinned and how.

import { useMemo } from "react";
import { Link } from "wouter";
import type { PinnedTool } from "../../lib/control/contract";
import { backendHref } from "../../lib/control/state";
import { Ago, Card, EmptyState, SearchInput, Status, Table, Text, Toolbar } from "../../ui";
import type { Column } from "../../ui";
import { useParam } from "../../shell/use-param";
import { differenceWord } from "./words";

const COLUMNS: readonly Column<PinnedTool>[] = [
  { id: "tool", header: "Tool", primary: true, width: "34%", sort: (pin) => pin.tool, cell: (pin) => <Text value={pin.tool} max={120} /> },
  { id: "backend", header: "Backend", sort: (pin) => pin.backend, cell: (pin) => <Link href={backendHref(pin.backend)}><Text value={pin.backend} /></Link> },
  {
    id: "state",
    header: "State",
    width: "22%",
    sort: (pin) => pin.difference ?? "",
    cell: (pin) => <Status tone={pin.difference === null ? "ok" : "warn"}>{pin.difference === null ? "as pinned" : differenceWord(pin.difference)}</Status>,
  },
  { id: "how", header: "Pinned", width: "16%", sort: (pin) => (pin.approved ? 1 : 0), cell: (pin) => (pin.difference === "new" ? "not yet" : pin.approved ? "by approval" : "when first seen") },
  { id: "at", header: "When", align: "end", width: "120px", sort: (pin) => pin.at, cell: (pin) => (pin.difference === "new" ? "–" : <Ago ms={pin.at * 1000} />) },
];

export function AllPinned({ pins }: { pins: readonly PinnedTool[] }) {
  const [search, setSearch] = useParam("q");
  const wanted = search.trim().toLowerCase();
  const shown = useMemo(() => (wanted === "" ? pins : pins.filter((pin) => `${pin.backend}.${pin.tool}`.toLowerCase().includes(wanted))), [pins, wanted]);
  return (
    <>
      <Toolbar label="Filters">
        <SearchInput label="Search pinned tools" value={search} onChange={setSearch} />
      </Toolbar>
      <Card flush>
        <Table label="Pinned tools" columns={COLUMNS} rows={shown} rowKey={(pin) => `${pin.backend}.${pin.tool}`} empty={<EmptyState title={pins.length === 0 ? "No tool is pinned yet" : "No pinned tool is called like that"} />} />
      </Card>
    </>
  );
}
