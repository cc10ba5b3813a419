// A text field with suggestions: anything may be typed, the arrow keys choose what is suggested.

import { useId, useMemo, useRef, useState } from "react";
import type { KeyboardEvent, ReactNode, Ref } from "react";
import { Field, Text } from "../../ui";
import { index, search } from "../../shell/fuzzy";
import styles from "./combo.module.css";

export interface Suggestion {
  value: string;
  hint?: string;
}

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  suggestions: readonly Suggestion[];
  hint?: ReactNode;
  error?: ReactNode;
  placeholder?: string;
  required?: boolean;
  className?: string;
  ref?: Ref<HTMLInputElement>;
}

/** More than these need more letters. */
const SHOWN_MAX = 12;

export function Combo({ label, value, onChange, suggestions, hint, error, placeholder, required, className, ref }: Props) {
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const list = useRef<HTMLDivElement>(null);
  const indexed = useMemo(() => suggestions.map((one) => index(one, one.value, one.hint ?? "")), [suggestions]);
  const found = useMemo(() => (isOpen ? search(indexed, value, SHOWN_MAX) : []), [indexed, value, isOpen]);
  // One that is typed in full needs no list.
  const isShown = isOpen && found.length > 0 && !(found.length === 1 && found[0]?.value === value);
  const choose = (one: Suggestion | undefined) => {
    if (one === undefined) return;
    onChange(one.value);
    setOpen(false);
    setAt(-1);
  };
  const move = (to: number) => {
    const next = (to + found.length) % found.length;
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "ArrowDown" && !isOpen) setOpen(true);
    else if (event.key === "ArrowDown" && isShown) move(at + 1);
    else if (event.key === "ArrowUp" && isShown) move(at < 0 ? found.length - 1 : at - 1);
    else if (event.key === "Enter" && isShown && at >= 0) choose(found[at]);
    else if (event.key === "Escape" && isShown) {
      setOpen(false);
      event.stopPropagation();
    } else return;
    event.preventDefault();
  };
  return (
    <Field {...{ label, hint, error }} {...(required && { required })} {...(className !== undefined && { className })}>
      {(ids) => (
        <div className={styles.combo}>
          <input
            {...ids}
            ref={ref}
            className={styles.input}
            role="combobox"
            aria-expanded={isShown}
            aria-controls={isShown ? `${id}-list` : undefined}
            aria-activedescendant={isShown && at >= 0 ? `${id}-${at}` : undefined}
            aria-autocomplete="list"
            autoComplete="off"
            spellCheck={false}
            required={required}
            placeholder={placeholder}
            value={value}
            onChange={(event) => {
              onChange(event.target.value);
              setOpen(true);
              setAt(-1);
            }}
            onClick={() => setOpen(true)}
            onBlur={() => setOpen(false)}
            onKeyDown={onKeyDown}
          />
          {isShown && (
            <div id={`${id}-list`} ref={list} role="listbox" aria-label="Suggestions" className={styles.list}>
              {found.map((one, place) => (
                <div
                  key={one.value}
                  id={`${id}-${place}`}
                  role="option"
                  aria-selected={place === at}
                  className={styles.item}
                  // Before the field loses the focus, which closes the list.
                  onMouseDown={(event) => {
                    event.preventDefault();
                    choose(one);
                  }}
                >
                  <Text value={one.value} line />
                  {one.hint !== undefined && (
                    <span className={styles.hint}>
                      <Text value={one.hint} line />
                    </span>
                  )}
                </div>
              ))}
            </div>
          )}
        </div>
      )}
    </Field>
  );
}
