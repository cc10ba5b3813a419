import type { Status } from "../../lib/reviews/documents";
import { STATUS_TEXT } from "../../lib/reviews/standing";
import { Status as StatusWord } from "../../ui";
import type { Tone } from "../../ui";

const TONES: Readonly<Record<Status, Tone>> = {
  created: "warn",
  claimed: "info",
  in_discussion: "info",
  approved: "ok",
  rejected: "error",
  closed: "off",
};

export function StatusBadge({ status }: { status: Status }) {
  return <StatusWord tone={TONES[status] ?? "neutral"}>{STATUS_TEXT[status] ?? status}</StatusWord>;
}

/** Lines added and removed. */
export function Lines({ added, removed }: { added: number; removed: number }) {
  return (
    <span style={{ whiteSpace: "nowrap" }}>
      <span style={{ color: "var(--ok)" }}>+{added.toLocaleString("en")}</span> <span style={{ color: "var(--error)" }}>−{removed.toLocaleString("en")}</span>
    </span>
  );
}

export function linesOf(files: readonly { added: number; removed: number }[]): { added: number; removed: number } {
  return files.reduce((sum, file) => ({ added: sum.added + file.added, removed: sum.removed + file.removed }), { added: 0, removed: 0 });
}
