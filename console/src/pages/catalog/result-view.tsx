// How a call goes and how it ended.

import { Ban, CircleCheck, CircleX, Hourglass, MessageCircleQuestion, OctagonX, RotateCcw, ShieldQuestion } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { answer, api } from "../../api/client";
import { useSession } from "../../api/session";
import { Badge, Button, Code, ConfirmDialog, CopyButton, Duration, InlineCode, Json, Tabs, Text, cx, formatCount, formatDuration } from "../../ui";
import { printJson } from "../../ui/json-parse";
import type { JsonNode } from "../../ui/json-parse";
import { memberOf } from "../../lib/json/edit";
import { blockOf, contentsOf, tableOf } from "../../lib/calls/content";
import type { Refusal, Result } from "../../lib/calls/outcome";
import { WAYS } from "../../lib/calls/run";
import type { Call } from "../../lib/calls/store";
import { BlockView, FlatTableView } from "./content-view";
import { QuestionsView } from "./questions-view";
import { WireView } from "./wire-view";
import styles from "./result.module.css";

interface ResultViewProps {
  call: Call;
  onCancel: () => void;
  /** Calls again with the arguments of the next page. */
  onNext: (input: JsonNode) => void;
}

type View = "result" | "structured" | "logs" | "raw" | "messages";

export function ResultView({ call, onCancel, onNext }: ResultViewProps) {
  const [wanted, setWanted] = useState<View>("result");
  const { outcome } = call;
  const isRunning = call.endedMs === undefined;
  const result = outcome?.kind === "result" ? outcome : undefined;
  const items: { value: View; label: string; count?: number }[] = [{ value: "result", label: "Result" }];
  if (result?.structured !== undefined && result.items.length > 0) items.push({ value: "structured", label: "Structured" });
  if (call.logs.length > 0) items.push({ value: "logs", label: "Log", count: call.logs.length + call.logsLeftOut });
  if (outcome !== undefined && outcome.kind !== "cancelled" && outcome.kind !== "stopped") items.push({ value: "raw", label: "Raw" });
  items.push({ value: "messages", label: "Messages", count: call.wire.length + call.wireLeftOut });
  const view = items.some(({ value }) => value === wanted) ? wanted : "result";
  return (
    <div className={styles.stack}>
      <Head call={call} isRunning={isRunning} onCancel={onCancel} />
      {isRunning && <Running call={call} />}
      <QuestionsView asking={call.asking} />
      <Confirmation call={call} />
      {(!isRunning || call.wire.length > 0) && (
        <Tabs<View> label="Views of the result" items={items} value={view} onChange={setWanted}>
          {view === "result" && (outcome === undefined ? <p className={styles.note}>No result yet.</p> : <OutcomeView call={call} onNext={onNext} />)}
          {view === "structured" && result?.structured !== undefined && <Structured node={result.structured} leftOut={result.rowsLeftOut} />}
          {view === "logs" && <Logs call={call} />}
          {view === "raw" && outcome !== undefined && <Raw call={call} />}
          {view === "messages" && <WireView wire={call.wire} leftOut={call.wireLeftOut} startedMs={call.startedMs} />}
        </Tabs>
      )}
    </div>
  );
}

function verdict(call: Call): { icon: ReactNode; tone: string; text: string } {
  const { outcome } = call;
  if (outcome === undefined) {
    if (call.asking.length > 0 || call.confirming !== undefined) return { icon: <MessageCircleQuestion size={16} aria-hidden />, tone: "info", text: "Waits for your answer" };
    return { icon: <Hourglass size={16} aria-hidden />, tone: "neutral", text: "Running" };
  }
  if (outcome.kind === "cancelled") return { icon: <Ban size={16} aria-hidden />, tone: "off", text: "Cancelled" };
  if (outcome.kind === "stopped") return { icon: <Ban size={16} aria-hidden />, tone: "off", text: "Stopped here" };
  if (outcome.kind === "refused") {
    const isOfBackend = ["backend_error", "json_rpc_error", "backend_timeout", "backend_unavailable", "backend_bad_reply"].includes(outcome.refusal.code);
    return { icon: <OctagonX size={16} aria-hidden />, tone: "error", text: isOfBackend ? "Failed" : "Refused" };
  }
  if (outcome.isError) return { icon: <CircleX size={16} aria-hidden />, tone: "warn", text: "The tool reports an error" };
  return { icon: <CircleCheck size={16} aria-hidden />, tone: "ok", text: "Succeeded" };
}

function Head({ call, isRunning, onCancel }: { call: Call; isRunning: boolean; onCancel: () => void }) {
  const { icon, tone, text } = verdict(call);
  const way = WAYS.find((each) => each.way === call.way)?.label ?? call.way;
  const requestId = call.requestIds.at(-1);
  return (
    <div className={styles.head}>
      <span className={cx(styles.verdict, styles[tone])} role="status">
        {icon}
        <span>{text}</span>
        {call.endedMs !== undefined && <span className="visually-hidden"> in {formatDuration((call.endedMs - call.startedMs) * 1000)}</span>}
      </span>
      <span className={styles.facts}>
        {call.endedMs === undefined ? <Elapsed sinceMs={call.startedMs} /> : <Duration ms={call.endedMs - call.startedMs} />}
        <span>{way}</span>
        {requestId !== undefined && (
          <span className={styles.requestId}>
            request <InlineCode>{requestId}</InlineCode>
            <CopyButton value={requestId} label="Copy the request id" />
          </span>
        )}
        {!isRunning && <RecordLink call={call} />}
      </span>
      {isRunning && (
        <Button size="s" icon={<Ban size={13} aria-hidden />} onClick={onCancel}>
          Cancel the call
        </Button>
      )}
    </div>
  );
}

function Elapsed({ sinceMs }: { sinceMs: number }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 100);
    return () => window.clearInterval(timer);
  }, []);
  return (
    <span className={styles.elapsed} aria-hidden>
      {formatDuration(Math.max(0, Math.floor((now - sinceMs) / 100) * 100) * 1000)}
    </span>
  );
}

/** A record is in the store within a fifth of a second, and a bit later while many calls come. */
const RECORD_TRIES = 6;
const RECORD_PAUSE_MS = 400;
/** REST names no request: its record is one of about that time. Clocks may differ by so much. */
const CLOCKS_MS = 60_000;
const SURFACES = { modern: "http", legacy: "http", rest: "rest", rpc: "rpc" } as const;

/** Records that belong to another call of this page. */
const taken = new Map<string, string>();

/** The key of the call's record: by its request id, and without one as the newest that fits. */
async function findRecord(call: Call, caller: string, signal: AbortSignal): Promise<string | undefined> {
  const id = call.requestIds.at(-1);
  const surface = SURFACES[call.way];
  const query = { tool: call.target.name, caller, since: "15m", limit: 40 };
  for (let tried = 0; tried < RECORD_TRIES; tried += 1) {
    await new Promise((resolve) => window.setTimeout(resolve, RECORD_PAUSE_MS));
    if (signal.aborted) return undefined;
    const { records } = await answer(api.GET("/admin/api/audit", { params: { query }, signal }));
    const found = records.find((record) => {
      if (record.surface !== surface) return false;
      if (id !== undefined) return record.request_id === id;
      const key = `${record.node}.${record.lane}.${record.seq}`;
      return record.request_id === null && Math.abs(record.at_ms - call.startedMs) < CLOCKS_MS && (taken.get(key) ?? call.id) === call.id;
    });
    if (found === undefined) continue;
    const key = `${found.node}.${found.lane}.${found.seq}`;
    taken.set(key, call.id);
    return key;
  }
  return undefined;
}

function RecordLink({ call }: { call: Call }) {
  const { isAdmin, caller } = useSession();
  const [key, setKey] = useState<string>();
  const subject = caller?.subject ?? "";
  const isWanted = isAdmin && call.outcome !== undefined && call.outcome.kind !== "stopped";
  useEffect(() => {
    if (!isWanted) return;
    const controller = new AbortController();
    setKey(undefined);
    findRecord(call, subject, controller.signal).then(
      (found) => {
        if (!controller.signal.aborted) setKey(found);
      },
      // Without an audit log there is no record to lead to.
      () => undefined,
    );
    return () => controller.abort();
    // Once for each call that ended.
  }, [call.id, call.endedMs, subject, isWanted]);
  if (!isWanted || key === undefined) return null;
  return <Link href={`/traffic?record=${encodeURIComponent(key)}`}>Its record in Traffic</Link>;
}

function Running({ call }: { call: Call }) {
  const { progress, task, logs } = call;
  const last = logs.at(-1);
  return (
    <div className={styles.running} aria-busy={false}>
      {progress !== undefined && (
        <div className={styles.progressLine}>
          <progress className={styles.progress} max={progress.total} value={progress.total === undefined ? undefined : progress.progress} aria-label="Progress of the call" />
          <span className={styles.dim}>
            {formatProgress(progress.progress)}
            {progress.total !== undefined && ` of ${formatProgress(progress.total)}`}
          </span>
          {progress.message !== undefined && <Text value={progress.message} max={160} />}
        </div>
      )}
      {task !== undefined && (
        <div className={styles.dim}>
          Runs as a task: <Badge>{task.status}</Badge> {task.message !== undefined && <Text value={task.message} max={160} />}
        </div>
      )}
      {last !== undefined && (
        <div className={styles.lastLog}>
          <Badge>{last.level}</Badge> <Text value={last.data.kind === "string" ? last.data.value : printJson(last.data)} line mono />
        </div>
      )}
    </div>
  );
}

function formatProgress(value: number): string {
  return Number.isInteger(value) ? formatCount(value) : String(Math.round(value * 1000) / 1000);
}

function Confirmation({ call }: { call: Call }) {
  const { confirming } = call;
  if (confirming === undefined) return null;
  return (
    <ConfirmDialog
      open
      danger
      title={
        <>
          Call <Text value={call.target.name} max={80} />?
        </>
      }
      confirmLabel="Confirm the call"
      onClose={() => confirming.answer(false)}
      onConfirm={async () => confirming.answer(true)}
    >
      <div className={styles.stack}>
        <p className={styles.confirmLine}>
          <ShieldQuestion size={16} aria-hidden /> <Text value={confirming.words} max={400} />
        </p>
        <Code value={call.input} copy={false} maxHeight={240} label="Arguments" />
      </div>
    </ConfirmDialog>
  );
}

function OutcomeView({ call, onNext }: { call: Call; onNext: (input: JsonNode) => void }) {
  const { outcome } = call;
  if (outcome === undefined) return null;
  switch (outcome.kind) {
    case "cancelled":
      return <p className={styles.note}>You cancelled the call. What the backend had already done stays done.</p>;
    case "stopped":
      return (
        <p className={styles.note}>
          The call was not finished: <Text value={outcome.why} max={300} />
        </p>
      );
    case "refused":
      return <RefusalView refusal={outcome.refusal} />;
    case "result":
      return <ResultBody result={outcome} onNext={onNext} />;
  }
}

function RefusalView({ refusal }: { refusal: Refusal }) {
  const { isAdmin } = useSession();
  const upstream = memberOf(refusal.raw, "upstream") ?? memberOf(memberOf(refusal.raw, "data"), "upstream");
  return (
    <div className={styles.refusal}>
      <strong>{refusal.title}</strong>
      {refusal.detail !== "" && (
        <div>
          <Text value={refusal.detail} max={1_200} block />
        </div>
      )}
      {refusal.issues.length > 0 && (
        <ul className={styles.issues}>
          {refusal.issues.slice(0, 30).map((issue, index) => (
            <li key={index}>
              {issue.pointer !== "" && <InlineCode>{issue.pointer}</InlineCode>} <Text value={issue.message} max={300} />
            </li>
          ))}
        </ul>
      )}
      {refusal.hint !== "" && (
        <p>
          <Text value={refusal.hint} max={400} />
        </p>
      )}
      <p className={styles.dim}>
        <InlineCode>{refusal.code}</InlineCode>
        {refusal.number !== undefined && ` · ${refusal.number > 0 && refusal.number < 600 ? "HTTP" : "JSON-RPC"} ${refusal.number}`}
        {refusal.isRetryable && " · another attempt can succeed"}
        {refusal.retryAfterMs !== undefined && ` in ${formatDuration(refusal.retryAfterMs * 1000)}`}
        {refusal.instance !== undefined && (
          <>
            {" · in the log as "}
            <InlineCode>{refusal.instance}</InlineCode>
          </>
        )}
        {isAdmin && NEXT[refusal.code] !== undefined && (
          <>
            {" · "}
            <Link href={NEXT[refusal.code]?.href ?? "/"}>{NEXT[refusal.code]?.label}</Link>
          </>
        )}
      </p>
      {upstream !== undefined && <Json text={printJson(upstream)} label="What the API answered" depth={2} />}
    </div>
  );
}

/** Where an operator sees more about a refusal. */
const NEXT: Readonly<Record<string, { href: string; label: string }>> = {
  forbidden: { href: "/access", label: "who may call what" },
  unknown_name: { href: "/access", label: "who sees what" },
  rate_limited: { href: "/limits", label: "limits as they stand" },
  overloaded: { href: "/limits", label: "admission as it stands" },
  disabled: { href: "/switches", label: "what is switched off" },
  circuit_open: { href: "/backends", label: "backends" },
  backend_unavailable: { href: "/backends", label: "backends" },
  backend_timeout: { href: "/backends", label: "backends" },
};

/** Blocks of one result that are shown at first. */
const BLOCKS_STEP = 20;

function ResultBody({ result, onNext }: { result: Result; onNext: (input: JsonNode) => void }) {
  const [shown, setShown] = useState(BLOCKS_STEP);
  const { items, structured, next, view } = result;
  return (
    <div className={styles.stack}>
      {result.description !== undefined && (
        <p className={styles.note}>
          <Text value={result.description} max={300} />
        </p>
      )}
      {items.slice(0, shown).map((item, index) =>
        view === "messages" ? <PromptMessage key={index} node={item} /> : <BlockView key={index} block={view === "contents" ? contentsOf(item) : blockOf(item)} />,
      )}
      {items.length > shown && (
        <Button size="s" className={styles.start} onClick={() => setShown(shown + BLOCKS_STEP)}>
          Show more of {formatCount(items.length)} parts
        </Button>
      )}
      {items.length === 0 && structured !== undefined && <Structured node={structured} leftOut={result.rowsLeftOut} />}
      {items.length === 0 && structured === undefined && <p className={styles.note}>The result is empty.</p>}
      {next !== undefined && (
        <Button size="s" className={styles.start} icon={<RotateCcw size={13} aria-hidden />} onClick={() => onNext(next)}>
          Call for the next page
        </Button>
      )}
    </div>
  );
}

function PromptMessage({ node }: { node: JsonNode }) {
  const role = memberOf(node, "role");
  const content = memberOf(node, "content");
  const parts = content?.kind === "array" ? content.items : content === undefined ? [] : [content];
  return (
    <div className={styles.turn}>
      <span className={styles.role}>
        <Text value={role?.kind === "string" ? role.value : "?"} max={30} />
      </span>
      <div className={styles.turnBody}>
        {parts.map((part, index) => (
          <BlockView key={index} block={blockOf(part)} />
        ))}
      </div>
    </div>
  );
}

function Structured({ node, leftOut }: { node: JsonNode; leftOut: number }) {
  const table = useMemo(() => tableOf(node), [node]);
  const text = useMemo(() => printJson(node), [node]);
  const [isTable, setTable] = useState(true);
  return (
    <div className={styles.stack}>
      {table !== undefined && (
        <div className={styles.switcher} role="group" aria-label="Form of the result">
          <Button size="s" variant={isTable ? "default" : "ghost"} aria-pressed={isTable} onClick={() => setTable(true)}>
            Table
          </Button>
          <Button size="s" variant={isTable ? "ghost" : "default"} aria-pressed={!isTable} onClick={() => setTable(false)}>
            JSON
          </Button>
        </div>
      )}
      {table !== undefined && isTable ? <FlatTableView table={table} /> : <Json text={text} label="Structured content" depth={3} />}
      {leftOut > 0 && <p className={styles.note}>{formatCount(leftOut)} more rows came, and are not kept.</p>}
    </div>
  );
}

/** Log lines that are shown at once. */
const LOGS_SHOWN = 200;

function Logs({ call }: { call: Call }) {
  const { logs, logsLeftOut } = call;
  const left = logsLeftOut + Math.max(0, logs.length - LOGS_SHOWN);
  return (
    <div className={styles.stack}>
      {left > 0 && <p className={styles.note}>{formatCount(left)} earlier lines are not shown.</p>}
      <ol className={styles.logs} aria-label="Log lines of the call">
        {logs.slice(-LOGS_SHOWN).map((line, index) => (
          <li key={index} className={styles.log}>
            <Badge tone={["error", "critical", "alert", "emergency"].includes(line.level) ? "error" : line.level === "warning" ? "warn" : "neutral"}>{line.level.slice(0, 20)}</Badge>
            {line.logger !== undefined && (
              <span className={styles.dim}>
                <Text value={line.logger} max={40} />
              </span>
            )}
            <Text value={line.data.kind === "string" ? line.data.value : printJson(line.data)} max={600} mono />
          </li>
        ))}
      </ol>
    </div>
  );
}

function Raw({ call }: { call: Call }) {
  const { outcome } = call;
  const node = outcome?.kind === "result" ? outcome.raw : outcome?.kind === "refused" ? outcome.refusal.raw : undefined;
  const text = useMemo(() => (node === undefined ? "" : printJson(node)), [node]);
  return node === undefined ? null : <Json text={text} label="The whole answer" depth={3} />;
}
