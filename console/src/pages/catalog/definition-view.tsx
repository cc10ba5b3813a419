// A definition as one reads it: what goes in, what comes out, and everything as it came.

import { useMemo, useState } from "react";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { Badge, Button, DefinitionList, InlineCode, Json, Text, formatCount } from "../../ui";
import { parseJson, printJson } from "../../ui/json-parse";
import type { JsonNode } from "../../ui/json-parse";
import { memberOf } from "../../lib/json/edit";
import { printValue, valueOf } from "../../lib/json/value";
import type { Catalog, Entry } from "../../lib/catalog/entries";
import { definitionText } from "../../lib/catalog/entries";
import { factsOf, short, typeWord } from "../../lib/form/facts";
import { SchemaDocument } from "../../lib/form/flatten";
import type { Schema } from "../../lib/form/flatten";
import { shapeOf } from "../../lib/form/shape";
import type { Shape } from "../../lib/form/shape";
import styles from "./detail.module.css";

/** What `GET /api/catalog` adds to a tool. */
const ADDED = new Set(["backend", "method", "routes", "rpcMethods"]);

export function useDefinition(catalog: Catalog, entry: Entry): JsonNode | undefined {
  return useMemo(() => {
    const text = definitionText(catalog, entry);
    const node = text === undefined ? undefined : parseJson(text);
    if (node?.kind !== "object") return undefined;
    return entry.kind === "tools" ? { kind: "object", entries: node.entries.filter(([key]) => !ADDED.has(key)) } : node;
  }, [catalog, entry]);
}

export function DefinitionView({ entry, definition }: { entry: Entry; definition: JsonNode | undefined }) {
  const input = memberOf(definition, "inputSchema");
  const output = memberOf(definition, "outputSchema");
  const annotations = memberOf(definition, "annotations");
  const meta = memberOf(definition, "_meta");
  const rest = definition?.kind === "object" ? definition.entries.filter(([key]) => !KNOWN.has(key)) : [];
  const text = useMemo(() => (definition === undefined ? "" : printJson(definition)), [definition]);
  return (
    <div className={styles.panel}>
      {input !== undefined && <SchemaPart title="Input" node={input} empty="It takes no arguments." />}
      {output !== undefined && <SchemaPart title="Output" node={output} empty="Anything." />}
      {input !== undefined && output === undefined && (
        <Part title="Output">
          <p className={styles.dim}>Not described: content blocks of any kind.</p>
        </Part>
      )}
      {annotations !== undefined && (
        <Part title="Annotations" hint="What the server says of itself. Nothing checks it.">
          <Members node={annotations} />
        </Part>
      )}
      <Ways entry={entry} />
      {meta !== undefined && (
        <Part title="_meta">
          <Json text={printJson(meta)} label="_meta" depth={2} />
        </Part>
      )}
      {rest.length > 0 && (
        <Part title="Further members">
          <Json text={printJson({ kind: "object", entries: rest })} label="Further members" depth={2} />
        </Part>
      )}
      {text !== "" && (
        <Part title="The whole definition">
          <Json text={text} label="The whole definition" depth={1} />
        </Part>
      )}
    </div>
  );
}

const KNOWN = new Set(["name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta", "uri", "uriTemplate", "mimeType", "arguments", "size", "icons", "execution"]);

export function Part({ title, hint, children }: { title: string; hint?: string; children: ReactNode }) {
  return (
    <section className={styles.part} aria-label={title}>
      <h3 className={styles.partTitle}>{title}</h3>
      {hint !== undefined && <p className={styles.dim}>{hint}</p>}
      {children}
    </section>
  );
}

function Members({ node }: { node: JsonNode }) {
  const entries = node.kind === "object" ? node.entries : [];
  return <DefinitionList items={entries.slice(0, 40).map(([key, value]) => [<Text key="k" value={key} max={60} />, <Text key="v" value={value.kind === "string" ? value.value : printJson(value)} max={200} />] as const)} />;
}

/** By which addresses a tool is called. */
function Ways({ entry }: { entry: Entry }) {
  const { item } = entry;
  const routes = Array.isArray(item?.["routes"]) ? (item["routes"] as { method?: unknown; path?: unknown }[]) : [];
  const methods = Array.isArray(item?.["rpcMethods"]) ? (item["rpcMethods"] as unknown[]) : [];
  if (routes.length === 0 && methods.length === 0) return null;
  return (
    <Part title="Routes">
      <ul className={styles.list}>
        {routes.map((route, index) => (
          <li key={index}>
            <InlineCode>{`${Array.isArray(route.method) ? route.method.join(", ") : String(route.method ?? "")} ${String(route.path ?? "")}`}</InlineCode>
          </li>
        ))}
        {methods.map((method, index) => (
          <li key={`rpc${index}`}>
            <InlineCode>{`JSON-RPC ${String(method)}`}</InlineCode>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function SchemaPart({ title, node, empty }: { title: string; node: JsonNode; empty: string }) {
  const document = useMemo(() => new SchemaDocument(valueOf(node)), [node]);
  const shape = shapeOf(document, document.root);
  const [isRaw, setRaw] = useState(false);
  const text = useMemo(() => printJson(node), [node]);
  const isEmpty = shape.kind === "object" && shape.members.length === 0 && !shape.isMap;
  return (
    <section className={styles.part} aria-label={title}>
      <div className={styles.partHead}>
        <h3 className={styles.partTitle}>{title}</h3>
        <Button size="s" variant="ghost" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          {isRaw ? "Readable" : "JSON Schema"}
        </Button>
      </div>
      {isRaw ? (
        <Json text={text} label={`${title} as JSON Schema`} depth={3} />
      ) : isEmpty ? (
        <p className={styles.dim}>{empty}</p>
      ) : (
        <SchemaTree document={document} schema={document.root} depth={0} isRoot />
      )}
    </section>
  );
}

/** Members shown at first, and with each press on "more". */
const STEP = 30;
/** Opened at once down to here. */
const OPEN_DEPTH = 1;

function SchemaTree({ document, schema, depth, isRoot = false }: { document: SchemaDocument; schema: Schema; depth: number; isRoot?: boolean }) {
  const shape = shapeOf(document, schema);
  const [shown, setShown] = useState(STEP);
  const rows = rowsOf(document, shape);
  return (
    <div className={depth === 0 ? undefined : styles.tree}>
      {isRoot && shape.notes.map((note) => <Note key={note} text={note} />)}
      {isRoot && rows.length === 0 && <Leaf document={document} shape={shape} />}
      <ul className={styles.rows}>
        {rows.slice(0, shown).map((row, index) => (
          <SchemaRow key={index} document={document} row={row} depth={depth} />
        ))}
      </ul>
      {rows.length > shown && (
        <Button size="s" variant="ghost" onClick={() => setShown(shown + STEP)}>
          Show {formatCount(Math.min(STEP, rows.length - shown))} more of {formatCount(rows.length - shown)}
        </Button>
      )}
    </div>
  );
}

interface SchemaRowOf {
  name: string;
  schema: Schema;
  isRequired: boolean;
  /** `member`, `item`, `alternative`: what the name is. */
  kind: "member" | "item" | "option";
}

function rowsOf(document: SchemaDocument, shape: Shape): SchemaRowOf[] {
  if (shape.kind === "object") {
    const rows: SchemaRowOf[] = shape.members.map((member) => ({ ...member, kind: "member" }));
    if (shape.isMap && shape.rest !== false) rows.push({ name: "any other name", schema: shape.rest, isRequired: false, kind: "item" });
    return rows;
  }
  if (shape.kind === "array") {
    const rows: SchemaRowOf[] = shape.prefix.map((schema, index) => ({ name: `item ${index + 1}`, schema, isRequired: true, kind: "item" }));
    // A list of plain values says so in its type already.
    if (shape.items !== false && shape.items !== true) {
      const item = shapeOf(document, shape.items);
      const isPlain = rowsOf(document, item).length === 0 && item.description === undefined && factsOf(item).length === 0 && item.kind !== "enum";
      if (!isPlain) rows.push({ name: "each item", schema: shape.items, isRequired: false, kind: "item" });
    }
    return rows;
  }
  if (shape.kind === "choice") return shape.options.map((option) => ({ name: option.label, schema: option.schema, isRequired: false, kind: "option" }));
  return [];
}

function SchemaRow({ document, row, depth }: { document: SchemaDocument; row: SchemaRowOf; depth: number }) {
  const shape = shapeOf(document, row.schema);
  const inner = rowsOf(document, shape);
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH && inner.length <= 12);
  return (
    <li className={styles.schemaRow}>
      <div className={styles.schemaLine}>
        <span className={row.kind === "member" ? styles.memberName : styles.itemName}>
          <Text value={row.name} max={80} />
        </span>
        {row.isRequired && row.kind === "member" && <span className={styles.requiredWord}>required</span>}
        <Leaf document={document} shape={shape} />
      </div>
      {shape.description !== undefined && (
        <div className={styles.schemaText}>
          <Text value={shape.description} max={280} />
        </div>
      )}
      {shape.kind === "enum" && <Values shape={shape} />}
      {shape.kind === "const" && (
        <div className={styles.schemaText}>
          <InlineCode>{short(printValue(shape.value))}</InlineCode>
        </div>
      )}
      {shape.notes.map((note) => (
        <Note key={note} text={note} />
      ))}
      {inner.length > 0 && (
        <>
          <button type="button" className={styles.unfold} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? "Hide" : "Show"} {inner.length === 1 ? "1 part" : `${formatCount(inner.length)} parts`}
            <span className="visually-hidden"> of {row.name.slice(0, 80)}</span>
          </button>
          {isOpen && <SchemaTree document={document} schema={row.schema} depth={depth + 1} />}
        </>
      )}
    </li>
  );
}

function Leaf({ document, shape }: { document: SchemaDocument; shape: Shape }) {
  const facts = [typeWord(document, shape), ...factsOf(shape)];
  return (
    <span className={styles.leaf}>
      <Text value={facts.join(" · ")} max={240} />
    </span>
  );
}

/** Values of one list that are shown at first. */
const VALUES_STEP = 24;

function Values({ shape }: { shape: Shape & { kind: "enum" } }) {
  const [shown, setShown] = useState(VALUES_STEP);
  return (
    <div className={styles.values}>
      {shape.values.slice(0, shown).map(({ value, label }, index) => {
        const printed = typeof value === "string" ? value : printValue(value);
        return (
          <Badge key={index} {...(label !== printed && { title: label.slice(0, 200) })}>
            <Text value={short(printed)} max={60} />
          </Badge>
        );
      })}
      {shape.values.length > shown && (
        <button type="button" className={styles.unfold} onClick={() => setShown(shown + VALUES_STEP * 4)}>
          {formatCount(shape.values.length - shown)} more
        </button>
      )}
    </div>
  );
}

function Note({ text }: { text: string }) {
  return (
    <div className={styles.schemaText}>
      <Text value={text} max={300} />
    </div>
  );
}

/** Who may call it, by the rules of roles. */
export function AccessPart({ entry }: { entry: Entry }) {
  if (entry.callers === undefined) return null;
  const callers = new Set(entry.callers);
  const only = (entry.seers ?? []).filter((role) => !callers.has(role));
  return (
    <Part title="Who may call it">
      {callers.size === 0 ? (
        <p className={styles.dim}>No role.</p>
      ) : (
        <div className={styles.values}>
          {[...callers].slice(0, 60).map((role) => (
            <Badge key={role} tone="ok">
              <Text value={role} max={60} />
            </Badge>
          ))}
        </div>
      )}
      {only.length > 0 && (
        <p className={styles.dim}>
          Sees it, but may not call it: <Text value={only.join(", ")} max={200} />
        </p>
      )}
      <p className={styles.dim}>
        By the rules of roles alone. <Link href={`/access?operation=${encodeURIComponent(entry.name)}`}>Why may somebody, or not?</Link>
      </p>
    </Part>
  );
}
