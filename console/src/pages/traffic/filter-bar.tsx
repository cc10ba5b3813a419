// What is looked at: presets, filters and time. Everything that is chosen here is in the address.

import { SlidersHorizontal, X } from "lucide-react";
import { useEffect, useId, useState } from "react";
import type { ReactNode } from "react";
import { answer, api } from "../../api/client";
import { useLive } from "../../api/live";
import { useQuery } from "../../api/use-query";
import type { CallerNames } from "../../lib/records/caller-name";
import { PRESETS, filterWords, presetChanges, presetOf } from "../../lib/records/filters";
import type { FilterName, Filters } from "../../lib/records/filters";
import { OUTCOME_WORDS, SURFACE_WORDS } from "../../lib/records/record";
import { Button, Checkbox, Input, Popover, SearchInput, Select, Text, formatTime } from "../../ui";
import { cx } from "../../ui/cx";
import { useNarrow } from "../../ui/use-narrow";
import styles from "./filter-bar.module.css";

type Changes = Partial<Record<FilterName, string>>;

export interface FilterBarProps {
  filters: Filters;
  names: CallerNames;
  onChange: (changes: Changes) => void;
}

/** Typing asks the store; this long after the last key. */
const TYPED_MS = 350;

const TIMES: readonly [string, string][] = [
  ["", "Any time"],
  ["5m", "Last 5 minutes"],
  ["15m", "Last 15 minutes"],
  ["1h", "Last hour"],
  ["6h", "Last 6 hours"],
  ["24h", "Last 24 hours"],
  ["7d", "Last 7 days"],
];

/** Filters with a field of their own in the bar; the others are shown as marks. */
const IN_BAR: ReadonlySet<FilterName> = new Set(["caller", "tool", "backend", "outcome", "text"]);

export function FilterBar({ filters, names, onChange }: FilterBarProps) {
  const { overview } = useLive();
  const isNarrow = useNarrow();
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useTyped(filters.text, (value) => onChange({ text: value }));
  const preset = presetOf(filters);
  const isStandardTime = filters.until === "" && TIMES.some(([value]) => value === filters.since);
  const marks = filterWords(filters, formatTime).filter(({ name }) => {
    if (name === "since" || name === "until") return !isStandardTime;
    if (isNarrow && !isOpen) return name !== "text" && !(preset !== undefined && preset !== "all" && name in (PRESETS.find((each) => each.id === preset)?.filters ?? {}));
    return !IN_BAR.has(name) && !(preset !== undefined && preset !== "all" && name in (PRESETS.find((each) => each.id === preset)?.filters ?? {}));
  });
  const isAny = filterWords(filters, formatTime).length > 0;
  const backends = (overview?.backends ?? []).map(({ name }) => name);
  const known = backends.includes(filters.backend) || filters.backend === "" ? backends : [filters.backend, ...backends];
  return (
    <div className={styles.bar}>
      <div className={styles.line}>
        <div className={styles.search}>
          <SearchInput label="Search records" placeholder="Search names, callers, arguments" value={text} onChange={setText} />
        </div>
        <div className={styles.presets} role="group" aria-label="Presets">
          {PRESETS.map((each) => (
            <button key={each.id} type="button" className={styles.preset} aria-pressed={preset === each.id} onClick={() => onChange(presetChanges(each))}>
              {each.label}
            </button>
          ))}
        </div>
        {isNarrow && (
          <Button size="s" icon={<SlidersHorizontal size={14} aria-hidden />} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Filters
          </Button>
        )}
      </div>
      {(!isNarrow || isOpen) && (
        <div className={styles.fields}>
          <Suggested label="Caller" by="caller" names={names} value={filters.caller} onChange={(caller) => onChange({ caller })} />
          <Suggested label="Tool" by="operation" names={NO_NAMES} value={filters.tool} onChange={(tool) => onChange({ tool })} />
          <Labelled label="Backend">
            {(id) => (
              <select id={id} value={filters.backend} onChange={(event) => onChange({ backend: event.target.value })}>
                <option value="">Any</option>
                {known.map((name) => (
                  <option key={name} value={name}>
                    {name}
                  </option>
                ))}
              </select>
            )}
          </Labelled>
          <Labelled label="Outcome">
            {(id) => (
              <select id={id} value={filters.outcome} onChange={(event) => onChange({ outcome: event.target.value, ended: "", failed: "" })}>
                <option value="">Any</option>
                {OUTCOME_WORDS.map(([value, word]) => (
                  <option key={value} value={value}>
                    {word}
                  </option>
                ))}
              </select>
            )}
          </Labelled>
          <Labelled label="Time">
            {(id) => (
              <select
                id={id}
                value={isStandardTime ? filters.since : "other"}
                onChange={(event) => onChange({ since: event.target.value, until: "" })}
              >
                {!isStandardTime && <option value="other">As chosen</option>}
                {TIMES.map(([value, word]) => (
                  <option key={value} value={value}>
                    {word}
                  </option>
                ))}
              </select>
            )}
          </Labelled>
          <More filters={filters} onChange={onChange} />
          {isAny && (
            <Button size="s" variant="ghost" onClick={() => onChange(Object.fromEntries(Object.keys(filters).map((name) => [name, ""])))}>
              Clear all
            </Button>
          )}
        </div>
      )}
      {marks.length > 0 && (
        <ul className={styles.marks} aria-label="Filters that apply">
          {marks.map(({ name, label, value }) => (
            <li key={name} className={styles.mark}>
              <span className={styles.markLabel}>{label}</span> <Text value={value} max={60} />
              <button type="button" className={styles.remove} aria-label={`Remove the filter ${label}`} onClick={() => onChange({ [name]: "" })}>
                <X size={12} aria-hidden />
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** A value that is typed, and told on once the keys rest. */
function useTyped(value: string, onTyped: (value: string) => void): [string, (value: string) => void] {
  const [typed, setTyped] = useState(value);
  const [told, setTold] = useState(value);
  // The address changed: by what was typed here, or by other means.
  if (value !== told) {
    setTold(value);
    setTyped(value);
  }
  useEffect(() => {
    if (typed === value) return;
    const timer = window.setTimeout(() => onTyped(typed), TYPED_MS);
    return () => window.clearTimeout(timer);
  }, [typed, value]);
  return [typed, setTyped];
}

function Labelled({ label, children }: { label: string; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div className={styles.labelled}>
      <label htmlFor={id}>{label}</label>
      {children(id)}
    </div>
  );
}

/** Names that the gateway knows of the last day; a field takes others, too. */
const NAMES_MAX = 200;

/** A name that must be the whole one: told on when the reader is done with it, with those of the last day to choose from. */
interface SuggestedProps {
  label: string;
  by: "caller" | "operation";
  /** What values are called. */
  names: CallerNames;
  value: string;
  onChange: (value: string) => void;
}

const NO_NAMES: CallerNames = new Map();

function Suggested({ label, by, names, value, onChange }: SuggestedProps) {
  const list = useId();
  const [isWanted, setWanted] = useState(false);
  const [typed, setTyped] = useState(value);
  const [told, setTold] = useState(value);
  if (value !== told) {
    setTold(value);
    setTyped(value);
  }
  const { data } = useQuery(isWanted ? `traffic-names ${by}` : null, (signal) => answer(api.GET("/admin/api/usage", { params: { query: { by, since: "24h", limit: NAMES_MAX } }, signal })));
  const known = (data?.rows ?? []).map(({ name }) => name).filter((name) => name !== "");
  const tell = (next: string) => {
    const trimmed = next.trim();
    // The name of a key stands for its id, unless somebody is called so.
    const meant = known.includes(trimmed) ? trimmed : ([...names].find(([, name]) => name === trimmed)?.[0] ?? trimmed);
    if (meant === value) setTyped(value);
    else onChange(meant);
  };
  return (
    <Labelled label={label}>
      {(id) => (
        <>
          <input
            id={id}
            className={cx(styles.input, value !== "" && styles.filled)}
            list={list}
            value={typed}
            placeholder="Any"
            autoComplete="off"
            spellCheck={false}
            onFocus={() => setWanted(true)}
            onChange={(event) => {
              setTyped(event.target.value);
              // Chosen from the list, or emptied: there is no further key to wait for.
              if (event.target.value === "" || (known.includes(event.target.value) && !(event.nativeEvent as InputEvent).inputType?.startsWith("insertText"))) tell(event.target.value);
            }}
            onBlur={() => tell(typed)}
            onKeyDown={(event) => {
              if (event.key === "Enter") tell(typed);
              if (event.key === "Escape") setTyped(value);
            }}
          />
          <datalist id={list}>
            {known.map((name) => (
              <option key={name} value={name} label={names.get(name) ?? name} />
            ))}
          </datalist>
        </>
      )}
    </Labelled>
  );
}

function More({ filters, onChange }: Omit<FilterBarProps, "names">) {
  const field = (name: "kind" | "method" | "role" | "tenant", label: string, hint: string) => (
    <Applied label={label} hint={hint} value={filters[name]} onChange={(value) => onChange({ [name]: value })} />
  );
  return (
    <Popover
      title="More filters"
      align="end"
      trigger={
        <Button size="s" icon={<SlidersHorizontal size={14} aria-hidden />}>
          More
        </Button>
      }
    >
      <div className={styles.more}>
        <Applied label="Slower than (ms)" value={filters.slower_than_ms} inputMode="numeric" onChange={(value) => onChange({ slower_than_ms: value.replace(/\D/g, "").slice(0, 9) })} />
        <Select
          label="Surface"
          controlSize="s"
          value={filters.surface}
          onChange={(surface) => onChange({ surface })}
          options={[{ value: "", label: "Any" }, ...SURFACE_WORDS.map(([value, label]) => ({ value, label }))]}
        />
        {field("kind", "Reason", "Such as backend_timeout")}
        {field("method", "Method", "Such as tools/call")}
        {field("role", "Role", "Of the caller")}
        {field("tenant", "Tenant", "Of the caller")}
        <div className={styles.wide}>
          <Moment label="From" value={filters.since} onChange={(since) => onChange({ since })} />
          <Moment label="Until" value={filters.until} onChange={(until) => onChange({ until })} />
          <Checkbox
            label="Bookkeeping, too"
            hint="Reads of the admin API, such as those of this page, and anchors of the audit chain"
            checked={filters.all !== ""}
            onChange={(isAll) => onChange({ all: isAll ? "true" : "" })}
          />
        </div>
      </div>
    </Popover>
  );
}

/** A field that applies with Enter, or when it is left. */
function Applied({ label, hint, value, onChange, inputMode }: { label: string; hint?: string; value: string; onChange: (value: string) => void; inputMode?: "numeric" }) {
  const [typed, setTyped] = useTyped(value, onChange);
  return <Input label={label} {...(hint !== undefined && { placeholder: hint })} value={typed} onChange={setTyped} controlSize="s" {...(inputMode && { inputMode })} />;
}

/** A moment in the reader's time zone; in the address it is milliseconds. */
function Moment({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  const ms = /^\d+$/.test(value) ? Number(value) : Date.parse(value);
  const local = Number.isFinite(ms) ? new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19) : "";
  return (
    <Input
      label={label}
      type="datetime-local"
      step={1}
      controlSize="s"
      value={local}
      onChange={(next) => {
        const at = Date.parse(next);
        onChange(Number.isFinite(at) ? String(at) : "");
      }}
    />
  );
}
