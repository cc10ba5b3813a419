// Whether every audit record is as it was written.

import { useState } from "react";
import { Link } from "wouter";
import { answer, api } from "../../api/client";
import type { components } from "../../api/schema";
import { useAction } from "../../api/use-query";
import { trafficHref } from "../../lib/records/filters";
import { Button, Dialog, ErrorState, InlineCode, Status, Text, formatCount, formatDuration } from "../../ui";
import styles from "./dialogs.module.css";

/** `announced` and `elsewhere`: newer gateways tell these, too. */
type Verified = components["schemas"]["PostAuditVerifyAnswer"] & { announced?: number; elsewhere?: number; broken_lanes?: number };

export function VerifyDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [found, setFound] = useState<Verified | undefined>(undefined);
  const { run, isRunning, error } = useAction(async () => {
    setFound(undefined);
    setFound((await answer(api.POST("/admin/api/audit/verify", { body: {} }))) as Verified);
  });
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="Verify the chain"
      description="Each record holds a hash over itself and the record before it. A record that was altered, or taken out, breaks the chain behind it."
      footer={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button variant="primary" busy={isRunning} onClick={() => void run()}>
            {found === undefined ? "Verify all records" : "Verify again"}
          </Button>
        </>
      }
    >
      <div className={styles.stack} aria-live="polite" aria-busy={isRunning || undefined}>
        {isRunning && <p>Every record of the store is read. This takes a few seconds for each million.</p>}
        {error !== undefined && <ErrorState error={error} compact />}
        {!isRunning && found === undefined && error === undefined && <p className={styles.quiet}>Nothing is changed by it.</p>}
        {found !== undefined && <Result found={found} />}
      </div>
    </Dialog>
  );
}

function plural(count: number, one: string, many: string): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

function Result({ found }: { found: Verified }) {
  const { ok, records, lanes, took_ms, broken, announced = 0, elsewhere = 0, broken_lanes = 0 } = found;
  const amount = `${plural(records, "record", "records")} in ${plural(lanes, "chain", "chains")}, read in ${formatDuration(took_ms * 1000)}`;
  return (
    <>
      <p>{ok ? <Status tone="ok">Every record is as it was written</Status> : <Status tone="error">A chain is broken</Status>}</p>
      <p>{amount}.</p>
      {broken !== null && broken !== undefined && (
        <div className={styles.broken}>
          {broken.key !== null && broken.key !== undefined && (
            <p>
              The first bad record: <InlineCode>{broken.key}</InlineCode>
            </p>
          )}
          <p>
            <Text value={broken.reason} />
          </p>
          {broken_lanes > 1 && <p>{plural(broken_lanes, "chain is", "chains are")} broken.</p>}
          {broken.key !== null && broken.key !== undefined && (
            <p>
              <Link href={trafficHref({}, { record: broken.key })}>Look at the record</Link>. What is behind it in the same chain cannot be relied on.
            </p>
          )}
        </div>
      )}
      {announced > 0 && (
        <p>
          {plural(announced, "record", "records")} could not be kept, and the gateway said so when they were lost. <Link href={trafficHref({ method: "audit/gap" })}>See when</Link>
        </p>
      )}
      {elsewhere > 0 && <p className={styles.quiet}>{plural(elsewhere, "chain is", "chains are")} of other gateways: only those know where theirs end.</p>}
    </>
  );
}
