// Searches in what the page shows. `/` moves the focus here, Escape empties it.

import { Search, X } from "lucide-react";
import { useEffect, useRef } from "react";
import { IconButton } from "./button";
import { KeyHint } from "./key-hint";
import styles from "./search-input.module.css";

export interface SearchInputProps {
  /** Names it: "Search tools". */
  label: string;
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  autoFocus?: boolean;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export function SearchInput({ label, value, onChange, placeholder = label, autoFocus = false }: SearchInputProps) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("[role=dialog]") !== null && input.current?.closest("[role=dialog]") === null) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return (
    <div className={styles.search} role="search">
      <Search size={14} className={styles.icon} aria-hidden />
      <input
        ref={input}
        type="search"
        className={styles.input}
        aria-label={label}
        placeholder={placeholder}
        value={value}
        autoFocus={autoFocus}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape" || value === "") return;
          event.stopPropagation();
          onChange("");
        }}
      />
      <span className={styles.right}>
        {value === "" ? (
          <span className={styles.key}>
            <KeyHint keys="/" />
          </span>
        ) : (
          <IconButton
            size="s"
            label="Clear"
            icon={<X size={14} aria-hidden />}
            onClick={() => {
              onChange("");
              input.current?.focus();
            }}
          />
        )}
      </span>
    </div>
  );
}
