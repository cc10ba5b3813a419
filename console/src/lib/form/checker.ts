// Checks values against a schema in a worker of its own, for a bounded time each.

import type { Checked } from "./check";
import type { CheckRequest } from "./check.worker";

/** A check that takes longer is ended; the gateway has a limit of its own. */
const CHECK_MS_MAX = 1_500;
/** The first one also loads and reads. */
const FIRST_MS_MAX = 4_000;
/** A schema that was too slow so often is not tried again. */
const FAILURES_MAX = 2;
/** Larger schemas and values are checked by the gateway only. */
const CHARS_MAX = 1 << 20;

const TOO_SLOW: Checked = { issues: [], notes: ["This schema takes too long to check in the page; only the gateway checks it."] };
const TOO_LARGE: Checked = { issues: [], notes: ["This is too large to check in the page; only the gateway checks it."] };

export class SchemaChecker {
  private worker: Worker | undefined;
  private failures = 0;
  private next = 0;
  private pending: { id: number; resolve: (checked: Checked) => void; timer: number } | undefined;

  constructor(private readonly schema: string) {}

  /** The last check wins: one that is asked for before the one before has ended replaces it. */
  async check(value: string): Promise<Checked | undefined> {
    if (this.schema.length > CHARS_MAX || value.length > CHARS_MAX) return TOO_LARGE;
    if (this.failures >= FAILURES_MAX) return TOO_SLOW;
    const { pending } = this;
    if (pending !== undefined) this.stop();
    const isFirst = this.worker === undefined;
    const worker = (this.worker ??= this.start());
    const id = this.next++;
    const asked: CheckRequest = { id, value, ...(isFirst && { schema: this.schema }) };
    return new Promise((resolve) => {
      const timer = window.setTimeout(
        () => {
          this.failures += 1;
          this.stop();
          resolve(TOO_SLOW);
        },
        isFirst ? FIRST_MS_MAX : CHECK_MS_MAX,
      );
      this.pending = { id, timer, resolve: resolve as (checked: Checked) => void };
      worker.postMessage(asked);
    });
  }

  close(): void {
    this.stop();
  }

  private start(): Worker {
    const worker = new Worker(new URL("./check.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<{ id: number; checked: Checked }>) => this.finish(data.id, data.checked);
    worker.onerror = () => {
      this.failures = FAILURES_MAX;
      const { pending } = this;
      this.stop();
      pending?.resolve(TOO_SLOW);
    };
    return worker;
  }

  private finish(id: number, checked: Checked): void {
    const { pending } = this;
    if (pending?.id !== id) return;
    window.clearTimeout(pending.timer);
    this.pending = undefined;
    this.failures = 0;
    pending.resolve(checked);
  }

  private stop(): void {
    window.clearTimeout(this.pending?.timer);
    const { pending } = this;
    this.pending = undefined;
    this.worker?.terminate();
    this.worker = undefined;
    // Nobody waits for an answer that another has replaced.
    (pending?.resolve as ((checked: undefined) => void) | undefined)?.(undefined);
  }
}
