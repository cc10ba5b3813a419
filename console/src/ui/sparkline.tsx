// The course of a number, without axes.

import styles from "./stat.module.css";

export interface SparklineProps {
  /** Oldest first; `null` is a gap. */
  values: readonly (number | null)[];
  width?: number;
  height?: number;
  color?: string;
  /** Said by screen readers; without it, the line is decoration. */
  label?: string;
}

export function Sparkline({ values, width = 72, height = 24, color = "var(--series-1)", label }: SparklineProps) {
  const known = values.filter((value): value is number => value !== null && Number.isFinite(value));
  const top = Math.max(...known, 0);
  const step = values.length > 1 ? width / (values.length - 1) : width;
  let path = "";
  let isGap = true;
  values.forEach((value, index) => {
    if (value === null || !Number.isFinite(value)) {
      isGap = true;
      return;
    }
    const y = top === 0 ? height - 1 : height - 1 - (value / top) * (height - 2);
    path += `${isGap ? "M" : "L"}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    isGap = false;
  });
  return (
    <svg
      className={styles.spark}
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      role={label === undefined ? undefined : "img"}
      aria-label={label}
      aria-hidden={label === undefined}
    >
      <path d={path} fill="none" stroke={color} strokeWidth="1.5" strokeLinejoin="round" strokeLinecap="round" />
    </svg>
  );
}
