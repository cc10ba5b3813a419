// The list of records. Rows have one height, so only those that are seen are in the document, whatever arrives.
//
// The focus stays on the list itself, and `aria-activedescendant` names the row that the keys are at: rows come and go
// with every second of a busy gateway, and would take the focus with them.

import { useCallback, useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import type { KeyboardEvent, MouseEvent, PointerEvent, ReactNode, Ref } from "react";
import { memo, useImperativeHandle } from "react";
import { CallerName } from "../../lib/records/caller-name";
import type { CallerNames } from "../../lib/records/caller-name";
import { outcomeTone, outcomeWord, subjectOf, surfaceWord } from "../../lib/records/record";
import type { AuditRecord } from "../../lib/records/record";
import type { RecordWindow } from "../../lib/records/window";
import { Duration, Status, Text, formatTime } from "../../ui";
import { useNarrow } from "../../ui/use-narrow";
import styles from "./record-list.module.css";

const ROW_PX = 33;
const NARROW_ROW_PX = 60;
/** Rows beyond the edges of what is seen. */
const OVERSCAN = 8;
/** So near to the end older records are asked for. */
const NEAR_END = 30;
/** A pointer that rests no longer means to press something. */
const AIM_MS = 2_500;

export interface ListHandle {
  scrollToTop: () => void;
  focus: () => void;
}

export interface RecordListProps {
  records: RecordWindow;
  /** Changes with the records. */
  version: number;
  names: CallerNames;
  selected: string | null;
  onOpen: (key: string) => void;
  /** Opens the record in another tab. */
  hrefOf: (key: string) => string;
  /** The reader is busy with the rows that are seen: they must not move. */
  onHold: (reason: "scroll" | "aim" | "keys", isHeld: boolean) => void;
  onNearEnd: () => void;
  /** Below the last row. */
  end: ReactNode;
  handle: Ref<ListHandle>;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

export function RecordList({ records, version, names, selected, onOpen, hrefOf, onHold, onNearEnd, end, handle }: RecordListProps) {
  const id = useId();
  const isNarrow = useNarrow();
  const rowPx = isNarrow ? NARROW_ROW_PX : ROW_PX;
  const scroll = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ first: 0, count: 40 });
  const [cursor, setCursor] = useState<string | null>(null);
  const pressed = useRef<string | null>(null);
  const aim = useRef(0);

  const look = useCallback(() => {
    const element = scroll.current;
    if (element === null) return;
    const first = Math.max(0, Math.floor(element.scrollTop / rowPx) - OVERSCAN);
    const count = Math.ceil(element.clientHeight / rowPx) + 2 * OVERSCAN;
    setView((before) => (before.first === first && before.count === count ? before : { first, count }));
    onHold("scroll", element.scrollTop > rowPx / 2);
  }, [rowPx, onHold]);

  useLayoutEffect(() => {
    look();
    const element = scroll.current;
    if (element === null) return;
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => observer.disconnect();
  }, [look]);
  useEffect(
    () => () => {
      window.clearTimeout(aim.current);
      // Nobody is busy with rows that are gone.
      for (const reason of ["scroll", "aim", "keys"] as const) onHold(reason, false);
    },
    [onHold],
  );

  const length = records.length;
  const last = Math.min(view.first + view.count, length);
  useEffect(() => {
    if (last > length - NEAR_END) onNearEnd();
  }, [last, length, version, onNearEnd]);

  useImperativeHandle(handle, () => ({
    scrollToTop: () => scroll.current?.scrollTo(0, 0),
    focus: () => scroll.current?.focus({ preventScroll: true }),
  }));

  const at = cursor ?? selected;
  const move = (index: number) => {
    const held = records.at(Math.max(0, Math.min(index, length - 1)));
    if (held === undefined) return;
    setCursor(held.key);
    onHold("keys", true);
    const element = scroll.current;
    if (element === null) return;
    const top = records.indexOf(held.key) * rowPx;
    // The head covers the first row's height on a wide screen.
    const head = isNarrow ? 0 : ROW_PX;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowPx > element.scrollTop + element.clientHeight - head) element.scrollTop = top + rowPx - element.clientHeight + head;
  };
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const index = at === null ? -1 : records.indexOf(at);
    const page = Math.max(1, Math.floor((scroll.current?.clientHeight ?? 0) / rowPx) - 2);
    const moves: Record<string, number> = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: length - 1, PageDown: index + page, PageUp: index - page };
    const target = moves[event.key];
    if (target !== undefined) {
      event.preventDefault();
      move(target);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (at !== null && records.has(at)) onOpen(at);
      else move(0);
    } else if (event.key === "Escape") {
      setCursor(null);
      onHold("keys", false);
    }
  };

  const onPointerMove = () => {
    window.clearTimeout(aim.current);
    onHold("aim", true);
    aim.current = window.setTimeout(() => onHold("aim", false), AIM_MS);
  };
  const onPointerLeave = () => {
    window.clearTimeout(aim.current);
    onHold("aim", false);
  };
  const onPointerDown = (event: PointerEvent<HTMLDivElement>) => {
    pressed.current = event.target instanceof Element ? (event.target.closest<HTMLElement>("[data-key]")?.dataset["key"] ?? null) : null;
  };
  const onClick = (event: MouseEvent<HTMLDivElement>) => {
    // Also without a pointer: screen readers click. Otherwise the row that was pressed, though another may be there by now.
    const here = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-key]")?.dataset["key"] : undefined;
    const key = event.detail === 0 ? here : pressed.current;
    pressed.current = null;
    if (!key || (window.getSelection()?.toString() ?? "") !== "") return;
    setCursor(key);
    if (event.ctrlKey || event.metaKey) window.open(hrefOf(key), "_blank", "noopener");
    else onOpen(key);
  };

  const rows: ReactNode[] = [];
  for (let index = view.first; index < last; index += 1) {
    const held = records.at(index);
    if (held === undefined) continue;
    const { key, record } = held;
    rows.push(<Row key={key} id={`${id}${key}`} recordKey={key} record={record} names={names} index={index} top={index * rowPx} isCursor={key === cursor} isSelected={key === selected} />);
  }
  const isShown = at !== null && rows.length > 0 && records.indexOf(at) >= view.first && records.indexOf(at) < last;
  return (
    <div
      ref={scroll}
      className={styles.list}
      role="grid"
      aria-label="Records"
      aria-rowcount={-1}
      aria-activedescendant={isShown && at !== null ? `${id}${at}` : undefined}
      tabIndex={0}
      onScroll={look}
      onKeyDown={onKeyDown}
      onBlur={() => onHold("keys", false)}
      onPointerMove={onPointerMove}
      onPointerLeave={onPointerLeave}
      onPointerDown={onPointerDown}
      onClick={onClick}
    >
      <div role="rowgroup" className={styles.head}>
        <div role="row" aria-rowindex={1} className={styles.columns}>
          {["Time", "Outcome", "What", "Reason", "Backend", "Caller", "Over"].map((header) => (
            <span key={header} role="columnheader">
              {header}
            </span>
          ))}
          <span role="columnheader" className={styles.end}>
            Took
          </span>
        </div>
      </div>
      <div role="rowgroup" className={styles.rows} style={{ height: length * rowPx }}>
        {rows}
      </div>
      {/* Not a row: what it says is said beside the list, too. */}
      <div role="presentation" className={styles.after}>
        {end}
      </div>
    </div>
  );
}

interface RowProps {
  id: string;
  recordKey: string;
  record: AuditRecord;
  names: CallerNames;
  index: number;
  top: number;
  isCursor: boolean;
  isSelected: boolean;
}

const Row = memo(function Row({ id, recordKey, record, names, index, top, isCursor, isSelected }: RowProps) {
  const at = new Date(record.at_ms);
  const isToday = at.toDateString() === new Date().toDateString();
  return (
    <div
      id={id}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isSelected || isCursor}
      data-key={recordKey}
      className={styles.row + (isSelected || isCursor ? ` ${styles.active}` : "")}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span role="gridcell" className={styles.time} title={formatTime(record.at_ms)}>
        {!isToday && <span className={styles.day}>{day.format(at)}</span>}
        {clock.format(at)}
      </span>
      <span role="gridcell" className={styles.outcome}>
        <Status tone={outcomeTone(record)}>{outcomeWord(record)}</Status>
      </span>
      <span role="gridcell" className={record.operation === "" ? styles.quiet : styles.what}>
        <Text value={subjectOf(record)} line />
      </span>
      <span role="gridcell" className={styles.reason}>
        <Text value={record.kind} line />
      </span>
      <span role="gridcell" className={styles.backend}>
        <Text value={record.backend} line />
      </span>
      <span role="gridcell" className={styles.caller}>
        <CallerName caller={record.caller} names={names} />
      </span>
      <span role="gridcell" className={styles.surface}>
        {surfaceWord(record.surface)}
      </span>
      <span role="gridcell" className={styles.took}>
        <Duration us={record.latency_us} />
      </span>
    </div>
  );
});
