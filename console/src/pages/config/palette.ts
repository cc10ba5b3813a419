// What the command palette offers about the configuration.

import { reload } from "../../lib/control/contract";
import { reloadSentence } from "../../lib/control/words";
import { refetchAll } from "../../api/use-query";
import { toast, toastProblem } from "../../ui";
import type { PaletteLoader } from "../../shell/palette-items";

async function reloadInWords(): Promise<void> {
  const reloaded = await reload();
  refetchAll();
  toast({ title: "The configuration was reloaded", detail: reloadSentence(reloaded), tone: reloaded.restart_needed.length > 0 || reloaded.notices.length > 0 ? "warn" : "ok" });
}

export default (async ({ isAdmin }) =>
  !isAdmin
    ? []
    : [
        { id: "reload", label: "Reload the configuration", kind: "Action", keywords: "config file apply", run: () => void reloadInWords().catch(toastProblem) },
        { id: "edit-config", label: "Edit the configuration", kind: "Action", keywords: "config file toml", href: "/config?tab=edit" },
      ]) satisfies PaletteLoader;
