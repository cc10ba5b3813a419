// Numbers, sizes and times, always written the same way.

import { useSyncExternalStore } from "react";

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const rounded = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function formatCount(value: number): string {
  return Number.isFinite(value) ? grouped.format(value) : "–";
}

export function formatCompact(value: number): string {
  return Number.isFinite(value) ? compact.format(value) : "–";
}

/** A rate or another number that may be small: `0.4`, `12`, `1.2K`. */
export function formatRate(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 0.1) return "<0.1";
  return Math.abs(value) < 1000 ? rounded.format(value) : compact.format(value);
}

/** `420 µs`, `3.1 ms`, `2.4 s`, `3 min 4 s`, `2 h 5 min`, `3 d 2 h`. */
export function formatDuration(us: number): string {
  if (!Number.isFinite(us)) return "–";
  if (us < 1000) return `${Math.round(us)} µs`;
  const ms = us / 1000;
  if (ms < 999.5) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 59.95) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const pair = (large: number, small: number, a: string, b: string) => (small === 0 ? `${large} ${a}` : `${large} ${a} ${small} ${b}`);
  const whole = Math.round(s);
  if (whole < 3600) return pair(Math.floor(whole / 60), whole % 60, "min", "s");
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return pair(Math.floor(minutes / 60), minutes % 60, "h", "min");
  return pair(Math.floor(minutes / 1440), Math.floor((minutes % 1440) / 60), "d", "h");
}

export function formatBytes(bytes: number): string {
  if (!Number.isFinite(bytes)) return "–";
  if (bytes < 1024) return `${bytes} B`;
  let value = bytes / 1024;
  for (const unit of ["KiB", "MiB", "GiB"]) {
    if (value < 1000) return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}

/** The moment in the reader's time zone. */
export function formatTime(ms: number): string {
  return Number.isFinite(ms) ? moment.format(ms) : "–";
}

/** `now`, `12 s ago`, `in 3 h`: one unit is enough, the exact moment is in the title. */
export function formatAgo(ms: number, now: number): string {
  const s = Math.round((now - ms) / 1000);
  const size = Math.abs(s);
  if (size < 2) return "now";
  const unit = size < 60 ? `${size} s` : size < 3600 ? `${Math.floor(size / 60)} min` : size < 172_800 ? `${Math.floor(size / 3600)} h` : `${Math.floor(size / 86_400)} d`;
  return s > 0 ? `${unit} ago` : `in ${unit}`;
}

// One clock for everything that says how long ago it was.
let now = Date.now();
let timer = 0;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === 0) {
    now = Date.now();
    timer = window.setInterval(() => {
      now = Date.now();
      listeners.forEach((each) => each());
    }, 1000);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      window.clearInterval(timer);
      timer = 0;
    }
  };
}

/** The time, a second at most behind. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

export function Count({ value }: { value: number | null | undefined }) {
  return <>{value === null || value === undefined ? "–" : formatCount(value)}</>;
}

export function Bytes({ value }: { value: number | null | undefined }) {
  if (value === null || value === undefined) return <>–</>;
  return <span title={`${formatCount(value)} bytes`}>{formatBytes(value)}</span>;
}

/** In microseconds or milliseconds. */
export function Duration({ us, ms }: { us?: number | null; ms?: number | null }) {
  const value = us ?? (ms === null || ms === undefined ? undefined : ms * 1000);
  return <>{value === undefined ? "–" : formatDuration(value)}</>;
}

/** How long ago, or in how long, and kept right. */
export function Ago({ ms }: { ms: number | null | undefined }) {
  const current = useNow();
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return <>–</>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={formatTime(ms)}>
      {formatAgo(ms, current)}
    </time>
  );
}

/** The moment itself. */
export function Time({ ms }: { ms: number | null | undefined }) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return <>–</>;
  return <time dateTime={new Date(ms).toISOString()}>{formatTime(ms)}</time>;
}
