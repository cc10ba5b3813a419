// Downloads the records that the filters match, oldest first, as JSON Lines.
//
// The lines are kept as they arrive, so their digits and hashes stay right. What the gateway cannot filter is filtered
// here, line by line.

import { Download } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { request } from "../../api/client";
import { useAction } from "../../api/use-query";
import { filterWords, isShown, serverQuery } from "../../lib/records/filters";
import type { Filters } from "../../lib/records/filters";
import type { AuditRecord } from "../../lib/records/record";
import { Button, Checkbox, Dialog, ErrorState, Select, Text, formatBytes, formatCount, formatTime, toast } from "../../ui";
import styles from "./dialogs.module.css";

type Limit = "1000" | "10000" | "100000";

/** What a record takes in an export, without large arguments. */
const RECORD_BYTES = 800;
/** A page that holds more than this is ended by its browser. Longer exports are made by the command line. */
const BYTES_MAX = 512 << 20;

interface Progress {
  records: number;
  bytes: number;
}

export function ExportDialog({ open, onClose, filters }: { open: boolean; onClose: () => void; filters: Filters }) {
  const [limit, setLimit] = useState<Limit>("10000");
  const [isAll, setAll] = useState(false);
  const [progress, setProgress] = useState<Progress | undefined>(undefined);
  const controller = useRef<AbortController | null>(null);
  useEffect(() => () => controller.current?.abort(), []);
  const words = filterWords({ ...filters, all: "" }, formatTime);

  const action = useAction(async () => {
    controller.current = new AbortController();
    setProgress({ records: 0, bytes: 0 });
    const wanted: Filters = { ...filters, all: isAll ? "true" : "" };
    const { blob, records } = await download(wanted, Number(limit), controller.current.signal, setProgress);
    save(blob, `sentinel-audit-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.ndjson`);
    toast({ title: `${formatCount(records)} records exported`, detail: formatBytes(blob.size), tone: "ok" });
    onClose();
  });
  const close = () => {
    controller.current?.abort();
    onClose();
  };
  return (
    <Dialog
      open={open}
      onClose={close}
      title="Export records"
      description="One record a line, as JSON, the oldest first."
      footer={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button variant="primary" icon={<Download size={14} aria-hidden />} busy={action.isRunning} onClick={() => void action.run()}>
            Download
          </Button>
        </>
      }
    >
      <div className={styles.stack}>
        {words.length === 0 ? (
          <p>All records, since no filter is set.</p>
        ) : (
          <div>
            <p>Only records with:</p>
            <ul className={styles.filters}>
              {words.map(({ name, label, value }) => (
                <li key={name}>
                  {label}: <Text value={value} max={120} />
                </li>
              ))}
            </ul>
          </div>
        )}
        <Select
          label="At most"
          value={limit}
          onChange={setLimit}
          hint={`Up to about ${formatBytes(Number(limit) * RECORD_BYTES)}; more where arguments are large.`}
          options={[
            { value: "1000", label: "1,000 records" },
            { value: "10000", label: "10,000 records" },
            { value: "100000", label: "100,000 records" },
          ]}
        />
        <Checkbox label="Bookkeeping, too" hint="Reads of the admin API and anchors: a chain can only be verified with all of its records." checked={isAll} onChange={setAll} />
        <p className={styles.quiet}>
          For more than that, use the command line: <code>sentinel audit export</code>.
        </p>
        {action.isRunning && progress !== undefined && (
          <p role="status">
            {formatCount(progress.records)} records, {formatBytes(progress.bytes)}
          </p>
        )}
        {action.error !== undefined && <ErrorState error={action.error} compact />}
      </div>
    </Dialog>
  );
}

/** How often the numbers on the page change. */
const TELL_EVERY_MS = 150;

async function download(filters: Filters, limit: number, signal: AbortSignal, onProgress: (progress: Progress) => void): Promise<{ blob: Blob; records: number }> {
  const response = await request(`/admin/api/audit/export?${serverQuery(filters, { limit })}`, { signal });
  const reader = (response.body as ReadableStream<Uint8Array<ArrayBuffer>>).pipeThrough(new TextDecoderStream()).getReader();
  const parts: string[] = [];
  let rest = "";
  let records = 0;
  let bytes = 0;
  let told = 0;
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : (lines.pop() ?? "");
    const kept = lines.filter((line) => line !== "" && isShown(JSON.parse(line) as AuditRecord, filters));
    records += kept.length;
    if (kept.length > 0) {
      const part = `${kept.join("\n")}\n`;
      bytes += part.length;
      parts.push(part);
    }
    if (bytes > BYTES_MAX) throw new Error(`The export is larger than ${formatBytes(BYTES_MAX)}. Choose fewer records, or use the command line.`);
    if (done) break;
    if (performance.now() - told > TELL_EVERY_MS) {
      told = performance.now();
      onProgress({ records, bytes });
    }
  }
  return { blob: new Blob(parts, { type: "application/x-ndjson" }), records };
}

function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads it after this turn.
  window.setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
