// A list with columns. Rows that open something are chosen with the arrow keys and opened with Enter; more than 100 rows
// are laid out only where they are seen; on a narrow screen every row is a card.

import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp } from "lucide-react";
import { useMemo, useRef, useState } from "react";
import type { KeyboardEvent, MouseEvent, ReactNode } from "react";
import { cx } from "./cx";
import styles from "./table.module.css";

export interface Column<T> {
  id: string;
  header: ReactNode;
  cell: (row: T) => ReactNode;
  /** What to sort by; without it the column is not sortable. */
  sort?: (row: T) => string | number;
  align?: "start" | "end";
  /** CSS width. Give one to every column but one where the table may have more than 100 rows. */
  width?: string;
  nowrap?: boolean;
  /** The title of the card on a narrow screen. */
  primary?: boolean;
  /** On a narrow screen: over the whole card, or not at all. */
  narrow?: "wide" | "hide";
}

export interface Sorting {
  id: string;
  direction: "asc" | "desc";
}

export interface TableProps<T> {
  /** Names the table. */
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  /** Makes rows open something. Links and buttons in cells still work. */
  onOpen?: (row: T) => void;
  /** The key of the row that is open. */
  selected?: string | null;
  /** The first order; the reader changes it with the headers. */
  sort?: Sorting;
  /** Makes the order the page's own: rows are shown as given. */
  onSort?: (sort: Sorting) => void;
  /** Shown where there are no rows. */
  empty?: ReactNode;
  /** Height of the list where it scrolls on its own. CSS. */
  height?: string;
}

/** Up to here every row is in the document. */
const PLAIN_ROWS_MAX = 100;
const ROW_PX = 35;

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function compare(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));
}

export function Table<T>({ label, columns, rows, rowKey, onOpen, selected = null, sort, onSort, empty, height = "min(70vh, 720px)" }: TableProps<T>) {
  const [own, setOwn] = useState<Sorting | undefined>(sort);
  const sorting = onSort === undefined ? own : sort;
  const [cursor, setCursor] = useState<string | null>(null);
  const scroll = useRef<HTMLDivElement>(null);

  const sorted = useMemo(() => {
    const by = columns.find((column) => column.id === sorting?.id)?.sort;
    if (onSort !== undefined || by === undefined || sorting === undefined) return rows;
    const sign = sorting.direction === "asc" ? 1 : -1;
    // The key of a row is computed once, not for every comparison.
    const keyed = rows.map((row) => ({ row, key: by(row) }));
    return keyed.sort((a, b) => sign * compare(a.key, b.key)).map(({ row }) => row);
    // `columns` is often written anew with every render; what sorts has the same id.
  }, [rows, sorting?.id, sorting?.direction, onSort === undefined]);

  const isVirtual = sorted.length > PLAIN_ROWS_MAX;
  const virtual = useVirtualizer({
    count: sorted.length,
    enabled: isVirtual,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    getItemKey: (index) => {
      const row = sorted[index];
      return row === undefined ? index : rowKey(row);
    },
  });
  const items = isVirtual ? virtual.getVirtualItems() : undefined;
  const before = items?.[0]?.start ?? 0;
  const after = items === undefined ? 0 : virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  const indexes = items?.map((item) => item.index) ?? sorted.map((_, index) => index);

  const setSort = (column: Column<T>) => {
    const isSame = sorting?.id === column.id;
    const first = column.align === "end" ? "desc" : "asc";
    const next: Sorting = { id: column.id, direction: isSame ? (sorting.direction === "asc" ? "desc" : "asc") : first };
    if (onSort === undefined) setOwn(next);
    else onSort(next);
  };

  // One row is in the tab order: the one that the keys are at, the open one, or the first.
  const focusable = [cursor, selected].find((key) => key !== null && indexes.some((index) => rowKey(sorted[index] as T) === key));
  const firstKey = indexes[0] === undefined ? null : rowKey(sorted[indexes[0]] as T);

  // Where the keys are going; keys may come faster than rows are laid out.
  const target = useRef<number | null>(null);

  const focusRow = (index: number) => {
    const row = sorted[index];
    if (row === undefined) return;
    setCursor(rowKey(row));
    if (isVirtual) virtual.scrollToIndex(index);
    if (target.current === null) {
      requestAnimationFrame(() => {
        scroll.current?.querySelector<HTMLElement>(`[data-index="${target.current}"]`)?.focus({ preventScroll: isVirtual });
        target.current = null;
      });
    }
    target.current = index;
  };

  const onKeyDown = (event: KeyboardEvent<HTMLTableRowElement>, own: number, row: T) => {
    if (event.target !== event.currentTarget) return;
    const page = 10;
    const index = target.current ?? own;
    const moves: Record<string, number> = {
      ArrowDown: index + 1,
      ArrowUp: index - 1,
      Home: 0,
      End: sorted.length - 1,
      PageDown: Math.min(index + page, sorted.length - 1),
      PageUp: Math.max(index - page, 0),
    };
    const next = moves[event.key];
    if (next !== undefined) {
      event.preventDefault();
      focusRow(next);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onOpen?.(row);
    }
  };

  const onClick = (event: MouseEvent<HTMLTableRowElement>, row: T) => {
    // A selection of text, and controls in a cell, are not meant for the row.
    const isControl = event.target instanceof Element && event.target.closest("a, button, input, select, label") !== null;
    if (isControl || (window.getSelection()?.toString() ?? "") !== "") return;
    setCursor(rowKey(row));
    onOpen?.(row);
  };

  if (rows.length === 0 && empty !== undefined) return <>{empty}</>;
  const isGrid = onOpen !== undefined;
  return (
    <div ref={scroll} className={styles.scroll} style={isVirtual ? { maxHeight: height } : undefined} tabIndex={isVirtual && !isGrid ? 0 : undefined}>
      <table className={cx(styles.table, isVirtual && styles.fixed)} role={isGrid ? "grid" : "table"} aria-label={label} aria-rowcount={sorted.length + 1}>
        <thead role="rowgroup">
          <tr role="row" aria-rowindex={1}>
            {columns.map((column) => {
              const direction = sorting?.id === column.id ? sorting.direction : undefined;
              return (
                <th
                  key={column.id}
                  role="columnheader"
                  scope="col"
                  className={cx(styles.head, column.align === "end" && styles.end)}
                  style={column.width === undefined ? undefined : { width: column.width }}
                  aria-sort={column.sort === undefined ? undefined : direction === undefined ? "none" : direction === "asc" ? "ascending" : "descending"}
                >
                  {column.sort === undefined ? (
                    column.header
                  ) : (
                    <button type="button" className={styles.sort} onClick={() => setSort(column)}>
                      {column.header}
                      {direction === "asc" && <ArrowUp size={12} aria-hidden />}
                      {direction === "desc" && <ArrowDown size={12} aria-hidden />}
                    </button>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {before > 0 && <Spacer height={before} span={columns.length} />}
          {indexes.map((index) => {
            const row = sorted[index] as T;
            const key = rowKey(row);
            const isSelected = key === selected;
            return (
              <tr
                key={key}
                ref={isVirtual ? virtual.measureElement : undefined}
                data-index={index}
                role="row"
                aria-rowindex={index + 2}
                aria-selected={isGrid ? isSelected : undefined}
                className={cx(styles.row, isGrid && styles.opens, isSelected && styles.selected)}
                tabIndex={isGrid ? (key === (focusable ?? firstKey) ? 0 : -1) : undefined}
                onClick={isGrid ? (event) => onClick(event, row) : undefined}
                onKeyDown={isGrid ? (event) => onKeyDown(event, index, row) : undefined}
              >
                {columns.map((column) => (
                  <td
                    key={column.id}
                    role={isGrid ? "gridcell" : "cell"}
                    className={cx(
                      styles.cell,
                      column.align === "end" && styles.end,
                      column.nowrap === true && styles.nowrap,
                      column.primary === true && styles.primary,
                      column.narrow === "wide" && styles.wide,
                      column.narrow === "hide" && styles.hideNarrow,
                    )}
                  >
                    <span className={styles.name} aria-hidden>
                      {column.header}
                    </span>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {after > 0 && <Spacer height={after} span={columns.length} />}
        </tbody>
      </table>
    </div>
  );
}

function Spacer({ height, span }: { height: number; span: number }) {
  return (
    <tr className={styles.spacer} style={{ height }} aria-hidden>
      <td colSpan={span} style={{ height }} />
    </tr>
  );
}
