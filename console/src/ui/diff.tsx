// Two texts and what differs: side by side, or one above the other. Long equal parts are folded.

import { Fragment, memo, useMemo, useState } from "react";
import type { ReactNode } from "react";
import { Code } from "./code";
import { cx } from "./cx";
import { DIFF_CHARS_MAX, DIFF_LINES_MAX, diffPieces, diffRows } from "./diff-lines";
import type { DiffRow, Piece } from "./diff-lines";
import { formatBytes, formatCount } from "./format";
import { useNarrow } from "./use-narrow";
import { visible } from "./visible";
import styles from "./diff.module.css";

export type DiffSide = "before" | "after";

export interface DiffProps {
  before: string;
  after: string;
  /** What the sides are: `["Approved", "Offered"]`. */
  labels?: readonly [string, string];
  maxHeight?: number;
  /** Makes the numbers of lines buttons, to comment on one for example. */
  onLine?: (side: DiffSide, line: number) => void;
  /** Content below a line, such as its discussion. */
  below?: (side: DiffSide, line: number) => ReactNode;
}

/** Equal lines kept around a change; more are folded. */
const CONTEXT = 3;
/** Rows laid out at first, and with each press on "more". */
const ROWS_STEP = 1_000;

type Item = { row: DiffRow; index: number; only?: DiffSide } | { fold: number; at: number };

/** Rows with the equal parts between changes folded, but those that were opened. */
function folded(rows: readonly DiffRow[], open: ReadonlySet<number>, keep: (row: DiffRow) => boolean): Item[] {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, index) => {
    if (row.kind === "same" && !keep(row)) return;
    near.fill(1, Math.max(0, index - CONTEXT), Math.min(rows.length, index + CONTEXT + 1));
  });
  const items: Item[] = [];
  for (let index = 0; index < rows.length; index += 1) {
    let end = index;
    while (end < rows.length && near[end] === 0) end += 1;
    const length = end - index;
    if (length > 1 && !open.has(index)) {
      items.push({ fold: length, at: index });
      index = end - 1;
      continue;
    }
    for (const stop = Math.max(end, index + 1); index < stop; index += 1) items.push({ row: rows[index] as DiffRow, index });
    index -= 1;
  }
  return items;
}

/** One column: what is gone stands above what came, for every run of lines that differ. */
function stacked(items: readonly Item[]): Item[] {
  const all: Item[] = [];
  let run: { row: DiffRow; index: number }[] = [];
  const end = () => {
    for (const only of ["before", "after"] as const) {
      for (const item of run) if (item.row[only] !== undefined) all.push({ ...item, only });
    }
    run = [];
  };
  for (const item of items) {
    if ("row" in item && item.row.kind !== "same") {
      run.push(item);
      continue;
    }
    end();
    all.push(item);
  }
  end();
  return all;
}

export function Diff({ before, after, labels = ["Before", "After"], maxHeight = 560, onLine, below }: DiffProps) {
  const rows = useMemo(() => diffRows(before, after), [before, after]);
  const isNarrow = useNarrow();
  const [chosen, setChosen] = useState<"split" | "unified" | undefined>(undefined);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const [shown, setShown] = useState(ROWS_STEP);
  const isSplit = (chosen ?? (isNarrow ? "unified" : "split")) === "split";
  const keep = (row: DiffRow) =>
    below !== undefined && ((row.before !== undefined && hasContent(below("before", row.before.number))) || (row.after !== undefined && hasContent(below("after", row.after.number))));
  if (rows === undefined) {
    return (
      <div className={styles.diff}>
        <p className={styles.note}>
          These texts are beyond {formatBytes(DIFF_CHARS_MAX)} or {formatCount(DIFF_LINES_MAX)} lines, and are not compared.
        </p>
        <p className={styles.note}>{labels[0]}</p>
        <Code value={before} />
        <p className={styles.note}>{labels[1]}</p>
        <Code value={after} />
      </div>
    );
  }
  const all = folded(rows, open, keep);
  const items = isSplit ? all : stacked(all);
  const added = rows.filter((row) => row.kind === "added" || row.kind === "changed").length;
  const removed = rows.filter((row) => row.kind === "removed" || row.kind === "changed").length;
  const unfold = (at: number) => setOpen(new Set([...open, at]));
  return (
    <div className={styles.diff} style={{ "--diff-height": `${maxHeight}px` } as React.CSSProperties}>
      <div className={styles.bar}>
        <span className={styles.counts}>
          <span>
            {labels[0]} → {labels[1]}
          </span>
          <span className={styles.added}>+{formatCount(added)}</span>
          <span className={styles.removed}>−{formatCount(removed)}</span>
        </span>
        <div className={styles.views} role="group" aria-label="View">
          <button type="button" className={styles.view} aria-pressed={isSplit} onClick={() => setChosen("split")}>
            Side by side
          </button>
          <button type="button" className={styles.view} aria-pressed={!isSplit} onClick={() => setChosen("unified")}>
            Unified
          </button>
        </div>
      </div>
      {added + removed === 0 && <p className={styles.note}>There is no difference.</p>}
      <div className={styles.scroll} tabIndex={0} role="region" aria-label={`${labels[0]} and ${labels[1]}`}>
        <table className={cx(styles.table, isSplit && styles.split)}>
          {/* The first row may be a fold over all columns: it would say nothing about their widths. */}
          {isSplit && (
            <colgroup>
              <col className={styles.number} />
              <col className={styles.sign} />
              <col />
              <col className={styles.number} />
              <col className={styles.sign} />
              <col />
            </colgroup>
          )}
          <tbody>
            {items.slice(0, shown).map((item) =>
              "fold" in item ? (
                <tr key={`fold-${item.at}`}>
                  <td colSpan={6} className={styles.fold}>
                    <button type="button" className={styles.unfold} onClick={() => unfold(item.at)}>
                      Show {formatCount(item.fold)} equal lines
                    </button>
                  </td>
                </tr>
              ) : (
                <Fragment key={`${item.index}-${item.only ?? "both"}`}>
                  <Row row={item.row} only={item.only} isSplit={isSplit} onLine={onLine} />
                  {below !== undefined && <Below row={item.row} only={item.only} below={below} />}
                </Fragment>
              ),
            )}
          </tbody>
        </table>
        {items.length > shown && (
          <p className={styles.note}>
            <button type="button" className={styles.unfold} onClick={() => setShown(shown + ROWS_STEP)}>
              Show more: {formatCount(items.length - shown)} lines are left
            </button>
          </p>
        )}
      </div>
    </div>
  );
}

function hasContent(node: ReactNode): boolean {
  return node !== null && node !== undefined && node !== false;
}

function Below({ row, only, below }: { row: DiffRow; only: DiffSide | undefined; below: NonNullable<DiffProps["below"]> }) {
  const contents = (["before", "after"] as const).map((side) => {
    const line = row[side];
    return line === undefined || (only !== undefined && only !== side) ? undefined : below(side, line.number);
  });
  return contents.filter(hasContent).map((content, index) => (
    <tr key={index}>
      <td colSpan={6} className={styles.below}>
        {content}
      </td>
    </tr>
  ));
}

interface RowProps {
  row: DiffRow;
  /** The side that is shown, where there is one column. */
  only: DiffSide | undefined;
  isSplit: boolean;
  onLine: DiffProps["onLine"];
}

const Row = memo(function Row({ row, only, isSplit, onLine }: RowProps) {
  const [old, young] = useMemo(
    () => (row.kind === "changed" ? diffPieces(row.before?.text ?? "", row.after?.text ?? "") : [undefined, undefined]),
    [row],
  );
  const number = (side: DiffSide) => {
    const line = row[side]?.number;
    if (line === undefined || onLine === undefined) return line;
    return (
      <button type="button" className={styles.lineAction} aria-label={`Line ${line} ${side}`} onClick={() => onLine(side, line)}>
        {line}
      </button>
    );
  };
  const cells = (side: DiffSide, pieces: Piece[] | undefined) => {
    const line = row[side];
    const isSame = row.kind === "same";
    const tint = line === undefined ? styles.blank : isSame ? undefined : side === "before" ? styles.del : styles.add;
    return (
      <>
        <td className={cx(styles.number, tint)}>{number(side)}</td>
        <td className={cx(styles.sign, tint)}>{line === undefined || isSame ? "" : side === "before" ? "−" : "+"}</td>
        <td className={cx(styles.text, tint)}>{line !== undefined && <Line text={line.text} pieces={pieces} />}</td>
      </>
    );
  };
  if (isSplit) {
    return (
      <tr>
        {cells("before", old)}
        {cells("after", young)}
      </tr>
    );
  }
  if (row.kind === "same") {
    return (
      <tr>
        <td className={styles.number}>{row.before?.number}</td>
        <td className={styles.number}>{number("after")}</td>
        <td className={styles.sign} />
        <td className={styles.text}>
          <Line text={row.after?.text ?? ""} pieces={undefined} />
        </td>
      </tr>
    );
  }
  const side = only ?? "after";
  const tint = side === "before" ? styles.del : styles.add;
  return (
    <tr>
      <td className={cx(styles.number, tint)}>{side === "before" && number("before")}</td>
      <td className={cx(styles.number, tint)}>{side === "after" && number("after")}</td>
      <td className={cx(styles.sign, tint)}>{side === "before" ? "−" : "+"}</td>
      <td className={cx(styles.text, tint)}>
        <Line text={row[side]?.text ?? ""} pieces={side === "before" ? old : young} />
      </td>
    </tr>
  );
});

/** One line longer than this is cut. */
const LINE_CHARS_MAX = 5_000;

function Line({ text, pieces }: { text: string; pieces: Piece[] | undefined }) {
  if (pieces !== undefined) {
    return pieces.map((piece, index) => (piece.isChanged ? <mark key={index}>{visible(piece.text)}</mark> : <Fragment key={index}>{visible(piece.text)}</Fragment>));
  }
  const isCut = text.length > LINE_CHARS_MAX;
  return (
    <>
      {visible(isCut ? text.slice(0, LINE_CHARS_MAX) : text)}
      {isCut && ` … ${formatCount(text.length - LINE_CHARS_MAX)} more characters`}
    </>
  );
}
