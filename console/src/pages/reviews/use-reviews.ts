// What every part of the page needs: the tools, who acts, diffs, and word of changes.

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Problem, asProblem, isAbort } from "../../api/problem";
import { useSession } from "../../api/session";
import { useQuery } from "../../api/use-query";
import type { PatchFile } from "../../lib/patch/parse";
import { parsePatch } from "../../lib/patch/parse";
import type { Me } from "../../lib/reviews/standing";
import { Reviews, loadTools } from "../../lib/reviews/tools";
import type { Who } from "../../lib/reviews/tools";

const NO_REST = Problem.local("unreadable", "This page needs REST", "The gateway does not serve REST (surfaces.rest = false).", "Agents review over MCP meanwhile.");

export function useReviews(): { reviews: Reviews | undefined; error: Problem | undefined; retry: () => void } {
  const { session } = useSession();
  const { rest } = session.paths;
  const { data, error, refetch } = useQuery(rest === null ? null : `review-tools ${rest}`, () => loadTools(rest ?? ""));
  const reviews = useMemo(() => (data === undefined || rest === null ? undefined : new Reviews(rest, data)), [rest, data]);
  return { reviews, error: rest === null ? NO_REST : error, retry: refetch };
}

const NAME = "sentinel.reviewer";
/** As the tools take it. */
export const NAME_CHARS_MAX = 100;

function storedName(): string {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    // Storage may be off; the name is then kept while the page is open.
    return "";
  }
}

/** The person: the caller with `[auth]`, a name of their own choice without. */
export function useMe(): { me: Me; who: Who; isNamed: boolean; setName: (name: string) => void } {
  const { session, caller } = useSession();
  const [name, keep] = useState(storedName);
  const setName = useCallback((next: string) => {
    const trimmed = next.trim().slice(0, NAME_CHARS_MAX);
    keep(trimmed);
    try {
      localStorage.setItem(NAME, trimmed);
    } catch {
      // As above.
    }
  }, []);
  const isGuarded = session.guarded;
  const subject = caller?.subject ?? "";
  const me = useMemo<Me>(() => ({ subject, isGuarded, name }), [subject, isGuarded, name]);
  const who = useMemo<Who>(() => (isGuarded || name === "" ? {} : { reviewer_id: name }), [isGuarded, name]);
  return { me, who, isNamed: isGuarded || name !== "", setName };
}

/** A key under which the gateway takes a repeated write once: the same until it succeeds or its content changes. */
export function useWriteKey(): { keyOf: (content: string) => string; done: () => void } {
  const held = useRef<{ content: string; key: string } | undefined>(undefined);
  return {
    keyOf: (content) => {
      if (held.current?.content !== content) {
        // `crypto.randomUUID` is missing where the page is not served over TLS or from this machine.
        const bytes = crypto.getRandomValues(new Uint8Array(16));
        held.current = { content, key: `console-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}` };
      }
      return held.current.key;
    },
    done: () => {
      held.current = undefined;
    },
  };
}

export interface LoadedPatch {
  files: readonly PatchFile[];
  preamble: string;
  bytes: number;
}

/** Diffs do not change. The oldest are forgotten: each may be 3 MiB. */
const DIFFS_MAX = 6;
const diffs = new Map<string, LoadedPatch>();

export interface PatchQuery {
  data: LoadedPatch | undefined;
  error: Problem | undefined;
  /** From 0 to 1, while a large one arrives. */
  progress: number;
  retry: () => void;
}

export function usePatch(reviews: Reviews, reviewId: string, patchId: string | undefined): PatchQuery {
  const key = patchId === undefined ? undefined : `${reviewId}/${patchId}`;
  const [state, setState] = useState<{ key: string | undefined; data?: LoadedPatch; error?: Problem; progress: number }>({ key: undefined, progress: 0 });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (key === undefined || patchId === undefined || diffs.has(key)) return;
    const controller = new AbortController();
    setState({ key, progress: 0 });
    reviews
      .diff(reviewId, patchId, controller.signal, (bytes, of) => setState({ key, progress: of === 0 ? 1 : bytes / of }))
      .then((text) => {
        const data = { ...parsePatch(text), bytes: text.length };
        diffs.set(key, data);
        const oldest = diffs.keys().next();
        if (diffs.size > DIFFS_MAX && oldest.done !== true) diffs.delete(oldest.value);
        if (!controller.signal.aborted) setState({ key, data, progress: 1 });
      })
      .catch((error: unknown) => {
        if (!controller.signal.aborted && !isAbort(error)) setState({ key, error: asProblem(error), progress: 0 });
      });
    return () => controller.abort();
  }, [reviews, reviewId, patchId, key, round]);
  const retry = () => setRound(round + 1);
  const kept = key === undefined ? undefined : diffs.get(key);
  if (kept !== undefined) return { data: kept, error: undefined, progress: 1, retry };
  const own = state.key === key ? state : undefined;
  return { data: own?.data, error: own?.error, progress: own?.progress ?? 0, retry };
}

const WAIT_MS = 20_000;
const PAUSE_MIN_MS = 2_000;
const PAUSE_MAX_MS = 15_000;
const SETTLE_MIN_MS = 1_000;

/** Whether changes are heard of as they happen. `poll`: the connection failed, and is tried again. */
export type Following = "live" | "poll";

/** Calls `ask` again and again while the page is visible: it waits at the gateway and says whether something changed. */
export function useFollow(key: string | null, ask: (waitMs: number, signal: AbortSignal) => Promise<boolean>, onChange: () => void): Following {
  const [state, setState] = useState<Following>("live");
  const latest = useRef({ ask, onChange });
  useEffect(() => {
    latest.current = { ask, onChange };
  });
  useEffect(() => {
    if (key === null) return;
    let controller = new AbortController();
    let isOver = false;
    let wake: (() => void) | undefined;
    const pause = (ms: number) =>
      new Promise<void>((resolve) => {
        const timer = window.setTimeout(resolve, ms);
        wake = () => {
          window.clearTimeout(timer);
          resolve();
        };
      });
    // A browser opens few connections to one origin: a page that nobody sees holds none.
    const onVisibility = () => {
      controller.abort();
      wake?.();
    };
    document.addEventListener("visibilitychange", onVisibility);
    const run = async () => {
      let wait = PAUSE_MIN_MS;
      // Until the page shows the change, the gateway answers at once that there is one. Asking again at once would have the
      // page begin to read anew each time, and never finish.
      let settle = SETTLE_MIN_MS;
      while (!isOver) {
        if (document.hidden) {
          await pause(60_000);
          continue;
        }
        controller = new AbortController();
        const began = performance.now();
        try {
          const isChanged = await latest.current.ask(WAIT_MS, controller.signal);
          wait = PAUSE_MIN_MS;
          setState("live");
          if (isChanged) {
            latest.current.onChange();
            await pause(settle);
            settle = Math.min(settle * 2, PAUSE_MAX_MS);
            continue;
          }
          settle = SETTLE_MIN_MS;
          // A gateway that does not wait (too many do, or it shuts down) answers at once.
          if (performance.now() - began < PAUSE_MIN_MS) await pause(PAUSE_MIN_MS);
        } catch (error) {
          if (isOver || isAbort(error)) continue;
          setState("poll");
          await pause(wait);
          wait = Math.min(wait * 2, PAUSE_MAX_MS);
          latest.current.onChange();
        }
      }
    };
    void run();
    return () => {
      isOver = true;
      document.removeEventListener("visibilitychange", onVisibility);
      controller.abort();
      wake?.();
    };
  }, [key]);
  return state;
}
