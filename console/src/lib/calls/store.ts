// One call while it runs and after it: what components show of it.
//
// Servers may say thousands of things a second; what changed is told once a frame, and everything that is kept has a bound.

import type { JsonNode } from "../../ui/json-parse";
import { printJson } from "../../ui/json-parse";
import type { CallListener, LogLine, ProgressNote, Question, Reply, Send, TaskState, WireEntry } from "../mcp/types";
import type { LegacySession } from "../mcp/legacy";
import { runCall } from "./run";
import type { Paths, Target, Way } from "./run";
import type { Outcome } from "./outcome";

const LOGS_MAX = 500;
const WIRE_MAX = 400;

export interface Asking {
  id: number;
  questions: readonly Question[];
  answer: (replies: ReadonlyMap<string, Reply>) => void;
}

export interface Confirming {
  words: string;
  answer: (yes: boolean) => void;
}

export interface Call {
  id: string;
  target: Target;
  way: Way;
  /** JSON of the arguments. */
  input: string;
  startedMs: number;
  endedMs: number | undefined;
  /** Those of the requests that were made, the last is that of the outcome. */
  requestIds: readonly string[];
  progress: ProgressNote | undefined;
  logs: readonly LogLine[];
  logsLeftOut: number;
  wire: readonly WireEntry[];
  wireLeftOut: number;
  task: TaskState | undefined;
  /** What waits for an answer, oldest first. */
  asking: readonly Asking[];
  confirming: Confirming | undefined;
  outcome: Outcome | undefined;
}

export interface Started {
  target: Target;
  input: JsonNode;
  way: Way;
  paths: Paths;
  send: Send;
  session: (listener: CallListener, signal: AbortSignal, again: boolean) => Promise<LegacySession>;
}

let questions = 0;
let calls = 0;

export class CallStore {
  private call: Call | undefined;
  private controller: AbortController | undefined;
  private readonly listeners = new Set<() => void>();
  private isScheduled = false;

  constructor(
    private readonly schedule: (tell: () => void) => void = (tell) => void requestAnimationFrame(tell),
    private readonly onEnd: (call: Call) => void = () => undefined,
  ) {}

  readonly current = (): Call | undefined => this.call;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Begins a call; one that runs is cancelled. */
  start(started: Started): void {
    this.cancel();
    const controller = new AbortController();
    this.controller = controller;
    calls += 1;
    const call: Call = {
      id: `${Date.now()}-${calls}`,
      target: started.target,
      way: started.way,
      input: printJson(started.input),
      startedMs: Date.now(),
      endedMs: undefined,
      requestIds: [],
      progress: undefined,
      logs: [],
      logsLeftOut: 0,
      wire: [],
      wireLeftOut: 0,
      task: undefined,
      asking: [],
      confirming: undefined,
      outcome: undefined,
    };
    this.call = call;
    const change = (changes: (before: Call) => Partial<Call>) => {
      // A call that another one has replaced says nothing any more.
      if (this.call?.id !== call.id) return;
      this.call = { ...this.call, ...changes(this.call) };
      this.tell();
    };
    const { signal } = controller;
    const listener = {
      onWire: (entry: WireEntry) =>
        change(({ wire, wireLeftOut }) => (wire.length < WIRE_MAX ? { wire: [...wire, entry] } : { wire: [...wire.slice(1), entry], wireLeftOut: wireLeftOut + 1 })),
      onProgress: (progress: ProgressNote) => change(() => ({ progress })),
      onLog: (line: LogLine) =>
        change(({ logs, logsLeftOut }) => (logs.length < LOGS_MAX ? { logs: [...logs, line] } : { logs: [...logs.slice(1), line], logsLeftOut: logsLeftOut + 1 })),
      onTask: (task: TaskState) => change(() => ({ task })),
      onRequest: (id: string) => change(({ requestIds }) => ({ requestIds: [...requestIds, id].slice(-20) })),
      ask: (asked: readonly Question[], until: AbortSignal) =>
        new Promise<ReadonlyMap<string, Reply>>((resolve, reject) => {
          questions += 1;
          const id = questions;
          const remove = () => change(({ asking }) => ({ asking: asking.filter((each) => each.id !== id) }));
          const give = () => {
            remove();
            reject(new DOMException("The call was cancelled", "AbortError"));
          };
          if (until.aborted) return give();
          until.addEventListener("abort", give, { once: true });
          const answer = (replies: ReadonlyMap<string, Reply>) => {
            until.removeEventListener("abort", give);
            remove();
            resolve(replies);
          };
          change(({ asking }) => ({ asking: [...asking, { id, questions: asked, answer }] }));
        }),
      confirm: (words: string, until: AbortSignal) =>
        new Promise<boolean>((resolve) => {
          const answer = (yes: boolean) => {
            change(() => ({ confirming: undefined }));
            resolve(yes);
          };
          until.addEventListener("abort", () => answer(false), { once: true });
          change(() => ({ confirming: { words, answer } }));
        }),
    };
    this.tell();
    void runCall({ ...started, listener, signal }).then((outcome) => {
      change(() => ({ outcome, endedMs: Date.now(), asking: [], confirming: undefined }));
      if (this.call?.id === call.id) this.onEnd(this.call);
    });
  }

  cancel(): void {
    this.controller?.abort();
    this.controller = undefined;
  }

  /** Forgets the call that was made. */
  clear(): void {
    this.cancel();
    this.call = undefined;
    this.tell();
  }

  private tell(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    this.schedule(() => {
      this.isScheduled = false;
      this.listeners.forEach((listener) => listener());
    });
  }
}

/** The outcome in a word, for the history. */
export function outcomeWord(outcome: Outcome | undefined): string {
  if (outcome === undefined) return "cancelled";
  if (outcome.kind === "refused") return outcome.refusal.code;
  return outcome.kind === "result" && outcome.isError ? "tool_error" : outcome.kind;
}
