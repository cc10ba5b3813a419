// Monospaced text with a button to copy it.

import { CopyButton } from "./copy-button";
import { cx } from "./cx";
import { Chunks } from "./text";
import { visible } from "./visible";
import styles from "./code.module.css";

/** Longer text is laid out in pieces. */
const PLAIN_CHARS_MAX = 20_000;

export interface CodeProps {
  value: string;
  /** Long lines are wrapped; otherwise they scroll. */
  wrap?: boolean;
  copy?: boolean;
  /** Of the visible part, in pixels. */
  maxHeight?: number;
  label?: string;
}

export function Code({ value, wrap = true, copy = true, maxHeight = 480, label = "Code" }: CodeProps) {
  if (value.length > PLAIN_CHARS_MAX) {
    return (
      <div className={styles.code}>
        <Chunks text={value} className={cx(styles.pre, !wrap && styles.nowrap, copy && styles.withCopy)} />
        {copy && (
          <span className={styles.copy}>
            <CopyButton value={value} />
          </span>
        )}
      </div>
    );
  }
  return (
    <div className={styles.code} style={{ "--code-height": `${maxHeight}px` } as React.CSSProperties}>
      <pre className={cx(styles.pre, !wrap && styles.nowrap, copy && styles.withCopy)} tabIndex={0} role="region" aria-label={label}>
        {visible(value)}
      </pre>
      {copy && (
        <span className={styles.copy}>
          <CopyButton value={value} />
        </span>
      )}
    </div>
  );
}

/** A name or a short value within a sentence. */
export function InlineCode({ children }: { children: string }) {
  return <code className={styles.inline}>{visible(children)}</code>;
}
