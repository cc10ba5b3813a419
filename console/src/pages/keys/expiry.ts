// When keys expire, in words. Pure.

import type { Key } from "../../lib/control/contract";
import { distance } from "../../lib/control/words";

export interface KeyStateWords {
  tone: "ok" | "warn" | "off";
  word: string;
}

/** Good keys that expire within so many seconds are marked: time enough to hand out another. */
export const SOON_S = 7 * 86_400;

export function stateOf(key: Key, nowMs: number): KeyStateWords {
  if (key.state === "revoked") return { tone: "off", word: "revoked" };
  const left = key.expires_at === null ? Infinity : key.expires_at - nowMs / 1000;
  // The list may be older than the moment of the expiry.
  if (key.state === "expired" || left <= 0) return { tone: "off", word: "expired" };
  return left <= SOON_S ? { tone: "warn", word: "expires soon" } : { tone: "ok", word: "good" };
}

export function expiryOf(key: Key, nowMs: number): string {
  if (key.state === "revoked") return key.revoked_at === null ? "revoked" : `revoked ${distance(key.revoked_at * 1000, nowMs)}`;
  if (key.expires_at === null) return "never";
  const at = key.expires_at * 1000;
  return at <= nowMs ? `expired ${distance(at, nowMs)}` : distance(at, nowMs);
}

export type Lifetime = "1" | "7" | "30" | "90" | "365" | "never" | "date";

export const LIFETIMES: readonly { value: Lifetime; label: string }[] = [
  { value: "1", label: "In a day" },
  { value: "7", label: "In 7 days" },
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "365", label: "In a year" },
  { value: "date", label: "On a date…" },
  { value: "never", label: "Never" },
];

/** Seconds until the expiry; `null` is never, `undefined` that it cannot be said. A date is the end of that day. */
export function secondsOf(lifetime: Lifetime, date: string, nowMs: number): number | null | undefined {
  if (lifetime === "never") return null;
  if (lifetime !== "date") return Number(lifetime) * 86_400;
  const end = new Date(`${date}T23:59:59`).getTime();
  const left = Math.floor((end - nowMs) / 1000);
  return Number.isFinite(left) && left > 0 ? left : undefined;
}
