// JSON as a tree and as it was written.

import { ChevronDown, ChevronRight } from "lucide-react";
import { useMemo, useState } from "react";
import { Code } from "./code";
import { CopyButton } from "./copy-button";
import { formatCount } from "./format";
import { parseJson, printJson } from "./json-parse";
import type { JsonNode } from "./json-parse";
import { Text } from "./text";
import styles from "./code.module.css";

/** Larger text is shown raw: its tree would take too much memory. */
const TREE_CHARS_MAX = 4 << 20;
/** Members shown at first, and with each press on "more". */
const MEMBERS_STEP = 100;

export type JsonProps = {
  /** Levels that are open at first. */
  depth?: number;
  maxHeight?: number;
  label?: string;
} & (
  | { /** JSON as it arrived: numbers keep their digits. */ text: string; value?: never }
  | { value: unknown; text?: never }
);

export function Json({ text, value, depth = 2, maxHeight = 480, label = "JSON" }: JsonProps) {
  const source = useMemo(() => text ?? JSON.stringify(value, undefined, 2) ?? "undefined", [text, value]);
  const node = useMemo(() => (source.length > TREE_CHARS_MAX ? undefined : parseJson(source)), [source]);
  const [isRaw, setRaw] = useState(false);
  const isLeaf = node !== undefined && node.kind !== "object" && node.kind !== "array";
  const printed = useMemo(() => (isRaw && node !== undefined ? printJson(node) : source), [isRaw, node, source]);
  if (node === undefined) return <Code value={source} maxHeight={maxHeight} label={label} />;
  return (
    <div className={styles.code} style={{ "--code-height": `${maxHeight}px` } as React.CSSProperties}>
      <div className={styles.bar}>
        <div className={styles.views} role="group" aria-label="View">
          <button type="button" className={styles.view} aria-pressed={!isRaw} onClick={() => setRaw(false)}>
            Tree
          </button>
          <button type="button" className={styles.view} aria-pressed={isRaw} onClick={() => setRaw(true)}>
            Raw
          </button>
        </div>
        <CopyButton value={source} />
      </div>
      {isRaw ? (
        <Code value={printed} copy={false} maxHeight={maxHeight} label={label} />
      ) : (
        <div className={styles.tree} tabIndex={0} role="region" aria-label={label}>
          {isLeaf ? <Leaf node={node} /> : <Branch name={undefined} node={node} depth={depth} />}
        </div>
      )}
    </div>
  );
}

function Leaf({ node }: { node: JsonNode }) {
  if (node.kind === "string") return <span className={styles.string}>"<Text value={node.value} max={300} />"</span>;
  if (node.kind === "number") return <span className={styles.number}>{node.text}</span>;
  return <span className={styles.word}>{node.kind === "word" ? node.text : ""}</span>;
}

/** One member: a leaf on its line, or something that opens. */
function Branch({ name, node, depth }: { name: string | number | undefined; node: JsonNode; depth: number }) {
  const [isOpen, setOpen] = useState(depth > 0);
  const [shown, setShown] = useState(MEMBERS_STEP);
  const key = name === undefined ? null : (
    <span className={styles.key}>{typeof name === "number" ? name : <Text value={name} max={120} />}: </span>
  );
  if (node.kind !== "object" && node.kind !== "array") {
    return (
      <div className={styles.row}>
        {key}
        <Leaf node={node} />
      </div>
    );
  }
  const isObject = node.kind === "object";
  const count = isObject ? node.entries.length : node.items.length;
  const [open, close] = isObject ? ["{", "}"] : ["[", "]"];
  if (count === 0) {
    return (
      <div className={styles.row}>
        {key}
        <span className={styles.dim}>
          {open}
          {close}
        </span>
      </div>
    );
  }
  const unit = isObject ? (count === 1 ? "member" : "members") : count === 1 ? "item" : "items";
  const members: [string | number, JsonNode][] = isObject
    ? node.entries.slice(0, shown)
    : node.items.slice(0, shown).map((item, index) => [index, item]);
  return (
    <div className={name === undefined ? styles.children : styles.row}>
      <button type="button" className={styles.toggle} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />}
        <span>
          {key}
          <span className={styles.dim}>
            {open}
            {!isOpen && `…${close}`} {formatCount(count)} {unit}
          </span>
        </span>
      </button>
      {isOpen && (
        <div className={styles.children}>
          {members.map(([member, value], index) => (
            <Branch key={index} name={member} node={value} depth={depth - 1} />
          ))}
          {count > shown && (
            <button type="button" className={styles.more} onClick={() => setShown(shown + MEMBERS_STEP)}>
              Show {formatCount(Math.min(MEMBERS_STEP, count - shown))} more of {formatCount(count - shown)}
            </button>
          )}
        </div>
      )}
    </div>
  );
}
