// Finds entries by half a word. What is looked at is prepared once; a search looks at all of it.

import type { Entry, Kind, Killed } from "./entries";
import { switchOf } from "./entries";

/** Of a description, for a search: descriptions that others wrote may be long. */
const DESCRIPTION_CHARS = 1_500;
const NAME_CHARS = 300;
const WORDS_MAX = 8;

export type Hint = "" | "read-only" | "destructive" | "writes";
export type StateFilter = "" | "usable" | "pinned" | "changed" | "new" | "held" | "off";

export interface Filters {
  query: string;
  kind: Kind | "";
  backend: string;
  hint: Hint;
  state: StateFilter;
}

export interface Row {
  entry: Entry;
  off: Killed | undefined;
  name: string;
  title: string;
  beside: string;
  description: string;
  /** Places in each order, so that sorting compares numbers. */
  byName: number;
  byTitle: number;
  byBackend: number;
}

export type Order = "relevance" | "name" | "title" | "backend" | "tokens" | "state";

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function ranked(count: number, textAt: (index: number) => string): number[] {
  const order = Array.from({ length: count }, (_, index) => index);
  const keys = order.map((index) => textAt(index).slice(0, NAME_CHARS));
  order.sort((a, b) => collator.compare(keys[a] as string, keys[b] as string) || a - b);
  const ranks = new Array<number>(count);
  order.forEach((index, rank) => (ranks[index] = rank));
  return ranks;
}

export function titleOf(entry: Entry): string {
  return entry.title ?? entry.shortName ?? "";
}

export function prepare(entries: readonly Entry[], killed: readonly Killed[]): Row[] {
  const byName = ranked(entries.length, (index) => entries[index]?.name ?? "");
  const byTitle = ranked(entries.length, (index) => titleOf(entries[index] as Entry) || (entries[index]?.description ?? ""));
  const byBackend = ranked(entries.length, (index) => entries[index]?.backends.join() ?? "");
  return entries.map((entry, index) => ({
    entry,
    off: killed.length === 0 ? undefined : switchOf(entry, killed),
    name: entry.name.slice(0, NAME_CHARS).toLowerCase(),
    title: titleOf(entry).slice(0, NAME_CHARS).toLowerCase(),
    beside: [...entry.backends, ...entry.tags].join("\n").slice(0, NAME_CHARS).toLowerCase(),
    description: (entry.description ?? "").slice(0, DESCRIPTION_CHARS).toLowerCase(),
    byName: byName[index] as number,
    byTitle: byTitle[index] as number,
    byBackend: byBackend[index] as number,
  }));
}

function isWordStart(text: string, at: number): boolean {
  if (at === 0) return true;
  const code = text.charCodeAt(at - 1);
  return !((code >= 97 && code <= 122) || (code >= 48 && code <= 57) || code > 127);
}

/** 0: the word is nowhere in it. */
function score(row: Row, word: string): number {
  const at = row.name.indexOf(word);
  if (at >= 0) {
    if (row.name.length === word.length) return 200;
    return (at === 0 ? 120 : isWordStart(row.name, at) ? 100 : 60) - Math.min(row.name.length, 50) / 10;
  }
  const inTitle = row.title.indexOf(word);
  if (inTitle >= 0) return isWordStart(row.title, inTitle) ? 40 : 25;
  if (row.beside.includes(word)) return 15;
  return row.description.includes(word) ? 5 : 0;
}

export function stateOf(row: Row): Exclude<StateFilter, ""> {
  if (row.off !== undefined) return "off";
  if (row.entry.isHeld) return "held";
  if (row.entry.pin === "changed" || row.entry.pin === "new" || row.entry.pin === "pinned") return row.entry.pin;
  return "usable";
}

function passes(row: Row, { kind, backend, hint, state }: Filters): boolean {
  const { entry } = row;
  if (kind !== "" && entry.kind !== kind) return false;
  if (backend !== "" && !entry.backends.includes(backend)) return false;
  if (hint === "read-only" && entry.isReadOnly !== true) return false;
  if (hint === "destructive" && entry.isDestructive !== true) return false;
  if (hint === "writes" && (entry.kind !== "tools" || entry.isReadOnly === true)) return false;
  if (state === "") return true;
  if (state === "usable") return row.off === undefined && !entry.isHeld;
  if (state === "held" || state === "off") return stateOf(row) === state;
  return entry.pin === state;
}

const STATE_ORDER = { off: 0, held: 1, changed: 2, new: 3, pinned: 4, usable: 5 };

/** Those that pass, in order. Every word of the query has to be somewhere. */
export function find(rows: readonly Row[], filters: Filters, order: Order, isDescending: boolean): Row[] {
  const words = filters.query.toLowerCase().split(/\s+/).filter((word) => word !== "").slice(0, WORDS_MAX);
  const found: { row: Row; score: number }[] = [];
  rows: for (const row of rows) {
    if (!passes(row, filters)) continue;
    let total = 0;
    for (const word of words) {
      const each = score(row, word);
      if (each === 0) continue rows;
      total += each;
    }
    found.push({ row, score: total });
  }
  const sign = isDescending ? -1 : 1;
  const key: Record<Exclude<Order, "relevance">, (row: Row) => number> = {
    name: (row) => row.byName,
    title: (row) => row.byTitle,
    backend: (row) => row.byBackend,
    tokens: (row) => row.entry.tokens ?? -1,
    state: (row) => STATE_ORDER[stateOf(row)],
  };
  if (order === "relevance") found.sort((a, b) => b.score - a.score || (words.length === 0 ? 0 : a.row.byName - b.row.byName));
  else found.sort((a, b) => sign * (key[order](a.row) - key[order](b.row)) || a.row.byName - b.row.byName);
  return found.map(({ row }) => row);
}
