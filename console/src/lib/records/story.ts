// One call's way through the gateway, as a list of steps with words for each.

import type { OutcomeTone } from "./record";

export type Verdict = "passed" | "refused" | "failed" | "waited" | "skipped" | "not_reached";

export interface StoryStep {
  step: string;
  verdict: Verdict;
  at_us?: number | null;
  took_us?: number | null;
  note?: string | null;
}

export interface TimelineEntry {
  step: string;
  label: string;
  verdict: Verdict;
  verdictWord: string;
  tone: OutcomeTone;
  note: string | undefined;
  atUs: number | undefined;
  tookUs: number | undefined;
}

/** The steps of the walk, by the names that the gateway has for them (`core::audit::story`). */
const LABELS: Readonly<Record<string, string>> = {
  resolve: "Find the operation",
  authorize: "May the caller use it?",
  kill: "Is it switched on?",
  limit: "Within the rate limit?",
  arguments: "Do the arguments fit the schema?",
  confirm: "Is a confirmation needed?",
  recall: "Is an answer cached?",
  circuit: "Is the backend's circuit closed?",
  admit: "Wait for a place",
  intend: "Write the intent to disk",
  backend: "Call the backend",
};

const VERDICTS: Readonly<Record<Verdict, readonly [string, OutcomeTone]>> = {
  passed: ["Passed", "ok"],
  refused: ["Ended here", "error"],
  failed: ["Failed here", "error"],
  waited: ["Passed after a wait", "info"],
  skipped: ["Not needed", "off"],
  not_reached: ["Not reached", "off"],
};

export function timeline(steps: readonly StoryStep[]): TimelineEntry[] {
  return steps.map(({ step, verdict, at_us, took_us, note }) => {
    const [verdictWord, tone] = VERDICTS[verdict] ?? [verdict, "off"];
    return {
      step,
      label: LABELS[step] ?? step,
      verdict,
      verdictWord,
      tone,
      note: note ?? undefined,
      atUs: at_us ?? undefined,
      tookUs: took_us ?? undefined,
    };
  });
}

/** Where the time of a call went, as parts of the whole; parts that are not known are left out. */
export interface TimeParts {
  queueUs: number;
  backendUs: number;
  gatewayUs: number;
}

/** A shorter time in the queue is that of looking whether there is one. */
const QUEUE_MIN_US = 1_000;

export function timeParts(latencyUs: number, waitedUs: number | null | undefined, backendUs: number | null | undefined): TimeParts | undefined {
  if (backendUs === null || backendUs === undefined || latencyUs <= 0) return undefined;
  const waited = waitedUs ?? 0;
  const queue = waited < QUEUE_MIN_US ? 0 : Math.min(waited, latencyUs);
  const backend = Math.min(backendUs, latencyUs - queue);
  return { queueUs: queue, backendUs: backend, gatewayUs: latencyUs - queue - backend };
}
