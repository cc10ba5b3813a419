// One number that matters, which leads to what is behind it.

import type { ReactNode } from "react";
import { Link } from "wouter";
import { ToneIcon } from "./badge";
import { cx } from "./cx";
import { Sparkline } from "./sparkline";
import type { Tone } from "./tone";
import styles from "./stat.module.css";

export interface StatProps {
  label: ReactNode;
  value: ReactNode;
  unit?: string;
  /** A line below. */
  hint?: ReactNode;
  /** Below `/console`. */
  href?: string;
  tone?: Tone;
  /** The course, oldest first. */
  series?: readonly (number | null)[];
}

export function Stat({ label, value, unit, hint, href, tone = "neutral", series }: StatProps) {
  const content = (
    <>
      <span className={styles.label}>
        {tone !== "neutral" && (
          <span className={styles[tone]}>
            <ToneIcon tone={tone} size={13} />
          </span>
        )}
        {label}
      </span>
      <span className={styles.row}>
        <span className={cx(styles.value, styles[tone])}>
          {value}
          {unit !== undefined && <span className={styles.unit}>{unit}</span>}
        </span>
        {series !== undefined && series.length > 1 && <Sparkline values={series} />}
      </span>
      {hint !== undefined && <span className={styles.hint}>{hint}</span>}
    </>
  );
  return href === undefined ? (
    <div className={styles.stat}>{content}</div>
  ) : (
    <Link href={href} className={styles.stat}>
      {content}
    </Link>
  );
}

/** Numbers beside each other. */
export function StatGrid({ children }: { children: ReactNode }) {
  return <div className={styles.grid}>{children}</div>;
}
