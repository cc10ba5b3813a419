// Finds shapes beside the page, which stays usable meanwhile.

import { ShapeIndex } from "./shapes";
import type { Analysis, Catalog } from "./shapes";

export type Asked = { id: number } & ({ kind: "analyse"; text: string } | { kind: "texts"; shapes: string[] });
export type Answered = { id: number } & ({ kind: "analysis"; analysis: Analysis; tookMs: number } | { kind: "texts"; texts: (string | undefined)[] } | { kind: "failed"; message: string });

let index = new ShapeIndex();

self.addEventListener("message", ({ data }: MessageEvent<Asked>) => {
  const reply = (answer: Answered) => self.postMessage(answer);
  try {
    if (data.kind === "texts") {
      reply({ id: data.id, kind: "texts", texts: data.shapes.map((shape) => index.textOf(shape)) });
      return;
    }
    const began = performance.now();
    index = new ShapeIndex();
    index.add(JSON.parse(data.text) as Catalog);
    reply({ id: data.id, kind: "analysis", analysis: index.analysis(), tookMs: performance.now() - began });
  } catch (error) {
    reply({ id: data.id, kind: "failed", message: error instanceof Error ? error.message : String(error) });
  }
});
