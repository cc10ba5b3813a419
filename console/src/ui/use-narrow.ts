// What of the size of the screen cannot be said in a style sheet.

import { useCallback, useSyncExternalStore } from "react";

/** Whether a media query holds. */
export function useMedia(query: string): boolean {
  const subscribe = useCallback(
    (listener: () => void) => {
      const media = window.matchMedia(query);
      media.addEventListener("change", listener);
      return () => media.removeEventListener("change", listener);
    },
    [query],
  );
  return useSyncExternalStore(subscribe, () => window.matchMedia(query).matches);
}

/** Whether the screen is that of a phone: tables are cards, and there is one column. */
export function useNarrow(): boolean {
  return useMedia("(max-width: 600px)");
}
