// Text that others wrote: names and descriptions of tools, results, arguments, log lines. Use it for every one of them.
//
// It is isolated from the direction of what is around it, its control characters are visible, and a long one is cut until
// asked for. It is never HTML.

import { useMemo, useState } from "react";
import { cx } from "./cx";
import { formatCount } from "./format";
import { cut, visible, visibleParts } from "./visible";
import styles from "./text.module.css";

/** More is not laid out in a page, even when asked for. */
export const TEXT_CHARS_MAX = 1 << 20;
/** Laid out on its own, so that what is out of sight costs nothing. */
const CHUNK_CHARS = 8_192;

export interface TextProps {
  value: string;
  /** Shown at first. */
  max?: number;
  /** Keeps line breaks and is a block of its own. */
  block?: boolean;
  mono?: boolean;
  /** One line, with an ellipsis where it does not fit; no "show all". */
  line?: boolean;
  className?: string;
}

export function Text({ value, max = 400, block = false, mono = false, line = false, className }: TextProps) {
  const [isAll, setAll] = useState(false);
  const isCut = value.length > max;
  const names = cx(styles.text, mono && styles.mono, className);
  if (line) {
    const short = cut(value, Math.min(max, 400));
    return (
      <bdi className={cx(names, styles.line)} title={visible(short)}>
        <Parts text={short.replace(/\s+/g, " ")} />
      </bdi>
    );
  }
  if (isAll) {
    return (
      <span className={cx(names, styles.block)}>
        <Chunks text={value} />
        <button type="button" className={styles.more} onClick={() => setAll(false)}>
          Show less
        </button>
      </span>
    );
  }
  return (
    <bdi className={cx(names, block ? styles.block : styles.inline)}>
      <Parts text={isCut ? cut(value, max) : value} />
      {isCut && (
        <>
          …
          <button type="button" className={styles.more} onClick={() => setAll(true)}>
            Show all {formatCount(value.length)} characters
          </button>
        </>
      )}
    </bdi>
  );
}

function Parts({ text }: { text: string }) {
  const parts = useMemo(() => visibleParts(text), [text]);
  return parts.map((part, index) =>
    part.isMark ? (
      <span key={index} className={styles.mark} title="A character that cannot be seen">
        {part.text}
      </span>
    ) : (
      part.text
    ),
  );
}

/** A long text in pieces that the browser lays out when they are scrolled to. */
export function Chunks({ text, className }: { text: string; className?: string | undefined }) {
  const chunks = useMemo(() => split(cut(text, TEXT_CHARS_MAX)), [text]);
  return (
    <span className={cx(styles.all, className)} tabIndex={0} role="region" aria-label="The whole text">
      {chunks.map((chunk, index) => (
        <span key={index} className={styles.chunk}>
          {visible(chunk)}
        </span>
      ))}
      {text.length > TEXT_CHARS_MAX && (
        <span className={styles.note}>{formatCount(text.length - TEXT_CHARS_MAX)} more characters are not shown. Copy the text to see them.</span>
      )}
    </span>
  );
}

function split(text: string): string[] {
  const chunks: string[] = [];
  for (let start = 0; start < text.length; ) {
    if (text.length - start <= CHUNK_CHARS) {
      chunks.push(text.slice(start));
      break;
    }
    // At the end of a line where there is one, since every piece is a block.
    const newline = text.lastIndexOf("\n", start + CHUNK_CHARS);
    const piece = newline > start ? text.slice(start, newline) : cut(text.slice(start, start + CHUNK_CHARS), CHUNK_CHARS);
    chunks.push(piece);
    start += newline > start ? piece.length + 1 : piece.length;
  }
  return chunks;
}
