// Patterns over names as the gateway reads them: `*` matches any run of characters, everything else itself.
//
// What a switch hits is counted here for a preview only. The gateway also compares other spellings of URIs, so a pattern
// about resources may hit more than the preview says; what it answers is exact.

export function matches(pattern: string, name: string): boolean {
  const parts = pattern.split("*");
  const first = parts.shift() ?? "";
  if (!name.startsWith(first)) return false;
  let rest = name.slice(first.length);
  const last = parts.pop();
  if (last === undefined) return rest === "";
  // Leftmost matches suffice: later parts only need text further to the right.
  for (const part of parts) {
    const at = rest.indexOf(part);
    if (at < 0) return false;
    rest = rest.slice(at + part.length);
  }
  return rest.length >= last.length && rest.endsWith(last);
}

interface Named {
  backend: string;
  name: string;
  own_name: string;
}

/** Whether an entry of the kill switch about operations, or of `denied_tools`, names this operation. */
export function hits(text: string, operation: Named): boolean {
  const dot = text.indexOf(".");
  const isOwn = dot >= 0 && text.slice(0, dot) === operation.backend && matches(text.slice(dot + 1), operation.own_name);
  return isOwn || matches(text, operation.name);
}

/** What a switch of this scope hits; `undefined`: callers have no list of operations. */
export function hitBy<T extends Named>(scope: string, name: string, operations: readonly T[]): T[] | undefined {
  if (scope === "all") return [...operations];
  if (scope === "backend") return operations.filter((operation) => operation.backend === name);
  if (scope === "tool") return name === "" ? [] : operations.filter((operation) => hits(name, operation));
  return undefined;
}
