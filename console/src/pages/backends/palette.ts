// What the command palette offers about backends: to go to one, to restart one, to add one.

import { loadBackends } from "../../lib/control/contract";
import { backendHref } from "../../lib/control/state";
import { healthOf, kindOf } from "../../lib/control/words";
import { toastProblem } from "../../ui";
import type { PaletteItem, PaletteLoader } from "../../shell/palette-items";
import { restartInWords } from "./restart";

export default (async ({ signal, isAdmin }) => {
  if (!isAdmin) return [];
  const backends = await loadBackends(signal);
  const items: PaletteItem[] = [
    { id: "add-backend", label: "Add a backend", kind: "Action", keywords: "import paste json server mcpServers", href: "/backends?add=paste" },
    { id: "add-found-backend", label: "Add a server found on this machine", kind: "Action", keywords: "import backend client", href: "/backends?add=found" },
  ];
  for (const backend of backends) {
    const hint = `${kindOf(backend.type)}, ${healthOf(backend).word}`;
    items.push({ id: `backend-${backend.name}`, label: backend.name, kind: "Backend", hint, keywords: backend.target, href: backendHref(backend.name) });
    if (backend.type === "builtin" || backend.health === "stopped") continue;
    items.push({
      id: `restart-${backend.name}`,
      label: `Restart ${backend.name}`,
      kind: "Action",
      hint: "backend",
      run: () => void restartInWords(backend.name).catch(toastProblem),
    });
  }
  return items;
}) satisfies PaletteLoader;
