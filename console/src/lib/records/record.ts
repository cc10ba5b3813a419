// What the pages need to know of an audit record: its key, how its request ended, and whether it is bookkeeping.

import type { components } from "../../api/schema";

export type AuditRecord = components["schemas"]["AuditRecord"];

/** `<node>.<lane>.<seq>`, which names a record for good. */
export function keyOf(record: AuditRecord): string {
  return `${record.node}.${record.lane}.${record.seq}`;
}

/** The order of time, then of keys: that of the store. */
export function compareRecords(a: AuditRecord, b: AuditRecord): number {
  if (a.at_ms !== b.at_ms) return a.at_ms - b.at_ms;
  if (a.node !== b.node) return a.node < b.node ? -1 : 1;
  return a.lane !== b.lane ? a.lane - b.lane : a.seq - b.seq;
}

/** The requests that the gateway passes to backends: what counts as a call in its figures. */
const CALLS = new Set(["tools/call", "resources/read", "prompts/get", "completion/complete"]);

export function isCall(record: AuditRecord): boolean {
  return CALLS.has(record.method);
}

/** Outcomes that are refusals, whatever the decision says. The figures of the gateway count them in the same way. */
const REFUSALS = new Set(["denied", "rate_limited", "killed", "circuit_open", "overloaded"]);
const FAILURES = new Set(["error", "unknown"]);

export type Ended = "well" | "failed" | "refused";

/** How a request ended, as the figures count it. */
export function endedOf(record: Pick<AuditRecord, "decision" | "outcome">): Ended {
  if (record.decision === "deny" || REFUSALS.has(record.outcome)) return "refused";
  return FAILURES.has(record.outcome) ? "failed" : "well";
}

/** Admin requests that change something though they may have no body. */
const CHANGES = new Set(["admin/reload", "admin/restart", "admin/kill", "admin/revive", "admin/keys/revoke", "admin/audit/verify"]);

/** Records that are left out unless asked for: a page that is open makes some of them each minute, and the audit one each
 *  second. Refusals and changes are none of them. */
export function isBookkeeping(record: AuditRecord): boolean {
  if (record.method === "audit/anchor") return true;
  const isRead = record.surface === "admin" && record.bytes_in === 0 && !CHANGES.has(record.method);
  // A page that is left cancels what it asked.
  return isRead && (record.outcome === "success" || record.outcome === "cancelled");
}

const METHODS: Readonly<Record<string, string>> = {
  initialize: "Opened a session",
  GET: "Read a document",
  POST: "Sent a request",
  DELETE: "Ended a session",
  ping: "Ping",
  "server/discover": "Asked what the gateway offers",
  "tools/list": "Listed tools",
  "resources/list": "Listed resources",
  "resources/templates/list": "Listed resource templates",
  "prompts/list": "Listed prompts",
  "audit/start": "The gateway started",
  "audit/end": "The gateway stopped",
  "audit/gap": "Records were lost",
  "audit/anchor": "Anchor of the chain",
};

/** What a record is about, in a few words: the operation, else what its method means. */
export function subjectOf(record: AuditRecord): string {
  // Requests of HTTP that are none of MCP: signing in to the console, and out of it.
  if (record.surface === "http" && record.method === "POST" && record.operation !== "") return `Signed in: ${record.operation}`;
  if (record.operation !== "") return record.operation;
  return METHODS[record.method] ?? (record.method === "" ? "A request that was not read" : record.method);
}

const OUTCOMES: Readonly<Record<string, string>> = {
  success: "Success",
  error: "Error",
  denied: "Denied",
  rate_limited: "Rate limited",
  killed: "Switched off",
  circuit_open: "Circuit open",
  overloaded: "Overloaded",
  cancelled: "Cancelled",
  input_required: "Asks back",
  intent: "Begun",
  unknown: "End unknown",
};

/** Every outcome, in the order of `OUTCOMES` of the gateway. */
export const OUTCOME_WORDS: readonly (readonly [string, string])[] = Object.entries(OUTCOMES);

export function outcomeWord(record: Pick<AuditRecord, "decision" | "outcome">): string {
  // The gateway refused these before a backend saw them.
  if (record.outcome === "error" && record.decision === "deny") return "Refused";
  return OUTCOMES[record.outcome] ?? record.outcome;
}

export type OutcomeTone = "ok" | "warn" | "error" | "off" | "info";

const TONES: Readonly<Record<string, OutcomeTone>> = {
  success: "ok",
  error: "error",
  denied: "warn",
  rate_limited: "warn",
  killed: "off",
  circuit_open: "error",
  overloaded: "warn",
  cancelled: "off",
  input_required: "info",
  intent: "info",
  unknown: "error",
};

export function outcomeTone(record: Pick<AuditRecord, "decision" | "outcome">): OutcomeTone {
  if (record.outcome === "error" && record.decision === "deny") return "warn";
  return TONES[record.outcome] ?? "off";
}

const SURFACES: Readonly<Record<string, string>> = {
  http: "MCP",
  stdio: "MCP (stdio)",
  rest: "REST",
  rpc: "JSON-RPC",
  admin: "Admin API",
  gateway: "Gateway",
};

export const SURFACE_WORDS: readonly (readonly [string, string])[] = Object.entries(SURFACES);

export function surfaceWord(surface: string): string {
  return SURFACES[surface] ?? surface;
}
