// A patch as rows of a view: lines that replaced each other stand beside each other, long equal parts are folded, and
// everything is one flat list, of which only the visible part is laid out.

import type { DiffRow } from "../../ui/diff-lines";
import type { Hunk, PatchFile } from "./parse";

export type Side = "before" | "after";

/** A stretch of lines that are next to each other in the files. */
export interface Block {
  /** What stands above it: the function that it is in. */
  section: string;
  rows: DiffRow[];
}

/** A file of a view: of one patch, or of the comparison of two. */
export interface ViewFile {
  path: string;
  oldPath: string;
  change: PatchFile["change"];
  added: number;
  removed: number;
  notes: readonly string[];
  blocks: readonly Block[];
  /** Lines that belong to no hunk. */
  rest?: readonly string[];
}

/** Equal lines that stay beside a change. */
const CONTEXT = 3;
/** Shorter equal parts are not worth a fold. */
const FOLD_MIN = 8;

export function rowsOf(hunk: Hunk): DiffRow[] {
  const rows: DiffRow[] = [];
  let [old, young] = [hunk.oldStart, hunk.newStart];
  const { lines } = hunk;
  // A side without lines names the line before the hunk.
  if (!lines.some((line) => line.kind !== "+")) old += 1;
  if (!lines.some((line) => line.kind !== "-")) young += 1;
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    if (line === undefined) break;
    if (line.kind === " ") {
      rows.push({ kind: "same", before: { number: old++, text: line.text }, after: { number: young++, text: line.text } });
      at += 1;
      continue;
    }
    const gone: string[] = [];
    const come: string[] = [];
    for (; lines[at] !== undefined && lines[at]?.kind !== " "; at += 1) {
      const { kind, text, isLast } = lines[at] as Hunk["lines"][number];
      // After added lines a removed one belongs to the next change.
      if (kind === "-" && come.length > 0) break;
      const shown = isLast === true ? `${text} (no line feed at the end)` : text;
      (kind === "-" ? gone : come).push(shown);
    }
    for (let pair = 0; pair < Math.max(gone.length, come.length); pair += 1) {
      const [before, after] = [gone[pair], come[pair]];
      rows.push({
        kind: before === undefined ? "added" : after === undefined ? "removed" : "changed",
        ...(before !== undefined && { before: { number: old++, text: before } }),
        ...(after !== undefined && { after: { number: young++, text: after } }),
      });
    }
  }
  return rows;
}

export function viewOf(file: PatchFile): ViewFile {
  return {
    path: file.path,
    oldPath: file.oldPath,
    change: file.change,
    added: file.added,
    removed: file.removed,
    notes: file.notes,
    blocks: file.hunks.map((hunk) => ({ section: hunk.section, rows: rowsOf(hunk) })),
    ...(file.rest.length > 0 && { rest: file.rest }),
  };
}

export type Item =
  | { type: "file"; key: string; file: number }
  | { type: "note"; key: string; text: string }
  | { type: "gap"; key: string; text: string }
  | { type: "fold"; key: string; count: number }
  | { type: "row"; key: string; file: number; row: DiffRow; only?: Side }
  | { type: "below"; key: string; file: number; side: Side; line: number };

export interface LayOut {
  isSplit: boolean;
  closed: ReadonlySet<string>;
  /** Keys of folds that were opened. */
  open: ReadonlySet<string>;
  /** Whether something, such as a thread, stands below a line. */
  hasBelow?: (file: ViewFile, side: Side, line: number) => boolean;
}

/** Every item of a view in order. */
export function layOut(files: readonly ViewFile[], how: LayOut): Item[] {
  const items: Item[] = [];
  files.forEach((file, index) => {
    items.push({ type: "file", key: `f${index}`, file: index });
    if (how.closed.has(file.path)) return;
    file.notes.forEach((text, note) => items.push({ type: "note", key: `f${index}n${note}`, text }));
    if (file.blocks.length === 0 && file.notes.length === 0) {
      items.push({ type: "note", key: `f${index}n`, text: file.change === "rename" ? `Renamed from ${file.oldPath}, without changes` : "No lines changed" });
    }
    let last = 0;
    file.blocks.forEach((block, number) => {
      const first = firstLine(block.rows);
      const gap = first - last - 1;
      if (number > 0 || gap > 0 || block.section !== "") {
        const left = gap > 0 ? `${gap.toLocaleString("en")} ${gap === 1 ? "line is" : "lines are"} not in the patch` : "";
        items.push({ type: "gap", key: `f${index}b${number}`, text: [left, block.section].filter((part) => part !== "").join(" · ") });
      }
      last = lastLine(block.rows) ?? last;
      layOutBlock(items, file, index, `f${index}b${number}`, block.rows, how);
    });
    if (file.rest !== undefined) items.push({ type: "note", key: `f${index}rest`, text: `In no hunk: ${file.rest.join("\n")}` });
  });
  return items;
}

function firstLine(rows: readonly DiffRow[]): number {
  return rows.find((row) => row.before !== undefined)?.before?.number ?? rows[0]?.after?.number ?? 1;
}

function lastLine(rows: readonly DiffRow[]): number | undefined {
  for (let at = rows.length - 1; at >= 0; at -= 1) {
    const line = rows[at]?.before?.number;
    if (line !== undefined) return line;
  }
  return undefined;
}

function layOutBlock(items: Item[], file: ViewFile, index: number, key: string, rows: readonly DiffRow[], how: LayOut): void {
  const hasBelow = (side: Side, row: DiffRow) => row[side] !== undefined && how.hasBelow?.(file, side, row[side].number) === true;
  // Rows that are shown: changes, what has something below it, and the lines around both.
  const near = new Uint8Array(rows.length);
  rows.forEach((row, at) => {
    if (row.kind === "same" && !hasBelow("before", row) && !hasBelow("after", row)) return;
    near.fill(1, Math.max(0, at - CONTEXT), Math.min(rows.length, at + CONTEXT + 1));
  });
  const add = (row: DiffRow, at: number, sides: readonly Side[], only?: Side) => {
    items.push({ type: "row", key: `${key}r${at}${only ?? ""}`, file: index, row, ...(only !== undefined && { only }) });
    for (const side of sides) {
      const line = row[side]?.number;
      if (line !== undefined && hasBelow(side, row)) items.push({ type: "below", key: `${key}r${at}${side}below`, file: index, side, line });
    }
  };
  for (let at = 0; at < rows.length; ) {
    let end = at;
    while (end < rows.length && near[end] === 0) end += 1;
    if (end > at) {
      const fold = `${key}r${at}fold`;
      if (end - at >= FOLD_MIN && !how.open.has(fold)) items.push({ type: "fold", key: fold, count: end - at });
      else for (let same = at; same < end; same += 1) add(rows[same] as DiffRow, same, []);
      at = end;
      continue;
    }
    const row = rows[at] as DiffRow;
    if (row.kind === "same" || how.isSplit) {
      add(row, at, ["before", "after"]);
      at += 1;
      continue;
    }
    // One column: what is gone stands above what came.
    while (end < rows.length && rows[end]?.kind !== "same") end += 1;
    for (const only of ["before", "after"] as const) {
      for (let of = at; of < end; of += 1) {
        const changed = rows[of] as DiffRow;
        if (changed[only] !== undefined) add(changed, of, [only], only);
      }
    }
    at = end;
  }
}
