// What the gateway says of a text, a moment after it changed.

import { useEffect, useState } from "react";
import { asProblem, isAbort } from "../../api/problem";
import type { Problem } from "../../api/problem";
import { checkConfig } from "../../lib/control/contract";
import type { Checked, ConfigMistake } from "../../lib/control/contract";

export interface Check {
  /** Of the newest text that was checked; `undefined` until the first answer. */
  checked: Checked | undefined;
  error: Problem | undefined;
  /** The text is newer than the answer. */
  isChecking: boolean;
}

/** After the last key. */
const CHECK_AFTER_MS = 350;

export function useCheck(text: string | undefined): Check {
  const [check, setCheck] = useState<Check>({ checked: undefined, error: undefined, isChecking: true });
  useEffect(() => {
    if (text === undefined) return;
    const controller = new AbortController();
    setCheck((before) => ({ ...before, isChecking: true }));
    const timer = window.setTimeout(() => {
      checkConfig(text, controller.signal).then(
        (checked) => setCheck({ checked, error: undefined, isChecking: false }),
        (error: unknown) => {
          if (!isAbort(error)) setCheck({ checked: undefined, error: asProblem(error), isChecking: false });
        },
      );
    }, CHECK_AFTER_MS);
    return () => {
      window.clearTimeout(timer);
      controller.abort();
    };
  }, [text]);
  return check;
}

/** The mistakes that a refused reload lists, where it does. */
export function mistakesOf(problem: Problem): ConfigMistake[] {
  const all = problem.document["mistakes"];
  if (!Array.isArray(all)) return [];
  const isMistake = (each: unknown): each is Partial<ConfigMistake> & { message: string } =>
    typeof each === "object" && each !== null && typeof (each as ConfigMistake).message === "string";
  return all.filter(isMistake).map(({ message, key = null, line = null, column = null, suggestion = null }) => ({ message, key, line, column, suggestion }));
}
