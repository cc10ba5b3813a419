// What the command palette offers about switches.

import { loadStatus } from "../../lib/control/contract";
import { switchOn } from "../../lib/control/parts";
import { switched } from "../../lib/control/words";
import { toastProblem } from "../../ui";
import type { PaletteItem, PaletteLoader } from "../../shell/palette-items";

export default (async ({ signal, isAdmin }) => {
  if (!isAdmin) return [];
  const items: PaletteItem[] = [
    { id: "stop-tool", label: "Stop a tool", kind: "Action", keywords: "switch off kill disable operation", href: "/switches" },
    { id: "stop-caller", label: "Stop a caller", kind: "Action", keywords: "switch off kill disable", href: "/switches?scope=caller" },
    { id: "stop-everything", label: "Stop everything…", kind: "Action", keywords: "switch off kill all emergency", href: "/switches?stop=all" },
  ];
  const { killed } = await loadStatus(signal);
  for (const one of killed) {
    items.push({
      id: `switch-on-${one.scope}-${one.name}`,
      label: `Switch on ${switched(one)}`,
      kind: "Action",
      hint: one.reason,
      keywords: "revive",
      run: () => void switchOn(one.scope, one.name).catch(toastProblem),
    });
  }
  return items;
}) satisfies PaletteLoader;
