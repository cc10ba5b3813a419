// Yes or no: a checkbox in a form, a switch for what applies at once.

import { useEffect, useId, useRef } from "react";
import type { ReactNode } from "react";
import styles from "./check.module.css";

export interface CheckboxProps {
  label: ReactNode;
  hint?: ReactNode;
  checked: boolean;
  onChange: (checked: boolean) => void;
  indeterminate?: boolean;
  disabled?: boolean;
  /** The label is read, but not shown. */
  hideLabel?: boolean;
}

function Check({ label, hint, checked, onChange, indeterminate = false, disabled, hideLabel, isSwitch }: CheckboxProps & { isSwitch: boolean }) {
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => {
    if (input.current !== null) input.current.indeterminate = indeterminate;
  }, [indeterminate]);
  return (
    <label className={styles.row}>
      <input
        ref={input}
        type="checkbox"
        role={isSwitch ? "switch" : undefined}
        className={isSwitch ? styles.switch : styles.box}
        checked={checked}
        disabled={disabled}
        aria-describedby={hint === undefined ? undefined : id}
        onChange={(event) => onChange(event.target.checked)}
      />
      <span className={hideLabel === true ? "visually-hidden" : undefined}>
        <span>{label}</span>
        {hint !== undefined && (
          <div id={id} className={styles.hint}>
            {hint}
          </div>
        )}
      </span>
    </label>
  );
}

export function Checkbox(props: CheckboxProps) {
  return <Check {...props} isSwitch={false} />;
}

export type SwitchProps = Omit<CheckboxProps, "indeterminate">;

export function Switch(props: SwitchProps) {
  return <Check {...props} isSwitch />;
}
