// Calls that were made in this tab, to be made again.

import { History, RotateCcw, SquarePen } from "lucide-react";
import { useSyncExternalStore } from "react";
import { Link } from "wouter";
import { useSession } from "../../api/session";
import { Ago, Badge, Button, Duration, EmptyState, IconButton, Text } from "../../ui";
import { CallHistory } from "../../lib/calls/history";
import type { PastCall } from "../../lib/calls/history";
import { WAYS } from "../../lib/calls/run";
import { hrefOf } from "../../lib/catalog/entries";
import styles from "./detail.module.css";

let known: { caller: string; history: CallHistory } | undefined;

function keeper(): Storage | undefined {
  try {
    return window.sessionStorage;
  } catch {
    return undefined;
  }
}

/** That of the caller; of nobody else. */
export function callHistory(caller: string): CallHistory {
  if (known?.caller !== caller) known = { caller, history: new CallHistory(keeper(), caller) };
  return known.history;
}

interface HistoryViewProps {
  /** What is shown: its calls can be edited in place. */
  name: string;
  onReplay: (call: PastCall) => void;
  onEdit: (call: PastCall) => void;
}

export function HistoryView({ name, onReplay, onEdit }: HistoryViewProps) {
  const { caller } = useSession();
  const history = callHistory(caller?.subject ?? "");
  const calls = useSyncExternalStore(history.subscribe, history.all);
  if (calls.length === 0) {
    return (
      <EmptyState icon={<History size={20} aria-hidden />} title="No calls in this tab yet">
        Calls that you make here are kept until the tab is closed.
      </EmptyState>
    );
  }
  return (
    <div className={styles.panel}>
      <div className={styles.partHead}>
        <span className={styles.dim}>Kept in this tab only, until it is closed.</span>
        <Button size="s" variant="ghost" onClick={() => history.clear()}>
          Forget all
        </Button>
      </div>
      <ol className={styles.history} aria-label="Calls that were made here, newest first">
        {calls.map((call) => (
          <li key={call.id} className={styles.past}>
            <div className={styles.pastHead}>
              <Link href={hrefOf(call.kind, call.name)} className={styles.pastName}>
                <Text value={call.name} max={60} />
              </Link>
              <Badge tone={call.outcome === "result" ? "ok" : call.outcome === "cancelled" || call.outcome === "stopped" ? "off" : call.outcome === "tool_error" ? "warn" : "error"}>
                {call.outcome === "result" ? "succeeded" : call.outcome.replaceAll("_", " ")}
              </Badge>
              <span className={styles.pastActions}>
                <IconButton size="s" label={`Edit this call of ${call.name.slice(0, 60)}`} icon={<SquarePen size={13} aria-hidden />} disabled={call.input === null} onClick={() => onEdit(call)} />
                <IconButton size="s" label={`Call ${call.name.slice(0, 60)} again`} icon={<RotateCcw size={13} aria-hidden />} disabled={call.input === null || call.name !== name} onClick={() => onReplay(call)} />
              </span>
            </div>
            <div className={styles.dim}>
              <Ago ms={call.atMs} /> · <Duration ms={call.durationMs} /> · {WAYS.find(({ way }) => way === call.way)?.label ?? "?"}
            </div>
            <div className={styles.pastInput}>{call.input === null ? "Arguments too large to keep" : <Text value={call.input} line mono />}</div>
          </li>
        ))}
      </ol>
    </div>
  );
}
