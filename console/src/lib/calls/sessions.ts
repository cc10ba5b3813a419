// The one session of MCP 2025-11-25 that the inspector keeps: opened with the first call that needs it, ended by a button, by
// disuse, or with the page. Servers that keep state for a session show it over several calls.

import { LegacySession } from "../mcp/legacy";
import { SILENT } from "../mcp/types";
import type { CallListener, Send } from "../mcp/types";

/** Nobody has called for so long. */
const IDLE_MS = 5 * 60_000;

export interface OpenSession {
  id: string;
  version: string;
  sinceMs: number;
}

let current: { session: LegacySession; shown: OpenSession } | undefined;
let opening: Promise<LegacySession> | undefined;
let idle: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();
const notified = new Set<(method: string, params: Record<string, unknown>) => void>();

function changed(): void {
  listeners.forEach((listener) => listener());
}

export function subscribeSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function openSession(): OpenSession | undefined {
  return current?.shown;
}

/** Notifications that belong to no call. */
export function onSessionNotification(listener: (method: string, params: Record<string, unknown>) => void): () => void {
  notified.add(listener);
  return () => notified.delete(listener);
}

/** The session that is open, or a new one. */
export async function sessionFor(url: string, send: Send, listener: CallListener, signal: AbortSignal, isAgain: boolean): Promise<LegacySession> {
  clearTimeout(idle);
  idle = setTimeout(() => void endSession(), IDLE_MS);
  if (isAgain) current = undefined;
  if (current !== undefined) return current.session;
  opening ??= LegacySession.open(url, send, listener, signal).finally(() => (opening = undefined));
  const session = await opening;
  if (current === undefined) {
    current = { session, shown: { id: session.id ?? "", version: session.version, sinceMs: Date.now() } };
    session.onNotification = (method, params) => notified.forEach((each) => each(method, params));
    void session.listen(SILENT);
    changed();
  }
  return session;
}

export async function endSession(listener?: CallListener): Promise<void> {
  clearTimeout(idle);
  const ending = current?.session;
  current = undefined;
  changed();
  await ending?.close(listener).catch(() => undefined);
}

if (typeof window !== "undefined") window.addEventListener("pagehide", () => void endSession());
