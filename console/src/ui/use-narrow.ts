import { useSyncExternalStore } from "react";

const narrow = window.matchMedia("(max-width: 600px)");

function subscribe(listener: () => void): () => void {
  narrow.addEventListener("change", listener);
  return () => narrow.removeEventListener("change", listener);
}

/** Whether the screen is that of a phone: tables are cards, and there is one column. */
export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => narrow.matches);
}
