// What differs between two patches of the same files: of a proposal and what a reviewer made of it, or of a proposal and the
// one that follows it.
//
// Both patches say what the code before them was, at least around their changes. Where they agree about that, each is
// applied to the parts that are known, and the results are compared: a change that both make does not show. Where they do
// not, they were made for different versions of the file, and the lines of their hunks are compared as they are.

import { diffArrays } from "diff";
import type { DiffRow } from "../../ui/diff-lines";
import type { PatchFile } from "./parse";
import type { Block, ViewFile } from "./rows";

/** The search for the smallest difference is given up after so long, for one stretch of lines. */
const LINES_MS_MAX = 300;

/** A line of a result and where it is in it. */
interface Line {
  number: number;
  text: string;
}

/** One side: the lines of the base that it knows, and what it makes of them. */
interface Side {
  base: Map<number, string>;
  /** Base line -> lines that replace it; a line of the base that is not here stays. */
  gone: Set<number>;
  /** Lines added before a base line. */
  added: Map<number, string[]>;
}

function sideOf(file: PatchFile | undefined): Side {
  const side: Side = { base: new Map(), gone: new Set(), added: new Map() };
  for (const hunk of file?.hunks ?? []) {
    let old = hunk.oldStart;
    if (!hunk.lines.some((line) => line.kind !== "+")) old += 1;
    for (const line of hunk.lines) {
      if (line.kind === "+") {
        const before = side.added.get(old);
        if (before === undefined) side.added.set(old, [line.text]);
        else before.push(line.text);
        continue;
      }
      side.base.set(old, line.text);
      if (line.kind === "-") side.gone.add(old);
      old += 1;
    }
  }
  return side;
}

/** Stretches of the base that one of the sides knows, as first and last line. */
function stretches(one: Side, other: Side): [number, number][] {
  const known = new Set([...one.base.keys(), ...other.base.keys(), ...one.added.keys(), ...other.added.keys()]);
  const sorted = [...known].sort((a, b) => a - b);
  const all: [number, number][] = [];
  for (const line of sorted) {
    const last = all.at(-1);
    if (last !== undefined && line === last[1] + 1) last[1] = line;
    else all.push([line, line]);
  }
  return all;
}

/** The result of a side within a stretch; `shift` is how many lines it added before. */
function resultOf(side: Side, base: ReadonlyMap<number, string>, [first, last]: [number, number], shift: number): { lines: Line[]; shift: number } {
  const lines: Line[] = [];
  let [removed, added] = [0, 0];
  for (let at = first; at <= last; at += 1) {
    for (const text of side.added.get(at) ?? []) {
      lines.push({ number: at + shift + added - removed, text });
      added += 1;
    }
    const text = base.get(at);
    // A line that only additions stand before: the end of what is known.
    if (text === undefined) continue;
    if (side.gone.has(at)) removed += 1;
    else lines.push({ number: at + shift + added - removed, text });
  }
  return { lines, shift: shift + added - removed };
}

/** Rows of two lists of lines. */
export function compareLines(old: readonly Line[], young: readonly Line[]): DiffRow[] {
  const texts = (lines: readonly Line[]) => lines.map((line) => line.text);
  const changes = diffArrays(texts(old), texts(young), { timeout: LINES_MS_MAX }) ?? [
    { value: texts(old), removed: true, added: false },
    { value: texts(young), removed: false, added: true },
  ];
  const rows: DiffRow[] = [];
  let [a, b] = [0, 0];
  for (let at = 0; at < changes.length; at += 1) {
    const change = changes[at];
    if (change === undefined) break;
    const next = changes[at + 1];
    const [gone, come] = change.removed
      ? [change.value.length, next?.added === true ? next.value.length : 0]
      : change.added
        ? [0, change.value.length]
        : [-1, -1];
    if (gone < 0) {
      for (let same = 0; same < change.value.length; same += 1) rows.push({ kind: "same", before: old[a++] as Line, after: young[b++] as Line });
      continue;
    }
    if (change.removed && come > 0) at += 1;
    for (let pair = 0; pair < Math.max(gone, come); pair += 1) {
      const before = pair < gone ? old[a++] : undefined;
      const after = pair < come ? young[b++] : undefined;
      rows.push({ kind: before === undefined ? "added" : after === undefined ? "removed" : "changed", ...(before !== undefined && { before }), ...(after !== undefined && { after }) });
    }
  }
  return rows;
}

function agree(one: Side, other: Side): boolean {
  for (const [line, text] of one.base) {
    const said = other.base.get(line);
    if (said !== undefined && said !== text) return false;
  }
  return true;
}

/** The lines of a patch's hunks as they are in its result. */
function newLines(file: PatchFile | undefined): Line[] {
  const lines: Line[] = [];
  for (const hunk of file?.hunks ?? []) {
    let young = hunk.newStart;
    for (const line of hunk.lines) if (line.kind !== "-") lines.push({ number: young++, text: line.text });
  }
  return lines;
}

function countsOf(blocks: readonly Block[]): { added: number; removed: number } {
  let [added, removed] = [0, 0];
  for (const { rows } of blocks) {
    for (const row of rows) {
      if (row.kind === "added" || row.kind === "changed") added += 1;
      if (row.kind === "removed" || row.kind === "changed") removed += 1;
    }
  }
  return { added, removed };
}

function compareFile(path: string, one: PatchFile | undefined, other: PatchFile | undefined): ViewFile | undefined {
  const notes: string[] = [];
  if (one === undefined) notes.push("Only the second patch changes this file");
  if (other === undefined) notes.push("Only the first patch changes this file");
  if (one !== undefined && other !== undefined && one.change !== other.change) notes.push(`The first patch would ${one.change} it, the second would ${other.change} it`);
  const [first, second] = [sideOf(one), sideOf(other)];
  const blocks: Block[] = [];
  if (agree(first, second)) {
    const base = new Map([...first.base, ...second.base]);
    let [a, b] = [0, 0];
    for (const stretch of stretches(first, second)) {
      const old = resultOf(first, base, stretch, a);
      const young = resultOf(second, base, stretch, b);
      [a, b] = [old.shift, young.shift];
      const rows = compareLines(old.lines, young.lines);
      if (rows.some((row) => row.kind !== "same")) blocks.push({ section: "", rows });
    }
  } else {
    notes.push("The patches are for different versions of this file; the lines around their changes are compared as they are");
    const rows = compareLines(newLines(one), newLines(other));
    if (rows.some((row) => row.kind !== "same")) blocks.push({ section: "", rows });
  }
  if (blocks.length === 0 && notes.length === 0) return undefined;
  const change = one === undefined ? "create" : other === undefined ? "delete" : "modify";
  return { path, oldPath: one?.path ?? path, change: one === undefined || other === undefined ? (other ?? one)?.change ?? change : "modify", ...countsOf(blocks), notes, blocks };
}

/** The files that two patches leave different, in the order of the patches. */
export function interdiff(one: readonly PatchFile[], other: readonly PatchFile[]): ViewFile[] {
  const [first, second] = [byPath(one), byPath(other)];
  const paths = new Set([...first.keys(), ...second.keys()]);
  const files: ViewFile[] = [];
  for (const path of paths) {
    const file = compareFile(path, first.get(path), second.get(path));
    if (file !== undefined) files.push(file);
  }
  return files;
}

function byPath(files: readonly PatchFile[]): Map<string, PatchFile> {
  return new Map(files.map((file) => [file.path, file]));
}
