// The form that switches something off: what, why, and how much it hits.

import { useMemo, useRef, useState } from "react";
import { useAction, useQuery } from "../../api/use-query";
import { Combo } from "../../lib/control/combo";
import type { Suggestion } from "../../lib/control/combo";
import type { CatalogEntry, Scope } from "../../lib/control/contract";
import { hitBy } from "../../lib/control/glob";
import { loadKeys } from "../../lib/control/contract";
import { effectOf, switchOff } from "../../lib/control/parts";
import { useBackends } from "../../lib/control/state";
import { listed, plural } from "../../lib/control/words";
import { Button, Card, ErrorState, Input, Select, Status, Text } from "../../ui";
import type { SelectOption } from "../../ui";
import { useParamSet } from "../../shell/use-param";
import styles from "./switches.module.css";

type Kind = Exclude<Scope, "all">;

const KINDS: readonly SelectOption<Kind>[] = [
  { value: "tool", label: "Operations" },
  { value: "backend", label: "A backend" },
  { value: "caller", label: "A caller" },
];

const LABELS: Readonly<Record<Kind, { label: string; hint: string; placeholder: string }>> = {
  tool: { label: "Name or pattern", hint: "A name of the catalog, or backend.name; * stands for anything.", placeholder: "get-sum, delete_*, lab.*" },
  backend: { label: "Backend", hint: "All of its operations.", placeholder: "lab" },
  caller: { label: "Caller", hint: "A subject, or the name or id of an API key.", placeholder: "key:ci, alice@example.com" },
};

/** Reasons are told to callers; a sentence is enough. */
const REASON_CHARS_MAX = 500;

interface Props {
  operations: readonly CatalogEntry[] | undefined;
  onChange: () => void;
}

export function SwitchOff({ operations, onChange }: Props) {
  // In the address, so that other pages can lead here with something filled in.
  const [params, setParams] = useParamSet();
  const asked = params.get("scope");
  const scope: Kind = asked === "backend" || asked === "caller" ? asked : "tool";
  const name = params.get("name") ?? "";
  const [reason, setReason] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const suggestions = useSuggestions(scope, operations);
  const hit = useMemo(() => hitBy(scope, name, operations ?? []), [scope, name, operations]);
  const action = useAction(async () => {
    await switchOff(scope, name.trim(), reason.trim(), onChange);
    setParams({ name: "" });
    setReason("");
    field.current?.focus();
  });
  const isReady = name.trim() !== "" && reason.trim() !== "";
  return (
    <Card>
      <form
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) void action.run();
        }}
      >
        <div className={styles.fields}>
          <Select<Kind> label="What" value={scope} onChange={(next) => setParams({ scope: next === "tool" ? "" : next, name: "" })} options={KINDS} />
          <Combo
            ref={field}
            label={LABELS[scope].label}
            hint={LABELS[scope].hint}
            placeholder={LABELS[scope].placeholder}
            required
            value={name}
            onChange={(next) => setParams({ name: next })}
            suggestions={suggestions}
          />
          <Input label="Reason" hint="Callers are told, and it is on record." required maxLength={REASON_CHARS_MAX} value={reason} onChange={setReason} />
        </div>
        {name !== "" && (
          <div className={styles.effect} aria-live="polite">
            {hit !== undefined && operations !== undefined && (
              <Status tone={hit.length === 0 ? "warn" : "info"}>
                {hit.length === 0 ? "Hits no operation of the catalog at the moment." : <>Hits {plural(hit.length, "operation")}: <Text value={listed(hit.map((one) => one.name), 6)} />.</>}
              </Status>
            )}
            <span className={styles.dim}>{effectOf(scope)}</span>
          </div>
        )}
        {action.error && <ErrorState error={action.error} compact />}
        <div>
          <Button variant="danger" type="submit" busy={action.isRunning} disabled={!isReady}>
            Switch off
          </Button>
        </div>
      </form>
    </Card>
  );
}

function useSuggestions(scope: Kind, operations: readonly CatalogEntry[] | undefined): readonly Suggestion[] {
  const { backends } = useBackends();
  const names = backends?.map((backend) => backend.name).join("\n") ?? "";
  const keys = useQuery(scope === "caller" ? "admin/keys" : null, loadKeys);
  return useMemo(() => {
    const all = names === "" ? [] : names.split("\n");
    if (scope === "backend") return all.map((value) => ({ value }));
    if (scope === "caller") {
      return (keys.data?.keys ?? []).filter((key) => key.state === "good").map((key) => ({ value: key.name, hint: `API key of the role ${key.role}` }));
    }
    const tools = (operations ?? []).map((one) => ({ value: one.name, hint: `${one.backend}.${one.own_name}` }));
    return [...tools, ...all.map((backend) => ({ value: `${backend}.*`, hint: "all operations of this backend" }))];
  }, [scope, operations, names, keys.data]);
}
