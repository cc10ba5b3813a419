// The rows of the matrix: operations grouped by backend, filtered, with the state of each role. Pure.

import type { CatalogEntry } from "../../lib/control/contract";

export type State = "calls" | "sees" | "hidden";

export interface OperationRow {
  type: "operation";
  key: string;
  operation: CatalogEntry;
  states: readonly State[];
}

export interface GroupRow {
  type: "group";
  key: string;
  backend: string;
  /** Of those that are shown. */
  count: number;
  /** How many of them each role may call. */
  calls: readonly number[];
  isOpen: boolean;
}

export type Row = OperationRow | GroupRow;

export interface Filter {
  search: string;
  kind: string;
  /** Only operations that not every role may use alike. */
  differing: boolean;
}

/** An operation with its states, worked out once for all filters. */
export interface Indexed {
  operation: CatalogEntry;
  states: readonly State[];
  text: string;
  differs: boolean;
}

export function indexed(operations: readonly CatalogEntry[], roles: readonly string[]): Indexed[] {
  return operations.map((operation) => {
    const calls = new Set(operation.roles_call);
    const sees = new Set(operation.roles_see);
    const states = roles.map((role): State => (calls.has(role) ? "calls" : sees.has(role) ? "sees" : "hidden"));
    const text = `${operation.name} ${operation.own_name} ${operation.backend}`.toLowerCase();
    return { operation, states, text, differs: new Set(states).size > 1 };
  });
}

export function rowsOf(all: readonly Indexed[], roleCount: number, filter: Filter, closed: ReadonlySet<string>): Row[] {
  const wanted = filter.search.trim().toLowerCase();
  const groups = new Map<string, Indexed[]>();
  for (const one of all) {
    if (wanted !== "" && !one.text.includes(wanted)) continue;
    if (filter.kind !== "" && (one.operation.kind ?? "") !== filter.kind) continue;
    if (filter.differing && !one.differs) continue;
    const group = groups.get(one.operation.backend);
    if (group === undefined) groups.set(one.operation.backend, [one]);
    else group.push(one);
  }
  const rows: Row[] = [];
  for (const [backend, members] of groups) {
    const isOpen = !closed.has(backend);
    const calls = Array.from({ length: roleCount }, (_, role) => members.reduce((sum, member) => sum + (member.states[role] === "calls" ? 1 : 0), 0));
    rows.push({ type: "group", key: `group ${backend}`, backend, count: members.length, calls, isOpen });
    if (!isOpen) continue;
    for (const { operation, states } of members) {
      rows.push({ type: "operation", key: `${operation.kind ?? ""} ${operation.name}`, operation, states });
    }
  }
  return rows;
}

const MEANINGS: Readonly<Record<string, string>> = {
  "*": "Everything, the admin API included.",
  admin: "The admin API, and with it this console.",
  "tools.read": "Sees every tool, resource and prompt.",
  "tools.execute": "Sees, calls, reads and gets everything.",
};

/** What one permission of a role gives. */
export function permissionMeaning(permission: string): string {
  const known = MEANINGS[permission];
  if (known !== undefined) return known;
  if (permission.startsWith("tool:")) return `Sees and calls tools that callers know as ${permission.slice(5)}.`;
  const dot = permission.indexOf(".");
  if (dot < 0) return "Gives nothing: it is no permission that the gateway knows.";
  const [backend, pattern] = [permission.slice(0, dot), permission.slice(dot + 1)];
  return pattern === "*" ? `Sees and calls everything of the backend ${backend}.` : `Sees and calls ${pattern} of the backend ${backend}, by its own names.`;
}
