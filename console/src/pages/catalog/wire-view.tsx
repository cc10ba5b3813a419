// The messages of a call as they were on the wire, with their times.

import { ArrowDownLeft, ArrowUpRight } from "lucide-react";
import { useState } from "react";
import { Bytes, Code, cut, cx, formatCount, visible } from "../../ui";
import { parseJson, printJson } from "../../ui/json-parse";
import type { WireEntry } from "../../lib/mcp/types";
import styles from "./result.module.css";

export function WireView({ wire, leftOut, startedMs }: { wire: readonly WireEntry[]; leftOut: number; startedMs: number }) {
  return (
    <div className={styles.stack}>
      {leftOut > 0 && <p className={styles.note}>{formatCount(leftOut)} messages in between are not kept.</p>}
      <ol className={styles.wire} aria-label="Messages, in order">
        {wire.map((entry, index) => (
          <WireRow key={`${entry.atMs}-${index}`} entry={entry} startedMs={startedMs} />
        ))}
      </ol>
    </div>
  );
}

function WireRow({ entry, startedMs }: { entry: WireEntry; startedMs: number }) {
  const [isOpen, setOpen] = useState(false);
  const isSent = entry.direction === "sent";
  const hasMore = entry.text !== "" || entry.headers.length > 0;
  return (
    <li className={styles.wireRow}>
      <button type="button" className={styles.wireHead} aria-expanded={hasMore ? isOpen : undefined} disabled={!hasMore} onClick={() => setOpen(!isOpen)}>
        <span className={cx(styles.arrow, isSent ? styles.sent : styles.got)}>
          {isSent ? <ArrowUpRight size={14} aria-hidden /> : <ArrowDownLeft size={14} aria-hidden />}
          <span className={styles.wireWord}>{isSent ? "sent" : "received"}</span>
        </span>
        <span className={styles.wireTime}>+{formatCount(Math.max(0, entry.atMs - startedMs))} ms</span>
        <span className={styles.wireWhat}>{entry.what}</span>
        <span className={styles.wirePeek}>{isOpen ? "" : visible(cut(entry.text, 160))}</span>
        {entry.size > 0 && (
          <span className={styles.dim}>
            <Bytes value={entry.size} />
          </span>
        )}
      </button>
      {isOpen && (
        <div className={styles.wireBody}>
          {entry.headers.length > 0 && <Code value={entry.headers.map(([name, value]) => `${name}: ${value}`).join("\n")} copy={false} label="Headers" />}
          {entry.text !== "" && <Code value={pretty(entry.text)} maxHeight={320} label="Message" />}
          {entry.size > entry.text.length && <p className={styles.note}>The rest of this message is not kept.</p>}
        </div>
      )}
    </li>
  );
}

function pretty(text: string): string {
  const node = parseJson(text);
  return node === undefined ? text : printJson(node);
}
