// Tools, resources, templates and prompts in the command palette.

import type { PaletteItem, PaletteLoader } from "../../shell/palette-items";
import { KIND_WORDS, hrefOf, keyOf } from "../../lib/catalog/entries";
import { titleOf } from "../../lib/catalog/search";
import { loadCatalog } from "./use-catalog";

export default (async ({ session, isAdmin }) => {
  const catalog = await loadCatalog(session.paths.rest ?? "/api", isAdmin, session.caller?.subject ?? "");
  return catalog.entries.map((entry): PaletteItem => {
    const title = titleOf(entry);
    return {
      id: keyOf(entry.kind, entry.name),
      label: entry.name,
      kind: KIND_WORDS[entry.kind].one,
      ...((title !== "" || entry.backends[0] !== undefined) && { hint: title === "" ? (entry.backends[0] ?? "") : title }),
      keywords: [...entry.backends, ...entry.tags].join(" "),
      href: hrefOf(entry.kind, entry.name),
    };
  });
}) satisfies PaletteLoader;
