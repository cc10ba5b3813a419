// What a page asks the gateway: kept while it is asked again, so that no spinner replaces what is known.

import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { asProblem, isAbort } from "./problem";
import type { Problem } from "./problem";

/** Answers that stay known when a page is left; the oldest are forgotten. */
const KNOWN_MAX = 64;
const known = new Map<string, unknown>();

function remember(key: string, data: unknown): void {
  known.delete(key);
  known.set(key, data);
  const oldest = known.keys().next();
  if (known.size > KNOWN_MAX && oldest.done !== true) known.delete(oldest.value);
}

// A new epoch makes every query ask again, in place: the gateway restarted, or was away.
let epoch = 0;
const listeners = new Set<() => void>();

/** Forgets what pages that are not shown knew. */
export function forgetAll(): void {
  known.clear();
}

/** Makes every mounted query ask again, and forgets what pages that are not shown knew. */
export function refetchAll(): void {
  forgetAll();
  epoch += 1;
  listeners.forEach((listener) => listener());
}

function useEpoch(): number {
  const subscribe = useCallback((listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return useSyncExternalStore(subscribe, () => epoch);
}

export interface Query<T> {
  /** The last answer; kept while the next one is asked for. */
  data: T | undefined;
  /** Why the last attempt failed. `data` may be older than this. */
  error: Problem | undefined;
  /** Nothing is known yet. */
  isLoading: boolean;
  isFetching: boolean;
  /** When `data` arrived. */
  at: number | undefined;
  refetch: () => void;
  /** Replaces the answer, with that of a change for example. */
  setData: (data: T) => void;
}

export interface QueryOptions {
  /** Asks again this often while the page is visible. */
  everyMs?: number;
}

interface Held<T> {
  key: string | null;
  data: T | undefined;
  error: Problem | undefined;
  isFetching: boolean;
  at: number | undefined;
}

/** Asks by `load` whenever `key` changes. `null` asks nothing. The key must name everything that `load` depends on. */
export function useQuery<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>, options: QueryOptions = {}): Query<T> {
  const first = (): Held<T> => ({
    key,
    data: key === null ? undefined : (known.get(key) as T | undefined),
    error: undefined,
    isFetching: key !== null,
    at: undefined,
  });
  const [held, setHeld] = useState<Held<T>>(first);
  const [round, setRound] = useState(0);
  const current = useEpoch();
  const latest = useRef(load);
  useEffect(() => {
    latest.current = load;
  });
  // The answer to another key is not shown for this one.
  const shown = held.key === key ? held : first();

  useEffect(() => {
    if (key === null) return;
    const controller = new AbortController();
    setHeld((before) => (before.key === key ? { ...before, isFetching: true } : { ...first() }));
    latest.current(controller.signal).then(
      (data) => {
        if (controller.signal.aborted) return;
        remember(key, data);
        setHeld({ key, data, error: undefined, isFetching: false, at: Date.now() });
      },
      (error: unknown) => {
        if (controller.signal.aborted || isAbort(error)) return;
        setHeld((before) => ({ ...before, key, error: asProblem(error), isFetching: false }));
      },
    );
    return () => controller.abort();
  }, [key, round, current]);

  const refetch = useCallback(() => setRound((before) => before + 1), []);
  const { everyMs } = options;
  useEffect(() => {
    if (everyMs === undefined || key === null) return;
    const timer = window.setInterval(() => {
      if (!document.hidden) refetch();
    }, everyMs);
    return () => window.clearInterval(timer);
  }, [everyMs, key, refetch]);

  const setData = useCallback(
    (data: T) => {
      if (key === null) return;
      remember(key, data);
      setHeld({ key, data, error: undefined, isFetching: false, at: Date.now() });
    },
    [key],
  );

  return {
    data: shown.data,
    error: shown.error,
    isLoading: shown.data === undefined && shown.error === undefined && key !== null,
    isFetching: shown.isFetching,
    at: shown.at,
    refetch,
    setData,
  };
}

export interface Action<A extends unknown[], R> {
  /** Resolves to `undefined` when it failed; `error` says why. */
  run: (...args: A) => Promise<R | undefined>;
  isRunning: boolean;
  error: Problem | undefined;
  reset: () => void;
}

/** Something that a button does. A second run while one is under way is ignored. */
export function useAction<A extends unknown[], R>(perform: (...args: A) => Promise<R>): Action<A, R> {
  const [state, setState] = useState<{ isRunning: boolean; error: Problem | undefined }>({ isRunning: false, error: undefined });
  const running = useRef(false);
  const latest = useRef(perform);
  useEffect(() => {
    latest.current = perform;
  });
  const run = useCallback(async (...args: A) => {
    if (running.current) return undefined;
    running.current = true;
    setState({ isRunning: true, error: undefined });
    try {
      const result = await latest.current(...args);
      setState({ isRunning: false, error: undefined });
      return result;
    } catch (error) {
      setState({ isRunning: false, error: isAbort(error) ? undefined : asProblem(error) });
      return undefined;
    } finally {
      running.current = false;
    }
  }, []);
  const reset = useCallback(() => setState({ isRunning: false, error: undefined }), []);
  return { run, ...state, reset };
}
