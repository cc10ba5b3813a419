// What happened in a request, why, and what to do about it, in sentences.
//
// The gateway explains every code of a refusal at `/problems`; what is added here is what only the record tells: who
// refused, whether a backend saw the call, and which page of the console helps.

import type { AuditRecord } from "./record";
import { endedOf, isCall } from "./record";

/** An entry of `/problems`. */
export interface Advice {
  code: string;
  title: string;
  meaning: string;
  hint: string;
}

export interface Step {
  label: string;
  /** Below `/console`. */
  href: string;
}

export interface Explanation {
  title: string;
  /** One sentence or two. */
  what: string;
  /** What to do; empty where there is nothing. */
  todo: string;
  /** The code that `/problems` explains. */
  code: string | undefined;
  next: Step[];
}

export type AdviceTable = ReadonlyMap<string, Advice>;

/** Reads the answer of `/problems`; what does not look like it is left out. */
export function adviceTable(answer: unknown): AdviceTable {
  const table = new Map<string, Advice>();
  const list = (answer as { problems?: unknown } | null)?.problems;
  if (!Array.isArray(list)) return table;
  for (const each of list as Partial<Advice>[]) {
    if (typeof each?.code !== "string") continue;
    const { code, title = code, meaning = "", hint = "" } = each;
    table.set(code, { code, title, meaning, hint });
  }
  return table;
}

/** Kinds where nobody refused: a backend was asked, and failed. */
const OF_BACKENDS = new Set(["backend_error", "tool_error", "backend_unavailable", "backend_timeout", "backend_bad_reply"]);

/** Kinds of errors that the backend itself answered with. */
const TOLD_BY_BACKENDS = new Set(["backend_error", "tool_error"]);

/** What an operator can do, where the hint of `/problems` speaks to the caller. */
const FOR_OPERATORS: Readonly<Record<string, string>> = {
  forbidden: "Give the caller a role that allows it, if it should.",
  disabled: "Switch it on again under Switches, or approve its changed definition under Pins.",
  rate_limited: "The caller waits, or the limit is raised in the configuration.",
  overloaded: "The caller tries again with fewer calls at once, or more places are configured.",
  circuit_open: "Look at the backend: it gets calls again when it recovers.",
  backend_unavailable: "Look at the backend: its last error says why.",
  backend_timeout: "If it happens often, look at the backend, or raise its timeout in the configuration.",
  unauthorized: "The caller needs a key or token that is valid and has not expired.",
};

export function explain(record: AuditRecord, advice: AdviceTable): Explanation {
  const code = record.kind === "" || record.kind === "replayed" ? undefined : record.kind;
  const known = code === undefined ? undefined : advice.get(code);
  const away = turnedAway(record);
  const first = away === undefined ? lead(record) : leadOfMany(away);
  const said: Pick<Explanation, "title" | "what" | "todo"> = special(record) ?? {
    title: known?.title ?? code ?? "Answered",
    what: [first, known?.meaning].filter(Boolean).join(" "),
    todo: (code === undefined ? undefined : FOR_OPERATORS[code]) ?? known?.hint ?? "",
  };
  return { ...said, code: known?.code, next: nextSteps(record) };
}

function lead(record: AuditRecord): string {
  if (record.outcome === "cancelled") return "The caller left, or cancelled the call, before it ended.";
  switch (endedOf(record)) {
    case "refused":
      return isCall(record) ? "The gateway did not let the call through; no backend ran it." : "The gateway refused the request.";
    case "failed":
      if (OF_BACKENDS.has(record.kind)) return "The gateway let the call through, and it failed at its backend.";
      return isCall(record) ? "The call failed." : "The request failed.";
    case "well":
      return isCall(record) ? "The gateway let the call through, and the backend answered." : "The request was answered.";
  }
}

/** Requests that were refused unread are counted by address and second: `{"address":"10.0.0.1","count":12}`. */
function turnedAway(record: AuditRecord): { address: string; count: number } | undefined {
  if (record.method !== "" || typeof record.args !== "object" || record.args === null) return undefined;
  const { address, count } = record.args as { address?: unknown; count?: unknown };
  return typeof address === "string" && typeof count === "number" ? { address, count } : undefined;
}

function leadOfMany({ address, count }: { address: string; count: number }): string {
  return count === 1 ? `A request from ${address} was refused before it was read.` : `${count} requests from ${address} were refused before they were read.`;
}

/** What the record's outcome or method says by itself. */
function special(record: AuditRecord): Pick<Explanation, "title" | "what" | "todo"> | undefined {
  if (record.kind === "replayed") {
    const title = record.outcome === "success" ? "Answered again" : "Answered again, with an error";
    return { title, what: "The answer to an earlier request with the same idempotency key was sent again. No call was made.", todo: "" };
  }
  switch (record.method) {
    case "audit/start":
      return { title: "The gateway started", what: "A run of the gateway began to write records.", todo: "" };
    case "audit/end":
      return { title: "The gateway stopped", what: "A run of the gateway ended in order.", todo: "" };
    case "audit/anchor":
      return { title: "Anchor of the chain", what: "It repeats how far the chains had come, so that a chain that is cut short is noticed.", todo: "" };
    case "audit/gap":
      return {
        title: "Records were lost",
        what: "The records between these two numbers could not be kept, and the gateway says so here.",
        todo: "See whether the disk was full or the store was away for long.",
      };
  }
  if (record.outcome === "error" && record.decision !== "deny" && TOLD_BY_BACKENDS.has(record.kind)) {
    return {
      title: "The tool reports an error",
      what: "The gateway let the call through, and the tool or its backend answered with an error. What it said went to the caller; it is not on record.",
      todo: "Make the call again in the inspector to read what it says.",
    };
  }
  switch (record.outcome) {
    case "success":
      return { title: "Success", what: lead(record), todo: "" };
    case "input_required":
      return {
        title: "Asked back",
        what: "The call stopped to ask its caller for something.",
        todo: "The caller answers and the call goes on; that has a record of its own.",
      };
    case "intent":
      return { title: "Begun", what: "The call was about to be passed to its backend. How it ended is in a record of its own.", todo: "" };
    case "unknown":
      return {
        title: "End unknown",
        what: "The call was passed to its backend, and the gateway stopped before it knew how it ended.",
        todo: "Find out at the backend whether the call took effect before it is made again.",
      };
  }
  return undefined;
}

function nextSteps(record: AuditRecord): Step[] {
  const backend: Step[] = record.backend === "" ? [] : [{ label: "Look at the backend", href: `/backends/${encodeURIComponent(record.backend)}` }];
  switch (record.kind) {
    case "forbidden":
    case "unknown_name": {
      if (record.operation === "" || record.caller === "") return [];
      const query = new URLSearchParams({ tab: "why", operation: record.operation, caller: record.caller });
      const why: Step = { label: "Why may this caller not call it?", href: `/access?${query}` };
      return record.kind === "forbidden" ? [why] : [{ label: "Search the catalog", href: `/catalog?${new URLSearchParams({ q: record.operation })}` }, why];
    }
    case "disabled":
      return [
        { label: "Open the switches", href: "/switches" },
        { label: "Open the pins", href: "/pins" },
      ];
    case "rate_limited":
    case "overloaded":
      return [{ label: "See the limits", href: "/limits" }];
    case "unauthorized":
      return [{ label: "See the keys", href: "/keys" }];
    case "circuit_open":
    case "backend_unavailable":
    case "backend_busy":
    case "backend_timeout":
    case "backend_bad_reply":
      return backend;
    default:
      return [];
  }
}

/** Something that is switched off at run time. */
export interface Switch {
  scope: string;
  name?: string | null;
  reason?: string | null;
}

/** What is switched off now that refuses such a call. A tool is named as it is merged, or as `<backend>.<pattern>`. */
export function switchesOf(record: AuditRecord, killed: readonly Switch[]): Switch[] {
  const { backend, caller, operation } = record;
  const own = operation.startsWith(`${backend}__`) ? operation.slice(backend.length + 2) : operation;
  return killed.filter(({ scope, name }) => {
    if (scope === "all") return true;
    if (!name) return false;
    if (scope === "backend") return name === backend;
    if (scope === "caller") return name === caller;
    if (scope !== "tool") return false;
    const ofBackend = backend !== "" && name.startsWith(`${backend}.`);
    return name === operation || (ofBackend && fits(name.slice(backend.length + 1), own));
  });
}

/** Whether a pattern, in which `*` stands for anything, is that of a name. */
function fits(pattern: string, name: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  if (rest.length === 0) return pattern === name;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  const last = rest.pop() ?? "";
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}

/** Why a record has no arguments, or not all of them. */
export function argumentsNote(record: AuditRecord): string | undefined {
  if (record.args !== null && record.args !== undefined) {
    const why = leftOut(record.args);
    if (why === "too long") return "The arguments are longer than what is recorded (256 KiB). Their digest is.";
    if (why !== undefined) return "The arguments were no valid JSON and could not be redacted, so they are not recorded. Their digest is.";
    return isRedacted(record.args) ? "Secrets are left out: each [redacted] stands for one." : undefined;
  }
  if (record.args_digest === EMPTY_OBJECT_DIGEST) return "Only the digest is recorded, and it is that of the empty object.";
  if (typeof record.args_digest === "string") {
    return "Only the digest of the arguments is recorded. With [audit] arguments = \"redacted\" or \"full\" later records have them.";
  }
  return isCall(record) ? "Nothing of the arguments is on record: the request had none, or [audit] arguments is off." : undefined;
}

/** SHA-256 of `{}`. */
export const EMPTY_OBJECT_DIGEST = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

/** What stands for arguments that were not recorded: `{"left_out":"too long"}`. */
export function leftOut(args: unknown): string | undefined {
  if (typeof args !== "object" || args === null || Object.keys(args).length !== 1) return undefined;
  const why = (args as Record<string, unknown>)["left_out"];
  return why === "too long" || why === "unreadable" ? why : undefined;
}

/** Deeper arguments are not looked through; the gateway records none that are. */
const DEPTH_MAX = 200;

export function isRedacted(value: unknown, depth = 0): boolean {
  // Also within a text: user and password of a URL.
  if (typeof value === "string") return value.includes("[redacted]");
  if (typeof value !== "object" || value === null || depth > DEPTH_MAX) return false;
  return Object.values(value).some((inner) => isRedacted(inner, depth + 1));
}
