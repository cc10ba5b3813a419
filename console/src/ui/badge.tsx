// States and marks: always a word, with a colour and an icon beside it.

import { CircleAlert, CircleCheck, CircleMinus, CircleX, Info, Circle } from "lucide-react";
import type { ReactNode } from "react";
import { cx } from "./cx";
import type { Tone } from "./tone";
import styles from "./badge.module.css";

const ICONS = { neutral: Circle, ok: CircleCheck, warn: CircleAlert, error: CircleX, off: CircleMinus, info: Info };

export function ToneIcon({ tone, size = 14 }: { tone: Tone; size?: number }) {
  const Icon = ICONS[tone];
  return <Icon size={size} aria-hidden />;
}

export interface BadgeProps {
  tone?: Tone;
  icon?: ReactNode;
  title?: string;
  children: ReactNode;
}

/** A mark beside something: a count, a kind. */
export function Badge({ tone = "neutral", icon, title, children }: BadgeProps) {
  return (
    <span className={cx(styles.badge, styles[tone])} title={title}>
      {icon}
      <span className={styles.text}>{children}</span>
    </span>
  );
}

export interface StatusProps {
  tone: Tone;
  title?: string;
  children: ReactNode;
}

/** The state of something, by icon, word and colour. */
export function Status({ tone, title, children }: StatusProps) {
  return (
    <span className={cx(styles.status, styles[tone])} title={title}>
      <ToneIcon tone={tone} />
      <span>{children}</span>
    </span>
  );
}

/** The words that the gateway uses, and what they mean for an operator. */
const TONES: Readonly<Record<string, Tone>> = {
  up: "ok", good: "ok", ok: "ok", success: "ok", passed: "ok", active: "ok", approved: "ok", pinned: "ok", live: "ok", closed: "ok", allow: "ok",
  starting: "info", connecting: "info", half_open: "warn", waiting: "info", waited: "info", listening: "info",
  degraded: "warn", held: "warn", changed: "warn", new: "info", expiring: "warn", draining: "warn", backoff: "warn", cancelled: "off",
  down: "error", failed: "error", error: "error", tool_error: "error", refused: "error", denied: "error", deny: "error", offline: "error",
  open: "error", broken: "error", timeout: "error", killed: "error", rate_limited: "warn", overloaded: "warn", circuit_open: "error",
  off: "off", stopped: "off", disabled: "off", idle: "off", revoked: "off", expired: "off", skipped: "off", not_reached: "off", none: "off",
};

/** The tone of a word of the gateway: `up`, `denied`, `revoked`. Unknown words are neutral. */
export function toneOf(word: string): Tone {
  return TONES[word] ?? "neutral";
}
