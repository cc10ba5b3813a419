// Adds backends: from the JSON of a client that is pasted, from the clients of this machine, or by a form. What would be
// written is shown before; afterwards the backends are watched as they come up.

import { useEffect, useState } from "react";
import { useAction, useQuery } from "../../api/use-query";
import { asProblem, isAbort } from "../../api/problem";
import type { Problem } from "../../api/problem";
import { checkConfig, importServers, loadConfigFile, loadFound, replaceConfig } from "../../lib/control/contract";
import type { ConfigFile, ConfigMistake, ImportedServer, Reloaded } from "../../lib/control/contract";
import { Callout, NotHere, isMissing } from "../../lib/control/parts";
import { plural } from "../../lib/control/words";
import { Button, Checkbox, Code, Dialog, EmptyState, ErrorState, Loading, Select, Tabs, Text, Textarea, Input, toastProblem, visible } from "../../ui";
import type { SelectOption } from "../../ui";
import styles from "./backends.module.css";
import { Coming } from "./coming";
import { Servers, canBeAdded } from "./servers";
import { EMPTY, appended, mistakesOf, tomlOf } from "./toml";
import type { Draft, Kind } from "./toml";

type Way = "paste" | "found" | "form";

interface Props {
  /** Which tab is open; empty: the dialog is closed. */
  way: string;
  onWay: (way: Way) => void;
  onClose: () => void;
}

interface Added {
  names: readonly string[];
  reloaded: Reloaded | null;
}

export function AddBackend({ way, onWay, onClose }: Props) {
  return way === "" ? null : <Content way={way === "found" || way === "form" ? way : "paste"} onWay={onWay} onClose={onClose} />;
}

function Content({ way, onWay, onClose }: { way: Way; onWay: (way: Way) => void; onClose: () => void }) {
  const [added, setAdded] = useState<Added | undefined>(undefined);
  if (added !== undefined) {
    return (
      <Dialog
        open
        size="l"
        onClose={onClose}
        title={added.names.length === 0 ? "Nothing was added" : `Added ${plural(added.names.length, "backend")}`}
        footer={
          <>
            <Button onClick={() => setAdded(undefined)}>Add another</Button>
            <Button variant="primary" onClick={onClose}>
              Done
            </Button>
          </>
        }
      >
        <Coming names={added.names} reloaded={added.reloaded} />
      </Dialog>
    );
  }
  return (
    <Dialog open size="l" onClose={onClose} title="Add a backend" description="A server that this gateway stands in front of.">
      <Tabs<Way>
        label="How"
        value={way}
        onChange={onWay}
        items={[
          { value: "paste", label: "Paste JSON" },
          { value: "found", label: "On this machine" },
          { value: "form", label: "Fill in" },
        ]}
      >
        {way === "paste" && <Paste onAdded={setAdded} />}
        {way === "found" && <Found onAdded={setAdded} />}
        {way === "form" && <Form onAdded={setAdded} />}
      </Tabs>
    </Dialog>
  );
}

const EXAMPLE = `{
  "mcpServers": {
    "context7": { "command": "npx", "args": ["-y", "@upstash/context7-mcp"] }
  }
}`;

/** After the last key; typing is not interrupted by an answer each. */
const CHECK_AFTER_MS = 300;
/** What the endpoint takes. */
const TEXT_CHARS_MAX = 1 << 20;

interface Preview {
  servers: readonly ImportedServer[] | undefined;
  error: Problem | undefined;
  isChecking: boolean;
}

/** What the gateway makes of the text, a moment after it changed. */
function usePreview(text: string, literals: boolean): Preview {
  const [preview, setPreview] = useState<Preview>({ servers: undefined, error: undefined, isChecking: false });
  useEffect(() => {
    if (text.trim() === "") {
      setPreview({ servers: undefined, error: undefined, isChecking: false });
      return;
    }
    const controller = new AbortController();
    setPreview((before) => ({ ...before, isChecking: true }));
    const timer = window.setTimeout(() => {
      importServers({ text, file: null, literals, apply: false, names: null, digest: null }, controller.signal).then(
        ({ servers }) => setPreview({ servers, error: undefined, isChecking: false }),
        (error: unknown) => {
          if (!isAbort(error)) setPreview({ servers: undefined, error: asProblem(error), isChecking: false });
        },
      );
    }, CHECK_AFTER_MS);
    return () => {
      window.clearTimeout(timer);
      controller.abort();
    };
  }, [text, literals]);
  return preview;
}

function Paste({ onAdded }: { onAdded: (added: Added) => void }) {
  const [text, setText] = useState("");
  const [literals, setLiterals] = useState(false);
  const [excluded, setExcluded] = useState<ReadonlySet<string>>(new Set());
  const file = useQuery("admin/config/file", loadConfigFile);
  const { servers, error, isChecking } = usePreview(text, literals);
  const chosen = new Set(servers?.filter((server) => canBeAdded(server) && !excluded.has(server.name)).map((server) => server.name));
  const hasLiterals = servers?.some((server) => chosen.has(server.name) && server.variables.some((variable) => variable.literal && !variable.set)) === true;
  const add = useAction(async () => {
    const answer = await importServers({ text, file: null, names: [...chosen], apply: true, literals: literals && hasLiterals, digest: null });
    onAdded({ names: answer.added, reloaded: answer.reloaded });
  });
  const choose = (name: string, isChosen: boolean) => {
    const next = new Set(excluded);
    if (isChosen) next.delete(name);
    else next.add(name);
    setExcluded(next);
  };
  return (
    <div className={styles.stack}>
      <Textarea
        label="JSON of a client"
        hint="With mcpServers (Claude, Cursor, ...) or servers (VS Code), or a single server. Comments are fine."
        mono
        rows={9}
        autoFocus
        maxLength={TEXT_CHARS_MAX}
        placeholder={EXAMPLE}
        value={text}
        onChange={setText}
        error={error === undefined || isMissing(error) ? undefined : <Text value={error.detail || error.title} />}
      />
      {isMissing(error) && <NotHere what="what a client's JSON would be as backends" />}
      {servers !== undefined && servers.length > 0 && <Servers servers={servers} chosen={chosen} onChoose={choose} />}
      {servers?.length === 0 && <Callout tone="warn">There is no server in this text.</Callout>}
      {(hasLiterals || literals) && <Literals isChecked={literals} onChange={setLiterals} what="this text" />}
      {isReadOnly(file.data) && file.data !== undefined && <ReadOnly file={file.data} />}
      {add.error && <ErrorState error={add.error} compact />}
      <AddButton count={chosen.size} isRunning={add.isRunning} isDisabled={isChecking || isReadOnly(file.data)} onClick={() => void add.run()} />
    </div>
  );
}

function AddButton({ count, isRunning, isDisabled = false, onClick }: { count: number; isRunning: boolean; isDisabled?: boolean; onClick: () => void }) {
  return (
    <div className={styles.submit}>
      <Button variant="primary" busy={isRunning} disabled={count === 0 || isDisabled} onClick={onClick}>
        {count === 0 ? "Add" : `Add ${plural(count, "backend")}`}
      </Button>
      {isRunning && (
        <span className={styles.dim} role="status">
          Writes the configuration, reloads, and tries each server once. A first start may download something.
        </span>
      )}
    </div>
  );
}

/** The configuration file, and what can be written to it. */
function useAppend(onAdded: (added: Added) => void) {
  const file = useQuery("admin/config/file", loadConfigFile);
  const add = useAction(async (names: readonly string[], tables: readonly string[]) => {
    // The text of this moment: another may have changed it since the dialog opened.
    const now = await loadConfigFile();
    const { text, digest } = writable(now);
    const reloaded = await replaceConfig(appended(text, tables), digest);
    onAdded({ names, reloaded });
  });
  return { file, add };
}

function writable(file: ConfigFile): { text: string; digest: string } {
  if (file.text === null || file.digest === null || !file.writable) {
    throw new Error(file.problem ?? "The configuration file cannot be changed from here.");
  }
  return { text: file.text, digest: file.digest };
}

function isReadOnly(file: ConfigFile | undefined): boolean {
  return file !== undefined && (!file.writable || file.text === null);
}

function ReadOnly({ file }: { file: ConfigFile }) {
  return (
    <Callout tone="warn" title="The configuration cannot be changed from here">
      <Text value={file.problem ?? "Copy the TOML into the configuration file; the gateway reloads it by itself."} />
    </Callout>
  );
}

/** Of one server of one file: two clients may have servers of one name. */
function keyOf(path: string, name: string): string {
  return JSON.stringify([path, name]);
}

function Found({ onAdded }: { onAdded: (added: Added) => void }) {
  const found = useQuery("admin/import", loadFound);
  const file = useQuery("admin/config/file", loadConfigFile);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [literals, setLiterals] = useState(false);
  const wanted = (found.data?.files ?? []).flatMap(({ path, servers }) => {
    const some = servers.filter((server) => chosen.has(keyOf(path, server.name)) && canBeAdded(server));
    return some.length === 0 ? [] : [{ path, servers: some }];
  });
  const hasLiterals = wanted.some(({ servers }) => servers.some((server) => server.variables.some((variable) => variable.literal && !variable.set)));
  const add = useAction(async () => {
    const names: string[] = [];
    let reloaded: Reloaded | null = null;
    try {
      for (const { path, servers } of wanted) {
        const answer = await importServers({ text: null, file: path, names: servers.map((server) => server.name), apply: true, literals: literals && hasLiterals, digest: null });
        names.push(...answer.added);
        reloaded = answer.reloaded;
      }
    } catch (error) {
      // What was added before stays, and is shown.
      if (names.length === 0) throw error;
      toastProblem(error);
    }
    onAdded({ names, reloaded });
  });
  if (isMissing(found.error)) return <NotHere what="which servers the clients of this machine have" />;
  if (found.error !== undefined && found.data === undefined) return <ErrorState error={found.error} onRetry={found.refetch} />;
  if (found.data === undefined) return <Loading label="Looking at the files of clients…" />;
  const choose = (path: string) => (name: string, isChosen: boolean) => {
    const next = new Set(chosen);
    if (isChosen) next.add(keyOf(path, name));
    else next.delete(keyOf(path, name));
    setChosen(next);
  };
  if (found.data.files.length === 0) {
    return (
      <EmptyState title="No client of this machine has servers">
        Looked for in the files of Claude Code, Claude Desktop, Cursor and VS Code of the user that the gateway runs as. Paste JSON instead.
      </EmptyState>
    );
  }
  const count = wanted.reduce((sum, { servers }) => sum + servers.length, 0);
  return (
    <div className={styles.stack}>
      {found.data.files.map(({ path, client, problem, servers }) => (
        <section key={path} aria-label={visible(path)}>
          <h3 className={styles.fileHead}>
            {client}{" "}
            <span className={styles.dim}>
              <Text value={path} mono max={200} />
            </span>
          </h3>
          {(problem ?? "") !== "" && (
            <Callout tone="warn" title="It cannot be read">
              <Text value={problem ?? ""} />
            </Callout>
          )}
          {servers.length === 0 && (problem ?? "") === "" && <p className={styles.dim}>It has no servers.</p>}
          <Servers servers={servers} chosen={new Set(servers.filter((server) => chosen.has(keyOf(path, server.name))).map((server) => server.name))} onChoose={choose(path)} />
        </section>
      ))}
      {hasLiterals && <Literals isChecked={literals} onChange={setLiterals} what="these files" />}
      {isReadOnly(file.data) && file.data !== undefined && <ReadOnly file={file.data} />}
      {add.error && <ErrorState error={add.error} compact />}
      <AddButton count={count} isRunning={add.isRunning} isDisabled={isReadOnly(file.data)} onClick={() => void add.run()} />
    </div>
  );
}

/** Credentials as text: written only if somebody wants that. */
function Literals({ isChecked, onChange, what }: { isChecked: boolean; onChange: (isChecked: boolean) => void; what: string }) {
  return (
    <Checkbox
      label={`Write the credentials of ${what} into the configuration file`}
      hint="Otherwise the gateway must have them in its environment under these names, or the servers start without them."
      checked={isChecked}
      onChange={onChange}
    />
  );
}

const KINDS: readonly SelectOption<Kind>[] = [
  { value: "stdio", label: "A program that speaks MCP (stdio)" },
  { value: "http", label: "An MCP server over HTTP" },
  { value: "openapi", label: "An HTTP API with an OpenAPI description" },
  { value: "postgres", label: "Functions and tables of PostgreSQL" },
];

function Form({ onAdded }: { onAdded: (added: Added) => void }) {
  const { file, add } = useAppend(onAdded);
  const [draft, setDraft] = useState<Draft>(EMPTY);
  const [isTouched, setTouched] = useState(false);
  const [refused, setRefused] = useState<readonly ConfigMistake[]>([]);
  const mistakes = mistakesOf(draft);
  const isGood = Object.keys(mistakes).length === 0;
  const set = (key: keyof Draft) => (value: string) => {
    setRefused([]);
    setDraft({ ...draft, [key]: value });
  };
  const submit = useAction(async () => {
    setTouched(true);
    if (!isGood) return;
    const { text } = writable(await loadConfigFile());
    const checked = await checkConfig(appended(text, [tomlOf(draft)]));
    setRefused(checked.mistakes);
    if (checked.mistakes.length === 0) await add.run([draft.name], [tomlOf(draft)]);
  });
  const error = (key: keyof Draft) => (isTouched ? mistakes[key] : undefined);
  const field = (key: keyof Draft) => ({ value: draft[key], onChange: set(key), error: error(key) });
  if (isMissing(file.error)) return <NotHere what="what is in its configuration file" />;
  return (
    <form
      className={styles.stack}
      onSubmit={(event) => {
        event.preventDefault();
        void submit.run();
      }}
    >
      <div className={styles.form}>
        <Select<Kind> label="Kind" value={draft.kind} onChange={(kind) => set("kind")(kind)} options={KINDS} />
        <Input label="Name" hint="Lower-case letters, digits and hyphens." required {...field("name")} />
        {draft.kind === "stdio" && (
          <>
            <div className={styles.formWide}>
              <Input label="Command" hint="The program, as a name or a full path." mono required {...field("command")} />
            </div>
            <Textarea label="Arguments" hint="One a line." mono rows={4} {...field("args")} />
            <Textarea label="Environment" hint="NAME=VARIABLE a line: passes the gateway's VARIABLE as NAME." mono rows={4} {...field("env")} />
          </>
        )}
        {draft.kind === "http" && (
          <>
            <div className={styles.formWide}>
              <Input label="URL" hint="“/mcp” is added where there is no path." mono type="url" required {...field("url")} />
            </div>
            <div className={styles.formWide}>
              <Input label="Variable for Authorization" hint="The environment variable of the gateway that holds “Bearer ...”. Empty: none is sent." mono {...field("credential")} />
            </div>
          </>
        )}
        {draft.kind === "openapi" && (
          <>
            <div className={styles.formWide}>
              <Input label="Description" hint="A file or a URL: OpenAPI 3.0, 3.1 or Swagger 2.0." mono required {...field("spec")} />
            </div>
            <Input label="Base URL" hint="Empty: as the description says." mono {...field("base_url")} />
            <Input label="Variable for the token" hint="The environment variable with the bearer token." mono {...field("credential")} />
          </>
        )}
        {draft.kind === "postgres" && (
          <>
            <Input label="Variable for the URL" hint="The environment variable with postgres://…" mono required {...field("url_env")} />
            <Input label="Schema" hint="Whose functions are operations. Empty: the default." mono {...field("schema")} />
          </>
        )}
      </div>
      <details className={styles.more}>
        <summary>As TOML</summary>
        <Code value={tomlOf(draft)} label="TOML of the backend" />
      </details>
      {isReadOnly(file.data) && file.data !== undefined && <ReadOnly file={file.data} />}
      {refused.length > 0 && (
        <Callout tone="error" title="The gateway would not take it" isNews>
          <ul>
            {refused.map((mistake, index) => (
              <li key={index}>
                <Text value={mistake.message} block />
              </li>
            ))}
          </ul>
        </Callout>
      )}
      {submit.error && <ErrorState error={submit.error} compact />}
      {add.error && <ErrorState error={add.error} compact />}
      <div className={styles.submit}>
        <Button variant="primary" type="submit" busy={submit.isRunning} disabled={isReadOnly(file.data)}>
          Add
        </Button>
      </div>
    </form>
  );
}
