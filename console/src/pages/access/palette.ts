// What the command palette offers about access: each role, and the question why.

import { loadRoles } from "../../lib/control/contract";
import { plural } from "../../lib/control/words";
import type { PaletteItem, PaletteLoader } from "../../shell/palette-items";

export default (async ({ signal, isAdmin }) => {
  if (!isAdmin) return [];
  const items: PaletteItem[] = [{ id: "why", label: "Why may somebody call something?", kind: "Action", keywords: "access permission denied refused role", href: "/access?tab=why" }];
  const { roles } = await loadRoles(signal);
  for (const role of roles) {
    items.push({ id: `role-${role.name}`, label: role.name, kind: "Role", hint: `calls ${plural(role.calls, "operation")}`, href: `/access?detail=${encodeURIComponent(role.name)}` });
  }
  return items;
}) satisfies PaletteLoader;
