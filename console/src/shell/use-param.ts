// State that is part of the address, so that a link shows the same to somebody else.

import { useCallback } from "react";
import { useSearchParams } from "wouter";

export interface SetParamOptions {
  /** Adds a step to the history, so that "back" undoes it. By default the address is replaced. */
  push?: boolean;
}

/** One parameter of the query string. The empty string removes it. */
export function useParam(name: string, fallback = ""): [string, (value: string, options?: SetParamOptions) => void] {
  const [params, setParams] = useSearchParams();
  const set = useCallback(
    (value: string, options: SetParamOptions = {}) => {
      setParams(
        (before) => {
          const next = new URLSearchParams(before);
          if (value === "" || value === fallback) next.delete(name);
          else next.set(name, value);
          return next;
        },
        { replace: options.push !== true },
      );
    },
    [name, fallback, setParams],
  );
  return [params.get(name) ?? fallback, set];
}

/** Several parameters that change together. */
export function useParamSet(): [URLSearchParams, (changes: Record<string, string>, options?: SetParamOptions) => void] {
  const [params, setParams] = useSearchParams();
  const set = useCallback(
    (changes: Record<string, string>, options: SetParamOptions = {}) => {
      setParams(
        (before) => {
          const next = new URLSearchParams(before);
          for (const [name, value] of Object.entries(changes)) {
            if (value === "") next.delete(name);
            else next.set(name, value);
          }
          return next;
        },
        { replace: options.push !== true },
      );
    },
    [setParams],
  );
  return [params, set];
}
