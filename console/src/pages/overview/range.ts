// The time that charts and tables are about.

export type Range = "live" | "1h" | "6h" | "24h" | "7d";

export interface RangeWords {
  value: Range;
  label: string;
  /** In a sentence: "of the last hour". */
  words: string;
  /** As the gateway understands it. */
  since: string;
  ms: number;
  /** How often it is asked again; a long time changes slowly, and takes the store long. */
  everyMs: number;
}

export const RANGES: readonly RangeWords[] = [
  { value: "live", label: "Live", words: "the last 5 minutes", since: "5m", ms: 300_000, everyMs: 10_000 },
  { value: "1h", label: "1 h", words: "the last hour", since: "1h", ms: 3_600_000, everyMs: 30_000 },
  { value: "6h", label: "6 h", words: "the last 6 hours", since: "6h", ms: 21_600_000, everyMs: 60_000 },
  { value: "24h", label: "24 h", words: "the last 24 hours", since: "24h", ms: 86_400_000, everyMs: 300_000 },
  { value: "7d", label: "7 d", words: "the last 7 days", since: "7d", ms: 604_800_000, everyMs: 900_000 },
];

export function rangeOf(value: string): RangeWords {
  return RANGES.find((range) => range.value === value) ?? (RANGES[0] as RangeWords);
}
