// Callers of the last days, and the presets of the traffic.

import { answer, api } from "../../api/client";
import { PRESETS, trafficHref } from "../../lib/records/filters";
import type { PaletteItem, PaletteLoader } from "../../shell/palette-items";

/** The loudest; others are found by the filter of the page. */
const CALLERS_MAX = 500;

async function keyNames(signal: AbortSignal): Promise<Map<string, string>> {
  try {
    const { keys } = await answer(api.GET("/admin/api/keys", { signal }));
    return new Map(keys.map(({ id, name }) => [`key:${id}`, name]));
  } catch {
    // Without a store of keys there are none.
    return new Map();
  }
}

export default (async ({ signal, session, isAdmin }) => {
  if (!isAdmin) return [];
  const presets: PaletteItem[] = PRESETS.filter((preset) => preset.id !== "all").map((preset) => ({
    id: `traffic-${preset.id}`,
    label: `Traffic: ${preset.label}`,
    kind: "Action",
    href: trafficHref(preset.filters),
  }));
  try {
    const usage = await answer(api.GET("/admin/api/usage", { params: { query: { by: "caller", since: "7d", limit: CALLERS_MAX } }, signal }));
    const names = session.guarded ? await keyNames(signal) : new Map<string, string>();
    const callers = usage.rows.filter(({ name }) => name !== "");
    return [
      ...presets,
      ...callers.map(({ name }): PaletteItem => {
        const key = names.get(name);
        return { id: `caller-${name}`, label: key ?? name, kind: "Caller", hint: key === undefined ? "Traffic" : name, keywords: name, href: trafficHref({ caller: name }) };
      }),
    ];
  } catch {
    // The store is busy, or keeps no records: the presets still lead there.
    return presets;
  }
}) satisfies PaletteLoader;
