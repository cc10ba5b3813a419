// Is everything all right? What is not, worst first, each with the page that helps.

import { between, percentilesBetween, since } from "./rates";
import type { Point, Totals } from "./rates";

export interface Backend {
  name: string;
  type: string;
  health: string;
  problem?: string | null;
  listed: boolean;
}

export interface State extends Totals {
  uptime_s: number;
  admission?: null | { active: number; queued: number; max: number };
  audit: { enabled: boolean; dropped: number; gaps: number; backlog: number };
  backends: readonly Backend[];
  killed: readonly { scope: string; name?: string | null }[];
  pins_waiting: number;
  draining: boolean;
}

export type Severity = "error" | "warn" | "info";

export interface Finding {
  id: string;
  severity: Severity;
  text: string;
  /** Below `/console`. */
  href: string;
}

/** A minute is compared with the hour before it. */
export const NOW_MS = 60_000;
/** So much more than usual is worth a word. */
const MORE_THAN_USUAL = 3;
/** Fewer in a minute are chance. */
const COUNT_MIN = 5;
/** Latencies below are never slow, whatever is usual. */
const SLOW_MIN_US = 100_000;
/** Records wait for the store for a second or so; more than these wait for a reason. */
const BACKLOG_MANY = 5_000;

function count(n: number, one: string, many: string): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** Backends are named where they are few. */
const NAMED_MAX = 2;

function named(names: readonly string[], many: string): string {
  if (names.length > NAMED_MAX) return `${names.length} ${many}`;
  return names.join(" and ");
}

function ofBackends(backends: readonly Backend[]): Finding[] {
  const findings: Finding[] = [];
  const group = (id: string, severity: Severity, isOne: (backend: Backend) => boolean, one: string, many: string) => {
    const names = backends.filter(isOne).map((backend) => backend.name);
    if (names.length === 0) return;
    const href = names.length === 1 ? `/backends/${encodeURIComponent(names[0] as string)}` : "/backends";
    findings.push({ id, severity, text: `${named(names, "backends")} ${names.length === 1 ? one : many}`, href });
  };
  group("down", "error", (backend) => backend.health === "down", "is down", "are down");
  group("failing", "warn", (backend) => backend.health === "failing", "is failing", "are failing");
  group("stopped", "info", (backend) => backend.health === "stopped", "is stopped", "are stopped");
  return findings;
}

/** What is more than usual in the last minute. `hour` is the course of the last hour, by minutes or finer. */
function ofTraffic(history: readonly Totals[], hour: readonly Point[] | undefined, hourMs: number): Finding[] {
  const last = history.at(-1);
  const first = since(history, NOW_MS);
  if (last === undefined || first === undefined || hour === undefined || hourMs <= 0) return [];
  const now = between(first, last);
  // A few seconds say nothing of a minute.
  if (now.seconds < 5) return [];
  const findings: Finding[] = [];
  const usual = (name: "errors" | "refused") => (hour.reduce((sum, point) => sum + point[name], 0) / hourMs) * now.seconds * 1000;
  const window = "2m";
  if (now.refused >= COUNT_MIN && now.refused > MORE_THAN_USUAL * usual("refused")) {
    findings.push({
      id: "refused",
      severity: "warn",
      text: `${count(now.refused, "call", "calls")} refused in the last minute, more than usual`,
      href: `/traffic?since=${window}&ended=refused`,
    });
  }
  if (now.failed >= COUNT_MIN && now.failed > MORE_THAN_USUAL * usual("errors")) {
    findings.push({
      id: "errors",
      severity: "error",
      text: `${count(now.failed, "call", "calls")} failed in the last minute, more than usual`,
      href: `/traffic?since=${window}&ended=failed`,
    });
  }
  const { p95 } = percentilesBetween(first, last);
  const calm = hour.filter((point) => point.calls > 0).map((point) => point.p95_us).sort((a, b) => a - b);
  const median = calm[Math.floor(calm.length / 2)];
  if (p95 !== null && median !== undefined && now.calls >= COUNT_MIN && p95 > SLOW_MIN_US && p95 > MORE_THAN_USUAL * median) {
    findings.push({
      id: "slow",
      severity: "warn",
      text: "calls take longer than usual",
      href: `/traffic?since=${window}&slower_than_ms=${Math.round(median / 1000)}`,
    });
  }
  return findings;
}

const ORDER: readonly Severity[] = ["error", "warn", "info"];

/** Everything that is not as it should be, the worst first; none where all is right. */
export function findings(history: readonly State[], hour: readonly Point[] | undefined): Finding[] {
  const state = history.at(-1);
  if (state === undefined) return [];
  const found: Finding[] = [];
  if (state.draining) {
    found.push({ id: "draining", severity: "error", text: "the gateway is shutting down and takes no new calls", href: "/limits" });
  }
  if (state.killed.some((killed) => killed.scope === "all")) {
    found.push({ id: "all-off", severity: "error", text: "everything is switched off", href: "/switches" });
  } else if (state.killed.length > 0) {
    found.push({ id: "killed", severity: "warn", text: `${count(state.killed.length, "switch is", "switches are")} off`, href: "/switches" });
  }
  found.push(...ofBackends(state.backends));
  const { audit, admission } = state;
  if (audit.dropped > 0 || audit.gaps > 0) {
    const lost = audit.dropped > 0 ? count(audit.dropped, "audit record was", "audit records were") : "audit records were";
    found.push({ id: "lost", severity: "error", text: `${lost} lost`, href: "/traffic?method=audit%2Fgap" });
  }
  if (audit.backlog > BACKLOG_MANY) {
    found.push({ id: "backlog", severity: "warn", text: `${count(audit.backlog, "audit record waits", "audit records wait")} for the store`, href: "/traffic" });
  }
  if (!audit.enabled) found.push({ id: "audit-off", severity: "info", text: "no audit records are kept", href: "/config" });
  if (admission !== null && admission !== undefined && admission.max > 0 && admission.active >= admission.max && admission.queued > 0) {
    found.push({ id: "full", severity: "warn", text: `all ${admission.max} places are taken and ${count(admission.queued, "call waits", "calls wait")}`, href: "/limits" });
  }
  if (state.pins_waiting > 0) {
    found.push({ id: "pins", severity: "warn", text: `${count(state.pins_waiting, "changed definition waits", "changed definitions wait")} for approval`, href: "/pins" });
  }
  const hourMs = Math.min(3_600_000, state.uptime_s * 1000);
  found.push(...ofTraffic(history, hour, hourMs));
  return found.sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
}
