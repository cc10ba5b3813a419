// Light, dark, or as the system has it. `public/theme.js` applies the remembered choice before the first paint.

import { useSyncExternalStore } from "react";

export type ThemeChoice = "system" | "light" | "dark";

const KEY = "sentinel.theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function notify(): void {
  listeners.forEach((listener) => listener());
}

dark.addEventListener("change", notify);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function choice(): ThemeChoice {
  const theme = document.documentElement.dataset["theme"];
  return theme === "light" || theme === "dark" ? theme : "system";
}

export function setThemeChoice(theme: ThemeChoice): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  try {
    if (theme === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Storage may be denied: the choice lasts as long as the page.
  }
  notify();
}

export function useThemeChoice(): ThemeChoice {
  return useSyncExternalStore(subscribe, choice);
}

/** What is shown. */
export function useTheme(): "light" | "dark" {
  return useSyncExternalStore(subscribe, () => {
    const chosen = choice();
    return chosen === "system" ? (dark.matches ? "dark" : "light") : chosen;
  });
}
