// Makes calls: the arguments as a form, the way of calling, and the result.

import { Ban, Play, RotateCcw } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { KeyboardEvent, ReactNode } from "react";
import { send } from "../../api/client";
import { useSession } from "../../api/session";
import { Button, Card, EmptyState, Select, Text } from "../../ui";
import type { JsonNode } from "../../ui/json-parse";
import { parseJson, printJson } from "../../ui/json-parse";
import { nodeOf } from "../../lib/json/value";
import type { Issue } from "../../lib/form/check";
import { notShown } from "../../lib/form/draft";
import { SchemaDocument } from "../../lib/form/flatten";
import { initial } from "../../lib/form/initial";
import { parseValue } from "../../lib/json/value";
import { WAYS } from "../../lib/calls/run";
import type { Target, Way } from "../../lib/calls/run";
import { endSession, openSession, sessionFor, subscribeSession } from "../../lib/calls/sessions";
import { CallStore, outcomeWord } from "../../lib/calls/store";
import type { Call } from "../../lib/calls/store";
import type { CallListener } from "../../lib/mcp/types";
import type { Complete } from "./form/context";
import { SchemaForm } from "./form/schema-form";
import { useDraft } from "./form/use-draft";
import type { DraftState } from "./form/use-draft";
import { callHistory } from "./history-view";
import { ResultView } from "./result-view";
import styles from "./detail.module.css";

/** Arguments that were being written when a page was left, and those that a past call is made again with. */
const drafts = new Map<string, string>();
const DRAFTS_MAX = 50;

export function keepDraft(key: string, input: string): void {
  drafts.delete(key);
  drafts.set(key, input);
  const oldest = drafts.keys().next();
  if (drafts.size > DRAFTS_MAX && oldest.done !== true) drafts.delete(oldest.value);
}

/** A schema whose text is longer gets no form. */
const FORM_CHARS_MAX = 1_500_000;

export interface InspectorState {
  draftState: DraftState;
  document: SchemaDocument;
  way: Way;
  setWay: (way: Way) => void;
  ways: readonly Way[];
  call: Call | undefined;
  start: (input: JsonNode) => void;
  cancel: () => void;
  reset: () => void;
  schemaText: string;
}

const WAY_KEY = "sentinel.way";

function keptWay(ways: readonly Way[]): Way {
  let kept: string | null = null;
  try {
    kept = sessionStorage.getItem(WAY_KEY);
  } catch {
    // Not allowed: the first is taken.
  }
  return ways.find((way) => way === kept) ?? ways[0] ?? "modern";
}

/** The state of one inspector. `key` names what is called; another one is another inspector. */
export function useInspector(key: string, schemaText: string, toTarget: (input: JsonNode) => Target, given: string | undefined): InspectorState {
  const { session, caller } = useSession();
  const { paths } = session;
  const ways = useMemo(() => WAYS.map(({ way }) => way).filter((way) => paths[way === "rest" || way === "rpc" ? way : "mcp"] !== null), [paths]);
  const [way, setOwnWay] = useState<Way>(() => keptWay(ways));
  const document = useMemo(() => new SchemaDocument(schemaText.length > FORM_CHARS_MAX ? true : parseValue(schemaText)), [schemaText]);
  const begin = useCallback((): JsonNode => {
    const made = initial(document, document.root);
    return made ?? nodeOf({});
  }, [document]);
  const draftState = useDraft(schemaText, () => {
    const kept = parseJson(given ?? drafts.get(key) ?? "");
    return kept ?? begin();
  });
  const { draft, replace } = draftState;
  useEffect(() => {
    if (draft.mistake === undefined) keepDraft(key, printJson(draft.node));
  }, [key, draft]);

  const who = caller?.subject ?? "";
  const [store] = useState(
    () =>
      new CallStore(undefined, (call) => {
        callHistory(who).add({
          id: call.id,
          atMs: call.startedMs,
          kind: call.target.kind,
          name: call.target.name,
          way: call.way,
          input: call.input,
          outcome: outcomeWord(call.outcome),
          durationMs: (call.endedMs ?? call.startedMs) - call.startedMs,
        });
      }),
  );
  // Whoever leaves gives up the call.
  useEffect(() => {
    const leave = () => store.cancel();
    window.addEventListener("pagehide", leave);
    return () => {
      window.removeEventListener("pagehide", leave);
      leave();
    };
  }, [store]);
  const call = useSyncExternalStore(store.subscribe, store.current);

  const latest = useRef(toTarget);
  useEffect(() => {
    latest.current = toTarget;
  });
  const start = useCallback(
    (input: JsonNode) => {
      const mcp = paths.mcp ?? "/mcp";
      const ofSession = (listener: CallListener, signal: AbortSignal, isAgain: boolean) => sessionFor(mcp, send, listener, signal, isAgain);
      store.start({ target: latest.current(input), input, way, paths, send, session: ofSession });
    },
    [store, way, paths],
  );
  const setWay = useCallback((next: Way) => {
    setOwnWay(next);
    try {
      sessionStorage.setItem(WAY_KEY, next);
    } catch {
      // Then it is chosen again the next time.
    }
  }, []);
  return { draftState, document, way, setWay, ways, call, start, cancel: () => store.cancel(), reset: () => replace(begin()), schemaText };
}

export interface InspectorProps {
  state: InspectorState;
  /** On the button: `Call`, `Read`, `Get`. */
  verb: string;
  title: string;
  /** Why it cannot be called now. */
  obstacle?: ReactNode;
  complete?: Complete | undefined;
  /** Above the form. */
  before?: ReactNode;
  isDestructive?: boolean;
}

export function Inspector({ state, verb, title, obstacle, complete, before, isDestructive = false }: InspectorProps) {
  const { draftState, document, call, start, cancel, reset, schemaText } = state;
  const { draft, issues, found, notes, edit, check, replace, show } = draftState;
  const [pending, setPending] = useState<readonly Issue[]>([]);
  const form = useRef<HTMLFormElement>(null);
  const result = useRef<HTMLDivElement>(null);
  const isRunning = call !== undefined && call.endedMs === undefined;
  const isTooLarge = schemaText.length > FORM_CHARS_MAX;
  // What was held against the last attempt is no news once something changed.
  useEffect(() => setPending([]), [draft.node]);

  const run = useCallback(
    async (isForced: boolean) => {
      if (draft.mistake !== undefined) return;
      const wrong = isForced ? [] : await check();
      setPending(wrong);
      if (wrong.length > 0) {
        const first = form.current?.querySelector<HTMLElement>("[data-issue] input:not([type=file]), [data-issue] textarea, [data-issue] select, [data-issue] button");
        first?.focus();
        return;
      }
      start(draft.node);
    },
    [check, draft, start],
  );

  // The gateway's own findings stand at the fields, too.
  const outcome = call?.outcome;
  useEffect(() => {
    if (outcome?.kind === "refused" && outcome.refusal.issues.length > 0) show(outcome.refusal.issues.map((issue) => ({ ...issue, keyword: "gateway" })));
  }, [outcome, show]);
  const callId = call?.id;
  useEffect(() => {
    if (callId !== undefined) result.current?.scrollIntoView({ block: "nearest" });
  }, [callId, call?.endedMs]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.nativeEvent.isComposing) return;
    const isCommand = event.ctrlKey || event.metaKey;
    const isField = event.target instanceof HTMLInputElement;
    // Enter in a field calls, but not what says that it destroys.
    if (isField && !isCommand && isDestructive) event.preventDefault();
    if (!isCommand) return;
    event.preventDefault();
    void run(false);
  };
  const rest = notShown(draft);
  return (
    <div className={styles.inspector}>
      <Card title={title} actions={<Button size="s" variant="ghost" icon={<RotateCcw size={13} aria-hidden />} onClick={reset}>Reset</Button>}>
        <form
          ref={form}
          noValidate
          onKeyDown={onKeyDown}
          onSubmit={(event) => {
            event.preventDefault();
            if (!isRunning && obstacle === undefined) void run(false);
          }}
        >
          {before}
          {draft.mistake !== undefined && (
            <p className={styles.warning} role="alert">
              The JSON has a mistake in line {draft.mistake.line}, column {draft.mistake.column}. The form shows what could be read last.
            </p>
          )}
          {rest.map((text) => (
            <p key={text} className={styles.warning}>
              <Text value={text} max={300} />
            </p>
          ))}
          {isTooLarge && <p className={styles.warning}>The schema is too large for a form. Write the arguments as JSON.</p>}
          <fieldset className={styles.plain} disabled={draft.mistake !== undefined}>
            <SchemaForm document={document} node={draft.node} onEdit={edit} issues={issues} complete={complete} label="Arguments" />
          </fieldset>
          <NoPlace issues={found} form={form} />
          {notes.map((note) => (
            <p key={note} className={styles.dim}>
              <Text value={note} max={240} />
            </p>
          ))}
          <div className={styles.bar}>
            {obstacle}
            {pending.length > 0 && (
              <span className={styles.pending} role="alert">
                {pending.length === 1 ? "One thing is wrong." : `${pending.length} things are wrong.`}{" "}
                <Button size="s" variant="ghost" onClick={() => void run(true)}>
                  Send it as it is
                </Button>
              </span>
            )}
            <WaySelect state={state} />
            {isRunning ? (
              <Button icon={<Ban size={14} aria-hidden />} onClick={cancel}>
                Cancel
              </Button>
            ) : (
              <Button variant="primary" type="submit" icon={<Play size={14} aria-hidden />} disabled={obstacle !== undefined || draft.mistake !== undefined} title="Ctrl+Enter">
                {verb}
              </Button>
            )}
          </div>
        </form>
      </Card>
      <div ref={result} className={styles.resultPlace}>
        {call === undefined ? (
          <EmptyState title="No call yet">Fill in the form and press {verb}. The result appears here.</EmptyState>
        ) : (
          <Card>
            <ResultView
              key={call.id}
              call={call}
              onCancel={cancel}
              onNext={(next) => {
                const merged = merge(parseJson(call.input) ?? nodeOf({}), next);
                replace(merged);
                start(merged);
              }}
            />
          </Card>
        )}
      </div>
    </div>
  );
}

function merge(input: JsonNode, over: JsonNode): JsonNode {
  if (input.kind !== "object" || over.kind !== "object") return over;
  const entries = new Map([...input.entries, ...over.entries]);
  return { kind: "object", entries: [...entries] };
}

/** What is wrong at a place that has no field, such as a member that must not be there. */
function NoPlace({ issues, form }: { issues: readonly Issue[]; form: React.RefObject<HTMLFormElement | null> }) {
  const [texts, setTexts] = useState<string[]>([]);
  useEffect(() => {
    const shown = new Set([...(form.current?.querySelectorAll("[role=alert] span") ?? [])].map((element) => element.textContent));
    setTexts(issues.filter(({ message }) => !shown.has(message)).map(({ pointer, message }) => `${pointer === "" ? "All of it" : pointer}: ${message}`));
  }, [issues, form]);
  if (texts.length === 0) return null;
  return (
    <ul className={styles.noPlace}>
      {texts.slice(0, 10).map((text) => (
        <li key={text}>
          <Text value={text} max={300} />
        </li>
      ))}
    </ul>
  );
}

function WaySelect({ state }: { state: InspectorState }) {
  const { way, setWay, ways } = state;
  const session = useSyncExternalStore(subscribeSession, openSession);
  return (
    <span className={styles.way}>
      {way === "legacy" && session !== undefined && (
        <span className={styles.dim}>
          Session <Text value={session.id.slice(0, 8)} mono />…{" "}
          <Button size="s" variant="ghost" onClick={() => void endSession()}>
            End session
          </Button>
        </span>
      )}
      <Select<Way> aria-label="Call as" value={way} onChange={setWay} options={WAYS.filter((each) => ways.includes(each.way)).map((each) => ({ value: each.way, label: each.label }))} />
    </span>
  );
}
