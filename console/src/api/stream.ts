// Server-sent events by `fetch`, since `EventSource` cannot send the header of the console.
//
// `openStream` connects, reads, and connects again with a backoff until its signal aborts. Events are handed over in
// batches, one per chunk that arrived. Not here: what a page does with them, and how many it keeps.

import { useEffect, useRef, useState } from "react";
import { request } from "./client";
import { EventParser } from "./event-parser";
import type { ServerEvent } from "./event-parser";
import { Problem, asProblem, isAbort } from "./problem";

export type { ServerEvent };

/** `connecting`: the first attempt. `offline`: it was lost, or never there, and is tried again. `closed`: it will not be tried again. */
export type StreamState = "connecting" | "live" | "offline" | "closed";

/** Reconnect backoff: doubles from the one to the other. */
const PAUSE_MIN_MS = 500;
const PAUSE_MAX_MS = 15_000;
/** Answers of these statuses stay the same however often they are asked for. */
const FINAL = new Set([400, 401, 403, 404, 405, 406, 422]);
/** Events that a page has not taken yet, while it is hidden or busy. The oldest are dropped. */
const PENDING_MAX = 5_000;

export interface StreamOptions {
  signal: AbortSignal;
  onEvents: (events: ServerEvent[]) => void;
  onState?: (state: StreamState, problem: Problem | undefined) => void;
  /** Gives the connection up when nothing arrives for so long. Without it, as long as it is open. */
  silenceMaxMs?: number;
  init?: RequestInit;
  /** Does not connect again after the end. */
  once?: boolean;
}

/** Reads one connection to its end. */
async function readOnce(path: string, options: StreamOptions, onOpen: () => void): Promise<void> {
  const inner = new AbortController();
  const abort = () => inner.abort();
  options.signal.addEventListener("abort", abort);
  let timer: number | undefined;
  const heard = () => {
    window.clearTimeout(timer);
    if (options.silenceMaxMs !== undefined) timer = window.setTimeout(abort, options.silenceMaxMs);
  };
  try {
    heard();
    const headers = new Headers(options.init?.headers);
    if (!headers.has("Accept")) headers.set("Accept", "text/event-stream");
    const response = await request(path, { ...options.init, headers, signal: inner.signal, cache: "no-store" });
    const body = response.body;
    const isStream = (response.headers.get("content-type") ?? "").startsWith("text/event-stream");
    if (body === null || !isStream) {
      await body?.cancel();
      throw Problem.local("unreadable", "This is no stream", `${path} answered something else.`, "Reload the page.");
    }
    onOpen();
    const parser = new EventParser();
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const events = parser.push(value);
      if (events.length > 0) options.onEvents(events);
    }
  } finally {
    window.clearTimeout(timer);
    options.signal.removeEventListener("abort", abort);
    inner.abort();
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      window.clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = window.setTimeout(done, ms);
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}

/** Reads a stream until the signal aborts, or an answer says that it makes no sense to go on. */
export async function openStream(path: string, options: StreamOptions): Promise<void> {
  const { signal, onState } = options;
  onState?.("connecting", undefined);
  let wait = PAUSE_MIN_MS;
  while (!signal.aborted) {
    let problem: Problem | undefined;
    try {
      await readOnce(path, options, () => {
        wait = PAUSE_MIN_MS;
        onState?.("live", undefined);
      });
    } catch (error) {
      if (!isAbort(error)) problem = asProblem(error);
    }
    if (signal.aborted) return;
    if (options.once === true || (problem !== undefined && FINAL.has(problem.status))) {
      onState?.("closed", problem);
      return;
    }
    onState?.("offline", problem);
    // Jitter, so that pages do not all come back at once after a restart.
    await pause(wait * (0.75 + Math.random() / 2), signal);
    wait = Math.min(wait * 2, PAUSE_MAX_MS);
  }
}

export interface StreamStatus {
  state: StreamState;
  problem: Problem | undefined;
}

export interface UseStreamOptions {
  /** The events of a frame, oldest first. `dropped` counts those that were not taken in time. */
  onEvents: (events: ServerEvent[], dropped: number) => void;
  silenceMaxMs?: number;
}

/** Reads a stream while the component is mounted and `path` is not `null`. Events are handed over once a frame. */
export function useStream(path: string | null, options: UseStreamOptions): StreamStatus {
  const [status, setStatus] = useState<StreamStatus>({ state: "connecting", problem: undefined });
  const latest = useRef(options);
  useEffect(() => {
    latest.current = options;
  });
  const { silenceMaxMs } = options;
  useEffect(() => {
    if (path === null) return;
    const controller = new AbortController();
    let pending: ServerEvent[] = [];
    let dropped = 0;
    let frame = 0;
    const flush = () => {
      frame = 0;
      const [events, lost] = [pending, dropped];
      pending = [];
      dropped = 0;
      latest.current.onEvents(events, lost);
    };
    void openStream(path, {
      signal: controller.signal,
      ...(silenceMaxMs === undefined ? {} : { silenceMaxMs }),
      onState: (state, problem) => setStatus({ state, problem }),
      onEvents: (events) => {
        pending = pending.length === 0 ? events : pending.concat(events);
        if (pending.length > PENDING_MAX) {
          dropped += pending.length - PENDING_MAX;
          pending = pending.slice(-PENDING_MAX);
        }
        // A hidden page gets no frames: what arrives waits until it is seen.
        if (frame === 0) frame = requestAnimationFrame(flush);
      },
    });
    return () => {
      controller.abort();
      cancelAnimationFrame(frame);
    };
  }, [path, silenceMaxMs]);
  return status;
}
