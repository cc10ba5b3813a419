// Content blocks as what they are. Bytes become blob URLs; SVG is only ever an image, where it runs nothing and loads nothing.

import { Download, ExternalLink } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { Badge, Bytes, Button, Code, Json, Text, formatCount } from "../../ui";
import { parseJson, printJson } from "../../ui/json-parse";
import type { JsonNode } from "../../ui/json-parse";
import { bytesOf, cellText, isJsonType, mediaOf } from "../../lib/calls/content";
import type { Block, FlatTable } from "../../lib/calls/content";
import { hrefOf } from "../../lib/catalog/entries";
import styles from "./result.module.css";

/** Text that is shown before "show all". */
const TEXT_CHARS = 6_000;
/** Base64 that is decoded without being asked. */
const MEDIA_CHARS_MAX = 24 << 20;

/** A URL of bytes, for as long as the component is there. */
function useBlobUrl(base64: string, mimeType: string): string | undefined {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    const bytes = base64.length > MEDIA_CHARS_MAX ? undefined : bytesOf(base64);
    if (bytes === undefined) {
      setUrl(undefined);
      return;
    }
    const made = URL.createObjectURL(new Blob([bytes], { type: mimeType }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [base64, mimeType]);
  return url;
}

/** A type of media without parameters and odd characters: it becomes that of a blob. */
function plainType(mimeType: string | undefined): string {
  const plain = (mimeType ?? "").toLowerCase().split(";")[0]?.trim() ?? "";
  return /^[a-z]+\/[a-z0-9.+-]+$/.test(plain) ? plain : "application/octet-stream";
}

export function BlockView({ block }: { block: Block }) {
  switch (block.type) {
    case "text":
      return <TextBlock text={block.text} mimeType={block.mimeType} />;
    case "image":
    case "audio":
      return <Media data={block.data} mimeType={block.mimeType} wanted={block.type} />;
    case "link":
      return <ResourceLink {...block} />;
    case "resource":
      return <Resource {...block} />;
    case "other":
      return <Json text={printJson(block.node)} label="Content of another kind" depth={3} />;
  }
}

function TextBlock({ text, mimeType }: { text: string; mimeType: string | undefined }) {
  // Many tools answer JSON as text; it is easier to read as such.
  const json = useMemo(() => (/^\s*[[{]/.test(text) || isJsonType(mimeType) ? parseJson(text) : undefined), [text, mimeType]);
  const [isPlain, setPlain] = useState(false);
  if (json !== undefined && json.kind !== "word" && !isPlain) {
    return (
      <div className={styles.stack}>
        <Json text={text} label="Text that is JSON" />
        <Button size="s" variant="ghost" className={styles.start} onClick={() => setPlain(true)}>
          Show the text as it came
        </Button>
      </div>
    );
  }
  if (text.length > TEXT_CHARS) {
    return (
      <div className={styles.text}>
        <Text value={text} max={TEXT_CHARS} block />
      </div>
    );
  }
  return <Code value={text} maxHeight={420} label="Text" />;
}

function Frame({ title, size, actions, children }: { title: ReactNode; size: number | undefined; actions?: ReactNode; children: ReactNode }) {
  return (
    <figure className={styles.frame}>
      <figcaption className={styles.caption}>
        <span className={styles.captionText}>{title}</span>
        {size !== undefined && (
          <span className={styles.dim}>
            <Bytes value={size} />
          </span>
        )}
        {actions}
      </figcaption>
      {children}
    </figure>
  );
}

function byteCount(base64: string): number {
  return Math.floor((base64.replace(/=+$/, "").length * 3) / 4);
}

function Media({ data, mimeType, wanted, name }: { data: string; mimeType: string; wanted: "image" | "audio" | undefined; name?: string }) {
  const media = mediaOf(mimeType);
  const type = plainType(mimeType);
  // What is not shown is saved only, and never as something that a browser opens.
  const url = useBlobUrl(data, media === undefined ? "application/octet-stream" : type);
  const [hasFailed, setFailed] = useState(false);
  const title = <Text value={name ?? (mimeType === "" ? (wanted ?? "bytes") : mimeType)} max={80} />;
  const save = url !== undefined && (
    <a className={styles.save} href={url} download={fileName(name, type)}>
      <Download size={13} aria-hidden /> Save
    </a>
  );
  if (url === undefined) {
    return (
      <Frame title={title} size={undefined}>
        <p className={styles.note}>{data.length > MEDIA_CHARS_MAX ? "This is too large to show." : "This is no base64."}</p>
        {data.length <= MEDIA_CHARS_MAX && <Code value={data.slice(0, 2_000)} maxHeight={160} label="As it came" />}
      </Frame>
    );
  }
  return (
    <Frame title={title} size={byteCount(data)} actions={save}>
      {media === "image" && !hasFailed && (
        <div className={styles.canvas}>
          <img src={url} alt={`Image of the result (${type})`} className={styles.image} onError={() => setFailed(true)} />
        </div>
      )}
      {media === "audio" && <audio src={url} controls preload="metadata" className={styles.audio} aria-label={`Sound of the result (${type})`} />}
      {hasFailed && <p className={styles.note}>The browser cannot show this image.</p>}
      {media === undefined && <p className={styles.note}>Not shown: only images and sound are.</p>}
    </Frame>
  );
}

const ENDS: Readonly<Record<string, string>> = {
  "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "image/svg+xml": "svg", "audio/wav": "wav", "audio/mpeg": "mp3",
  "application/json": "json", "application/pdf": "pdf", "text/plain": "txt", "application/gzip": "gz", "application/zip": "zip",
};

function fileName(name: string | undefined, type: string): string {
  const last = (name ?? "").split(/[/\\]/).at(-1) ?? "";
  const safe = last.replace(/[^\w.-]+/g, "_").slice(0, 80);
  if (/\.\w{1,8}$/.test(safe)) return safe;
  return `${safe || "result"}.${ENDS[type] ?? "bin"}`;
}

function ResourceLink({ uri, name, title, description, mimeType, size }: Extract<Block, { type: "link" }>) {
  return (
    <Frame
      title={
        <>
          <Badge>Resource</Badge> <Text value={title ?? name} max={120} />
        </>
      }
      size={size}
    >
      <div className={styles.linkBody}>
        <Link href={hrefOf("resources", uri)} className={styles.uri}>
          <ExternalLink size={13} aria-hidden /> <Text value={uri} max={200} mono />
        </Link>
        {mimeType !== undefined && (
          <span className={styles.dim}>
            <Text value={mimeType} max={80} />
          </span>
        )}
        {description !== undefined && <Text value={description} max={300} block />}
      </div>
    </Frame>
  );
}

function Resource({ uri, mimeType, text, blob }: Extract<Block, { type: "resource" }>) {
  const address = uri === "" ? undefined : (
    <Link href={hrefOf("resources", uri)} className={styles.uri}>
      <Text value={uri} max={160} mono />
    </Link>
  );
  if (blob !== undefined) {
    return (
      <div className={styles.stack}>
        {address}
        <Media data={blob} mimeType={mimeType ?? ""} wanted={undefined} name={uri} />
      </div>
    );
  }
  const media = mediaOf(mimeType);
  return (
    <div className={styles.stack}>
      <div className={styles.caption}>
        <span className={styles.captionText}>{address}</span>
        {mimeType !== undefined && (
          <span className={styles.dim}>
            <Text value={mimeType} max={80} />
          </span>
        )}
      </div>
      {media === "image" && text !== undefined && <SvgText text={text} mimeType={mimeType ?? ""} />}
      {text !== undefined && <TextBlock text={text} mimeType={mimeType} />}
    </div>
  );
}

/** An image that came as text. */
function SvgText({ text, mimeType }: { text: string; mimeType: string }) {
  const base64 = useMemo(() => {
    let binary = "";
    for (const byte of new TextEncoder().encode(text.slice(0, 2 << 20))) binary += String.fromCharCode(byte);
    return btoa(binary);
  }, [text]);
  return <Media data={base64} mimeType={mimeType} wanted="image" />;
}

/** Rows at first, and with each press on "more". */
const ROWS_STEP = 50;

export function FlatTableView({ table }: { table: FlatTable }) {
  const [shown, setShown] = useState(ROWS_STEP);
  return (
    <div className={styles.stack}>
      <div className={styles.tableScroll} tabIndex={0} role="region" aria-label={table.name === "" ? "The result as a table" : `${table.name.slice(0, 80)} as a table`}>
        <table className={styles.table}>
          <thead>
            <tr>
              {table.columns.map((column) => (
                <th key={column} scope="col">
                  <Text value={column} max={60} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.rows.slice(0, shown).map((row, index) => (
              <tr key={index}>
                {table.columns.map((column) => (
                  <Cell key={column} row={row} column={column} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div className={styles.dim}>
        {formatCount(table.rows.length)} rows
        {table.columnsLeftOut > 0 && `, ${formatCount(table.columnsLeftOut)} columns are not shown`}
        {table.rows.length > shown && (
          <>
            {" · "}
            <button type="button" className={styles.more} onClick={() => setShown(shown + ROWS_STEP * 4)}>
              Show {formatCount(Math.min(ROWS_STEP * 4, table.rows.length - shown))} more
            </button>
          </>
        )}
      </div>
    </div>
  );
}

function Cell({ row, column }: { row: JsonNode; column: string }) {
  const value = row.kind === "object" ? row.entries.findLast(([key]) => key === column)?.[1] : undefined;
  return (
    <td className={value?.kind === "number" ? styles.numeric : undefined}>
      <Text value={cellText(row, column)} max={160} />
    </td>
  );
}
