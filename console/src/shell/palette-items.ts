// What the command palette offers: pages and actions of the shell, what `pages/*/palette.ts` load, and what the page that
// is shown adds by `usePaletteSource`.

import { useEffect, useRef } from "react";
import type { Session } from "../api/session";

export interface PaletteItem {
  id: string;
  /** What it is found by. It may be text that others wrote. */
  label: string;
  /** What it is: `Page`, `Tool`, `Backend`, `Caller`, `Review`, `Action`. */
  kind: string;
  hint?: string;
  keywords?: string;
  /** One of the two: where it leads, below `/console`, or what it does. */
  href?: string;
  run?: () => void;
}

/** Of one source; a catalog of 5,000 tools fits. */
export const SOURCE_ITEMS_MAX = 10_000;

export interface PaletteLoadContext {
  signal: AbortSignal;
  session: Session;
  isAdmin: boolean;
}

/** The default export of `pages/<page>/palette.ts`: asked each time that the palette opens. */
export type PaletteLoader = (context: PaletteLoadContext) => Promise<PaletteItem[]>;

const loaders = import.meta.glob<{ default: PaletteLoader }>("../pages/*/palette.ts");

/** The items of every page that has some. A source that fails is left out: the palette still leads to the rest. */
export function loadSources(context: PaletteLoadContext, onItems: (source: string, items: PaletteItem[]) => void): void {
  for (const [path, load] of Object.entries(loaders)) {
    load()
      .then((module) => module.default(context))
      .then((items) => {
        if (!context.signal.aborted) onItems(path, items.slice(0, SOURCE_ITEMS_MAX));
      })
      .catch((error: unknown) => {
        if (!context.signal.aborted) console.warn(`the palette has nothing of ${path}`, error);
      });
  }
}

const sources = new Map<string, { current: () => PaletteItem[] }>();

/** Adds items while the component is mounted. `items` is called when the palette opens. */
export function usePaletteSource(id: string, items: () => PaletteItem[]): void {
  const latest = useRef(items);
  useEffect(() => {
    latest.current = items;
  });
  useEffect(() => {
    sources.set(id, latest);
    return () => {
      if (sources.get(id) === latest) sources.delete(id);
    };
  }, [id]);
}

export function pageItems(): PaletteItem[] {
  return [...sources.values()].flatMap((source) => source.current().slice(0, SOURCE_ITEMS_MAX));
}
