// Makes text that others wrote safe to look at: what would be invisible, or change the direction or the order of what is
// around it, becomes visible marks.

/** What is marked. ZWJ and ZWNJ stay: emoji and several scripts need them. */
const SUSPECT = new RegExp(
  [
    "[\\u0000-\\u0008\\u000B-\\u001F\\u007F-\\u009F]", // C0 but tab and line feed, DEL, C1
    "[\\u061C\\u200E\\u200F\\u202A-\\u202E\\u2066-\\u206F]", // direction
    "[\\u00AD\\u180E\\u200B\\u2028\\u2029\\u2060-\\u2064\\uFEFF\\uFFF9-\\uFFFB]", // width zero, separators, annotations
    "[\\u{E0000}-\\u{E007F}]", // tags, which spell hidden text
    "[\\uD800-\\uDFFF]", // halves of pairs
  ].join("|"),
  "gu",
);

/** Of the characters below U+0020. Their pictures (U+2400) are missing in many fonts. */
const NAMES =
  "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(" ");

/** One character that is not to be seen, as text. */
function mark(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const name = code === 0x7f ? "DEL" : NAMES[code];
  if (name !== undefined) return `‹${name}›`;
  return `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}

export interface Part {
  text: string;
  isMark: boolean;
}

/** More marks than these are not told apart from the text: each would be an element. */
const MARKS_MAX = 500;

/** Splits text into what is shown as it is, and what stands in for a character that cannot be seen. */
export function visibleParts(text: string): Part[] {
  const parts: Part[] = [];
  let start = 0;
  for (const found of text.matchAll(SUSPECT)) {
    // Line endings of Windows are no attack.
    if (found[0] === "\r" && text[found.index + 1] === "\n") {
      if (found.index > start) parts.push({ text: text.slice(start, found.index), isMark: false });
      start = found.index + 1;
      continue;
    }
    const last = parts.at(-1);
    if (found.index === start && last?.isMark === true) {
      last.text += mark(found[0]);
    } else {
      if (found.index > start) parts.push({ text: text.slice(start, found.index), isMark: false });
      parts.push({ text: mark(found[0]), isMark: true });
    }
    start = found.index + found[0].length;
    if (parts.length > 2 * MARKS_MAX) return [{ text: visible(text), isMark: false }];
  }
  if (start < text.length) parts.push({ text: text.slice(start), isMark: false });
  return parts;
}

/** The same as one string: for `title`, `aria-label`, the title of the document. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(SUSPECT, mark);
}

/** Cuts at a whole character. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const code = text.charCodeAt(length - 1);
  return text.slice(0, code >= 0xd800 && code <= 0xdbff ? length - 1 : length);
}
