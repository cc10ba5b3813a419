// Operations as rows, roles as columns. Thousands of rows are laid out only where they are seen. One cell is in the tab order;
// the arrow keys move it, and Enter says why.

import { useVirtualizer } from "@tanstack/react-virtual";
import { Check, ChevronDown, ChevronRight, Eye, Minus } from "lucide-react";
import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { KeyboardEvent } from "react";
import type { CatalogEntry, RoleSummary } from "../../lib/control/contract";
import { kindWord } from "../../lib/control/operations";
import { plural } from "../../lib/control/words";
import { Button, Checkbox, EmptyState, SearchInput, Select, Text, Toolbar, cx, formatCount, visible } from "../../ui";
import type { SelectOption } from "../../ui";
import { useParamSet } from "../../shell/use-param";
import styles from "./access.module.css";
import { indexed, rowsOf } from "./matrix-rows";
import type { GroupRow, OperationRow, Row, State } from "./matrix-rows";

const KINDS: readonly SelectOption<string>[] = [
  { value: "", label: "All kinds" },
  { value: "tools", label: "Tools" },
  { value: "resources", label: "Resources" },
  { value: "resourceTemplates", label: "Templates" },
  { value: "prompts", label: "Prompts" },
];

const WORDS: Readonly<Record<State, string>> = { calls: "calls", sees: "sees", hidden: "hidden" };
const ICONS = { calls: Check, sees: Eye, hidden: Minus } as const;

const ROW_PX = 32;
/** The narrowest column of a role. */
const ROLE_PX = 84;

export function Mark({ state }: { state: State }) {
  const Icon = ICONS[state];
  return (
    <span className={cx(styles.mark, styles[state])}>
      <Icon size={15} aria-hidden />
      <span className="visually-hidden">{WORDS[state]}</span>
    </span>
  );
}

export function Matrix({ operations, roles }: { operations: readonly CatalogEntry[]; roles: readonly RoleSummary[] }) {
  const [params, setParams] = useParamSet();
  const only = params.get("only") ?? "";
  const columns = useMemo(() => (roles.some((role) => role.name === only) ? roles.filter((role) => role.name === only) : roles), [roles, only]);
  const all = useMemo(() => indexed(operations, columns.map((role) => role.name)), [operations, columns]);
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const search = params.get("q") ?? "";
  const deferred = useDeferredValue(search);
  const kind = params.get("kind-of") ?? "";
  const differing = params.get("differ") === "1";
  const rows = useMemo(() => rowsOf(all, columns.length, { search: deferred, kind, differing }, closed), [all, columns.length, deferred, kind, differing, closed]);
  const count = rows.reduce((sum, row) => sum + (row.type === "group" ? row.count : 0), 0);
  const toggle = (backend: string) => {
    const next = new Set(closed);
    if (!next.delete(backend)) next.add(backend);
    setClosed(next);
  };
  const backends = useMemo(() => [...new Set(operations.map((operation) => operation.backend))], [operations]);
  return (
    <>
      <Toolbar label="Filters">
        <SearchInput label="Search operations" value={search} onChange={(q) => setParams({ q })} />
        <Select<string> aria-label="Kind" value={kind} onChange={(next) => setParams({ "kind-of": next })} options={KINDS} />
        <Select<string>
          aria-label="Role"
          value={columns.length === 1 && roles.length > 1 ? only : ""}
          onChange={(next) => setParams({ only: next })}
          options={[{ value: "", label: "All roles" }, ...roles.map((role) => ({ value: role.name, label: role.name }))]}
        />
        <span className={styles.center}>
          <Checkbox label="Only where roles differ" checked={differing} onChange={(next) => setParams({ differ: next ? "1" : "" })} />
        </span>
      </Toolbar>
      <div className={styles.legend}>
        <span>{plural(count, "operation")}</span>
        {(["calls", "sees", "hidden"] as const).map((state) => (
          <span key={state} className={styles.legendItem} aria-hidden>
            <Mark state={state} /> {state === "hidden" ? "hidden" : state === "sees" ? "sees, cannot call" : "sees and calls"}
          </span>
        ))}
        <span className={styles.push}>
          <Button size="s" variant="ghost" onClick={() => setClosed(closed.size > 0 ? new Set() : new Set(backends))}>
            {closed.size > 0 ? "Open all" : "Close all"}
          </Button>
        </span>
      </div>
      {rows.length === 0 ? (
        <EmptyState title="No operation is like that" actions={<Button onClick={() => setParams({ q: "", "kind-of": "", differ: "" })}>Show all</Button>} />
      ) : (
        <Grid
          rows={rows}
          roles={columns}
          onToggle={toggle}
          onRole={(role) => setParams({ detail: role }, { push: true })}
          onWhy={(operation, role) => setParams({ operation: operation.name, kind: operation.kind ?? "", role }, { push: true })}
        />
      )}
    </>
  );
}

interface GridProps {
  rows: readonly Row[];
  roles: readonly RoleSummary[];
  onToggle: (backend: string) => void;
  onRole: (role: string) => void;
  onWhy: (operation: CatalogEntry, role: string) => void;
}

function Grid({ rows, roles, onToggle, onRole, onWhy }: GridProps) {
  const scroll = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<readonly [row: number, column: number]>([0, 0]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    // The head is above the rows and stays in sight.
    scrollPaddingStart: 56,
    getItemKey: (index) => rows[index]?.key ?? index,
  });
  const row = Math.min(at[0], rows.length - 1);
  const column = Math.min(at[1], roles.length);
  const wantsFocus = useRef(false);
  useEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    virtual.scrollToIndex(row);
    // After the row was laid out.
    requestAnimationFrame(() => scroll.current?.querySelector<HTMLElement>(`[data-cell="${row}-${column}"]`)?.focus());
  }, [row, column, virtual]);
  const move = (toRow: number, toColumn: number) => {
    wantsFocus.current = true;
    setAt([Math.max(0, Math.min(toRow, rows.length - 1)), Math.max(0, Math.min(toColumn, roles.length))]);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor((scroll.current?.clientHeight ?? 320) / ROW_PX) - 3);
    const moves: Readonly<Record<string, readonly [number, number]>> = {
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      ArrowRight: [row, column + 1],
      ArrowLeft: [row, column - 1],
      PageDown: [row + page, column],
      PageUp: [row - page, column],
      Home: event.ctrlKey ? [0, 0] : [row, 0],
      End: event.ctrlKey ? [rows.length - 1, roles.length] : [row, roles.length],
    };
    const target = moves[event.key];
    if (target === undefined) return;
    event.preventDefault();
    move(...target);
  };
  const cell = (index: number, place: number) => ({
    "data-cell": `${index}-${place}`,
    tabIndex: index === row && place === column ? 0 : -1,
    onFocus: () => setAt([index, place]),
  });
  // Where the cell with the focus is out of sight, the tab key still finds the first that is seen.
  const items = virtual.getVirtualItems();
  const first = items.some((item) => item.index === row) ? row : (items[0]?.index ?? 0);
  const template = { gridTemplateColumns: `minmax(var(--first), 1fr) repeat(${roles.length}, minmax(${ROLE_PX}px, 128px))`, minWidth: `calc(var(--first) + ${roles.length * ROLE_PX}px)` };
  return (
    <div ref={scroll} className={styles.scroll} role="grid" aria-label="What roles see and call" aria-rowcount={rows.length + 1} aria-colcount={roles.length + 1} onKeyDown={onKeyDown}>
      <div className={styles.head} role="row" aria-rowindex={1} style={template}>
        <div role="columnheader" className={cx(styles.first, styles.headCell)}>
          Operation
        </div>
        {roles.map((role) => (
          <div key={role.name} role="columnheader" className={styles.headCell}>
            <button type="button" className={styles.role} onClick={() => onRole(role.name)} aria-label={`Role ${visible(role.name)}`}>
              <Text value={role.name} line />
            </button>
            <span className={styles.roleCount}>
              {formatCount(role.calls)} of {formatCount(role.sees)}
            </span>
          </div>
        ))}
      </div>
      <div style={{ height: virtual.getTotalSize(), minWidth: template.minWidth }} className={styles.rows} role="rowgroup">
        {items.map((item) => {
          const shown = rows[item.index];
          if (shown === undefined) return null;
          const place = { ...template, transform: `translateY(${item.start}px)` };
          const common = { "aria-rowindex": item.index + 2, role: "row", style: place };
          const focus = (columnOf: number) => (item.index === first && first !== row && columnOf === column ? { ...cell(item.index, columnOf), tabIndex: 0 } : cell(item.index, columnOf));
          return shown.type === "group" ? (
            <div key={shown.key} className={cx(styles.row, styles.group)} {...common}>
              <Group row={shown} focus={focus} onToggle={onToggle} roles={roles} />
            </div>
          ) : (
            <div key={shown.key} className={styles.row} {...common}>
              <Operation row={shown} focus={focus} roles={roles} onWhy={onWhy} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

type Focus = (column: number) => object;

function Group({ row, focus, onToggle, roles }: { row: GroupRow; focus: Focus; onToggle: (backend: string) => void; roles: readonly RoleSummary[] }) {
  return (
    <>
      <div role="rowheader" className={styles.first}>
        <button type="button" className={styles.toggle} aria-expanded={row.isOpen} onClick={() => onToggle(row.backend)} {...focus(0)}>
          {row.isOpen ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />}
          <Text value={row.backend} line />
          <span className={styles.dim}>{formatCount(row.count)}</span>
        </button>
      </div>
      {row.calls.map((calls, index) => (
        <div key={index} role="gridcell" className={styles.groupCell} {...focus(index + 1)}>
          {calls === row.count ? "all" : calls === 0 ? "none" : formatCount(calls)}
          <span className="visually-hidden">
            {" "}
            of {formatCount(row.count)} for {visible(roles[index]?.name ?? "")}
          </span>
        </div>
      ))}
    </>
  );
}

function Operation({ row, focus, roles, onWhy }: { row: OperationRow; focus: Focus; roles: readonly RoleSummary[]; onWhy: (operation: CatalogEntry, role: string) => void }) {
  const name = visible(row.operation.name);
  return (
    <>
      <div role="rowheader" className={cx(styles.first, styles.name)} {...focus(0)}>
        <Text value={row.operation.name} line />
        {row.operation.kind !== "tools" && <span className={styles.kind}>{kindWord(row.operation.kind)}</span>}
      </div>
      {row.states.map((state, index) => {
        const role = roles[index]?.name ?? "";
        return (
          <div key={index} role="gridcell" className={styles.cell}>
            <button type="button" className={styles.why} title="Why?" aria-label={`${visible(role)}: ${WORDS[state]} ${name}`} onClick={() => onWhy(row.operation, role)} {...focus(index + 1)}>
              <Mark state={state} />
            </button>
          </div>
        );
      })}
    </>
  );
}
