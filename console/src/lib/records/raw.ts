// A member of a JSON text as it was written.
//
// Numbers of arguments may have more digits than a JavaScript number holds, and a request that is made again must have
// them all. So the text of a member is cut out instead of being printed from a value.

const SPACE = " \t\n\r";

/** The end of the value that begins at `start`, or -1. Only what the brackets and quotes of valid JSON need is looked at. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const character = text[at] as string;
    if (character === '"') {
      at = endOfString(text, at) - 1;
      if (at < 0) return -1;
      if (depth === 0) return at + 1;
    } else if (character === "{" || character === "[") {
      depth += 1;
    } else if (character === "}" || character === "]") {
      // The end of what surrounds a number or a word.
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (character === "," || SPACE.includes(character))) {
      return at;
    }
  }
  return depth === 0 ? text.length : -1;
}

/** Behind the closing quote of the string that begins at `start`; 0 where there is none. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === '"') return at + 1;
  }
  return 0;
}

function skipSpace(text: string, at: number): number {
  let next = at;
  while (next < text.length && SPACE.includes(text[next] as string)) next += 1;
  return next;
}

/** The text of a member of an object that is valid JSON; `undefined` where it has none of that name. */
export function rawMember(text: string, name: string): string | undefined {
  let at = skipSpace(text, 0);
  if (text[at] !== "{") return undefined;
  at = skipSpace(text, at + 1);
  while (text[at] === '"') {
    const end = endOfString(text, at);
    if (end === 0) return undefined;
    const key: unknown = JSON.parse(text.slice(at, end));
    const colon = skipSpace(text, end);
    const start = skipSpace(text, colon + 1);
    const stop = endOfValue(text, start);
    if (text[colon] !== ":" || stop < 0) return undefined;
    if (key === name) return text.slice(start, stop);
    at = skipSpace(text, stop);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return undefined;
}
