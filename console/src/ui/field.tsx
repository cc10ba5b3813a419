// The label, hint and error around a control, and how they are told to screen readers.

import { CircleAlert } from "lucide-react";
import { useId } from "react";
import type { ReactNode } from "react";
import { cx } from "./cx";
import styles from "./field.module.css";

export interface FieldProps {
  label?: ReactNode;
  hint?: ReactNode;
  error?: ReactNode;
  required?: boolean;
  className?: string;
}

export interface ControlIds {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": true | undefined;
}

/** Gives its control an id and what describes it: `<Field label="Name">{(ids) => <input {...ids} />}</Field>`. */
export function Field({ label, hint, error, required, className, children }: FieldProps & { children: (ids: ControlIds) => ReactNode }) {
  const id = useId();
  const hasError = error !== undefined && error !== null && error !== "" && error !== false;
  const hasHint = hint !== undefined && hint !== null && hint !== "";
  const describedBy = cx(hasHint && `${id}-hint`, hasError && `${id}-error`) || undefined;
  const control = children({ id, "aria-describedby": describedBy, "aria-invalid": hasError || undefined });
  return (
    <div className={cx(styles.field, className)}>
      {label !== undefined && (
        <label htmlFor={id} className={styles.label}>
          {label}
          {required === true && (
            <span className={styles.required} aria-hidden>
              {" *"}
            </span>
          )}
        </label>
      )}
      {control}
      {hasHint && (
        <div id={`${id}-hint`} className={styles.hint}>
          {hint}
        </div>
      )}
      {hasError && (
        <div id={`${id}-error`} className={styles.error} role="alert">
          <CircleAlert size={14} aria-hidden />
          <span>{error}</span>
        </div>
      )}
    </div>
  );
}
