// The backends, those with a problem first.

import { Link } from "wouter";
import type { Overview } from "../../api/live";
import { trafficHref } from "../../lib/records/filters";
import { Section, Status, Text, formatCount, formatDuration } from "../../ui";
import type { Tone } from "../../ui";
import styles from "./overview.module.css";

type Backend = Overview["backends"][number];

/** A page of tiles; the others are on the page of backends. */
const TILES_MAX = 48;

const HEALTH: Readonly<Record<string, readonly [string, Tone, number]>> = {
  down: ["Down", "error", 0],
  failing: ["Failing", "warn", 1],
  starting: ["Starting", "info", 2],
  stopped: ["Stopped", "off", 3],
  up: ["Up", "ok", 4],
  asleep: ["Asleep", "off", 4],
};

function healthOf(backend: Backend): readonly [string, Tone, number] {
  return HEALTH[backend.health] ?? [backend.health, "off", 3];
}

export function BackendTiles({ backends }: { backends: readonly Backend[] }) {
  const sorted = [...backends].sort((a, b) => healthOf(a)[2] - healthOf(b)[2]);
  return (
    <Section title="Backends" {...(sorted.length > TILES_MAX && { description: `${TILES_MAX} of ${sorted.length}; those with a problem first.` })} actions={<Link href="/backends">All backends</Link>}>
      <ul className={styles.tiles}>
        {sorted.slice(0, TILES_MAX).map((backend) => (
          <Tile key={backend.name} backend={backend} />
        ))}
      </ul>
    </Section>
  );
}

function Tile({ backend }: { backend: Backend }) {
  const [word, tone] = healthOf(backend);
  const { name, type, revision, tools, active, queued, restarts, problem, retry_after_ms } = backend;
  const facts = [
    type,
    revision ? `MCP ${revision}` : undefined,
    `${formatCount(tools)} ${tools === 1 ? "tool" : "tools"}`,
  ].filter((fact) => fact !== undefined);
  return (
    <li className={styles.tile}>
      <div className={styles.tileHead}>
        <Link href={`/backends/${encodeURIComponent(name)}`} className={styles.tileName}>
          <Text value={name} line />
        </Link>
        <Status tone={tone}>{word}</Status>
      </div>
      <p className={styles.tileFacts}>{facts.join(" · ")}</p>
      {problem ? (
        <p className={styles.tileProblem}>
          <Text value={problem} max={140} />
          {retry_after_ms !== null && retry_after_ms !== undefined && <span className={styles.retry}> Tried again in {formatDuration(retry_after_ms * 1000)}.</span>}
        </p>
      ) : null}
      <p className={styles.tileFoot}>
        <span>
          {formatCount(active)} running{queued > 0 ? `, ${formatCount(queued)} waiting` : ""}
          {restarts > 0 && ` · ${formatCount(restarts)} ${restarts === 1 ? "restart" : "restarts"}`}
        </span>
        <Link href={trafficHref({ backend: name })}>
          Traffic<span className="visually-hidden"> of {name}</span>
        </Link>
      </p>
    </li>
  );
}
