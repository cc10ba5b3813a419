// Clients that arrive, read from audit records: the first request of a client says hello in its era of MCP, and a key that
// was just made is used for the first time.

export interface Seen {
  node: string;
  lane: number;
  seq: number;
  at_ms: number;
  caller: string;
  surface: string;
  revision: string;
  method: string;
  role?: string;
  outcome: string;
}

export interface Arrival {
  key: string;
  caller: string;
  role: string;
  surface: string;
  /** Of MCP; empty for other surfaces. */
  revision: string;
  method: string;
  atMs: number;
  outcome: string;
  /** It uses the key that this page made. */
  isOurs: boolean;
}

const HELLO = new Set(["initialize", "server/discover"]);
/** Newest first; older ones are in the traffic. */
export const ARRIVALS_MAX = 20;

/** The caller that a key is in audit records: `sk_<id>_<secret>` is `key:<id>`. */
export function callerOf(key: string): string | undefined {
  const id = /^sk_([0-9a-z]+)_/.exec(key)?.[1];
  return id === undefined ? undefined : `key:${id}`;
}

export function recordKey(seen: Pick<Seen, "node" | "lane" | "seq">): string {
  return `${seen.node}.${seen.lane}.${seen.seq}`;
}

/** Adds what is new, in place of nothing that is known. `ours` is the caller of the key that was made. */
export function withArrivals(known: readonly Arrival[], records: readonly Seen[], sinceMs: number, ours: string | undefined): readonly Arrival[] {
  let all: Arrival[] | undefined;
  const isKnown = new Set(known.map((one) => one.key));
  let hasOurs = known.some((one) => one.isOurs);
  for (const seen of records) {
    const isOurs = ours !== undefined && seen.caller === ours;
    // Of a key that was made here any request counts, once; of others only a hello.
    const counts = HELLO.has(seen.method) || (isOurs && !hasOurs && seen.caller !== "");
    const key = recordKey(seen);
    if (!counts || seen.at_ms < sinceMs || isKnown.has(key)) continue;
    isKnown.add(key);
    hasOurs ||= isOurs;
    all ??= [...known];
    all.push({ key, caller: seen.caller, role: seen.role ?? "", surface: seen.surface, revision: seen.revision, method: seen.method, atMs: seen.at_ms, outcome: seen.outcome, isOurs });
  }
  if (all === undefined) return known;
  return all.sort((a, b) => b.atMs - a.atMs).slice(0, ARRIVALS_MAX);
}
