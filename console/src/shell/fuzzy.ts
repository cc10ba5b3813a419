// Fuzzy search over names. Every letter must occur in order; beginnings of words, letters in a row and short names win.

/** Higher is better; `undefined`: it does not match. Both are in lower case. */
export function score(query: string, text: string): number | undefined {
  const at = text.indexOf(query);
  if (at >= 0) return 1000 - at - text.length * 0.1 + (isStart(text, at) ? 200 : 0);
  let total = 0;
  let from = 0;
  let last = -2;
  for (const letter of query) {
    if (letter === " ") continue;
    let found = text.indexOf(letter, from);
    if (found < 0) return undefined;
    // The next beginning of a word with this letter is the better place.
    if (found !== last + 1) {
      for (let next = found; next >= 0; next = text.indexOf(letter, next + 1)) {
        if (!isStart(text, next)) continue;
        found = next;
        break;
      }
    }
    total += found === last + 1 ? 12 : isStart(text, found) ? 10 : 2;
    total -= Math.min(found - last - 1, 10) * 0.2;
    last = found;
    from = found + 1;
  }
  return total - text.length * 0.05;
}

function isStart(text: string, at: number): boolean {
  if (at === 0) return true;
  const code = text.charCodeAt(at - 1);
  // Neither a letter nor a digit stands before it.
  return !((code >= 97 && code <= 122) || (code >= 48 && code <= 57) || code > 127);
}

export interface Indexed<T> {
  item: T;
  label: string;
  more: string;
}

/** Letters looked at of one name: names that others wrote may be long. */
const CHARS_MAX = 200;

export function index<T>(item: T, label: string, more: string): Indexed<T> {
  return { item, label: label.slice(0, CHARS_MAX).toLowerCase(), more: more.slice(0, CHARS_MAX).toLowerCase() };
}

/** The best, best first. */
export function search<T>(all: readonly Indexed<T>[], query: string, max: number): T[] {
  const asked = query.trim().toLowerCase().slice(0, CHARS_MAX);
  if (asked === "") return all.slice(0, max).map(({ item }) => item);
  const found: { item: T; score: number }[] = [];
  for (const each of all) {
    const byLabel = score(asked, each.label);
    // What is said about it counts less, and only as it is.
    const byMore = byLabel === undefined && each.more.includes(asked) ? 1 : undefined;
    const best = byLabel ?? byMore;
    if (best !== undefined) found.push({ item: each.item, score: best });
  }
  found.sort((a, b) => b.score - a.score);
  return found.slice(0, max).map(({ item }) => item);
}
