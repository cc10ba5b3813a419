// The call as text for somewhere else.

import { useMemo } from "react";
import { useSession } from "../../api/session";
import { Code, Select } from "../../ui";
import { FORMS, copyAs } from "../../lib/calls/copy";
import type { Form } from "../../lib/calls/copy";
import type { Target } from "../../lib/calls/run";
import type { JsonNode } from "../../ui/json-parse";
import { useParam } from "../../shell/use-param";
import styles from "./detail.module.css";

export function CopyView({ target, input }: { target: Target; input: JsonNode }) {
  const { session } = useSession();
  const [wanted, setWanted] = useParam("copy", "curl");
  const forms = FORMS.filter(({ form }) => {
    const path = { curl: "rest", typescript: "rest", python: "rest", "curl-rpc": "rpc", "curl-mcp": "mcp", mcp: "mcp", cli: "mcp" } as const;
    return session.paths[path[form]] !== null && (form !== "cli" || target.kind === "tools");
  });
  const form = forms.find((each) => each.form === wanted)?.form ?? forms[0]?.form ?? "mcp";
  const text = useMemo(
    () => copyAs(form, { target, input, origin: window.location.origin, paths: session.paths, guarded: session.guarded }),
    [form, target, input, session],
  );
  return (
    <div className={styles.panel}>
      <Select<Form> label="As" value={form} onChange={setWanted} options={forms.map((each) => ({ value: each.form, label: each.label }))} />
      <Code value={text} label={`The call as ${FORMS.find((each) => each.form === form)?.label ?? form}`} maxHeight={520} />
      {session.guarded && <p className={styles.dim}>The credential is not in it: it is read from the variable SENTINEL_TOKEN.</p>}
    </div>
  );
}
