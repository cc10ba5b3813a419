// Shapes of objects over everything that the caller may call: what is the same, what is nearly the same, and who uses it.

import { Blocks } from "lucide-react";
import { useEffect, useMemo, useRef } from "react";
import { request } from "../../api/client";
import { useSession } from "../../api/session";
import { useQuery } from "../../api/use-query";
import { Analyser } from "../../lib/shapes/analyser";
import type { Analysis, Shape } from "../../lib/shapes/shapes";
import { useParamSet } from "../../shell/use-param";
import { Badge, Card, Count, EmptyState, ErrorState, Loading, PageHeader, SearchInput, Select, Stat, StatGrid, Table, Tabs, Text, Toolbar, cut, formatCount, visible } from "../../ui";
import type { Column } from "../../ui";
import { Detail } from "./detail";
import { Graph } from "./graph";
import styles from "./schemas.module.css";

type Which = "repeated" | "across" | "near" | "all";

const WHICH: readonly { value: Which; label: string }[] = [
  { value: "repeated", label: "Used more than once" },
  { value: "across", label: "Used by several backends" },
  { value: "near", label: "Nearly equal to another" },
  { value: "all", label: "All" },
];
const SIZES = [
  { value: "2", label: "2 properties or more" },
  { value: "1", label: "Any number of properties" },
  { value: "4", label: "4 properties or more" },
  { value: "8", label: "8 properties or more" },
];

/** What nearly equal means for the filter; the analysis finds more. */
const NEAR = 0.6;

function isWanted(shape: Shape, which: Which): boolean {
  if (which === "repeated") return shape.usages.length > 1;
  if (which === "across") return shape.backends.length > 1;
  if (which === "near") return (shape.near[0]?.similarity ?? 0) >= NEAR;
  return true;
}

function contains(shape: Shape, words: readonly string[]): boolean {
  const text = `${shape.name}\n${shape.properties.map((property) => property.name).join("\n")}\n${shape.usages
    .slice(0, 200)
    .map((usage) => usage.name)
    .join("\n")}\n${shape.backends.join("\n")}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

export default function Schemas() {
  const { session } = useSession();
  const { rest } = session.paths;
  // One worker for the page; it also has the texts of the shapes.
  const analyser = useRef<Analyser | undefined>(undefined);
  useEffect(() => {
    return () => {
      analyser.current?.end();
      analyser.current = undefined;
    };
  }, []);
  const { data, error, refetch } = useQuery<{ analysis: Analysis; tookMs: number }>(rest === null ? null : "shapes", async (signal) => {
    const text = await (await request(`${rest}/catalog`, { signal })).text();
    analyser.current ??= new Analyser();
    return analyser.current.analyse(text);
  });
  const texts = async (ids: string[]): Promise<(string | undefined)[]> => analyser.current?.texts(ids) ?? [];
  return (
    <div aria-busy={data === undefined && error === undefined && rest !== null}>
      <PageHeader title="Schemas" description="Objects that tools take and give, compared by their structure. What is the same under different names can be passed from one tool to the next." />
      {rest === null && <EmptyState icon={<Blocks size={24} aria-hidden />} title="This page needs REST">The gateway does not serve it (surfaces.rest = false).</EmptyState>}
      {error !== undefined && <ErrorState error={error} onRetry={refetch} compact={data !== undefined} />}
      {data === undefined && error === undefined && rest !== null && <Loading label="Comparing the schemas of all tools…" />}
      {data !== undefined && <Shapes analysis={data.analysis} texts={texts} />}
    </div>
  );
}

function Shapes({ analysis, texts }: { analysis: Analysis; texts: (ids: string[]) => Promise<(string | undefined)[]> }) {
  const [params, setParams] = useParamSet();
  const which = WHICH.find((one) => one.value === params.get("show"))?.value ?? "repeated";
  const size = Number(params.get("size") ?? "2") || 2;
  const words = params.get("q") ?? "";
  const backend = params.get("backend") ?? "";
  const view = params.get("view") === "graph" ? "graph" : "list";
  const { shapes } = analysis;
  const byId = useMemo(() => new Map(shapes.map((shape) => [shape.id, shape])), [shapes]);
  const backends = useMemo(() => [...new Set(shapes.flatMap((shape) => shape.backends))].filter((name) => name !== "").sort(), [shapes]);
  const shown = useMemo(() => {
    const parts = words.toLowerCase().split(/\s+/).filter((word) => word !== "");
    return shapes
      .filter((shape) => isWanted(shape, which) && shape.properties.length >= size && (backend === "" || shape.backends.includes(backend)) && (parts.length === 0 || contains(shape, parts)))
      .sort((a, b) => b.usages.length - a.usages.length || b.properties.length - a.properties.length || a.name.localeCompare(b.name));
  }, [shapes, which, size, words, backend]);
  const totals = useMemo(
    () => ({
      repeated: shapes.filter((shape) => isWanted(shape, "repeated") && shape.properties.length >= size).length,
      across: shapes.filter((shape) => isWanted(shape, "across") && shape.properties.length >= size).length,
      near: shapes.filter((shape) => isWanted(shape, "near") && shape.properties.length >= size).length,
    }),
    [shapes, size],
  );
  const open = byId.get(params.get("shape") ?? "");
  const other = byId.get(params.get("with") ?? "");
  const openShape = (id: string) => setParams({ shape: id, with: "" }, { push: true });
  if (shapes.length === 0) {
    return (
      <EmptyState icon={<Blocks size={24} aria-hidden />} title="No tool has a schema">
        Once a backend offers tools that take or give objects, they are compared here.
      </EmptyState>
    );
  }
  return (
    <>
      <StatGrid>
        <Stat label="Shapes" value={formatCount(shapes.length)} hint={`in ${formatCount(analysis.schemas)} schemas of ${formatCount(analysis.operations)} tools and prompts`} />
        <Stat label="Used more than once" value={formatCount(totals.repeated)} />
        <Stat label="Used by several backends" value={formatCount(totals.across)} />
        <Stat label="Nearly equal to another" value={formatCount(totals.near)} hint={`${NEAR * 100} % of the properties or more`} />
      </StatGrid>
      <div className={styles.filters}>
        <Toolbar label="Filters">
          <SearchInput label="Find a shape" placeholder="Property, tool, title" value={words} onChange={(q) => setParams({ q })} />
          <Select aria-label="Which" value={which} onChange={(show) => setParams({ show: show === "repeated" ? "" : show })} options={WHICH} />
          <Select aria-label="Size" value={String(size)} onChange={(value) => setParams({ size: value === "2" ? "" : value })} options={SIZES} />
          <Select aria-label="Backend" value={backend} onChange={(value) => setParams({ backend: value })} options={[{ value: "", label: "Any backend" }, ...backends.map((value) => ({ value, label: cut(visible(value), 60) }))]} />
        </Toolbar>
      </div>
      <Tabs
        label="View"
        value={view}
        onChange={(value) => setParams({ view: value === "graph" ? value : "" })}
        items={[
          { value: "list", label: "List", count: shown.length },
          { value: "graph", label: "Graph" },
        ]}
      >
        {shown.length === 0 ? (
          <EmptyState icon={<Blocks size={24} aria-hidden />} title="No shape matches">
            {which === "all" ? "Take a filter away." : "Nothing is shared under these filters. Show all shapes, or allow fewer properties."}
          </EmptyState>
        ) : view === "graph" ? (
          <Graph shapes={shown} selected={open?.id} onOpen={openShape} />
        ) : (
          <Card flush>
            <Table label="Shapes" columns={COLUMNS} rows={shown} rowKey={(shape) => shape.id} onOpen={(shape) => openShape(shape.id)} selected={open?.id ?? null} />
          </Card>
        )}
      </Tabs>
      <Detail shape={open} other={other} byId={byId} texts={texts} onOpen={openShape} onCompare={(id) => setParams({ with: id })} onClose={() => setParams({ shape: "", with: "" })} />
    </>
  );
}

const COLUMNS: readonly Column<Shape>[] = [
  {
    id: "name",
    header: "Shape",
    primary: true,
    cell: (shape) => (
      <span className={styles.name}>
        <Text value={shape.name} max={100} />
        <span className={styles.properties}>
          <Text value={shape.properties.slice(0, 8).map((property) => property.name).join(", ")} max={200} mono />
          {shape.properties.length > 8 && ` and ${shape.properties.length - 8} more`}
        </span>
      </span>
    ),
    sort: (shape) => shape.name,
  },
  { id: "properties", header: "Properties", width: "112px", align: "end", sort: (shape) => shape.properties.length, cell: (shape) => <Count value={shape.properties.length} /> },
  { id: "usages", header: "Uses", width: "84px", align: "end", sort: (shape) => shape.usages.length, cell: (shape) => <Count value={shape.usages.length} /> },
  {
    id: "backends",
    header: "Backends",
    width: "230px",
    sort: (shape) => shape.backends.length,
    cell: (shape) => (
      <span className={styles.badges}>
        {shape.backends.slice(0, 3).map((backend) => (
          <Badge key={backend} tone="neutral">
            <Text value={backend} max={40} />
          </Badge>
        ))}
        {shape.backends.length > 3 && <span>and {shape.backends.length - 3} more</span>}
      </span>
    ),
  },
  {
    id: "near",
    header: "Nearest",
    width: "96px",
    align: "end",
    sort: (shape) => shape.near[0]?.similarity ?? 0,
    cell: (shape) => (shape.near[0] === undefined ? <span className={styles.quiet}>none</span> : `${Math.round(shape.near[0].similarity * 100)} %`),
  },
];
