import { useEffect, useRef, useState } from "react";
import { answer, api } from "../../api/client";
import { isAbort } from "../../api/problem";
import { openStream } from "../../api/stream";
import type { Arrival, Seen } from "../../lib/connect/arrivals";
import { withArrivals } from "../../lib/connect/arrivals";

/** `stream`: as they come. `poll`: every few seconds. `off`: this caller may not read records, or there are none. */
export type Watching = "stream" | "poll" | "off";

const POLL_MS = 2_000;
/** Records of a poll; a client says hello at most a few times. */
const POLL_RECORDS = 20;
const HELLOS = ["initialize", "server/discover"] as const;

/** Clients that arrived since the page was opened. */
export function useArrivals(isAdmin: boolean, ours: string | undefined): { arrivals: readonly Arrival[]; watching: Watching } {
  const [arrivals, setArrivals] = useState<readonly Arrival[]>([]);
  const [watching, setWatching] = useState<Watching>(isAdmin ? "stream" : "off");
  const [sinceMs] = useState(() => Date.now());
  const latest = useRef(ours);
  useEffect(() => {
    latest.current = ours;
  });
  useEffect(() => {
    if (!isAdmin) return;
    const controller = new AbortController();
    // The clock of the gateway may be behind that of the browser; what the stream brings is new in any case.
    const take = (records: readonly Seen[], since: number) => setArrivals((known) => withArrivals(known, records, since, latest.current));
    const poll = async () => {
      setWatching("poll");
      while (!controller.signal.aborted) {
        try {
          const queries = [...HELLOS.map((method) => ({ method })), ...(latest.current === undefined ? [] : [{ caller: latest.current }])];
          for (const query of queries) {
            const page = await answer(api.GET("/admin/api/audit", { params: { query: { ...query, since: String(sinceMs), limit: POLL_RECORDS } }, signal: controller.signal }));
            take(page.records as readonly Seen[], sinceMs);
          }
        } catch (error) {
          if (isAbort(error)) return;
        }
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    };
    void openStream("/admin/api/audit/live", {
      signal: controller.signal,
      onState: (state, problem) => {
        if (state === "live") setWatching("stream");
        if (state !== "closed" || controller.signal.aborted) return;
        if (problem?.status === 403 || problem?.status === 503) setWatching("off");
        else void poll();
      },
      onEvents: (events) => {
        const records = events.filter(({ event, data }) => event === "record" && (data.includes('"initialize"') || data.includes('"server/discover"') || (latest.current !== undefined && data.includes(latest.current))));
        if (records.length > 0) take(records.map(({ data }) => JSON.parse(data) as Seen), 0);
      },
    });
    return () => controller.abort();
  }, [isAdmin, sinceMs]);
  return { arrivals, watching };
}
