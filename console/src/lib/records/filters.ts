// Which records are looked at: from the address of the page, to it, and to the gateway.
//
// Some filters the gateway does not have (`ended`, `all`): they are applied to what it answers, by `isShown`.

import type { AuditRecord } from "./record";
import { OUTCOME_WORDS, endedOf, isBookkeeping, surfaceWord } from "./record";

/** Parameters of the gateway's own search, by the names that it has for them. */
export const SERVER_FILTERS = [
  "caller",
  "tool",
  "backend",
  "outcome",
  "kind",
  "surface",
  "method",
  "role",
  "tenant",
  "text",
  "slower_than_ms",
  "failed",
  "since",
  "until",
] as const;

export type ServerFilter = (typeof SERVER_FILTERS)[number];

/** `ended`: `failed` or `refused`. `all`: bookkeeping too. */
export type FilterName = ServerFilter | "ended" | "all";

export const FILTERS: readonly FilterName[] = [...SERVER_FILTERS, "ended", "all"];

/** The empty string is no filter. */
export type Filters = Readonly<Record<FilterName, string>>;

const NONE = Object.fromEntries(FILTERS.map((name) => [name, ""])) as Filters;

/** A longer value is no name of anything, and would not fit into a request. */
const VALUE_CHARS_MAX = 2_000;

export function readFilters(params: URLSearchParams): Filters {
  const read = Object.fromEntries(FILTERS.map((name) => [name, (params.get(name) ?? "").slice(0, VALUE_CHARS_MAX)])) as Record<FilterName, string>;
  if (read.ended !== "failed" && read.ended !== "refused") read.ended = "";
  read.all = read.all === "true" ? "true" : "";
  read.failed = read.failed === "true" ? "true" : "";
  return read;
}

export function filtersOf(some: Partial<Record<FilterName, string>>): Filters {
  return { ...NONE, ...some };
}

/** Those that are set. */
export function paramsOf(filters: Partial<Filters>): Record<string, string> {
  return Object.fromEntries(FILTERS.filter((name) => (filters[name] ?? "") !== "").map((name) => [name, filters[name] as string]));
}

/** The address of the traffic with these filters, below `/console`. */
export function trafficHref(filters: Partial<Record<FilterName, string>>, more: Record<string, string> = {}): string {
  const query = new URLSearchParams({ ...paramsOf(filters), ...more }).toString();
  return query === "" ? "/traffic" : `/traffic?${query}`;
}

/** The query of a request to the gateway. */
export function serverQuery(filters: Filters, more: Record<string, string | number> = {}): string {
  const query = new URLSearchParams();
  for (const name of SERVER_FILTERS) if (filters[name] !== "") query.set(name, filters[name]);
  // Both are among these.
  if (filters.ended !== "") query.set("failed", "true");
  for (const [name, value] of Object.entries(more)) query.set(name, String(value));
  return query.toString();
}

/** Whether a record that the gateway answered passes the filters that it does not have. */
export function isShown(record: AuditRecord, filters: Filters): boolean {
  if (filters.ended !== "" && endedOf(record) !== filters.ended) return false;
  return filters.all !== "" || filters.method !== "" || !isBookkeeping(record);
}

export function isSame(a: Filters, b: Filters): boolean {
  return FILTERS.every((name) => a[name] === b[name]);
}

export interface Preset {
  id: string;
  label: string;
  filters: Partial<Record<FilterName, string>>;
}

/** Filters that presets are made of; choosing one replaces these and leaves the others. */
const OF_PRESETS = ["ended", "failed", "outcome", "slower_than_ms", "surface"] as const;

/** Slower than people wait without noticing. */
export const SLOW_MS = 1_000;

export const PRESETS: readonly Preset[] = [
  { id: "all", label: "Everything", filters: {} },
  { id: "errors", label: "Errors", filters: { ended: "failed" } },
  { id: "refused", label: "Refused", filters: { ended: "refused" } },
  { id: "slow", label: "Slow", filters: { slower_than_ms: String(SLOW_MS) } },
  { id: "admin", label: "Admin actions", filters: { surface: "admin" } },
];

/** What the address changes by for a preset. */
export function presetChanges(preset: Preset): Record<string, string> {
  return Object.fromEntries(OF_PRESETS.map((name) => [name, preset.filters[name] ?? ""]));
}

/** The preset that the filters are, whatever else they ask for. */
export function presetOf(filters: Filters): string | undefined {
  return PRESETS.find((preset) => OF_PRESETS.every((name) => filters[name] === (preset.filters[name] ?? "")))?.id;
}

const LABELS: Readonly<Record<FilterName, string>> = {
  caller: "Caller",
  tool: "Tool",
  backend: "Backend",
  outcome: "Outcome",
  kind: "Reason",
  surface: "Surface",
  method: "Method",
  role: "Role",
  tenant: "Tenant",
  text: "Text",
  slower_than_ms: "Slower than",
  failed: "Ended",
  since: "From",
  until: "Until",
  ended: "Ended",
  all: "Bookkeeping",
};

export interface FilterWords {
  name: FilterName;
  label: string;
  value: string;
}

/** `15m`, `2h`, `7d` in words; a moment by `time`. */
export function timeWords(value: string, time: (ms: number) => string): string {
  const relative = /^(\d+)([smhd])$/.exec(value);
  if (relative !== null) {
    const unit = { s: "second", m: "minute", h: "hour", d: "day" }[relative[2] as "s" | "m" | "h" | "d"];
    return `${relative[1]} ${unit}${relative[1] === "1" ? "" : "s"} ago`;
  }
  const ms = /^\d+$/.test(value) ? Number(value) : Date.parse(value);
  return Number.isFinite(ms) ? time(ms) : value;
}

/** The filters that are set, in words. */
export function filterWords(filters: Filters, time: (ms: number) => string): FilterWords[] {
  const valueOf = (name: FilterName, value: string): string => {
    if (name === "outcome") return OUTCOME_WORDS.find(([word]) => word === value)?.[1] ?? value;
    if (name === "surface") return surfaceWord(value);
    if (name === "slower_than_ms") return `${value} ms`;
    if (name === "ended") return value === "failed" ? "with an error" : "refused";
    if (name === "failed") return "with an error or refused";
    if (name === "all") return "shown";
    return name === "since" || name === "until" ? timeWords(value, time) : value;
  };
  return FILTERS.filter((name) => filters[name] !== "").map((name) => ({ name, label: LABELS[name], value: valueOf(name, filters[name]) }));
}
