// Files of a patch, or of the comparison of two: side by side or in one column, with differing words marked.
//
// All of it is one list in the scrolling of the page. A long one is laid out only where it is seen, so that a diff of 3 MiB
// stays usable; a short one is wholly in the document, so that the browser finds words in it.

import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronDown, ChevronRight } from "lucide-react";
import { memo, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { KeyboardEvent, ReactNode } from "react";
import { layOut } from "../../lib/patch/rows";
import type { Item, Side, ViewFile } from "../../lib/patch/rows";
import { CopyButton, SearchInput, Text, cx, formatCount, useNarrow, visible } from "../../ui";
import { diffPieces } from "../../ui/diff-lines";
import type { DiffRow, Piece } from "../../ui/diff-lines";
import styles from "./diff-view.module.css";
import { Lines, linesOf } from "./status-badge";

/** Up to here every row is in the document. */
const PLAIN_ITEMS_MAX = 1_500;
/** Files with more lines than this are closed at first. */
const OPEN_LINES_MAX = 3_000;
/** One line longer than this is cut. */
const LINE_CHARS_MAX = 4_000;
/** More files get a filter above their list. */
const FILES_FILTERED_FROM = 12;

export interface DiffViewProps {
  files: readonly ViewFile[];
  labels: readonly [string, string];
  mode: "split" | "unified" | "";
  onMode: (mode: "split" | "unified") => void;
  /** Makes the numbers of lines buttons. */
  onLine?: ((file: ViewFile, side: Side, line: number) => void) | undefined;
  hasBelow?: (file: ViewFile, side: Side, line: number) => boolean;
  below?: (file: ViewFile, side: Side, line: number) => ReactNode;
  /** Shown where there is nothing to show. */
  empty: ReactNode;
}

export function DiffView({ files, labels, mode, onMode, onLine, hasBelow, below, empty }: DiffViewProps) {
  const isNarrow = useNarrow();
  const isSplit = mode === "" ? !isNarrow : mode === "split";
  const large = useMemo(() => new Set(files.filter((file) => linesIn(file) > OPEN_LINES_MAX).map((file) => file.path)), [files]);
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const closed = useMemo(() => {
    const all = new Set(large);
    for (const path of toggled) if (!all.delete(path)) all.add(path);
    return all;
  }, [large, toggled]);
  const items = useMemo(() => layOut(files, { isSplit, closed, open, ...(hasBelow && { hasBelow }) }), [files, isSplit, closed, open, hasBelow]);
  const list = useRef<HTMLDivElement>(null);
  const isVirtual = items.length > PLAIN_ITEMS_MAX;
  const [margin, setMargin] = useState(0);
  const virtual = useVirtualizer({
    count: items.length,
    enabled: isVirtual,
    getScrollElement: () => document.getElementById("main"),
    estimateSize: (index) => (items[index]?.type === "row" ? 20 : items[index]?.type === "file" ? 41 : 26),
    overscan: 30,
    scrollMargin: margin,
    getItemKey: (index) => items[index]?.key ?? index,
  });
  // Where the list begins within what scrolls; what is above it changes its height.
  useLayoutEffect(() => {
    const main = document.getElementById("main");
    if (!isVirtual || main === null || list.current === null) return;
    const next = Math.round(list.current.getBoundingClientRect().top - main.getBoundingClientRect().top + main.scrollTop);
    if (Math.abs(next - margin) > 1) setMargin(next);
  });

  const toggle = (path: string) => {
    const next = new Set(toggled);
    if (!next.delete(path)) next.add(path);
    setToggled(next);
  };
  const goTo = (index: number) => {
    const file = files[index];
    if (file !== undefined && closed.has(file.path)) toggle(file.path);
    const at = items.findIndex((item) => item.type === "file" && item.file === index);
    if (isVirtual) virtual.scrollToIndex(at, { align: "start" });
    requestAnimationFrame(() => {
      const head = list.current?.querySelector<HTMLElement>(`[data-file="${index}"]`);
      if (!isVirtual) head?.scrollIntoView({ block: "start" });
      head?.querySelector("button")?.focus({ preventScroll: true });
    });
  };

  if (files.length === 0) return empty;
  const shown = isVirtual ? virtual.getVirtualItems() : undefined;
  const before = shown === undefined ? 0 : Math.max(0, (shown[0]?.start ?? 0) - margin);
  const after = shown === undefined ? 0 : virtual.getTotalSize() - ((shown.at(-1)?.end ?? 0) - margin);
  const indexes = shown?.map((item) => item.index) ?? items.map((_, index) => index);
  const total = linesOf(files);
  return (
    <div className={styles.view}>
      <FileList files={files} onChoose={goTo} />
      <div className={styles.bar}>
        <span>
          <Text value={labels[0]} max={60} /> → <Text value={labels[1]} max={60} />
        </span>
        <Lines {...total} />
        <div className={styles.modes} role="group" aria-label="View">
          {(["split", "unified"] as const).map((one) => (
            <button key={one} type="button" className={styles.mode} aria-pressed={isSplit === (one === "split")} onClick={() => onMode(one)}>
              {one === "split" ? "Side by side" : "Unified"}
            </button>
          ))}
        </div>
      </div>
      <div ref={list} className={cx(styles.list, isSplit ? styles.split : styles.unified)} role="region" aria-label="Changes" onKeyDown={onArrow}>
        {before > 0 && <div style={{ height: before }} aria-hidden />}
        {indexes.map((index) => {
          const item = items[index] as Item;
          return (
            <div key={item.key} data-index={index} data-file={item.type === "file" ? item.file : undefined} ref={isVirtual ? virtual.measureElement : undefined} className={cx(item.type === "file" && styles.file, item.type === "file" && !isVirtual && styles.sticky)}>
              <One item={item} files={files} isSplit={isSplit} closed={closed} onToggle={toggle} onUnfold={(key) => setOpen(new Set([...open, key]))} onLine={onLine} below={below} />
            </div>
          );
        })}
        {after > 0 && <div style={{ height: after }} aria-hidden />}
      </div>
    </div>
  );
}

function linesIn(file: ViewFile): number {
  return file.blocks.reduce((sum, block) => sum + block.rows.length, 0);
}

/** The arrow keys go from the number of one line to the next. */
function onArrow(event: KeyboardEvent<HTMLDivElement>): void {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const button = event.target instanceof HTMLElement ? event.target.closest<HTMLElement>("[data-line]") : null;
  if (button === null) return;
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>(`[data-line="${button.dataset["line"] ?? ""}"]`)];
  const next = all[all.indexOf(button) + (event.key === "ArrowDown" ? 1 : -1)];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}

function FileList({ files, onChoose }: { files: readonly ViewFile[]; onChoose: (index: number) => void }) {
  const [words, setWords] = useState("");
  const wanted = words.trim().toLowerCase();
  const shown = files.map((file, index) => ({ file, index })).filter(({ file }) => wanted === "" || file.path.toLowerCase().includes(wanted));
  if (files.length < 2) return null;
  return (
    <nav className={styles.files} aria-label="Files">
      <div className={styles.filesHead}>
        <span>{formatCount(files.length)} files</span>
        {files.length >= FILES_FILTERED_FROM && <SearchInput label="Find a file" placeholder="Path" value={words} onChange={setWords} />}
      </div>
      <ul className={styles.fileRows}>
        {shown.slice(0, FILES_LISTED_MAX).map(({ file, index }) => (
          <li key={index}>
            <button type="button" className={styles.fileRow} onClick={() => onChoose(index)}>
              <span className={styles.change} title={file.change} aria-label={file.change}>
                {LETTERS[file.change]}
              </span>
              <Text value={file.path} line mono />
              <Lines added={file.added} removed={file.removed} />
            </button>
          </li>
        ))}
      </ul>
      {shown.length > FILES_LISTED_MAX && <p className={styles.note}>{formatCount(shown.length - FILES_LISTED_MAX)} more: find one by its path.</p>}
    </nav>
  );
}

/** Rows of the list of files. */
const FILES_LISTED_MAX = 300;
const LETTERS = { create: "A", modify: "M", delete: "D", rename: "R" } as const;

interface OneProps {
  item: Item;
  files: readonly ViewFile[];
  isSplit: boolean;
  closed: ReadonlySet<string>;
  onToggle: (path: string) => void;
  onUnfold: (key: string) => void;
  onLine: DiffViewProps["onLine"];
  below: DiffViewProps["below"];
}

function One({ item, files, isSplit, closed, onToggle, onUnfold, onLine, below }: OneProps) {
  switch (item.type) {
    case "file": {
      const file = files[item.file] as ViewFile;
      const isClosed = closed.has(file.path);
      return (
        <div className={styles.fileHead}>
          <button type="button" className={styles.toggle} aria-expanded={!isClosed} onClick={() => onToggle(file.path)}>
            {isClosed ? <ChevronRight size={14} aria-hidden /> : <ChevronDown size={14} aria-hidden />}
            <Text value={file.change === "rename" && file.oldPath !== file.path ? `${file.oldPath} → ${file.path}` : file.path} mono max={300} />
          </button>
          {file.change !== "modify" && <span className={styles.kind}>{KINDS[file.change]}</span>}
          <Lines added={file.added} removed={file.removed} />
          <CopyButton value={file.path} label="Copy the path" size="s" />
        </div>
      );
    }
    case "note":
      return (
        <p className={styles.note}>
          <Text value={item.text} />
        </p>
      );
    case "gap":
      return <div className={styles.gap}>{item.text === "" ? "⋯" : <Text value={item.text} max={200} />}</div>;
    case "fold":
      return (
        <button type="button" className={styles.fold} onClick={() => onUnfold(item.key)}>
          Show {formatCount(item.count)} equal lines
        </button>
      );
    case "below":
      return <div className={styles.below}>{below?.(files[item.file] as ViewFile, item.side, item.line)}</div>;
    default:
      return <Row row={item.row} only={item.only} isSplit={isSplit} file={files[item.file] as ViewFile} onLine={onLine} />;
  }
}

const KINDS = { create: "new file", modify: "", delete: "deleted", rename: "renamed" } as const;

interface RowProps {
  row: DiffRow;
  only: Side | undefined;
  isSplit: boolean;
  file: ViewFile;
  onLine: DiffViewProps["onLine"];
}

const Row = memo(
  function Row({ row, only, isSplit, file, onLine }: RowProps) {
    const [old, young] = useMemo(() => (row.kind === "changed" ? diffPieces(row.before?.text ?? "", row.after?.text ?? "") : [undefined, undefined]), [row]);
    const number = (side: Side) => <Num side={side} line={row[side]?.number} path={file.path} onLine={onLine && ((which, line) => onLine(file, which, line))} />;
    if (isSplit) {
      const half = (side: Side, pieces: Piece[] | undefined) => {
        const line = row[side];
        const isSame = row.kind === "same";
        const tint = line === undefined ? styles.blank : isSame ? undefined : side === "before" ? styles.del : styles.add;
        return (
          <>
            <span className={cx(styles.number, tint)}>{number(side)}</span>
            <span className={cx(styles.sign, tint)}>{line === undefined || isSame ? "" : side === "before" ? "−" : "+"}</span>
            <span className={cx(styles.text, tint)}>{line !== undefined && <Content text={line.text} pieces={pieces} />}</span>
          </>
        );
      };
      return (
        <div className={styles.row}>
          {half("before", old)}
          {half("after", young)}
        </div>
      );
    }
    const side = only ?? "after";
    const tint = row.kind === "same" ? undefined : side === "before" ? styles.del : styles.add;
    return (
      <div className={styles.row}>
        <span className={cx(styles.number, tint)}>{(row.kind === "same" || side === "before") && number("before")}</span>
        <span className={cx(styles.number, tint)}>{(row.kind === "same" || side === "after") && number("after")}</span>
        <span className={cx(styles.sign, tint)}>{row.kind === "same" ? "" : side === "before" ? "−" : "+"}</span>
        <span className={cx(styles.text, tint)}>
          <Content text={row[side]?.text ?? ""} pieces={row.kind === "same" ? undefined : side === "before" ? old : young} />
        </span>
      </div>
    );
  },
  (before, after) => before.row === after.row && before.only === after.only && before.isSplit === after.isSplit && before.file === after.file && (before.onLine === undefined) === (after.onLine === undefined),
);

function Num({ side, line, path, onLine }: { side: Side; line: number | undefined; path: string; onLine: ((side: Side, line: number) => void) | undefined }) {
  // The handler of the first render would keep old state: rows are not rendered anew for it.
  if (line === undefined) return null;
  if (onLine === undefined) return line;
  return (
    <button type="button" className={styles.lineAction} data-line={side} aria-label={`Comment on line ${line} ${side} in ${visible(path)}`} onClick={() => onLine(side, line)}>
      {line}
    </button>
  );
}

function Content({ text, pieces }: { text: string; pieces: Piece[] | undefined }) {
  if (pieces !== undefined) return pieces.map((piece, index) => (piece.isChanged ? <mark key={index}>{visible(piece.text)}</mark> : <span key={index}>{visible(piece.text)}</span>));
  const isCut = text.length > LINE_CHARS_MAX;
  return (
    <>
      {visible(isCut ? text.slice(0, LINE_CHARS_MAX) : text)}
      {isCut && ` … ${formatCount(text.length - LINE_CHARS_MAX)} more characters`}
    </>
  );
}

/** Keeps a function that always calls the latest one. */
export function useLatest<A extends unknown[]>(run: (...args: A) => void): (...args: A) => void {
  const latest = useRef(run);
  useEffect(() => {
    latest.current = run;
  });
  const [stable] = useState(() => (...args: A) => latest.current(...args));
  return stable;
}
