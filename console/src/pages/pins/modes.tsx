// What each backend does when a definition changes.

import { Link } from "wouter";
import type { PinnedTool } from "../../lib/control/contract";
import { backendHref } from "../../lib/control/state";
import { Badge, Card, Count, DefinitionList, EmptyState, Section, Table, Text } from "../../ui";
import type { Tone } from "../../ui";
import styles from "./pins.module.css";

export type Mode = "off" | "warn" | "enforce";

export const MEANINGS: Readonly<Record<Mode, string>> = {
  off: "Definitions are not looked at.",
  warn: "A change is logged and shown here; the tool goes on as it is.",
  enforce: "A changed or new tool is hidden and refused until somebody approves it.",
};

const TONES: Readonly<Record<Mode, Tone>> = { off: "off", warn: "info", enforce: "ok" };

function isMode(value: unknown): value is Mode {
  return value === "off" || value === "warn" || value === "enforce";
}

/** The mode of each backend of the configuration. */
export function modesOf(config: Record<string, unknown> | undefined): ReadonlyMap<string, Mode> {
  const backends = Array.isArray(config?.["backends"]) ? (config["backends"] as { name?: unknown; pin?: unknown }[]) : [];
  return new Map(backends.flatMap(({ name, pin }) => (typeof name === "string" && isMode(pin) ? [[name, pin] as const] : [])));
}

export function ModeBadge({ mode }: { mode: Mode }) {
  return (
    <Badge tone={TONES[mode]} title={MEANINGS[mode]}>
      {mode}
    </Badge>
  );
}

export function Modes({ modes, pins }: { modes: ReadonlyMap<string, Mode>; pins: readonly PinnedTool[] }) {
  const rows = [...modes].map(([name, mode]) => ({
    name,
    mode,
    pinned: pins.filter((pin) => pin.backend === name && pin.difference !== "new").length,
    waiting: pins.filter((pin) => pin.backend === name && pin.difference !== null).length,
  }));
  return (
    <>
      <Section title="What the modes mean">
        <Card>
          <DefinitionList items={(["off", "warn", "enforce"] as const).map((mode) => [<ModeBadge key={mode} mode={mode} />, MEANINGS[mode]] as const)} />
        </Card>
      </Section>
      <Section title="Backends" description="The key “pin” of each backend; a reload applies a change.">
        <Card flush>
          <Table
            label="Modes of backends"
            rows={rows}
            rowKey={(row) => row.name}
            empty={<EmptyState title="There is no backend yet" />}
            columns={[
              { id: "name", header: "Backend", primary: true, sort: (row) => row.name, cell: (row) => <Link href={backendHref(row.name)}><Text value={row.name} /></Link> },
              { id: "mode", header: "Mode", sort: (row) => row.mode, cell: (row) => <ModeBadge mode={row.mode} /> },
              { id: "meaning", header: "When a definition changes", narrow: "wide", cell: (row) => <span className={styles.dim}>{MEANINGS[row.mode]}</span> },
              { id: "pinned", header: "Pinned", align: "end", sort: (row) => row.pinned, cell: (row) => <Count value={row.pinned} /> },
              { id: "waiting", header: "Changed or new", align: "end", sort: (row) => row.waiting, cell: (row) => <Count value={row.waiting} /> },
              {
                id: "key",
                header: <span className="visually-hidden">Configuration</span>,
                align: "end",
                cell: (row) => <Link href={`/config?q=${encodeURIComponent(`backends.${row.name}.pin`)}`}>Configuration</Link>,
              },
            ]}
          />
        </Card>
      </Section>
    </>
  );
}
