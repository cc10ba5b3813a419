// Short news about what was just done. What went wrong stays until it is closed; the rest goes by itself.

import { X } from "lucide-react";
import { useSyncExternalStore } from "react";
import { createPortal } from "react-dom";
import { asProblem } from "../api/problem";
import { Button, IconButton } from "./button";
import { ToneIcon } from "./badge";
import { cx } from "./cx";
import type { Tone } from "./tone";
import styles from "./toast.module.css";

export interface ToastOptions {
  title: string;
  detail?: string;
  tone?: Tone;
  action?: { label: string; onClick: () => void };
}

interface Shown extends ToastOptions {
  id: number;
}

/** More than these hide the page; the oldest goes. */
const TOASTS_MAX = 4;
const SHOWN_MS = 5_000;

let shown: readonly Shown[] = [];
let next = 1;
const listeners = new Set<() => void>();

function replace(toasts: readonly Shown[]): void {
  shown = toasts;
  listeners.forEach((listener) => listener());
}

function close(id: number): void {
  replace(shown.filter((toast) => toast.id !== id));
}

export function toast(options: ToastOptions): void {
  const id = next++;
  replace([...shown, { ...options, id }].slice(-TOASTS_MAX));
  if (options.tone !== "error") window.setTimeout(() => close(id), SHOWN_MS);
}

/** Says that something failed and why. */
export function toastProblem(error: unknown): void {
  const problem = asProblem(error);
  toast({ title: problem.title, detail: [problem.detail, problem.hint].filter(Boolean).join(" "), tone: "error" });
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Once, in the shell. It is beside the page, so that a dialog does not cover it. */
export function Toaster() {
  const toasts = useSyncExternalStore(subscribe, () => shown);
  return createPortal(
    <div className={styles.region} role="region" aria-label="Notifications" aria-live="polite">
      {toasts.map(({ id, title, detail, tone = "neutral", action }) => (
        <div key={id} className={styles.toast} role={tone === "error" ? "alert" : undefined}>
          <span className={cx(styles.icon, styles[tone])}>
            <ToneIcon tone={tone} />
          </span>
          <div className={styles.text}>
            <div className={styles.title}>{title}</div>
            {detail !== undefined && detail !== "" && <div className={styles.detail}>{detail}</div>}
          </div>
          {action !== undefined && (
            <Button
              size="s"
              onClick={() => {
                action.onClick();
                close(id);
              }}
            >
              {action.label}
            </Button>
          )}
          <IconButton label="Dismiss" size="s" icon={<X size={14} aria-hidden />} onClick={() => close(id)} />
        </div>
      ))}
    </div>,
    document.body,
  );
}
