// Parts that several of these pages share: a note beside what it is about, a bar for what is used of a bound, the lines of
// a reload, and how something is switched off or on again.

import type { ReactNode } from "react";
import { useState } from "react";
import { asProblem } from "../../api/problem";
import { ConfirmDialog, InlineCode, Text, ToneIcon, cx, formatCount, toast, toastProblem } from "../../ui";
import type { Tone } from "../../ui";
import { kill, revive } from "./contract";
import type { Reloaded, Scope } from "./contract";
import styles from "./parts.module.css";
import { plural, reloadLines, switched } from "./words";

export interface CalloutProps {
  tone: Tone;
  title?: ReactNode;
  /** Buttons and links. */
  actions?: ReactNode;
  children?: ReactNode;
  /** Says it to screen readers when it appears. */
  isNews?: boolean;
}

/** A note: what is wrong, what to know, what came of something. */
export function Callout({ tone, title, actions, children, isNews = false }: CalloutProps) {
  return (
    <div className={cx(styles.callout, styles[tone])} role={isNews ? "status" : undefined}>
      <span className={styles.calloutIcon}>
        <ToneIcon tone={tone} size={16} />
      </span>
      <div className={styles.calloutText}>
        {title !== undefined && <strong>{title}</strong>}
        {children}
      </div>
      {actions !== undefined && <div className={styles.calloutActions}>{actions}</div>}
    </div>
  );
}

export interface MeterProps {
  label: string;
  value: number;
  /** 0 is no bound. */
  max: number;
  /** Of `value / max`: from here it is marked. */
  warnAt?: number;
  fullAt?: number;
}

/** How much of a bound is used: `12 of 256`, with a bar. */
export function Meter({ label, value, max, warnAt = 0.75, fullAt = 1 }: MeterProps) {
  const share = max <= 0 ? 0 : Math.min(value / max, 1);
  const tone = max <= 0 || share < warnAt ? undefined : share >= fullAt ? styles.full : styles.near;
  return (
    <span className={styles.meter}>
      <span className={styles.meterText}>
        {formatCount(value)} {max <= 0 ? <span className={styles.dim}>no bound</span> : <span className={styles.dim}>of {formatCount(max)}</span>}
      </span>
      {max > 0 && (
        <span className={styles.bar} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={max} aria-valuenow={Math.min(value, max)}>
          <span className={cx(styles.fill, tone)} style={{ width: `${share * 100}%` }} />
        </span>
      )}
    </span>
  );
}

/** A sentence of the gateway: what stands between backticks is a name. */
export function Words({ value, max = 600 }: { value: string; max?: number }) {
  // A cut text, and one with an odd backtick, are shown as they are.
  const parts = value.length > max ? [] : value.split("`");
  if (parts.length < 3 || parts.length % 2 === 0) return <Text value={value} max={max} block />;
  return (
    <span>
      {parts.map((part, index) => (index % 2 === 1 ? <InlineCode key={index}>{part}</InlineCode> : <Text key={index} value={part} />))}
    </span>
  );
}

/** What a reload did, or what one would do. */
export function ReloadLines({ reloaded, tense }: { reloaded: Reloaded; tense: "did" | "would" }) {
  return (
    <ul className={styles.lines}>
      {reloadLines(reloaded, tense).map((line, index) => (
        <li key={index} className={styles[line.tone]}>
          <ToneIcon tone={line.tone} />
          <span>
            <Text value={line.text} />
          </span>
        </li>
      ))}
    </ul>
  );
}

/** What of a name is meant, in a sentence: the name stands out. */
export function Switched({ scope, name }: { scope: Scope; name: string }) {
  if (scope === "all") return <>everything</>;
  if (scope === "backend") return <>the backend <InlineCode>{name}</InlineCode></>;
  if (scope === "caller") return <>the caller <InlineCode>{name}</InlineCode></>;
  return <InlineCode>{name}</InlineCode>;
}

/** What happens to calls when something is switched off. */
export function effectOf(scope: Scope): string {
  if (scope === "all") return "Every call of every caller is refused from now on, and calls in flight end. The console and the admin API go on.";
  if (scope === "caller") return "Every call of this caller is refused from now on, and its calls in flight end. The reason is told to the caller.";
  return "It leaves the lists, calls of it are refused from now on, and calls in flight end. Callers who could see it are told the reason.";
}

/** Switches something off; says how much it hit, and offers the way back. */
export async function switchOff(scope: Scope, name: string, reason: string, onChange?: () => void): Promise<void> {
  const answer = await kill(scope, name, reason);
  onChange?.();
  const hits = answer.hits ?? undefined;
  const what = switched({ scope, name });
  toast({
    title: scope === "all" ? "Everything is switched off" : `Switched off ${what}`,
    detail:
      scope === "caller" ? "All of its calls are refused." : hits === 0 ? "No operation of the catalog has that name at the moment." : hits === undefined ? "" : `${plural(hits, "operation")} ${hits === 1 ? "is" : "are"} off.`,
    tone: hits === 0 ? "warn" : "ok",
    action: { label: "Undo", onClick: () => void switchOn(scope, name, onChange).catch(toastProblem) },
  });
}

export async function switchOn(scope: Scope, name: string, onChange?: () => void): Promise<void> {
  const answer = await revive(scope, name);
  onChange?.();
  const what = switched({ scope, name });
  toast(
    answer.revived
      ? { title: `Switched on ${what} again`, tone: "ok" }
      : { title: `Nothing changed: ${what} was not switched off at run time`, tone: "warn" },
  );
}

/** A dialog that asks why, and switches one thing off. */
export function SwitchOffDialog({ target, onClose, onChange }: { target: { scope: Scope; name: string } | undefined; onClose: () => void; onChange?: () => void }) {
  // The words stay while the dialog closes.
  const [last, setLast] = useState(target);
  if (target !== undefined && target !== last) setLast(target);
  const shown = target ?? last;
  if (shown === undefined) return null;
  return (
    <ConfirmDialog
      open={target !== undefined}
      onClose={onClose}
      title={`Switch off ${switched(shown)}?`}
      confirmLabel="Switch off"
      danger
      reason="required"
      onConfirm={(reason) => switchOff(shown.scope, shown.name, reason, onChange)}
    >
      <p>{effectOf(shown.scope)}</p>
    </ConfirmDialog>
  );
}

/** Whether an error says that this gateway does not have the endpoint. */
export function isMissing(error: unknown): boolean {
  return error !== undefined && asProblem(error).status === 404;
}

/** Stands in for what an older gateway cannot say. */
export function NotHere({ what }: { what: string }) {
  return <Callout tone="info">This gateway does not say {what}. A newer version does.</Callout>;
}
