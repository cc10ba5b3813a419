// One-line and many-line text fields, and the choice from a list.

import type { ComponentProps, Ref } from "react";
import { cx } from "./cx";
import { Field } from "./field";
import type { FieldProps } from "./field";
import styles from "./field.module.css";

interface Shared extends Omit<FieldProps, "className"> {
  value: string;
  onChange: (value: string) => void;
  mono?: boolean;
  /** Without a visible label, this names it. */
  "aria-label"?: string;
}

export type InputProps = Shared & Omit<ComponentProps<"input">, keyof Shared | "size"> & { controlSize?: "s" | "m"; ref?: Ref<HTMLInputElement> };

export function Input({ label, hint, error, required, className, value, onChange, mono, controlSize, ...rest }: InputProps) {
  return (
    <Field {...{ label, hint, error }} {...(required && { required })} {...(className && { className })}>
      {(ids) => (
        <input
          {...ids}
          required={required}
          autoComplete="off"
          spellCheck={false}
          className={cx(styles.control, mono === true && styles.mono, controlSize === "s" && styles.s)}
          value={value}
          onChange={(event) => onChange(event.target.value)}
          {...rest}
        />
      )}
    </Field>
  );
}

export type TextareaProps = Shared & Omit<ComponentProps<"textarea">, keyof Shared> & { ref?: Ref<HTMLTextAreaElement> };

export function Textarea({ label, hint, error, required, className, value, onChange, mono, rows = 4, ...rest }: TextareaProps) {
  return (
    <Field {...{ label, hint, error }} {...(required && { required })} {...(className && { className })}>
      {(ids) => (
        <textarea
          {...ids}
          required={required}
          rows={rows}
          autoComplete="off"
          spellCheck={false}
          className={cx(styles.control, styles.area, mono === true && styles.mono)}
          value={value}
          onChange={(event) => onChange(event.target.value)}
          {...rest}
        />
      )}
    </Field>
  );
}

export interface SelectOption<V extends string = string> {
  value: V;
  label: string;
  disabled?: boolean;
}

export interface SelectProps<V extends string = string> extends FieldProps {
  value: V;
  onChange: (value: V) => void;
  options: readonly SelectOption<V>[];
  disabled?: boolean;
  controlSize?: "s" | "m";
  "aria-label"?: string;
}

/** The browser's own list: it works with every keyboard, screen reader and phone. */
export function Select<V extends string>({ label, hint, error, required, className, value, onChange, options, controlSize, ...rest }: SelectProps<V>) {
  return (
    <Field {...{ label, hint, error }} {...(required && { required })} {...(className && { className })}>
      {(ids) => (
        <select
          {...ids}
          className={cx(styles.control, styles.select, controlSize === "s" && styles.s)}
          value={value}
          onChange={(event) => onChange(event.target.value as V)}
          {...rest}
        >
          {options.map((option) => (
            <option key={option.value} value={option.value} disabled={option.disabled}>
              {option.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
