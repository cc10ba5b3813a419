// The part of Markdown that people and agents write in messages: paragraphs, headings, lists, quotes, code, emphasis.
//
// It becomes a tree of text, never HTML. Links and images stay text that shows where they lead: what others wrote must not
// take a reader elsewhere, and nothing is loaded for it.

export type Inline = { kind: "text" | "code" | "strong" | "emphasis"; text: string };

export type Block =
  | { kind: "paragraph" | "heading"; content: Inline[] }
  | { kind: "code"; text: string }
  | { kind: "quote"; blocks: Block[] }
  | { kind: "list"; isOrdered: boolean; items: Inline[][] };

/** Quotes within quotes beyond this are text. */
const DEPTH_MAX = 4;
/** Longer text is not searched for emphasis and code. */
const INLINE_CHARS_MAX = 20_000;

const LIST = /^ {0,3}(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const HEADING = /^ {0,3}#{1,6}\s+(.*?)\s*#*$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const QUOTE = /^ {0,3}> ?(.*)$/;

export function parseMarkdown(text: string, depth = 0): Block[] {
  const lines = text.split(/\r?\n/);
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at += 1;
      continue;
    }
    const fence = FENCE.exec(line)?.[1];
    if (fence !== undefined) {
      const code: string[] = [];
      at += 1;
      while (at < lines.length && !(lines[at] ?? "").trim().startsWith(fence)) code.push(lines[at++] ?? "");
      at += 1;
      blocks.push({ kind: "code", text: code.join("\n") });
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading !== null) {
      blocks.push({ kind: "heading", content: parseInline(heading[1] ?? "") });
      at += 1;
      continue;
    }
    if (QUOTE.test(line) && depth < DEPTH_MAX) {
      const quoted: string[] = [];
      for (; at < lines.length && QUOTE.test(lines[at] ?? ""); at += 1) quoted.push(QUOTE.exec(lines[at] ?? "")?.[1] ?? "");
      blocks.push({ kind: "quote", blocks: parseMarkdown(quoted.join("\n"), depth + 1) });
      continue;
    }
    const first = LIST.exec(line);
    if (first !== null) {
      const items: string[] = [];
      for (; at < lines.length; at += 1) {
        const item = LIST.exec(lines[at] ?? "");
        if (item !== null) items.push(item[2] ?? "");
        else if (/^\s+\S/.test(lines[at] ?? "") && items.length > 0) items[items.length - 1] += `\n${(lines[at] ?? "").trim()}`;
        else break;
      }
      blocks.push({ kind: "list", isOrdered: first[1] !== undefined, items: items.map(parseInline) });
      continue;
    }
    const paragraph: string[] = [line];
    for (at += 1; at < lines.length; at += 1) {
      const next = lines[at] ?? "";
      if (next.trim() === "" || FENCE.test(next) || HEADING.test(next) || LIST.test(next) || (QUOTE.test(next) && depth < DEPTH_MAX)) break;
      paragraph.push(next);
    }
    blocks.push({ kind: "paragraph", content: parseInline(paragraph.join("\n")) });
  }
  return blocks;
}

const MARKS = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(\S|\S[^*\n]*\S)\*\*|\*([^\s*]|[^\s*][^*\n]*[^\s*])\*/g;

export function parseInline(text: string): Inline[] {
  if (text.length > INLINE_CHARS_MAX) return [{ kind: "text", text }];
  const parts: Inline[] = [];
  let end = 0;
  for (const match of text.matchAll(MARKS)) {
    if (match.index > end) parts.push({ kind: "text", text: text.slice(end, match.index) });
    if (match[2] !== undefined) parts.push({ kind: "code", text: match[2] });
    else if (match[3] !== undefined) parts.push({ kind: "strong", text: match[3] });
    else parts.push({ kind: "emphasis", text: match[4] ?? "" });
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push({ kind: "text", text: text.slice(end) });
  return parts;
}
