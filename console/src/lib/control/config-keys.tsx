// Keys of the configuration with what is in force, and where that comes from.

import { useMemo } from "react";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { Badge, Card, InlineCode, Table, Text } from "../../ui";
import type { Column } from "../../ui";
import type { ConfigKey } from "./contract";
import styles from "./config-keys.module.css";

const SOURCES: Readonly<Record<ConfigKey["source"], string>> = {
  file: "file",
  default: "default",
  environment: "environment",
  command_line: "command line",
};

export function sourceWord(source: ConfigKey["source"]): string {
  return SOURCES[source] ?? source;
}

/** A value on one line, as JSON. */
export function shownValue(value: unknown): string {
  if (typeof value === "string") return value === "" ? '""' : value;
  return JSON.stringify(value) ?? "";
}

/** Where a key stands in the text of the file. */
export function lineHref(line: number): string {
  return `/config?tab=edit&line=${line}`;
}

export interface ConfigKeysProps {
  keys: readonly ConfigKey[];
  /** Left out of the names, where all of them begin with it. */
  prefix?: string;
  empty?: ReactNode;
}

export function ConfigKeys({ keys, prefix = "", empty }: ConfigKeysProps) {
  const columns = useMemo(() => columnsOf(prefix), [prefix]);
  return (
    <Card flush>
      <Table label="Keys of the configuration" columns={columns} rows={keys} rowKey={(key) => key.key} {...(empty !== undefined && { empty })} />
    </Card>
  );
}

function columnsOf(prefix: string): Column<ConfigKey>[] {
  return [
    {
      id: "key",
      header: "Key",
      primary: true,
      width: "32%",
      sort: (key) => key.key,
      cell: (key) => <Text value={key.key.startsWith(prefix) ? key.key.slice(prefix.length) : key.key} mono max={200} />,
    },
    {
      id: "value",
      header: "Value",
      narrow: "wide",
      cell: (key) => (
        <span className={key.source === "default" ? styles.dim : undefined}>
          <Text value={shownValue(key.value)} mono max={240} />
        </span>
      ),
    },
    { id: "source", header: "Comes from", width: "220px", sort: (key) => `${key.source}${String(key.line ?? 0).padStart(7, "0")}`, cell: (key) => <Source of={key} /> },
    {
      id: "restart",
      header: "Change",
      width: "120px",
      sort: (key) => (key.restart ? 0 : 1),
      cell: (key) => (key.restart ? <Badge title="A change takes effect when the gateway starts again">restart</Badge> : <span className={styles.dim}>by a reload</span>),
    },
  ];
}

function Source({ of }: { of: ConfigKey }) {
  if (of.source === "file" && of.line !== null) return <Link href={lineHref(of.line)}>file, line {of.line}</Link>;
  if (of.source === "environment") return <>environment {(of.variable ?? "") !== "" && <InlineCode>{of.variable ?? ""}</InlineCode>}</>;
  return <span className={of.source === "default" ? styles.dim : undefined}>{sourceWord(of.source)}</span>;
}
