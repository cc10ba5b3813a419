// Why somebody may call an operation or may not: what each step of a call would say now.

import { useMemo, useState } from "react";
import { Link } from "wouter";
import { useQuery } from "../../api/use-query";
import { Combo } from "../../lib/control/combo";
import { loadKeys, loadWhy } from "../../lib/control/contract";
import type { CatalogEntry, Reason, Verdict, Why, WhyQuery } from "../../lib/control/contract";
import { NotHere, Words, isMissing } from "../../lib/control/parts";
import { operationHref } from "../../lib/control/state";
import { Button, Card, Drawer, EmptyState, ErrorState, InlineCode, LinkButton, Loading, Select, Status, Text, ToneIcon, cx, visible } from "../../ui";
import type { SelectOption, Tone } from "../../ui";
import { useParamSet } from "../../shell/use-param";
import styles from "./access.module.css";

const STEPS: Readonly<Record<string, string>> = {
  resolve: "Finding it",
  authorize: "The role",
  kill: "Switches",
  pin: "Pins",
  stop: "Stopped backends",
  limit: "Rate limit",
  confirm: "Confirmation",
  circuit: "Circuit",
  admit: "Places",
};

const TONES: Readonly<Record<Verdict, Tone>> = { passed: "ok", refused: "error", waited: "warn", skipped: "off" };
const VERDICTS: Readonly<Record<Verdict, string>> = { passed: "passes", refused: "refuses", waited: "waits", skipped: "does not apply" };

interface Asked {
  operation: string;
  kind: string;
  role: string;
  caller: string;
}

function queryOf({ operation, kind, role, caller }: Asked): WhyQuery {
  return { operation, ...(kind !== "" && { kind }), ...(role !== "" && { role }), ...(caller !== "" && { caller }) };
}

/** Beside the matrix: one cell of it. */
export function WhyDrawer() {
  const [params, setParams] = useParamSet();
  const asked = { operation: params.get("operation") ?? "", kind: params.get("kind") ?? "", role: params.get("role") ?? "", caller: "" };
  const isOpen = asked.operation !== "" && asked.role !== "";
  if (!isOpen) return null;
  return (
    <Drawer
      open
      onClose={() => setParams({ operation: "", kind: "", role: "" })}
      title={`${visible(asked.role)} and ${visible(asked.operation)}`}
      description="What would come of a call now, step by step."
      footer={
        <LinkButton href={operationHref({ name: asked.operation, kind: asked.kind })}>Open in the catalog</LinkButton>
      }
    >
      <Answer asked={asked} />
    </Drawer>
  );
}

type Who = "role" | "caller";

const WHO: readonly SelectOption<Who>[] = [
  { value: "role", label: "A role" },
  { value: "caller", label: "A caller" },
];

export function WhyForm({ operations, roles }: { operations: readonly CatalogEntry[]; roles: readonly string[] }) {
  const [params, setParams] = useParamSet();
  const asked: Asked = { operation: params.get("operation") ?? "", kind: params.get("kind") ?? "", role: params.get("role") ?? "", caller: params.get("caller") ?? "" };
  const [operation, setOperation] = useState(asked.operation);
  const [who, setWho] = useState<Who>(asked.caller === "" ? "role" : "caller");
  const [role, setRole] = useState(asked.role);
  const [caller, setCaller] = useState(asked.caller);
  const keys = useQuery(who === "caller" ? "admin/keys" : null, loadKeys);
  const suggestions = useMemo(() => operations.map((one) => ({ value: one.name, hint: `${one.backend}.${one.own_name}` })), [operations]);
  const callers = useMemo(() => (keys.data?.keys ?? []).filter((key) => key.state === "good").map((key) => ({ value: key.name, hint: `API key of the role ${key.role}` })), [keys.data]);
  const isReady = operation.trim() !== "" && (who === "role" ? role !== "" : caller.trim() !== "");
  const isAsked = asked.operation !== "" && (asked.role !== "" || asked.caller !== "");
  return (
    <div className={styles.stack}>
      <Card>
        <form
          className={styles.form}
          onSubmit={(event) => {
            event.preventDefault();
            if (isReady) setParams({ operation: operation.trim(), kind: "", role, caller: who === "caller" ? caller.trim() : "" }, { push: true });
          }}
        >
          <Combo label="Operation" hint="A name of the catalog, a URI, or backend.name." required value={operation} onChange={setOperation} suggestions={suggestions} />
          <Select<Who> label="Who" value={who} onChange={setWho} options={WHO} />
          {who === "caller" && <Combo label="Caller" hint="A subject, or the name or id of an API key." required value={caller} onChange={setCaller} suggestions={callers} />}
          <Select<string>
            label={who === "caller" ? "Role of the caller" : "Role"}
            value={role}
            onChange={setRole}
            options={[{ value: "", label: who === "caller" ? "That of its key" : "Choose…", disabled: who === "role" }, ...roles.map((each) => ({ value: each, label: each }))]}
          />
          <div className={styles.submit}>
            <Button variant="primary" type="submit" disabled={!isReady}>
              Why?
            </Button>
          </div>
        </form>
      </Card>
      {isAsked ? <Answer asked={asked} /> : <EmptyState title="Ask about one operation">Choose an operation, and a role or a caller. Each step of a call says what it would do now, and by which rule.</EmptyState>}
    </div>
  );
}

function Answer({ asked }: { asked: Asked }) {
  const query = queryOf(asked);
  const why = useQuery(`why:${JSON.stringify(query)}`, (signal) => loadWhy(query, signal));
  if (isMissing(why.error)) return <NotHere what="why something may be called" />;
  if (why.error !== undefined && why.data === undefined) return <ErrorState error={why.error} onRetry={why.refetch} />;
  if (why.data === undefined) return <Loading />;
  return <Steps why={why.data} onAgain={why.refetch} />;
}

function verdictOf(why: Why): { tone: Tone; text: string } {
  const who = visible(why.caller ?? `the role ${why.role}`);
  const waits = why.reasons.some((reason) => reason.verdict === "waited");
  if (why.call) return waits ? { tone: "warn", text: `${who} may call it, but the call would wait.` } : { tone: "ok", text: `${who} may call it.` };
  const first = why.reasons.find((reason) => reason.verdict === "refused");
  const by = first === undefined ? "" : ` Decided by: ${(STEPS[first.step] ?? first.step).toLowerCase()}.`;
  return why.see ? { tone: "warn", text: `${who} sees it, but a call is refused.${by}` } : { tone: "error", text: `${who} neither sees nor calls it.${by}` };
}

function Steps({ why, onAgain }: { why: Why; onAgain: () => void }) {
  const { tone, text } = verdictOf(why);
  return (
    <div className={styles.stack}>
      <div className={styles.verdict} role="status">
        <Status tone={tone}>{text.charAt(0).toUpperCase() + text.slice(1)}</Status>
        <Button size="s" onClick={onAgain}>
          Ask again
        </Button>
      </div>
      {(why.backend ?? "") !== "" && (
        <p className={styles.dim}>
          <Text value={why.operation} /> of the backend <Text value={why.backend ?? ""} />
          {(why.caller ?? "") !== "" && (
            <>
              , called by <Text value={why.caller ?? ""} /> with the role <Text value={why.role} />
            </>
          )}
        </p>
      )}
      <ol className={styles.steps} aria-label="Steps of a call">
        {why.reasons.map((reason, index) => (
          <Step key={index} reason={reason} />
        ))}
      </ol>
    </div>
  );
}

function Step({ reason }: { reason: Reason }) {
  const tone = TONES[reason.verdict];
  const rule = reason.rule ?? "";
  const key = rule.split(": ", 1)[0] ?? "";
  const isKey = /^[a-z_]+(\.[A-Za-z0-9_-]+)+$/.test(key);
  return (
    <li className={cx(styles.step, reason.verdict === "refused" && styles.refused)}>
      <span className={styles[`icon-${tone}`]}>
        <ToneIcon tone={tone} size={16} />
      </span>
      <div className={styles.stepText}>
        <div>
          <strong>{STEPS[reason.step] ?? reason.step}</strong> <span className={styles.dim}>{VERDICTS[reason.verdict]}</span>
        </div>
        <Words value={reason.text} />
        {rule !== "" && (
          <div className={styles.dim}>
            Rule: {isKey ? <Link href={`/config?q=${encodeURIComponent(key)}`}><InlineCode>{rule}</InlineCode></Link> : <InlineCode>{rule}</InlineCode>}
          </div>
        )}
      </div>
    </li>
  );
}
