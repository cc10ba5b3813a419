// A key, or keys pressed together: `<KeyHint keys="mod+k" />`.

import styles from "./key-hint.module.css";

export const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent);

const NAMES: Readonly<Record<string, string>> = {
  mod: isMac ? "⌘" : "Ctrl",
  shift: isMac ? "⇧" : "Shift",
  enter: "↵",
  up: "↑",
  down: "↓",
  esc: "Esc",
};

export function KeyHint({ keys }: { keys: string }) {
  return (
    <span className={styles.hint}>
      {keys.split("+").map((key) => (
        <kbd key={key} className={styles.key}>
          {NAMES[key] ?? key.toUpperCase()}
        </kbd>
      ))}
    </span>
  );
}
