// Mistakes of a configuration, each with its line and what to write.

import type { ConfigMistake } from "../../lib/control/contract";
import { Words } from "../../lib/control/parts";
import { InlineCode, ToneIcon, formatCount } from "../../ui";
import styles from "./config.module.css";

/** A broken file may have one a line; the first are enough to begin with. */
const SHOWN_MAX = 50;

export function Mistakes({ mistakes, onLine }: { mistakes: readonly ConfigMistake[]; onLine?: (line: number) => void }) {
  return (
    <ul className={styles.mistakes} aria-label="Mistakes">
      {mistakes.slice(0, SHOWN_MAX).map((mistake, index) => (
        <li key={index}>
          <span className={styles.mistakeIcon}>
            <ToneIcon tone="error" />
          </span>
          <div className={styles.mistakeText}>
            <div>
              {mistake.line !== null && (
                <>
                  {onLine === undefined ? (
                    <span>Line {mistake.line}</span>
                  ) : (
                    <button type="button" className={styles.line} onClick={() => onLine(mistake.line ?? 1)}>
                      Line {mistake.line}
                    </button>
                  )}{" "}
                </>
              )}
              {(mistake.key ?? "") !== "" && <InlineCode>{mistake.key ?? ""}</InlineCode>}
            </div>
            <Words value={mistake.message} />
            {(mistake.suggestion ?? "") !== "" && (
              <span className={styles.dim}>
                Write <InlineCode>{mistake.suggestion ?? ""}</InlineCode>
              </span>
            )}
          </div>
        </li>
      ))}
      {mistakes.length > SHOWN_MAX && <li className={styles.dim}>and {formatCount(mistakes.length - SHOWN_MAX)} more</li>}
    </ul>
  );
}
