// One shape: its properties, everything that uses it, and what it nearly equals, side by side.

import { useEffect, useState } from "react";
import { Link } from "wouter";
import { compareProperties } from "../../lib/shapes/shapes";
import type { Property, Shape, Usage } from "../../lib/shapes/shapes";
import { Button, Code, Diff, Drawer, Section, Table, Text, cut, formatCount, visible } from "../../ui";
import type { Column } from "../../ui";
import styles from "./schemas.module.css";

interface Props {
  shape: Shape | undefined;
  /** What it is compared with. */
  other: Shape | undefined;
  byId: ReadonlyMap<string, Shape>;
  texts: (ids: string[]) => Promise<(string | undefined)[]>;
  onOpen: (id: string) => void;
  onCompare: (id: string) => void;
  onClose: () => void;
}

/** Uses listed; the table lays out only what is seen. */
const USAGES_MAX = 5_000;

export function Detail({ shape, other, byId, texts, onOpen, onCompare, onClose }: Props) {
  return (
    <Drawer open={shape !== undefined} onClose={onClose} size="l" title={shape === undefined ? "" : cut(visible(shape.name), 120)} description={shape === undefined ? undefined : `${formatCount(shape.properties.length)} properties, used ${formatCount(shape.usages.length)} times`}>
      {shape !== undefined && other === undefined && <One shape={shape} byId={byId} texts={texts} onOpen={onOpen} onCompare={onCompare} />}
      {shape !== undefined && other !== undefined && <Two shape={shape} other={other} texts={texts} onBack={() => onCompare("")} />}
    </Drawer>
  );
}

function useTexts(texts: Props["texts"], ids: string[]): (string | undefined)[] | undefined {
  const [known, setKnown] = useState<{ key: string; texts: (string | undefined)[] } | undefined>(undefined);
  const key = ids.join();
  useEffect(() => {
    let isOver = false;
    void texts(key.split(",")).then((found) => {
      if (!isOver) setKnown({ key, texts: found });
    });
    return () => {
      isOver = true;
    };
    // `texts` is the worker of the page, which stays.
  }, [key]);
  return known?.key === key ? known.texts : undefined;
}

const PARTS = { input: "takes it", output: "gives it", arguments: "takes it" } as const;

function hrefOf(usage: Usage): string {
  return `/catalog/${usage.kind}/${encodeURIComponent(usage.name)}`;
}

const USAGES: readonly Column<Usage>[] = [
  {
    id: "name",
    header: "Used by",
    primary: true,
    sort: (usage) => usage.name,
    cell: (usage) => (
      <Link href={hrefOf(usage)}>
        <Text value={usage.name} max={100} mono />
      </Link>
    ),
  },
  { id: "backend", header: "Backend", width: "130px", sort: (usage) => usage.backend, cell: (usage) => <Text value={usage.backend} max={40} /> },
  { id: "part", header: "As", width: "96px", sort: (usage) => usage.part, cell: (usage) => PARTS[usage.part] },
  { id: "path", header: "At", width: "170px", cell: (usage) => (usage.path === "" ? <span className={styles.quiet}>the whole</span> : <Text value={usage.path} max={80} mono />) },
];

function One({ shape, byId, texts, onOpen, onCompare }: { shape: Shape; byId: Props["byId"]; texts: Props["texts"]; onOpen: Props["onOpen"]; onCompare: Props["onCompare"] }) {
  const text = useTexts(texts, [shape.id]);
  const near = shape.near.map(({ id, similarity }) => ({ shape: byId.get(id), similarity })).filter((one) => one.shape !== undefined) as { shape: Shape; similarity: number }[];
  return (
    <>
      <Section title="Properties">
        <PropertyTable label="Properties" rows={shape.properties} />
      </Section>
      <Section title="Uses">
        <Table label="Uses" columns={USAGES} rows={shape.usages.slice(0, USAGES_MAX)} rowKey={(usage) => `${usage.kind} ${usage.name} ${usage.part} ${usage.path}`} height="360px" />
        {shape.usages.length > USAGES_MAX && <p className={styles.quiet}>{formatCount(shape.usages.length - USAGES_MAX)} more are not listed.</p>}
      </Section>
      <Section title="Nearly equal" description="By properties of the same name and type.">
        {near.length === 0 ? (
          <p className={styles.quiet}>No other shape has half of these properties.</p>
        ) : (
          <ul className={styles.near}>
            {near.map((one) => (
              <li key={one.shape.id}>
                <span className={styles.share}>{Math.round(one.similarity * 100)} %</span>
                <button type="button" className={styles.link} onClick={() => onOpen(one.shape.id)}>
                  <Text value={one.shape.name} max={90} />
                </button>
                <span className={styles.quiet}>
                  <Text value={one.shape.backends.join(", ")} max={60} />
                </span>
                <Button size="s" aria-label={`Compare with ${cut(visible(one.shape.name), 90)}`} onClick={() => onCompare(one.shape.id)}>
                  Compare
                </Button>
              </li>
            ))}
          </ul>
        )}
      </Section>
      <Section title="Structure" description="With references resolved and words left out. Shapes with the same text are the same.">
        {text?.[0] !== undefined && <Code value={text[0]} label="Structure" />}
      </Section>
    </>
  );
}

const PROPERTIES: readonly Column<Property>[] = [
  { id: "name", header: "Name", primary: true, cell: (property) => <Text value={property.name} max={100} mono /> },
  { id: "type", header: "Type", cell: (property) => <Text value={property.type} max={120} /> },
  { id: "required", header: "Required", width: "100px", cell: (property) => (property.isRequired ? "required" : <span className={styles.quiet}>optional</span>) },
];

function PropertyTable({ label, rows }: { label: string; rows: readonly Property[] }) {
  return <Table label={label} columns={PROPERTIES} rows={rows} rowKey={(property) => property.name} height="360px" />;
}

type Compared = ReturnType<typeof compareProperties>[number];

function describe(property: Property | undefined): React.ReactNode {
  if (property === undefined) return <span className={styles.quiet}>not there</span>;
  return (
    <>
      <Text value={property.type} max={120} />
      {property.isRequired && ", required"}
    </>
  );
}

function Two({ shape, other, texts, onBack }: { shape: Shape; other: Shape; texts: Props["texts"]; onBack: () => void }) {
  const text = useTexts(texts, [shape.id, other.id]);
  const rows = compareProperties(shape.properties, other.properties);
  const columns: readonly Column<Compared>[] = [
    { id: "name", header: "Property", primary: true, cell: (row) => <Text value={row.name} max={100} mono /> },
    { id: "before", header: cut(visible(shape.name), 40), cell: (row) => describe(row.before) },
    { id: "after", header: cut(visible(other.name), 40), cell: (row) => describe(row.after) },
    { id: "same", header: "", width: "96px", cell: (row) => (row.isEqual ? <span className={styles.quiet}>same</span> : <strong>differs</strong>) },
  ];
  return (
    <>
      <p>
        <Button size="s" onClick={onBack}>
          Back to the shape
        </Button>
      </p>
      <Section title="Properties that differ come first">
        <Table label="Compared properties" columns={columns} rows={[...rows].sort((a, b) => Number(a.isEqual) - Number(b.isEqual))} rowKey={(row) => row.name} height="360px" />
      </Section>
      <Section title="Structures">
        {text?.[0] !== undefined && text[1] !== undefined && <Diff before={text[0]} after={text[1]} labels={[cut(visible(shape.name), 40), cut(visible(other.name), 40)]} />}
      </Section>
    </>
  );
}
