// The worker as functions.

import type { Analysis } from "./shapes";
import type { Answered, Asked } from "./worker";

type WithoutId<T> = T extends unknown ? Omit<T, "id"> : never;

export class Analyser {
  private readonly worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  private readonly waiting = new Map<number, (answer: Answered) => void>();
  private last = 0;

  constructor() {
    this.worker.addEventListener("message", ({ data }: MessageEvent<Answered>) => {
      this.waiting.get(data.id)?.(data);
      this.waiting.delete(data.id);
    });
    this.worker.addEventListener("error", (event) => {
      for (const [id, done] of this.waiting) done({ id, kind: "failed", message: event.message || "The worker did not start." });
      this.waiting.clear();
    });
  }

  private ask(message: WithoutId<Asked>): Promise<Answered> {
    const id = (this.last += 1);
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.worker.postMessage({ ...message, id });
    });
  }

  /** `text`: the catalog as it came. */
  async analyse(text: string): Promise<{ analysis: Analysis; tookMs: number }> {
    const answer = await this.ask({ kind: "analyse", text });
    if (answer.kind === "analysis") return answer;
    throw new Error(answer.kind === "failed" ? answer.message : "unexpected answer");
  }

  async texts(shapes: string[]): Promise<(string | undefined)[]> {
    const answer = await this.ask({ kind: "texts", shapes });
    return answer.kind === "texts" ? answer.texts : [];
  }

  end(): void {
    this.worker.terminate();
  }
}
