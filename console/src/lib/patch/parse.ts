// Reads a unified diff into files, hunks and lines.
//
// It never fails: the gateway has checked the diff, and lines that are no part of a file are kept as notes. Paths are as git
// prints them, without `a/` and `b/`, with quoted bytes decoded.

export type Change = "create" | "modify" | "delete" | "rename";

export interface PatchLine {
  kind: " " | "+" | "-";
  text: string;
  /** The file ends here without a line feed. */
  isLast?: true;
}

export interface Hunk {
  /** Numbers of the first lines; for a hunk without lines of a side, the line before it. */
  oldStart: number;
  newStart: number;
  /** What git says behind `@@`: the function that the hunk is in. */
  section: string;
  lines: PatchLine[];
}

export interface PatchFile {
  oldPath: string;
  newPath: string;
  /** The path to show: the new one, or the old one of a deleted file. */
  path: string;
  change: Change;
  hunks: Hunk[];
  added: number;
  removed: number;
  /** Changes of modes, binary content. */
  notes: string[];
  /** Lines after its hunks that belong to none: a hunk was longer than it says. */
  rest: string[];
}

export interface ParsedPatch {
  files: PatchFile[];
  /** What stands before the first file, such as the message of a commit. */
  preamble: string;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;
const NONE = "/dev/null";

/** A path in quotes has its bytes escaped as in C. */
export function unquote(text: string): string {
  if (!text.startsWith('"') || !text.endsWith('"') || text.length < 2) return text;
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  const simple: Record<string, number> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13, '"': 34, "\\": 92 };
  const inner = text.slice(1, -1);
  for (let at = 0; at < inner.length; at += 1) {
    const char = inner[at] as string;
    if (char !== "\\") {
      // A character beyond the basic plane has two units.
      const whole = String.fromCodePoint(inner.codePointAt(at) ?? 0);
      bytes.push(...encoder.encode(whole));
      at += whole.length - 1;
      continue;
    }
    const octal = /^[0-7]{3}/.exec(inner.slice(at + 1));
    const escaped = simple[inner[at + 1] ?? ""];
    if (octal !== null) {
      bytes.push(Number.parseInt(octal[0], 8) & 255);
      at += 3;
    } else {
      bytes.push(escaped ?? 92);
      if (escaped !== undefined) at += 1;
    }
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

/** The path of a header. GNU diff adds a time after a tab. */
function pathOf(header: string, side: "a/" | "b/" | ""): string {
  const path = unquote(header.split("\t")[0]?.trimEnd() ?? "");
  return path !== NONE && side !== "" && path.startsWith(side) ? path.slice(2) : path;
}

class Reader {
  private readonly lines: string[];
  private at = 0;
  readonly files: PatchFile[] = [];
  readonly preamble: string[] = [];

  constructor(text: string) {
    this.lines = text.split("\n");
    if (this.lines.at(-1) === "") this.lines.pop();
  }

  read(): void {
    while (this.at < this.lines.length) {
      const line = this.line(this.at);
      if (line.startsWith("diff --git ")) this.git(line);
      else if (this.isHeader()) this.file(blank());
      else {
        const last = this.files.at(-1);
        if (last === undefined) this.preamble.push(line);
        else if (line.trim() !== "") last.rest.push(line);
        this.at += 1;
      }
    }
  }

  private line(at: number): string {
    const line = this.lines[at] ?? "";
    return line.endsWith("\r") && !/^[ +-]/.test(line) ? line.slice(0, -1) : line;
  }

  private isHeader(): boolean {
    return this.line(this.at).startsWith("--- ") && this.line(this.at + 1).startsWith("+++ ");
  }

  /** The extended headers of git, and the hunks after them. */
  private git(head: string): void {
    const file = blank();
    this.at += 1;
    let isBinary = false;
    for (; this.at < this.lines.length; this.at += 1) {
      const line = this.line(this.at);
      if (line.startsWith("diff --git ") || this.isHeader()) break;
      const [, word, rest = ""] = /^(rename from|copy from|rename to|copy to|new file mode|deleted file mode|old mode|new mode|Binary files|GIT binary patch|index|similarity index|dissimilarity index) ?(.*)$/.exec(line) ?? [];
      if (word === "rename from" || word === "copy from") file.oldPath = pathOf(rest, "");
      else if (word === "rename to" || word === "copy to") {
        file.newPath = pathOf(rest, "");
        file.change = "rename";
        if (word === "copy to") file.notes.push(`Copied from ${file.oldPath}`);
      } else if (word === "new file mode") file.change = "create";
      else if (word === "deleted file mode") file.change = "delete";
      else if (word === "old mode" || word === "new mode") file.notes.push(line);
      else if (word === "Binary files" || word === "GIT binary patch") isBinary = true;
      else if (word === undefined && !isBinary) break;
    }
    if (isBinary) file.notes.push("Binary content, which is not shown");
    if (this.isHeader()) {
      this.file(file);
      return;
    }
    if (file.newPath === "") {
      // Without further headers the two names are equal but for their first letter.
      const names = head.slice("diff --git ".length);
      const quoted = /^("(?:[^"\\]|\\.)*") ("(?:[^"\\]|\\.)*")$/.exec(names);
      const half = (names.length - 1) / 2;
      const [old, young] = quoted === null ? [names.slice(0, half), names.slice(half + 1)] : [quoted[1] ?? "", quoted[2] ?? ""];
      file.oldPath = pathOf(old, "a/");
      file.newPath = pathOf(young, "b/");
    }
    this.finish(file);
  }

  private file(file: PatchFile): void {
    const old = pathOf(this.line(this.at).slice(4), "a/");
    const young = pathOf(this.line(this.at + 1).slice(4), "b/");
    if (old === NONE) file.change = "create";
    else file.oldPath = old;
    if (young === NONE) file.change = "delete";
    else file.newPath = young;
    this.at += 2;
    while (this.at < this.lines.length) {
      const match = HUNK.exec(this.line(this.at));
      if (match === null) break;
      this.at += 1;
      file.hunks.push(this.hunk(file, match));
    }
    this.finish(file);
  }

  private hunk(file: PatchFile, [, oldStart, oldCount, newStart, newCount, section]: RegExpExecArray): Hunk {
    const hunk: Hunk = { oldStart: Number(oldStart), newStart: Number(newStart), section: section ?? "", lines: [] };
    let [old, young] = [Number(oldCount ?? 1), Number(newCount ?? 1)];
    while (this.at < this.lines.length) {
      const line = this.lines[this.at] ?? "";
      const kind = line === "" ? " " : line.charAt(0);
      if (kind === "\\") {
        const last = hunk.lines.at(-1);
        if (last !== undefined) last.isLast = true;
        this.at += 1;
        continue;
      }
      if (old <= 0 && young <= 0) break;
      if (kind !== " " && kind !== "+" && kind !== "-") break;
      if (kind !== "+") old -= 1;
      if (kind !== "-") young -= 1;
      if (kind === "+") file.added += 1;
      if (kind === "-") file.removed += 1;
      hunk.lines.push({ kind, text: line.slice(1) });
      this.at += 1;
    }
    return hunk;
  }

  private finish(file: PatchFile): void {
    if (file.newPath === "") file.newPath = file.oldPath;
    if (file.oldPath === "") file.oldPath = file.newPath;
    if (file.change === "modify" && file.oldPath !== file.newPath) file.change = "rename";
    file.path = file.change === "delete" ? file.oldPath : file.newPath;
    this.files.push(file);
  }
}

function blank(): PatchFile {
  return { oldPath: "", newPath: "", path: "", change: "modify", hunks: [], added: 0, removed: 0, notes: [], rest: [] };
}

export function parsePatch(text: string): ParsedPatch {
  const reader = new Reader(text);
  reader.read();
  return { files: reader.files, preamble: reader.preamble.join("\n").trim() };
}
