// What the audit store knows of calls: their course, and what they have in common.

import { useRef } from "react";
import { answer, api } from "../../api/client";
import { useQuery } from "../../api/use-query";
import type { Query } from "../../api/use-query";
import type { Point } from "../../lib/overview/rates";

export interface History {
  since_ms: number;
  until_ms: number;
  step_ms: number;
  complete: boolean;
  points: Point[];
}

export interface UsageRow {
  name: string;
  backend: string;
  calls: number;
  errors: number;
  refused: number;
  p50_us: number;
  p95_us: number;
  p99_us: number;
  max_us: number;
}

export interface Usage {
  complete: boolean;
  rows: UsageRow[];
}

/** What was known of another time stays until this one's answer is there. */
function useKept<T>(query: Query<T>): Query<T> {
  const last = useRef<T | undefined>(undefined);
  if (query.data !== undefined) last.current = query.data;
  return query.data === undefined && query.error === undefined && last.current !== undefined ? { ...query, data: last.current } : query;
}

/** The course of calls. `null` asks nothing. */
export function useHistory(since: string | null, options: { stepS?: number; everyMs?: number }): Query<History> {
  const { stepS, everyMs } = options;
  const query = useQuery<History>(
    since === null ? null : `history ${since} ${stepS ?? ""}`,
    async (signal) => (await answer(api.GET("/admin/api/history", { params: { query: { since: since ?? "", ...(stepS !== undefined && { step_s: stepS }) } }, signal }))) as History,
    everyMs === undefined ? {} : { everyMs },
  );
  return useKept(query);
}

export function useUsage(by: "operation" | "caller" | "kind", since: string, limit: number, everyMs: number): Query<Usage> {
  const query = useQuery<Usage>(
    `usage ${by} ${since} ${limit}`,
    async (signal) => (await answer(api.GET("/admin/api/usage", { params: { query: { by, since, limit } }, signal }))) as Usage,
    { everyMs },
  );
  return useKept(query);
}
