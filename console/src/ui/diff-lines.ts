// Which lines and words differ between two texts. Bounded: what is too large or too different is shown as replaced.

import { diffArrays, diffWordsWithSpace } from "diff";

/** One line of a side by side view. An absent side is blank. */
export interface DiffRow {
  kind: "same" | "changed" | "added" | "removed";
  before?: { number: number; text: string };
  after?: { number: number; text: string };
}

export interface Piece {
  text: string;
  isChanged: boolean;
}

/** Larger texts are not compared. */
export const DIFF_CHARS_MAX = 1 << 20;
export const DIFF_LINES_MAX = 20_000;
/** The search for the smallest difference is given up after so long. */
const LINES_MS_MAX = 400;
/** Words are compared in lines up to this length. */
const WORDS_CHARS_MAX = 2_000;
const WORDS_MS_MAX = 20;

function lines(text: string): string[] {
  const all = text.split("\n");
  if (all.at(-1) === "") all.pop();
  return all;
}

/** `undefined`: too large to compare. */
export function diffRows(before: string, after: string): DiffRow[] | undefined {
  if (before.length + after.length > DIFF_CHARS_MAX) return undefined;
  const [old, young] = [lines(before), lines(after)];
  if (old.length + young.length > DIFF_LINES_MAX) return undefined;
  const changes = diffArrays(old, young, { timeout: LINES_MS_MAX }) ?? [
    { value: old, removed: true, added: false, count: old.length },
    { value: young, added: true, removed: false, count: young.length },
  ];
  const rows: DiffRow[] = [];
  let [a, b] = [1, 1];
  for (let index = 0; index < changes.length; index += 1) {
    const change = changes[index];
    if (change === undefined) break;
    if (change.removed) {
      const next = changes[index + 1];
      const added = next?.added === true ? next.value : [];
      if (added.length > 0) index += 1;
      // Lines that were replaced stand beside each other.
      for (let line = 0; line < Math.max(change.value.length, added.length); line += 1) {
        const [gone, come] = [change.value[line], added[line]];
        rows.push({
          kind: gone === undefined ? "added" : come === undefined ? "removed" : "changed",
          ...(gone !== undefined && { before: { number: a++, text: gone } }),
          ...(come !== undefined && { after: { number: b++, text: come } }),
        });
      }
    } else if (change.added) {
      for (const text of change.value) rows.push({ kind: "added", after: { number: b++, text } });
    } else {
      for (const text of change.value) rows.push({ kind: "same", before: { number: a++, text }, after: { number: b++, text } });
    }
  }
  return rows;
}

/** The words of two lines that replaced each other. */
export function diffPieces(before: string, after: string): [Piece[], Piece[]] {
  const whole = (text: string): Piece[] => [{ text, isChanged: false }];
  if (before.length > WORDS_CHARS_MAX || after.length > WORDS_CHARS_MAX) return [whole(before), whole(after)];
  const changes = diffWordsWithSpace(before, after, { timeout: WORDS_MS_MAX });
  if (changes === undefined) return [whole(before), whole(after)];
  const same = changes.reduce((sum, change) => sum + (change.added || change.removed ? 0 : change.value.trim().length), 0);
  // Lines with nothing in common are replaced as a whole; marks on every word would say nothing.
  if (same * 5 < Math.max(before.trim().length, after.trim().length)) return [whole(before), whole(after)];
  const side = (skip: "added" | "removed"): Piece[] =>
    changes.filter((change) => !change[skip]).map((change) => ({ text: change.value, isChanged: change.added || change.removed }));
  return [side("added"), side("removed")];
}
