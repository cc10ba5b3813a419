// Calls that were made in this tab: kept in its session storage, so that a reload keeps them and closing the tab forgets them.
//
// Only what was asked and how it ended; results are not kept. Those of another caller are forgotten when somebody else
// signs in.

export interface PastCall {
  id: string;
  atMs: number;
  kind: "tools" | "prompts" | "resources";
  name: string;
  way: string;
  /** JSON of the arguments; `null`: they were too large to keep. */
  input: string | null;
  /** `result`, `tool_error`, `cancelled`, `stopped`, or the code of a refusal. */
  outcome: string;
  durationMs: number;
}

const CALLS_MAX = 60;
/** Arguments of one call. */
const INPUT_CHARS_MAX = 32_000;
/** A tab has 5 MB, which other parts of the page share. */
const STORED_CHARS_MAX = 1_000_000;
const KEY = "sentinel.calls";

/** What of a `Storage` is used. */
export interface Keeper {
  getItem: (key: string) => string | null;
  setItem: (key: string, value: string) => void;
  removeItem: (key: string) => void;
}

interface Stored {
  caller: string;
  calls: PastCall[];
}

function isCall(value: unknown): value is PastCall {
  const call = value as PastCall;
  return typeof call === "object" && call !== null && typeof call.name === "string" && typeof call.atMs === "number" && typeof call.id === "string";
}

/** Newest first. */
export class CallHistory {
  private calls: readonly PastCall[] = [];
  private readonly listeners = new Set<() => void>();

  constructor(
    private readonly keeper: Keeper | undefined,
    private readonly caller: string,
  ) {
    try {
      const stored = JSON.parse(keeper?.getItem(KEY) ?? "null") as Stored | null;
      if (stored?.caller === caller && Array.isArray(stored.calls)) this.calls = stored.calls.filter(isCall).slice(0, CALLS_MAX);
      else keeper?.removeItem(KEY);
    } catch {
      // What cannot be read is not there.
    }
  }

  readonly all = (): readonly PastCall[] => this.calls;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  add(call: PastCall): void {
    const input = call.input !== null && call.input.length > INPUT_CHARS_MAX ? null : call.input;
    this.replace([{ ...call, input }, ...this.calls].slice(0, CALLS_MAX));
  }

  clear(): void {
    this.replace([]);
  }

  private replace(calls: readonly PastCall[]): void {
    this.calls = calls;
    this.keep();
    this.listeners.forEach((listener) => listener());
  }

  private keep(): void {
    let calls = this.calls;
    for (;;) {
      const text = JSON.stringify({ caller: this.caller, calls } satisfies { caller: string; calls: readonly PastCall[] });
      try {
        if (text.length <= STORED_CHARS_MAX) {
          this.keeper?.setItem(KEY, text);
          return;
        }
      } catch {
        // Full, or not allowed: fewer are kept.
      }
      if (calls.length === 0) return;
      calls = calls.slice(0, Math.floor(calls.length / 2));
    }
  }
}
