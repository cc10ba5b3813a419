// The field of a schema: what kind it is decides what is shown. Objects, lists and alternatives contain further fields.

import { ArrowDown, ArrowUp, ChevronDown, ChevronRight, Plus, X } from "lucide-react";
import { memo, useState } from "react";
import type { ReactNode } from "react";
import { Button, Checkbox, IconButton, Text, cx, formatCount, visible } from "../../../ui";
import type { JsonNode } from "../../../ui/json-parse";
import { memberOf, moveItem, pointerOf, renameMember } from "../../../lib/json/edit";
import type { Path } from "../../../lib/json/edit";
import { NULL, isSame, nodeOf } from "../../../lib/json/value";
import type { Schema } from "../../../lib/form/flatten";
import { blank, fit, initial, optionOf, switched } from "../../../lib/form/initial";
import { shapeOf } from "../../../lib/form/shape";
import type { ArrayShape, ChoiceShape, EnumShape, ObjectShape, Shape } from "../../../lib/form/shape";
import { useForm, useIssue } from "./context";
import { Facts, Hint, IssueText, Name, Required } from "./field-row";
import { BooleanField, ConstField, EnumField, JsonField, NullField, NumberField, StringField } from "./scalars";
import type { FieldProps } from "./scalars";
import styles from "./form.module.css";

/** Members and items that are shown at first, and with each press on "more". */
const STEP = 40;
/** Deeper values are written as JSON. */
const DEPTH_MAX = 24;

interface SchemaFieldProps {
  path: Path;
  schema: Schema;
  node: JsonNode | undefined;
  name: string;
  isRequired: boolean;
  isItem?: boolean;
  isBare?: boolean | undefined;
  actions?: ReactNode;
}

function isPath(a: Path, b: Path): boolean {
  return a.length === b.length && a.every((step, index) => step === b[index]);
}

export const SchemaField = memo(
  function SchemaField({ path, schema, node, name, isRequired, isItem = false, isBare, actions }: SchemaFieldProps) {
    const { document, hasTitles } = useForm();
    const shape = shapeOf(document, schema);
    const label = hasTitles ? (shape.title ?? name) : name;
    const props = { path, shape, node, label, isRequired, isItem, isBare, actions };
    return <ShapeField {...props} schema={schema} />;
  },
  (a, b) =>
    a.schema === b.schema && a.node === b.node && a.name === b.name && a.isRequired === b.isRequired && a.isItem === b.isItem && a.isBare === b.isBare && a.actions === b.actions && isPath(a.path, b.path),
);

const WANTED: Partial<Record<Shape["kind"], string>> = { string: "a text", number: "a number", boolean: "true or false", array: "a list", object: "an object" };

function hasKind(shape: Shape, node: JsonNode): boolean {
  if (shape.kind === "boolean") return node.kind === "word" && node.text !== "null";
  if (shape.kind === "null") return node.kind === "word" && node.text === "null";
  if (["string", "number", "array", "object"].includes(shape.kind)) return node.kind === shape.kind;
  return true;
}

function ShapeField(props: FieldProps & { schema: Schema }) {
  const { shape, node, path, schema } = props;
  const { document, edit } = useForm();
  const isNull = node?.kind === "word" && node.text === "null";
  if (shape.isNullable && shape.kind !== "null" && shape.kind !== "any") {
    const toggle = (
      <Button size="s" variant="ghost" aria-pressed={isNull} aria-label={`null for ${props.label}`} onClick={() => edit(path, isNull ? (props.isItem ? blank(document, schema) : initial(document, schema)) : NULL)}>
        {isNull ? "not null" : "null"}
      </Button>
    );
    const actions = (
      <>
        {toggle}
        {props.actions}
      </>
    );
    if (isNull) return <NullField {...props} shape={{ ...shape, kind: "null" } as FieldProps["shape"] & { kind: "null" }} actions={actions} />;
    return <KindField {...props} actions={actions} />;
  }
  return <KindField {...props} />;
}

function KindField(props: FieldProps & { schema: Schema }) {
  const { shape, node, path } = props;
  if (node !== undefined && !hasKind(shape, node)) return <JsonField {...props} note={`The schema wants ${WANTED[shape.kind] ?? "something else"} here.`} />;
  if (path.length > DEPTH_MAX) return <JsonField {...props} note="It is too deep for a form." />;
  switch (shape.kind) {
    case "string":
      return <StringField {...props} shape={shape} />;
    case "number":
      return <NumberField {...props} shape={shape} />;
    case "boolean":
      return <BooleanField {...props} shape={shape} />;
    case "enum":
      return <EnumField {...props} shape={shape} />;
    case "const":
      return <ConstField {...props} shape={shape} />;
    case "null":
      return <NullField {...props} shape={shape} />;
    case "object":
      return <ObjectField {...props} shape={shape} />;
    case "array":
      return <ArrayField {...props} shape={shape} />;
    case "choice":
      return <ChoiceField {...props} shape={shape} />;
    case "never":
      return node === undefined ? null : <JsonField {...props} note="The schema allows no value here." />;
    case "any":
      return <JsonField {...props} />;
  }
}

/** A value that contains others: it opens and closes, and is not there until it is added. */
function Group({ props, children, count }: { props: FieldProps & { schema: Schema }; children: ReactNode; count?: string }) {
  const { shape, path, node, label, isRequired, isItem, actions, schema, isBare } = props;
  const { document, edit } = useForm();
  const issue = useIssue(pointerOf(path));
  const [isOpen, setOpen] = useState(true);
  if (node === undefined) {
    return (
      <div className={styles.row} data-issue={issue !== "" || undefined}>
        <div className={styles.labelLine}>
          <span className={styles.label}>
            <Name value={label} />
            {isRequired && <Required />}
          </span>
          <Facts shape={shape} />
          <span className={styles.rowActions}>
            {actions}
            <Button size="s" icon={<Plus size={13} aria-hidden />} aria-label={`Add ${label}`} onClick={() => edit(path, blank(document, schema))}>
              Add
            </Button>
          </span>
        </div>
        <Hint shape={shape} />
        <IssueText issue={issue} />
      </div>
    );
  }
  return (
    <fieldset className={cx(styles.group, isBare === true && styles.bare)} data-issue={issue !== "" || undefined}>
      <legend className="visually-hidden">{label.slice(0, 200)}</legend>
      {isBare !== true && (
        <div className={styles.labelLine}>
          <button type="button" className={styles.fold} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />}
            <span className={styles.label}>
              <Name value={label} />
              {isRequired && <Required />}
            </span>
          </button>
          <Facts shape={shape} />
          {count !== undefined && !isOpen && <span className={styles.facts}>{count}</span>}
          <span className={styles.rowActions}>
            {actions}
            {!isRequired && !isItem && <IconButton size="s" label={`Remove ${label}`} icon={<X size={14} aria-hidden />} onClick={() => edit(path, undefined)} />}
          </span>
        </div>
      )}
      {isBare !== true && <Hint shape={shape} />}
      <IssueText issue={issue} />
      {(isOpen || isBare === true) && <div className={styles.inside}>{children}</div>}
    </fieldset>
  );
}

export function ObjectField(props: FieldProps<ObjectShape> & { schema: Schema }) {
  const { node } = props;
  const count = node?.kind === "object" ? node.entries.length : 0;
  return (
    <Group props={props} count={count === 1 ? "1 member" : `${count} members`}>
      <Members shape={props.shape} node={node} path={props.path} />
    </Group>
  );
}

/** The members of an object: those that the schema names, then the others. */
export function Members({ shape, node, path }: { shape: ObjectShape; node: JsonNode | undefined; path: Path }) {
  const [shown, setShown] = useState(STEP);
  const named = new Set(shape.members.map(({ name }) => name));
  const others = node?.kind === "object" ? [...new Map(node.entries)].filter(([key]) => !named.has(key)) : [];
  // What has to be there comes first; both in the order of the schema.
  const ordered = [...shape.members.filter(({ isRequired }) => isRequired), ...shape.members.filter(({ isRequired }) => !isRequired)];
  return (
    <>
      {ordered.slice(0, shown).map(({ name, schema, isRequired }) => (
        <SchemaField key={name} path={[...path, name]} schema={schema} node={memberOf(node, name)} name={name} isRequired={isRequired} />
      ))}
      {ordered.length > shown && (
        <Button size="s" onClick={() => setShown(shown + STEP)}>
          Show {formatCount(Math.min(STEP, ordered.length - shown))} more of {formatCount(ordered.length - shown)} members
        </Button>
      )}
      {(shape.isMap || others.length > 0) && <OtherMembers shape={shape} node={node} path={path} others={others} />}
    </>
  );
}

function OtherMembers({ shape, node, path, others }: { shape: ObjectShape; node: JsonNode | undefined; path: Path; others: [string, JsonNode][] }) {
  const { document, edit } = useForm();
  const [shown, setShown] = useState(STEP);
  const rest = shape.rest === false ? true : shape.rest;
  const add = () => {
    let key = "key";
    for (let number = 2; memberOf(node, key) !== undefined; number += 1) key = `key${number}`;
    edit([...path, key], blank(document, rest));
  };
  return (
    <div className={styles.others}>
      {shape.rest === false && <div className={styles.hint}>The schema has no such members:</div>}
      {others.slice(0, shown).map(([key, value], index) => (
        <div key={index} className={styles.entry}>
          <KeyInput name={key} onRename={(to) => node !== undefined && edit(path, renameMember(node, key, to))} isTaken={(to) => to !== key && memberOf(node, to) !== undefined} />
          <div className={styles.entryValue}>
            <SchemaField path={[...path, key]} schema={rest} node={value} name={key} isRequired isItem isBare />
          </div>
          <IconButton size="s" label={`Remove ${key}`} icon={<X size={14} aria-hidden />} onClick={() => edit([...path, key], undefined)} />
        </div>
      ))}
      {others.length > shown && (
        <Button size="s" onClick={() => setShown(shown + STEP)}>
          Show more
        </Button>
      )}
      {shape.isMap && (
        <Button size="s" icon={<Plus size={13} aria-hidden />} onClick={add}>
          Add a member
        </Button>
      )}
    </div>
  );
}

/** The name of a member of a map; it changes when the field is left. */
function KeyInput({ name, onRename, isTaken }: { name: string; onRename: (to: string) => void; isTaken: (to: string) => boolean }) {
  const [text, setText] = useState(name);
  const [last, setLast] = useState(name);
  if (last !== name) {
    setLast(name);
    setText(name);
  }
  const taken = isTaken(text);
  const commit = () => {
    if (taken) setText(name);
    else if (text !== name) onRename(text);
  };
  return (
    <input
      className={cx(styles.control, styles.key)}
      aria-label="Name of the member"
      aria-invalid={taken || undefined}
      title={taken ? "There is a member of that name" : undefined}
      spellCheck={false}
      autoComplete="off"
      value={text}
      onChange={(event) => setText(event.target.value)}
      onBlur={commit}
      onKeyDown={(event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        commit();
      }}
    />
  );
}

/** Values of a list that are better ticked than added one by one. */
const TICKS_MAX = 16;

export function ArrayField(props: FieldProps<ArrayShape> & { schema: Schema }) {
  const { shape, node, path } = props;
  const { document } = useForm();
  const items = node?.kind === "array" ? node.items : [];
  const item = shape.prefix.length === 0 ? shapeOf(document, shape.items) : undefined;
  if (item?.kind === "enum" && item.values.length <= TICKS_MAX && (shape.isUnique || shape.maxItems >= item.values.length) && isSubset(items, item)) {
    return (
      <Group props={{ ...props, node: node ?? (props.isRequired ? { kind: "array", items: [] } : undefined) }} count={`${items.length} chosen`}>
        <Ticks items={items} item={item} path={path} label={props.label} />
      </Group>
    );
  }
  return (
    <Group props={props} count={items.length === 1 ? "1 item" : `${items.length} items`}>
      <Items shape={shape} items={items} path={path} label={props.label} />
    </Group>
  );
}

function isSubset(items: readonly JsonNode[], item: EnumShape): boolean {
  return items.every((node, index) => item.values.some(({ value }) => isSame(nodeOf(value), node)) && items.findIndex((other) => isSame(other, node)) === index);
}

function Ticks({ items, item, path, label }: { items: readonly JsonNode[]; item: EnumShape; path: Path; label: string }) {
  const { edit } = useForm();
  return (
    <div className={styles.ticks} role="group" aria-label={label.slice(0, 200)}>
      {item.values.map(({ value, label: text }, index) => {
        const node = nodeOf(value);
        const isThere = items.some((each) => isSame(each, node));
        return (
          <Checkbox
            key={index}
            label={<Text value={text} max={80} />}
            checked={isThere}
            onChange={(checked) => {
              // In the order of the schema, whatever order they were ticked in.
              const chosen = item.values.map((each) => nodeOf(each.value)).filter((each) => (isSame(each, node) ? checked : items.some((other) => isSame(other, each))));
              edit(path, { kind: "array", items: chosen });
            }}
          />
        );
      })}
    </div>
  );
}

function isScalar(shape: Shape): boolean {
  return ["string", "number", "boolean", "enum", "const", "null", "any"].includes(shape.kind);
}

function Items({ shape, items, path, label }: { shape: ArrayShape; items: readonly JsonNode[]; path: Path; label: string }) {
  const { document, edit } = useForm();
  const [shown, setShown] = useState(STEP);
  const fixed = shape.prefix.length;
  const list: JsonNode = { kind: "array", items: [...items] };
  const canAdd = items.length < shape.maxItems;
  const next = shape.prefix[items.length] ?? shape.items;
  return (
    <>
      {items.slice(0, shown).map((item, index) => {
        const schema = shape.prefix[index] ?? shape.items;
        const each = shapeOf(document, schema);
        const isFixed = index < fixed;
        const itemName = each.title !== undefined && isFixed ? each.title : `${index + 1}`;
        const controls = (
          <span className={styles.itemActions}>
            {!isFixed && <IconButton size="s" label={`Move item ${index + 1} of ${label} up`} icon={<ArrowUp size={13} aria-hidden />} disabled={index <= fixed} onClick={() => edit(path, moveItem(list, index, index - 1))} />}
            {!isFixed && <IconButton size="s" label={`Move item ${index + 1} of ${label} down`} icon={<ArrowDown size={13} aria-hidden />} disabled={index >= items.length - 1} onClick={() => edit(path, moveItem(list, index, index + 1))} />}
            {(!isFixed || index === items.length - 1) && <IconButton size="s" label={`Remove item ${index + 1} of ${label}`} icon={<X size={14} aria-hidden />} onClick={() => edit([...path, index], undefined)} />}
          </span>
        );
        const field = (isBare: boolean) => <SchemaField path={[...path, index]} schema={schema} node={item} name={isBare ? `${label} ${index + 1}` : itemName} isRequired isItem isBare={isBare} />;
        if (isScalar(each) && !each.isNullable) {
          return (
            <div key={index} className={styles.entry}>
              <span className={styles.itemNumber}>{isFixed && each.title !== undefined ? <Text value={each.title} max={40} /> : index + 1}</span>
              <div className={styles.entryValue}>{field(true)}</div>
              {controls}
            </div>
          );
        }
        return (
          <div key={index} className={styles.item}>
            {controls}
            {field(false)}
          </div>
        );
      })}
      {items.length > shown && (
        <Button size="s" onClick={() => setShown(shown + STEP)}>
          Show {formatCount(Math.min(STEP, items.length - shown))} more of {formatCount(items.length - shown)} items
        </Button>
      )}
      {canAdd && next !== false && (
        <div>
          <Button size="s" icon={<Plus size={13} aria-hidden />} aria-label={`Add an item to ${label}`} onClick={() => edit([...path, items.length], blank(document, next))}>
            Add an item
          </Button>
        </div>
      )}
    </>
  );
}

export function ChoiceField(props: FieldProps<ChoiceShape> & { schema: Schema }) {
  const { shape, node, path, label, isRequired, isItem, actions } = props;
  const { document, edit } = useForm();
  const issue = useIssue(pointerOf(path));
  const [wanted, setWanted] = useState(-1);
  const found = optionOf(document, shape.options, node);
  // What was chosen stays, also where the value could be another alternative by now, unless it cannot be this one any more.
  const wantedOption = shape.options[wanted];
  const isWanted = wantedOption !== undefined && node !== undefined && fit(document, wantedOption.schema, node) > -1_000_000;
  const chosen = isWanted ? wanted : found;
  const option = shape.options[chosen];
  const choose = (index: number) => {
    setWanted(index);
    const next = shape.options[index];
    edit(path, next === undefined ? undefined : switched(document, next.schema, node));
  };
  return (
    <fieldset className={cx(styles.group, props.isBare === true && styles.bare)} data-issue={issue !== "" || undefined}>
      <legend className="visually-hidden">{label.slice(0, 200)}</legend>
      <div className={styles.labelLine}>
        <span className={styles.label}>
          <Name value={label} />
          {isRequired && !isItem && <Required />}
        </span>
        <select className={cx(styles.control, styles.select, styles.chooser)} aria-label={`Kind of ${label}`.slice(0, 200)} value={String(chosen)} onChange={(event) => choose(Number(event.target.value))}>
          {(chosen < 0 || (!isRequired && !isItem)) && <option value="-1">{node !== undefined && chosen < 0 ? "None of them" : isRequired || isItem ? "Choose…" : "Not set"}</option>}
          {shape.options.map((each, index) => (
            <option key={index} value={String(index)}>
              {visible(each.label.slice(0, 120))}
            </option>
          ))}
        </select>
        <span className={styles.rowActions}>{actions}</span>
      </div>
      <Hint shape={shape} />
      {option?.description !== undefined && (
        <div className={styles.hint}>
          <Text value={option.description} max={240} />
        </div>
      )}
      <IssueText issue={issue} />
      {option !== undefined && (
        <div className={styles.inside}>
          <SchemaField key={chosen} path={path} schema={option.schema} node={node} name={label} isRequired isItem={isItem} isBare />
        </div>
      )}
      {option === undefined && node !== undefined && <JsonField {...props} label={label} isBare />}
    </fieldset>
  );
}
