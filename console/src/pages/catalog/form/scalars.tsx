// Fields of values that contain no others.

import { CalendarClock, Dices, File as FileIcon, WrapText, X } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import type { ClipboardEvent } from "react";
import { Button, Code, IconButton, Text, cx, formatBytes, toast, visible } from "../../../ui";
import type { JsonNode } from "../../../ui/json-parse";
import { printJson, readJson } from "../../../ui/json-parse";
import { pointerOf } from "../../../lib/json/edit";
import type { Path } from "../../../lib/json/edit";
import { FALSE, TRUE, isSame, nodeOf } from "../../../lib/json/value";
import { numberIssue } from "../../../lib/form/facts";
import { localTime, rfcTime } from "../../../lib/form/times";
import type { ConstShape, EnumShape, NumberShape, OtherShape, Shape, StringShape } from "../../../lib/form/shape";
import { useForm, useIssue } from "./context";
import { Hint, IssueText, Name, Row } from "./field-row";
import type { RowProps } from "./field-row";
import styles from "./form.module.css";

export interface FieldProps<S extends Shape = Shape> {
  path: Path;
  shape: S;
  node: JsonNode | undefined;
  label: string;
  isRequired: boolean;
  /** An item of a list cannot be absent. */
  isItem: boolean;
  isBare?: boolean | undefined;
  actions?: RowProps["actions"];
}

function useField({ path, shape, label, isRequired, actions, isBare }: FieldProps) {
  const { edit } = useForm();
  const pointer = pointerOf(path);
  const issue = useIssue(pointer);
  const row: RowProps = { label, shape, isRequired, issue, actions, isBare };
  return { row, set: (value: JsonNode | undefined) => edit(path, value), issue, pointer };
}

/** Longer text is not laid out in a text field. */
const FIELD_CHARS_MAX = 50_000;

export function StringField(props: FieldProps<StringShape>) {
  const { shape, node, isRequired, isItem } = props;
  const value = node?.kind === "string" ? node.value : "";
  if (shape.isBase64) return <FileField {...props} />;
  if (value.length > FIELD_CHARS_MAX) return <LargeText {...props} value={value} />;
  return <TextField {...props} value={value} isKept={isRequired || isItem} />;
}

const PICKERS: Readonly<Record<string, "date" | "time" | "datetime-local">> = { date: "date", time: "time", "date-time": "datetime-local" };
const PLACEHOLDERS: Readonly<Record<string, string>> = {
  date: "2026-11-19", time: "14:30:00Z", "date-time": "2026-11-19T14:30:00Z", email: "name@example.com", uri: "https://example.com/", url: "https://example.com/",
  uuid: "00000000-0000-4000-8000-000000000000", ipv4: "192.0.2.1", hostname: "example.com", duration: "PT1H30M",
};

function TextField(props: FieldProps<StringShape> & { value: string; isKept: boolean }) {
  const { shape, value, node, isKept } = props;
  const { row, set } = useField(props);
  const { complete } = useForm();
  const [isTall, setTall] = useState(shape.isLong);
  const isMultiLine = isTall || value.includes("\n");
  const change = (text: string) => set(text === "" && !isKept ? undefined : { kind: "string", value: text });
  const picker = PICKERS[shape.format ?? ""];
  const fallback = shape.fallback?.value;
  const placeholder = typeof fallback === "string" && node === undefined ? fallback : PLACEHOLDERS[shape.format ?? ""];
  // A field of one line would lose the line breaks of what is pasted.
  const onPaste = (event: ClipboardEvent<HTMLInputElement>) => {
    const text = event.clipboardData.getData("text/plain");
    if (!/[\r\n]/.test(text.trim())) return;
    event.preventDefault();
    const { selectionStart, selectionEnd } = event.currentTarget;
    change(value.slice(0, selectionStart ?? value.length) + text.replace(/\r\n?/g, "\n") + value.slice(selectionEnd ?? value.length));
    setTall(true);
  };
  if (isMultiLine) {
    return (
      <Row {...row}>
        {(ids) => <textarea {...ids} className={cx(styles.control, styles.area)} rows={Math.min(12, Math.max(3, value.split("\n").length + 1))} spellCheck={false} value={value} onChange={(event) => change(event.target.value)} />}
      </Row>
    );
  }
  if (complete !== undefined) return <CompletedField {...props} row={row} change={change} />;
  return (
    <Row {...row}>
      {(ids) => (
        <span className={styles.beside}>
          <input {...ids} className={styles.control} autoComplete="off" spellCheck={false} inputMode={shape.format === "email" ? "email" : undefined} placeholder={placeholder} value={value} onChange={(event) => change(event.target.value)} onPaste={onPaste} />
          {picker !== undefined && <Picker type={picker} value={value} onPick={change} label={props.label} />}
          {shape.format === "uuid" && <IconButton size="s" label={`Make a UUID for ${props.label}`} icon={<Dices size={14} aria-hidden />} onClick={() => change(uuid())} />}
          {picker === undefined && shape.format === undefined && props.isBare !== true && (
            <IconButton size="s" label={`Several lines for ${props.label}`} icon={<WrapText size={14} aria-hidden />} onClick={() => setTall(true)} />
          )}
        </span>
      )}
    </Row>
  );
}

/** `crypto.randomUUID` is only there where the page came by HTTPS or from this machine. */
function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** The browser's own calendar behind a button; the text stays what is sent. */
function Picker({ type, value, onPick, label }: { type: "date" | "time" | "datetime-local"; value: string; onPick: (value: string) => void; label: string }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <span className={styles.picker}>
      <IconButton
        size="s"
        label={`Pick ${label}`}
        icon={<CalendarClock size={14} aria-hidden />}
        onClick={() => {
          try {
            input.current?.showPicker();
          } catch {
            input.current?.focus();
          }
        }}
      />
      <input
        ref={input}
        type={type}
        step={type === "date" ? undefined : 1}
        className={styles.native}
        tabIndex={-1}
        aria-hidden
        value={localTime(type, value)}
        onChange={(event) => {
          if (event.target.value !== "") onPick(rfcTime(type, event.target.value));
        }}
      />
    </span>
  );
}

/** Between a keystroke and the question what goes on from there. */
const COMPLETE_MS = 150;

function CompletedField({ shape, value, row, change, label }: FieldProps<StringShape> & { value: string; row: RowProps; change: (text: string) => void }) {
  const { complete } = useForm();
  const list = useId();
  const [values, setValues] = useState<string[]>([]);
  const [isAsking, setAsking] = useState(false);
  useEffect(() => {
    if (!isAsking || complete === undefined) return;
    const controller = new AbortController();
    const timer = window.setTimeout(() => {
      complete(label, value, controller.signal).then(
        (found) => {
          if (!controller.signal.aborted) setValues(found);
        },
        // A server without completion is no problem of whoever types.
        () => undefined,
      );
    }, COMPLETE_MS);
    return () => {
      window.clearTimeout(timer);
      controller.abort();
    };
  }, [complete, label, value, isAsking]);
  return (
    <Row {...row}>
      {(ids) => (
        <>
          <input {...ids} className={styles.control} list={list} autoComplete="off" spellCheck={false} value={value} placeholder={PLACEHOLDERS[shape.format ?? ""]} onFocus={() => setAsking(true)} onBlur={() => setAsking(false)} onChange={(event) => change(event.target.value)} />
          <datalist id={list}>
            {values.map((each) => (
              <option key={each} value={each} />
            ))}
          </datalist>
        </>
      )}
    </Row>
  );
}

function LargeText(props: FieldProps<StringShape> & { value: string }) {
  const { row, set } = useField(props);
  return (
    <Row {...row}>
      {(ids) => (
        <div {...ids} className={styles.large}>
          <Text value={props.value} max={120} /> ({formatBytes(props.value.length)})
          <Button size="s" onClick={() => set(undefined)}>
            Remove
          </Button>
        </div>
      )}
    </Row>
  );
}

/** The gateway takes bodies of a few MiB; base64 adds a third. */
const FILE_BYTES_MAX = 8 << 20;

function FileField(props: FieldProps<StringShape>) {
  const { node, shape, label } = props;
  const { row, set } = useField(props);
  const input = useRef<HTMLInputElement>(null);
  const [name, setName] = useState("");
  const value = node?.kind === "string" ? node.value : "";
  const take = (file: File | undefined) => {
    if (file === undefined) return;
    if (file.size > FILE_BYTES_MAX) {
      toast({ title: "The file is too large", detail: `At most ${formatBytes(FILE_BYTES_MAX)} can be sent from here.`, tone: "error" });
      return;
    }
    const reader = new FileReader();
    reader.onload = () => {
      const url = String(reader.result);
      setName(`${file.name}, ${formatBytes(file.size)}`);
      set({ kind: "string", value: url.slice(url.indexOf(",") + 1) });
    };
    reader.onerror = () => toast({ title: "The file cannot be read", tone: "error" });
    reader.readAsDataURL(file);
  };
  const isShort = value.length <= 2_000;
  return (
    <Row {...row}>
      {(ids) => (
        <div className={styles.file}>
          <span className={styles.beside}>
            {isShort ? (
              <input {...ids} className={cx(styles.control, styles.mono)} spellCheck={false} placeholder="base64, or a file" value={value} onChange={(event) => set(event.target.value === "" ? undefined : { kind: "string", value: event.target.value })} />
            ) : (
              <span {...ids} className={styles.large}>
                {formatBytes(Math.floor((value.length * 3) / 4))} as base64
              </span>
            )}
            <Button size="s" icon={<FileIcon size={14} aria-hidden />} onClick={() => input.current?.click()}>
              File…
            </Button>
            {value !== "" && (
              <IconButton
                size="s"
                label={`Empty ${label}`}
                icon={<X size={14} aria-hidden />}
                onClick={() => {
                  setName("");
                  set(undefined);
                }}
              />
            )}
          </span>
          <input ref={input} type="file" className="visually-hidden" tabIndex={-1} aria-label={`File for ${label}`} accept={shape.mediaType} onChange={(event) => take(event.target.files?.[0])} />
          {name !== "" && value !== "" && (
            <span className={styles.hint}>
              <Text value={name} max={100} />
            </span>
          )}
        </div>
      )}
    </Row>
  );
}

export function NumberField(props: FieldProps<NumberShape>) {
  const { node, shape, isItem } = props;
  const { row, set, issue } = useField(props);
  const text = node?.kind === "number" ? node.text : "";
  const fallback = shape.fallback?.value;
  // Exactly, which the check of the whole is not beyond what a double holds.
  const own = node === undefined ? undefined : numberIssue(shape, text);
  return (
    <Row {...row} issue={own ?? issue}>
      {(ids) => (
        <input
          {...ids}
          className={cx(styles.control, styles.number)}
          inputMode={shape.isInteger ? "numeric" : "decimal"}
          autoComplete="off"
          placeholder={fallback !== undefined && node === undefined ? String(fallback) : undefined}
          value={text}
          onChange={(event) => {
            const next = event.target.value.trim();
            set(next === "" && !isItem ? undefined : { kind: "number", text: next });
          }}
        />
      )}
    </Row>
  );
}

export function BooleanField(props: FieldProps<OtherShape>) {
  const { node } = props;
  const { row, set } = useField(props);
  const isSet = node?.kind === "word";
  const word = isSet ? node.text : "";
  const options: [string, JsonNode][] = [
    ["true", TRUE],
    ["false", FALSE],
  ];
  return (
    <Row {...row}>
      {(ids) => (
        <div {...ids} className={styles.segments} role="radiogroup" aria-label={props.label}>
          {options.map(([text, value]) => (
            <label key={text} className={styles.segment} data-checked={word === text || undefined}>
              <input type="radio" className="visually-hidden" name={ids.id} checked={word === text} onChange={() => set(value)} />
              {text}
            </label>
          ))}
          {!props.isRequired && !props.isItem && (
            <label className={styles.segment} data-checked={!isSet || undefined}>
              <input type="radio" className="visually-hidden" name={ids.id} checked={!isSet} onChange={() => set(undefined)} />
              not set
            </label>
          )}
        </div>
      )}
    </Row>
  );
}

/** A list of the browser with more is slow; then it is typed. */
const OPTIONS_MAX = 1_000;

export function EnumField(props: FieldProps<EnumShape>) {
  const { node, shape, isRequired, isItem } = props;
  const { row, set } = useField(props);
  const chosen = node === undefined ? -1 : shape.values.findIndex(({ value }) => isSame(nodeOf(value), node));
  const fallback = shape.fallback;
  const none = fallback === undefined || isRequired ? "Choose…" : "Not set";
  const isForeign = node !== undefined && chosen < 0;
  return (
    <Row {...row}>
      {(ids) => (
        <select
          {...ids}
          className={cx(styles.control, styles.select)}
          value={String(chosen)}
          onChange={(event) => {
            const value = shape.values[Number(event.target.value)];
            set(value === undefined ? undefined : nodeOf(value.value));
          }}
        >
          {(!isItem || chosen < 0) && <option value="-1">{isForeign ? "Another value" : isRequired || isItem ? none : "Not set"}</option>}
          {shape.values.slice(0, OPTIONS_MAX).map(({ label }, index) => (
            <option key={index} value={String(index)}>
              {visible(label.slice(0, 200))}
            </option>
          ))}
        </select>
      )}
    </Row>
  );
}

export function ConstField(props: FieldProps<ConstShape>) {
  const { node, shape, isRequired, label } = props;
  const { set, issue } = useField(props);
  const value = nodeOf(shape.value);
  const isThere = node !== undefined && isSame(node, value);
  return (
    <div className={styles.row} data-issue={issue !== "" || undefined} role="group" aria-label={label.slice(0, 200)}>
      <div className={styles.labelLine}>
        <span className={styles.label}>
          <Name value={label} />
        </span>
        <Text value={value.kind === "string" ? value.value : printJson(value)} mono max={200} />
        <span className={styles.facts}>always</span>
        <span className={styles.rowActions}>
          {!isThere && (
            <Button size="s" aria-label={`Use the value of ${label}`} onClick={() => set(value)}>
              Use it
            </Button>
          )}
          {isThere && !isRequired && (
            <Button size="s" variant="ghost" aria-label={`Leave ${label} out`} onClick={() => set(undefined)}>
              Leave out
            </Button>
          )}
        </span>
      </div>
      <Hint shape={shape} />
      <IssueText issue={issue} />
    </div>
  );
}

export function NullField(props: FieldProps<OtherShape>) {
  const { row, set } = useField(props);
  return (
    <Row {...row}>
      {(ids) => (
        <div {...ids} className={styles.constant}>
          <span className={styles.mono}>{props.node === undefined ? "not set" : "null"}</span>
          {props.node === undefined && (
            <Button size="s" onClick={() => set(nodeOf(null))}>
              Set it to null
            </Button>
          )}
        </div>
      )}
    </Row>
  );
}

/** Any value, written as JSON. Also for a value that is not what the schema wants. */
export function JsonField(props: FieldProps & { note?: string }) {
  const { node, note, isItem } = props;
  const { row, set, pointer } = useField(props);
  const { issues } = useForm();
  const printed = node === undefined ? "" : printJson(node);
  const [text, setText] = useState(printed);
  const shown = useRef(printed);
  // A change from elsewhere, the raw JSON for example, replaces what is written here.
  useEffect(() => {
    if (shown.current === printed) return;
    shown.current = printed;
    setText(printed);
    issues.block(pointer, undefined);
  }, [printed, issues, pointer]);
  useEffect(() => () => issues.block(pointer, undefined), [issues, pointer]);
  const change = (next: string) => {
    setText(next);
    if (next.trim() === "") {
      issues.block(pointer, undefined);
      shown.current = "";
      set(isItem ? nodeOf(null) : undefined);
      return;
    }
    const { node: read } = readJson(next);
    issues.block(pointer, read === undefined ? "This is no JSON." : undefined);
    if (read === undefined) return;
    shown.current = printJson(read);
    set(read);
  };
  if (printed.length > FIELD_CHARS_MAX) {
    return <Row {...row}>{() => <Code value={printed} maxHeight={200} label={props.label} />}</Row>;
  }
  return (
    <Row {...row}>
      {(ids) => (
        <>
          <textarea {...ids} className={cx(styles.control, styles.area, styles.mono)} rows={Math.min(10, Math.max(2, text.split("\n").length))} spellCheck={false} placeholder={'JSON: "text", 1, true, [], {}'} value={text} onChange={(event) => change(event.target.value)} />
          {note !== undefined && <div className={styles.hint}>{note}</div>}
        </>
      )}
    </Row>
  );
}
