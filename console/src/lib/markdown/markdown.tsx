// Shows a message that others wrote. See `parse.ts` for what of Markdown it knows.

import { useMemo } from "react";
import { Code, Text, visible } from "../../ui";
import { parseMarkdown } from "./parse";
import type { Block, Inline } from "./parse";
import styles from "./markdown.module.css";

/** Longer messages are shown as text, in pieces. */
const CHARS_MAX = 30_000;

export function Markdown({ value }: { value: string }) {
  const blocks = useMemo(() => (value.length > CHARS_MAX ? undefined : parseMarkdown(value)), [value]);
  if (blocks === undefined) return <Text value={value} block max={4_000} />;
  return (
    <div className={styles.markdown}>
      <Blocks blocks={blocks} />
    </div>
  );
}

function Blocks({ blocks }: { blocks: readonly Block[] }) {
  return blocks.map((block, index) => {
    switch (block.kind) {
      case "code":
        return <Code key={index} value={block.text} maxHeight={320} />;
      case "quote":
        return (
          <blockquote key={index} className={styles.quote}>
            <Blocks blocks={block.blocks} />
          </blockquote>
        );
      case "list": {
        const List = block.isOrdered ? "ol" : "ul";
        return (
          <List key={index} className={styles.list}>
            {block.items.map((item, at) => (
              <li key={at}>
                <Inlines parts={item} />
              </li>
            ))}
          </List>
        );
      }
      case "heading":
        return (
          <p key={index} className={styles.heading}>
            <Inlines parts={block.content} />
          </p>
        );
      default:
        return (
          <p key={index} className={styles.paragraph}>
            <Inlines parts={block.content} />
          </p>
        );
    }
  });
}

function Inlines({ parts }: { parts: readonly Inline[] }) {
  return (
    <bdi>
      {parts.map((part, index) => {
        const text = visible(part.text);
        if (part.kind === "code") return <code key={index} className={styles.code}>{text}</code>;
        if (part.kind === "strong") return <strong key={index}>{text}</strong>;
        if (part.kind === "emphasis") return <em key={index}>{text}</em>;
        return <span key={index}>{text}</span>;
      })}
    </bdi>
  );
}
