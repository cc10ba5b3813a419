// One record: what happened and why, the way of the call, its arguments, every field, and what can be done with it.

import { Braces, ChevronDown, ChevronUp, Copy, FlaskConical, Terminal } from "lucide-react";
import { useEffect, useMemo } from "react";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { answer, api, request } from "../../api/client";
import { Problem } from "../../api/problem";
import { useLive } from "../../api/live";
import { useSession } from "../../api/session";
import { useQuery } from "../../api/use-query";
import { hrefOf } from "../../lib/catalog/entries";
import type { Kind } from "../../lib/catalog/entries";
import { asCurl, asJson, asMcp, recordedArguments } from "../../lib/records/copy-as";
import type { Copied } from "../../lib/records/copy-as";
import { argumentsNote, explain, switchesOf } from "../../lib/records/explain";
import type { AdviceTable } from "../../lib/records/explain";
import { CallerName } from "../../lib/records/caller-name";
import type { CallerNames } from "../../lib/records/caller-name";
import { trafficHref } from "../../lib/records/filters";
import { rawMember } from "../../lib/records/raw";
import { isCall, outcomeTone, outcomeWord, subjectOf, surfaceWord } from "../../lib/records/record";
import type { AuditRecord } from "../../lib/records/record";
import { useNarrow } from "../../ui/use-narrow";
import { useAdvice } from "../../lib/records/use-advice";
import { timeParts, timeline } from "../../lib/records/story";
import type { StoryStep } from "../../lib/records/story";
import {
  Ago,
  Bytes,
  Button,
  DefinitionList,
  Drawer,
  Duration,
  ErrorState,
  IconButton,
  InlineCode,
  Json,
  LinkButton,
  Loading,
  Menu,
  Section,
  Status,
  Text,
  Time,
  copyText,
  formatDuration,
  toast,
} from "../../ui";
import styles from "./record-drawer.module.css";

/** The answer of `/admin/api/audit/record`, and its record as it was written. */
interface Story {
  record: AuditRecord;
  raw: string | undefined;
  steps: StoryStep[];
  isKnown: boolean;
  traceId: string | undefined;
  beganMs: number | undefined;
  rounds: number | undefined;
  questions: number | undefined;
  attempts: number | undefined;
  waitedUs: number | undefined;
  backendUs: number | undefined;
}

async function loadStory(key: string, signal: AbortSignal): Promise<Story> {
  const response = await request(`/admin/api/audit/record?${new URLSearchParams({ key })}`, { signal });
  const text = await response.text();
  const read = JSON.parse(text) as {
    record: AuditRecord;
    steps?: StoryStep[] | null;
    story_known?: boolean;
    trace_id?: string | null;
    began_ms?: number | null;
    rounds?: number | null;
    questions?: number | null;
    attempts?: number | null;
    waited_us?: number | null;
    backend_us?: number | null;
  };
  return {
    record: read.record,
    raw: rawMember(text, "record"),
    steps: read.steps ?? [],
    isKnown: read.story_known === true,
    traceId: read.trace_id ?? undefined,
    beganMs: read.began_ms ?? undefined,
    rounds: read.rounds ?? undefined,
    questions: read.questions ?? undefined,
    attempts: read.attempts ?? undefined,
    waitedUs: read.waited_us ?? undefined,
    backendUs: read.backend_us ?? undefined,
  };
}

export interface RecordDrawerProps {
  /** The key of the record that is shown. */
  recordKey: string | null;
  /** What the list knows of it. */
  known: AuditRecord | undefined;
  names: CallerNames;
  onClose: () => void;
  /** The neighbours in the list. */
  newer: string | undefined;
  older: string | undefined;
  onGo: (key: string) => void;
}

export function RecordDrawer({ recordKey, known, names, onClose, newer, older, onGo }: RecordDrawerProps) {
  const story = useQuery(recordKey === null ? null : `record ${recordKey}`, (signal) => loadStory(recordKey ?? "", signal));
  const advice = useAdvice();
  const record = story.data?.record ?? known;

  // The list is behind the drawer, so its own keys do not reach it.
  useEffect(() => {
    if (recordKey === null) return;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      const next = event.key === "j" ? older : event.key === "k" ? newer : undefined;
      if (next !== undefined) onGo(next);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [recordKey, newer, older, onGo]);

  return (
    <Drawer
      open={recordKey !== null}
      onClose={onClose}
      title={record === undefined ? "Record" : <Text value={subjectOf(record)} max={120} />}
      description={
        record !== undefined && (
          <span className={styles.summary}>
            <Status tone={outcomeTone(record)}>{outcomeWord(record)}</Status>
            {record.caller !== "" && (
              <span className={styles.by}>
                by <CallerName caller={record.caller} names={names} />
              </span>
            )}
            <span>
              <Ago ms={record.at_ms} />
            </span>
            {isCall(record) && (
              <span>
                took <Duration us={record.latency_us} />
              </span>
            )}
          </span>
        )
      }
      footer={
        record !== undefined && (
          <>
            <span className={styles.neighbours}>
              <IconButton label="Newer record (k)" icon={<ChevronUp size={16} aria-hidden />} disabled={newer === undefined} onClick={() => newer !== undefined && onGo(newer)} />
              <IconButton label="Older record (j)" icon={<ChevronDown size={16} aria-hidden />} disabled={older === undefined} onClick={() => older !== undefined && onGo(older)} />
            </span>
            <Actions record={record} raw={story.data?.raw} />
          </>
        )
      }
    >
      {record === undefined ? (
        story.error === undefined ? (
          <Loading label="Looking for the record…" />
        ) : (
          <ErrorState error={story.error} onRetry={story.refetch} />
        )
      ) : (
        <Body record={record} names={names} story={story.data} advice={advice} problem={story.error} onRetry={story.refetch} isLoading={story.isLoading} />
      )}
    </Drawer>
  );
}

interface BodyProps {
  record: AuditRecord;
  names: CallerNames;
  story: Story | undefined;
  advice: AdviceTable;
  problem: Problem | undefined;
  onRetry: () => void;
  isLoading: boolean;
}

function Body({ record, names, story, advice, problem, onRetry, isLoading }: BodyProps) {
  const { overview } = useLive();
  const off = record.kind === "disabled" ? switchesOf(record, overview?.killed ?? []) : [];
  const { title, what, todo, code, next } = useMemo(() => explain(record, advice), [record, advice]);
  return (
    <div className={styles.body} aria-busy={isLoading || undefined}>
      <Section title="What happened">
        <div className={`${styles.verdict} ${styles[outcomeTone(record)]}`}>
          <strong>{title}</strong>
          <p>
            <Prose text={what} />
          </p>
          {off.map(({ scope, name, reason }) => (
            <p key={`${scope} ${name ?? ""}`}>
              Off now: {scope === "all" ? "everything" : <>the {scope} <Text value={name ?? ""} max={120} /></>}
              {reason ? (
                <>
                  , because <q><Text value={reason} max={300} /></q>
                </>
              ) : (
                ", without a reason"
              )}
              .
            </p>
          ))}
          {todo !== "" && (
            <p>
              <span className={styles.todo}>What to do: </span>
              <Prose text={todo} />
            </p>
          )}
          {(next.length > 0 || code !== undefined) && (
            <p className={styles.next}>
              {next.map(({ label, href }) => (
                <Link key={href} href={href}>
                  {label}
                </Link>
              ))}
              {code !== undefined && (
                <a href={`/problems/${encodeURIComponent(code)}`} target="_blank" rel="noreferrer">
                  About {code}
                </a>
              )}
            </p>
          )}
        </div>
      </Section>
      {isCall(record) && <Way record={record} story={story} advice={advice} problem={problem} onRetry={onRetry} isLoading={isLoading} />}
      <Arguments record={record} raw={story?.raw} />
      <Fields record={record} names={names} story={story} />
    </div>
  );
}

/** A sentence of the gateway, in which code is between backticks. */
function Prose({ text }: { text: string }) {
  return text.split("`").map((part, index) => (index % 2 === 1 ? <InlineCode key={index}>{part}</InlineCode> : <Text key={index} value={part} />));
}

/** The call's way through the gateway. */
function Way({ record, story, advice, problem, onRetry, isLoading }: Omit<BodyProps, "names">) {
  const entries = useMemo(() => timeline(story?.steps ?? []), [story]);
  const parts = story === undefined ? undefined : timeParts(record.latency_us, story.waitedUs, story.backendUs);
  // An older gateway has no stories; then the record is all there is.
  const isMissing = problem !== undefined && problem.status !== 404;
  let content: ReactNode;
  if (isMissing) content = <ErrorState error={problem} onRetry={onRetry} compact />;
  else if (isLoading) content = <Loading label="Looking for the story…" />;
  else if (entries.length === 0) content = <p className={styles.quiet}>The gateway has no steps of this call.</p>;
  else {
    content = (
      <ol className={styles.steps}>
        {entries.map((entry, index) => (
          <li key={index} className={`${styles.step} ${entry.verdict === "not_reached" || entry.verdict === "skipped" ? styles.faint : ""}`}>
            <span className={styles.stepMark}>
              <Status tone={entry.tone}>{entry.verdictWord}</Status>
            </span>
            <span className={styles.stepText}>
              <span className={styles.stepName}>{entry.label}</span>
              {entry.note !== undefined && (
                <span className={styles.note}>
                  <Text value={advice.get(entry.note)?.title ?? entry.note} max={300} />
                </span>
              )}
            </span>
            <span className={styles.stepTime}>
              {entry.tookUs !== undefined && <span>{formatDuration(entry.tookUs)}</span>}
              {entry.atUs !== undefined && <span className={styles.stepAt}>at {formatDuration(entry.atUs)}</span>}
            </span>
          </li>
        ))}
      </ol>
    );
  }
  return (
    <Section
      title="Its way through the gateway"
      {...(story !== undefined && !story.isKnown && entries.length > 0 && { description: "Times of the steps are kept of recent calls, while somebody watches the traffic. Without them the verdicts follow from the record." })}
    >
      {parts !== undefined && <Parts {...parts} totalUs={record.latency_us} />}
      {content}
    </Section>
  );
}

/** Where the time went, as one bar. */
function Parts({ queueUs, backendUs, gatewayUs, totalUs }: { queueUs: number; backendUs: number; gatewayUs: number; totalUs: number }) {
  const parts = [
    { label: "Gateway", us: gatewayUs, color: "var(--series-1)" },
    { label: "Waiting for a place", us: queueUs, color: "var(--series-2)" },
    { label: "Backend", us: backendUs, color: "var(--series-3)" },
  ].filter(({ us }) => us > 0);
  return (
    <div className={styles.parts}>
      <div className={styles.partBar} aria-hidden>
        {parts.map(({ label, us, color }) => (
          <span key={label} style={{ flexGrow: Math.max(us / totalUs, 0.01), background: color }} />
        ))}
      </div>
      <ul className={styles.partList}>
        {parts.map(({ label, us, color }) => (
          <li key={label}>
            <span className={styles.partDot} style={{ background: color }} aria-hidden />
            {label} <Duration us={us} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function Arguments({ record, raw }: { record: AuditRecord; raw: string | undefined }) {
  const note = argumentsNote(record);
  const hasArguments = record.args !== null && record.args !== undefined;
  if (!hasArguments && note === undefined) return null;
  const text = hasArguments ? ((raw === undefined ? undefined : rawMember(raw, "args")) ?? JSON.stringify(record.args)) : undefined;
  return (
    <Section title={isCall(record) ? "Arguments" : "Details of the record"} {...(note !== undefined && { description: note })}>
      {text !== undefined && <Json text={text} label="Arguments" depth={3} maxHeight={360} />}
    </Section>
  );
}

/** A value that leads to the records that have it, too. */
function Same({ value, href, what }: { value: string; href: string; what: string }) {
  return (
    <span className={styles.same}>
      <Text value={value} max={160} />
      <Link href={href} className={styles.sameLink}>
        {what}
      </Link>
    </span>
  );
}

/** A call that asked its caller something may have begun with an earlier request than the one on record. */
const BEGAN_APART_MS = 1_000;

const GUARANTEES: Readonly<Record<string, string>> = {
  memory: "In memory when the answer left",
  spool: "In a file when the answer left",
  sync: "On disk before the backend saw the call",
};

function Fields({ record, names, story }: { record: AuditRecord; names: CallerNames; story: Story | undefined }) {
  const raw = story?.raw;
  const requestId = raw === undefined ? undefined : rawMember(raw, "request_id");
  // More digits than a JavaScript number has.
  const policy = (raw === undefined ? undefined : rawMember(raw, "policy_version")) ?? String(record.policy_version);
  const items: [string, ReactNode][] = [
    ["Time", <Time key="t" ms={record.at_ms} />],
    [
      "Caller",
      record.caller === "" ? undefined : (
        <span key="c" className={styles.same}>
          {names.has(record.caller) && <CallerName caller={record.caller} names={names} />}
          <Text value={record.caller} max={160} />
          <Link href={trafficHref({ caller: record.caller })} className={styles.sameLink}>
            Same caller
          </Link>
        </span>
      ),
    ],
    ["Role", record.role === "" ? undefined : <Text key="r" value={record.role} />],
    ["Tenant", record.tenant === "" ? undefined : <Text key="n" value={record.tenant} />],
    [
      isCall(record) ? "Operation" : "About",
      record.operation === "" ? undefined : <Same key="o" value={record.operation} href={trafficHref({ tool: record.operation })} what="Same operation" />,
    ],
    [
      "Backend",
      record.backend === "" ? undefined : (
        <span key="b" className={styles.same}>
          <Link href={`/backends/${encodeURIComponent(record.backend)}`}>
            <Text value={record.backend} max={80} />
          </Link>
          <Link href={trafficHref({ backend: record.backend })} className={styles.sameLink}>
            Same backend
          </Link>
        </span>
      ),
    ],
    ["Over", `${surfaceWord(record.surface)}${record.revision === "" ? "" : `, revision ${record.revision}`}`],
    ["Method", record.method === "" ? undefined : <InlineCode key="m">{record.method}</InlineCode>],
    ["Decision", record.decision === "deny" ? "Refused by the gateway" : record.decision === "allow" ? "Let through" : <Text key="d" value={record.decision} />],
    ["Reason", record.kind === "" ? undefined : <Same key="k" value={record.kind} href={trafficHref({ kind: record.kind })} what="Same reason" />],
    ["Took", <Duration key="l" us={record.latency_us} />],
    [
      "Sizes",
      <span key="s">
        <Bytes value={record.bytes_in} /> in, <Bytes value={record.bytes_out} /> out
      </span>,
    ],
    ["Began", story?.beganMs !== undefined && record.at_ms - story.beganMs > BEGAN_APART_MS ? <Time key="g" ms={story.beganMs} /> : undefined],
    ["Rounds", story?.rounds !== undefined && story.rounds > 1 ? `${story.rounds}: the caller's answers were sent to the backend with the call` : undefined],
    ["Questions", story?.questions ? String(story.questions) : undefined],
    ["Attempts", story?.attempts !== undefined && story.attempts > 1 ? `${story.attempts}: the request was sent to the backend again` : undefined],
    ["Request id", requestId === undefined || requestId === "null" ? undefined : <Text key="i" value={requestId} max={120} mono />],
    ["Trace id", story?.traceId === undefined ? undefined : <InlineCode key="x">{story.traceId}</InlineCode>],
    ["Kept", GUARANTEES[record.guarantee] ?? record.guarantee],
    ["Completes", record.intent === 0 ? undefined : `the intent with number ${record.intent}`],
    ["Policy version", policy === "0" ? undefined : <InlineCode key="p">{policy}</InlineCode>],
    ["Digest of arguments", record.args_digest ? <InlineCode key="a">{record.args_digest}</InlineCode> : undefined],
    ["Record", <InlineCode key="y">{`${record.node}.${record.lane}.${record.seq}`}</InlineCode>],
    ["Hash", <InlineCode key="h">{record.hash}</InlineCode>],
  ];
  return (
    <Section title="Every field">
      <DefinitionList items={items} />
    </Section>
  );
}

/** The operation's name on the surface for everybody: a backend's own endpoint has the backend's own names. */
async function publicName(record: AuditRecord): Promise<string> {
  if (record.surface !== "http" || record.method === "resources/read" || record.backend === "") return record.operation;
  const catalog = await answer(api.GET("/admin/api/catalog", {}));
  const of = (catalog as { backend: string; kind: string; own_name: string; name: string }[]).filter((entry) => entry.backend === record.backend);
  if (of.some(({ name }) => name === record.operation)) return record.operation;
  return of.find(({ own_name }) => own_name === record.operation)?.name ?? record.operation;
}

function Actions({ record, raw }: { record: AuditRecord; raw: string | undefined }) {
  const { session } = useSession();
  const isNarrow = useNarrow();
  const args = recordedArguments(record, raw);
  const copy = async (what: string, make: () => Copied | Promise<Copied>) => {
    try {
      const copied = await make();
      if ("why" in copied) toast({ title: `There is no ${what} to copy`, detail: copied.why, tone: "warn" });
      else if (await copyText(copied.text)) toast({ title: `Copied as ${what}`, ...(copied.note !== undefined && { detail: copied.note }), tone: copied.note === undefined ? "ok" : "warn" });
      else toast({ title: "The browser did not allow copying", tone: "error" });
    } catch (error) {
      toast({ title: `The ${what} could not be made`, detail: error instanceof Problem ? error.detail : String(error), tone: "error" });
    }
  };
  const curl = async () => {
    const paths = session.paths as Partial<Record<string, string>>;
    const copied = asCurl(record, raw, {
      origin: window.location.origin,
      paths: { rest: paths["rest"] ?? "/api", rpc: paths["rpc"] ?? "/rpc" },
      guarded: session.guarded,
      operation: await publicName(record),
    });
    if ("why" in copied || !session.guarded) return copied;
    return { note: `SENTINEL_KEY has to be a key or token of ${record.caller}.`, ...copied };
  };
  const canRepeat = isCall(record) && !("why" in args && record.method !== "resources/read");
  const inspect = inspectHref(record, "text" in args ? args.text : undefined);
  return (
    <>
      {inspect !== undefined && !isNarrow && (
        <LinkButton href={inspect} icon={<FlaskConical size={14} aria-hidden />}>
          Open in the inspector
        </LinkButton>
      )}
      <Menu
        align="end"
        trigger={<Button icon={<Braces size={14} aria-hidden />}>Copy as…</Button>}
        items={[
          ...(inspect !== undefined && isNarrow ? [{ label: "Open in the inspector", icon: <FlaskConical size={14} aria-hidden />, href: inspect }] : []),
          { label: "JSON record", icon: <Braces size={14} aria-hidden />, onSelect: () => void copy("JSON", () => ({ text: asJson(record, raw) })) },
          { label: "MCP message", icon: <Copy size={14} aria-hidden />, disabled: !canRepeat, onSelect: () => void copy("MCP message", () => asMcp(record, raw)) },
          { label: "Link to this record", icon: <Copy size={14} aria-hidden />, onSelect: () => void copy("link", () => ({ text: window.location.href })) },
        ]}
      />
      {isCall(record) && (
        <Button variant="primary" icon={<Terminal size={14} aria-hidden />} onClick={() => void copy("curl", curl)}>
          Copy as curl
        </Button>
      )}
    </>
  );
}

/** Longer addresses are cut by servers and proxies on the way. */
const INSPECT_CHARS_MAX = 6_000;

const KINDS: Readonly<Record<string, Kind>> = { "tools/call": "tools", "prompts/get": "prompts", "resources/read": "resources" };

/** Where the call can be made again by hand, with its arguments filled in. */
function inspectHref(record: AuditRecord, args: string | undefined): string | undefined {
  const kind = KINDS[record.method];
  // Nobody has an operation of an unknown name.
  if (kind === undefined || record.operation === "" || record.kind === "unknown_name" || record.kind === "unknown_resource") return undefined;
  const path = hrefOf(kind, record.operation);
  const whole = args === undefined || kind === "resources" ? path : `${path}?${new URLSearchParams({ input: args })}`;
  return whole.length > INSPECT_CHARS_MAX ? path : whole;
}
