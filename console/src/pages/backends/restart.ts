// Restarting a backend, and what came of it in words.

import { restart } from "../../lib/control/contract";
import { distance } from "../../lib/control/words";
import { toast } from "../../ui";

export async function restartInWords(name: string): Promise<void> {
  const answer = await restart(name);
  if (answer.up) {
    toast({ title: `${name} was restarted and is up`, tone: "ok" });
    return;
  }
  const again = answer.retry_after_ms === null ? "" : ` It is tried again ${distance(answer.retry_after_ms, 0)}.`;
  toast({ title: `${name} was restarted and did not come up`, detail: `${answer.problem ?? "No reason is known."}${again}`, tone: "error" });
}
