// Stopping everything: two presses, and none of them by accident.

import { useEffect, useState } from "react";
import { useLive } from "../../api/live";
import { useAction } from "../../api/use-query";
import { effectOf, switchOff } from "../../lib/control/parts";
import { plural } from "../../lib/control/words";
import { Button, Dialog, ErrorState, Input } from "../../ui";
import styles from "./switches.module.css";

/** A press so soon after the dialog opened was meant for what opened it: a double click, or a key that is held. */
const NOT_BEFORE_MS = 400;

export function StopEverything({ onClose, onChange }: { onClose: () => void; onChange: () => void }) {
  const [reason, setReason] = useState("");
  const [isArmed, setArmed] = useState(false);
  const { overview } = useLive();
  useEffect(() => {
    const timer = window.setTimeout(() => setArmed(true), NOT_BEFORE_MS);
    return () => window.clearTimeout(timer);
  }, []);
  const action = useAction(async () => {
    await switchOff("all", "", reason.trim(), onChange);
    onClose();
  });
  const active = overview?.admission?.active;
  return (
    <Dialog
      open
      onClose={onClose}
      title="Stop everything?"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <button type="submit" form="stop-everything" className={styles.stop} disabled={!isArmed || action.isRunning} aria-busy={action.isRunning || undefined}>
            Stop everything
          </button>
        </>
      }
    >
      <form
        id="stop-everything"
        className={styles.form}
        onKeyDown={(event) => {
          if (event.repeat && event.key === "Enter") event.preventDefault();
        }}
        onSubmit={(event) => {
          event.preventDefault();
          if (isArmed) void action.run();
        }}
      >
        <p>{effectOf("all")}</p>
        {active !== undefined && <p className={styles.dim}>{active === 0 ? "No call is in flight." : `${plural(active, "call")} ${active === 1 ? "is" : "are"} in flight.`}</p>}
        <Input label="Reason (optional)" hint="Callers are told." maxLength={500} autoFocus value={reason} onChange={setReason} />
        {action.error && <ErrorState error={action.error} compact />}
      </form>
    </Dialog>
  );
}
