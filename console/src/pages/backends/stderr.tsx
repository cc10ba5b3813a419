// What the programs of a backend write to standard error: the last lines at once, then each as it comes.

import { ArrowDownToLine, Eraser } from "lucide-react";
import { memo, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Dispatch, SetStateAction } from "react";
import { openStream } from "../../api/stream";
import type { StreamStatus } from "../../api/stream";
import type { BackendStatus, SkippedLines, StderrLine } from "../../lib/control/contract";
import { NotHere, isMissing } from "../../lib/control/parts";
import { plural } from "../../lib/control/words";
import { Button, Card, Checkbox, CopyButton, ErrorState, SearchInput, Status, Text } from "../../ui";
import styles from "./backends.module.css";

interface Line {
  id: number;
  at_ms: number;
  text: string;
  child: string;
}

/** Kept in the page; the oldest go. */
const LINES_MAX = 1_000;
/** As long as the reader is so close to the end, new lines are followed. */
const END_PX = 24;
/** What programs colour their lines with; other control characters stay and are made visible. */
const COLOURS = /\u001b\[[0-9;]*m/g;

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

let next = 0;

/** Lines as they come, a batch each frame. Every connection begins with those that the gateway kept. */
function useLines(backend: string, setLines: Dispatch<SetStateAction<readonly Line[]>>): StreamStatus {
  const [status, setStatus] = useState<StreamStatus>({ state: "connecting", problem: undefined });
  useEffect(() => {
    const controller = new AbortController();
    let arrived: Line[] = [];
    let isFirst = false;
    let frame = 0;
    const flush = () => {
      frame = 0;
      const [batch, replaces] = [arrived, isFirst];
      arrived = [];
      isFirst = false;
      setLines((before) => (replaces ? batch : [...before, ...batch]).slice(-LINES_MAX));
    };
    void openStream(`/admin/api/backends/stderr?${new URLSearchParams({ backend })}`, {
      signal: controller.signal,
      onState: (state, problem) => {
        setStatus({ state, problem });
        if (state !== "live") return;
        arrived = [];
        isFirst = true;
      },
      onEvents: (events) => {
        for (const { event, data } of events) {
          if (event === "line") {
            const { at_ms, text, child } = JSON.parse(data) as StderrLine;
            arrived.push({ id: next++, at_ms, text: text.replace(COLOURS, ""), child });
          } else if (event === "skipped") {
            const { n } = JSON.parse(data) as SkippedLines;
            arrived.push({ id: next++, at_ms: 0, text: `(${plural(n, "line")} left out)`, child: "" });
          }
        }
        arrived = arrived.slice(-LINES_MAX);
        if (frame === 0) frame = requestAnimationFrame(flush);
      },
    });
    return () => {
      controller.abort();
      cancelAnimationFrame(frame);
    };
  }, [backend, setLines]);
  return status;
}

export function StandardError({ backend }: { backend: BackendStatus }) {
  const [lines, setLines] = useState<readonly Line[]>([]);
  const [search, setSearch] = useState("");
  const [follows, setFollows] = useState(true);
  const log = useRef<HTMLDivElement>(null);
  const { state, problem } = useLines(backend.name, setLines);
  const wanted = search.trim().toLowerCase();
  const shown = useMemo(() => (wanted === "" ? lines : lines.filter((line) => line.text.toLowerCase().includes(wanted))), [lines, wanted]);
  const hasChildren = new Set(lines.map((line) => line.child).filter(Boolean)).size > 1;
  useLayoutEffect(() => {
    if (follows) log.current?.scrollTo(0, log.current.scrollHeight);
  }, [shown, follows]);
  const onScroll = () => {
    const { current } = log;
    if (current !== null) setFollows(current.scrollHeight - current.scrollTop - current.clientHeight < END_PX);
  };
  if (isMissing(problem)) return <NotHere what="what its backends write to standard error" />;
  return (
    <Card flush>
      <div className={styles.logBar}>
        <SearchInput label="Search in the lines" value={search} onChange={setSearch} />
        <Checkbox label="Follow" checked={follows} onChange={setFollows} />
        <Status tone={state === "live" ? "ok" : state === "connecting" ? "info" : "warn"}>{state === "live" ? "live" : state}</Status>
        <Button size="s" icon={<Eraser size={14} aria-hidden />} onClick={() => setLines([])} disabled={lines.length === 0}>
          Clear
        </Button>
        <CopyButton label="Copy the lines" value={() => shown.map((line) => line.text).join("\n")} />
      </div>
      {problem !== undefined && state === "closed" && <ErrorState error={problem} compact />}
      <div ref={log} className={styles.log} role="log" aria-label={`Standard error of ${backend.name}`} aria-live="off" tabIndex={0} onScroll={onScroll}>
        {shown.map((line) => (
          <LogLine key={line.id} line={line} hasChild={hasChildren} />
        ))}
        {shown.length === 0 && (
          <p className={styles.logEmpty}>
            {lines.length > 0 ? "No line has that text." : backend.health === "asleep" ? "It is asleep: it writes again when the next call starts it." : "It wrote nothing yet. Lines appear here as they come."}
          </p>
        )}
      </div>
      {!follows && shown.length > 0 && (
        <div className={styles.logBar}>
          <Button size="s" icon={<ArrowDownToLine size={14} aria-hidden />} onClick={() => setFollows(true)}>
            Go to the newest line
          </Button>
        </div>
      )}
    </Card>
  );
}

const LogLine = memo(function LogLine({ line, hasChild }: { line: Line; hasChild: boolean }) {
  return (
    <div className={styles.line}>
      {line.at_ms > 0 && <span className={styles.lineAt}>{clock.format(line.at_ms)}</span>}
      {hasChild && (
        <span className={styles.lineChild}>
          <Text value={line.child} max={24} />
        </span>
      )}
      <span className={styles.lineText}>
        <Text value={line.text} max={2_000} />
      </span>
    </div>
  );
});
