// The catalog, asked for once by whoever shows it: the list, a detail, the command palette.

import { useMemo } from "react";
import { answer, api, request } from "../../api/client";
import { useLive } from "../../api/live";
import { Problem } from "../../api/problem";
import { useSession } from "../../api/session";
import { useQuery } from "../../api/use-query";
import type { Query } from "../../api/use-query";
import { readCatalog } from "../../lib/catalog/entries";
import type { AdminEntry, Catalog, Killed } from "../../lib/catalog/entries";

/** Answers of this age are shown without asking again: the palette and the page ask at nearly the same time. */
const FRESH_MS = 3_000;
/** A catalog of thousands of tools is megabytes. */
const LOAD_MS_MAX = 60_000;

let last: { key: string; at: number; catalog: Promise<Catalog> } | undefined;

/** A gateway without this endpoint, or a caller without the role, has the own view only. */
async function adminEntries(signal: AbortSignal): Promise<AdminEntry[] | undefined> {
  try {
    return await answer(api.GET("/admin/api/catalog", { signal }));
  } catch (error) {
    if (error instanceof Problem && [401, 403, 404].includes(error.status)) return undefined;
    throw error;
  }
}

async function load(rest: string, isAdmin: boolean, signal: AbortSignal): Promise<Catalog> {
  const own = request(`${rest}/catalog`, { headers: { Accept: "application/json" }, signal }).then((response) => response.text());
  const [text, admin] = await Promise.all([own, isAdmin ? adminEntries(signal) : undefined]);
  return readCatalog(text, admin);
}

/** Shared by all who ask, so nobody who leaves gives it up. */
export function loadCatalog(rest: string, isAdmin: boolean, caller: string): Promise<Catalog> {
  const key = `${rest} ${isAdmin} ${caller}`;
  const now = Date.now();
  if (last?.key === key && now - last.at < FRESH_MS) return last.catalog;
  const catalog = load(rest, isAdmin, AbortSignal.timeout(LOAD_MS_MAX));
  last = { key, at: now, catalog };
  // One that failed is asked for again.
  catalog.catch(() => {
    if (last?.catalog === catalog) last = undefined;
  });
  return catalog;
}

export function useCatalog(): Query<Catalog> {
  const { session, caller, isAdmin } = useSession();
  const rest = session.paths.rest ?? "/api";
  const who = caller?.subject ?? "";
  return useQuery(`catalog ${rest} ${isAdmin} ${who}`, () => loadCatalog(rest, isAdmin, who));
}

const NONE: readonly Killed[] = [];

/** What is switched off; nothing for callers who may not know. */
export function useKilled(): readonly Killed[] {
  const { isAdmin } = useSession();
  const { overview } = useLive();
  const isKnown = overview !== undefined;
  // Before the live stream says it, or where there is none.
  const status = useQuery(isAdmin && !isKnown ? "status" : null, (signal) => answer(api.GET("/admin/api/status", { signal })));
  const killed = overview?.killed ?? status.data?.killed ?? NONE;
  const key = JSON.stringify(killed);
  // The stream says it anew each second; the list is prepared again only if it changed.
  return useMemo(() => JSON.parse(key) as Killed[], [key]);
}
