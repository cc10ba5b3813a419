// A plain editor: a text area with numbers of lines, marks at lines with mistakes, and a tab key that indents. Escape gives
// the tab key back to those who move by it.

import { useImperativeHandle, useMemo, useRef } from "react";
import type { KeyboardEvent, Ref } from "react";
import { indented, lineCount, lineNumbers, lineRange } from "./lines";
import styles from "./config.module.css";

export interface EditorHandle {
  /** Selects a line and brings it into sight. */
  goTo: (line: number) => void;
}

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** From 1. */
  marked: readonly number[];
  describedBy: string;
  isReadOnly?: boolean;
  onSave: () => void;
  ref: Ref<EditorHandle>;
}

/** Of one line; the same as in the style sheet. */
const LINE_PX = 20;
const PADDING_PX = 8;
/** What the endpoint takes. */
const TEXT_CHARS_MAX = 1 << 20;

export function Editor({ label, value, onChange, marked, describedBy, isReadOnly = false, onSave, ref }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const scroll = useRef<HTMLDivElement>(null);
  const leaves = useRef(false);
  const count = useMemo(() => lineCount(value), [value]);
  const numbers = useMemo(() => lineNumbers(count), [count]);

  useImperativeHandle(ref, () => ({
    goTo: (line) => {
      const { current } = area;
      if (current === null) return;
      const [start, end] = lineRange(current.value, line);
      current.focus({ preventScroll: true });
      current.setSelectionRange(start, end);
      const top = (line - 1) * LINE_PX;
      const height = scroll.current?.clientHeight ?? 0;
      scroll.current?.scrollTo({ top: Math.max(0, top - height / 3) });
      scroll.current?.scrollIntoView({ block: "nearest" });
    },
  }));

  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onSave();
      return;
    }
    if (event.key === "Escape") {
      leaves.current = true;
      return;
    }
    if (event.key === "Tab" && !event.ctrlKey && !event.metaKey && !event.altKey && !leaves.current && !isReadOnly) {
      event.preventDefault();
      indent(event.currentTarget, event.shiftKey);
    }
    if (event.key !== "Shift") leaves.current = false;
  };
  const indent = (target: HTMLTextAreaElement, back: boolean) => {
    const { selectionStart: start, selectionEnd: end } = target;
    // As if it was typed, so that it can be undone. Browsers without it keep the change, and forget the history.
    const insert = (text: string) => {
      if (!document.execCommand("insertText", false, text)) {
        target.setRangeText(text, target.selectionStart, target.selectionEnd, "end");
        onChange(target.value);
      }
    };
    if (start === end && !back) {
      insert("  ");
      return;
    }
    const next = indented(target.value, start, end, back);
    if (next.text === target.value) return;
    const from = target.value.lastIndexOf("\n", start - 1) + 1;
    target.setSelectionRange(from, end);
    insert(next.text.slice(from, next.text.length - (target.value.length - end)));
    target.setSelectionRange(start === end ? next.start : from, start === end ? next.start : next.end);
  };

  return (
    <div ref={scroll} className={styles.editor}>
      <div className={styles.sheet} style={{ height: count * LINE_PX + 2 * PADDING_PX }}>
        <pre className={styles.gutter} aria-hidden>
          {numbers}
        </pre>
        <div className={styles.text}>
          {marked.map((line) => (
            <span key={line} className={styles.marked} style={{ top: PADDING_PX + (line - 1) * LINE_PX }} aria-hidden />
          ))}
          <textarea
            ref={area}
            className={styles.area}
            aria-label={label}
            aria-describedby={describedBy}
            value={value}
            readOnly={isReadOnly}
            maxLength={TEXT_CHARS_MAX}
            wrap="off"
            spellCheck={false}
            autoComplete="off"
            autoCapitalize="off"
            onChange={(event) => onChange(event.target.value)}
            onKeyDown={onKeyDown}
            onBlur={() => {
              leaves.current = false;
            }}
          />
        </div>
      </div>
    </div>
  );
}
