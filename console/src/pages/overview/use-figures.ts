// What the audit store knows of calls: their course, and what they have in common.

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

/** The course of calls. `null` asks nothing. */
export function useHistory(since: string | null, options: { stepS?: number; everyMs?: number }): Query<History> {
  const { stepS, everyMs } = options;
  return useQuery<History>(
    since === null ? null : `history ${since} ${stepS ?? ""}`,
    async (signal) => (await answer(api.GET("/admin/api/history", { params: { query: { since: since ?? "", ...(stepS !== undefined && { step_s: stepS }) } }, signal }))) as History,
    everyMs === undefined ? {} : { everyMs },
  );
}

export function useUsage(by: "operation" | "caller" | "kind", since: string, limit: number, everyMs: number): Query<Usage> {
  return useQuery<Usage>(
    `usage ${by} ${since} ${limit}`,
    async (signal) => (await answer(api.GET("/admin/api/usage", { params: { query: { by, since, limit } }, signal }))) as Usage,
    { everyMs },
  );
}
