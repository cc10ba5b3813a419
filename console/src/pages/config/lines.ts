// Lines of a text and places in it. Pure.

export function lineCount(text: string): number {
  let count = 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** Where a line begins and ends, from 1; a line beyond the end is the last. */
export function lineRange(text: string, line: number): [start: number, end: number] {
  let start = 0;
  for (let each = 1; each < line; each += 1) {
    const next = text.indexOf("\n", start);
    if (next < 0) break;
    start = next + 1;
  }
  const end = text.indexOf("\n", start);
  return [start, end < 0 ? text.length : end];
}

/** `1\n2\n3`, for the gutter: one text, however many lines there are. */
export function lineNumbers(count: number): string {
  const numbers: string[] = [];
  for (let line = 1; line <= count; line += 1) numbers.push(String(line));
  return numbers.join("\n");
}

export interface Indented {
  text: string;
  start: number;
  end: number;
}

const INDENT = "  ";

/** Indents the lines of a selection, or takes their indentation back. */
export function indented(text: string, start: number, end: number, back: boolean): Indented {
  const from = text.lastIndexOf("\n", start - 1) + 1;
  const lines = text.slice(from, end).split("\n");
  const changed = lines.map((line) => (back ? line.replace(/^ {1,2}|^\t/, "") : line === "" ? line : INDENT + line));
  const first = (changed[0]?.length ?? 0) - (lines[0]?.length ?? 0);
  const block = changed.join("\n");
  const next = text.slice(0, from) + block + text.slice(end);
  return { text: next, start: Math.max(from, start + first), end: from + block.length };
}
