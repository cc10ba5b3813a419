// Makes a key: asks who it is for and what it may do, then shows it once, with what to paste where.

import { useState } from "react";
import { useSession } from "../../api/session";
import { useAction } from "../../api/use-query";
import { createKey } from "../../lib/control/contract";
import { clientsOf, serverName } from "../../lib/connect/clients";
import { Callout } from "../../lib/control/parts";
import { Button, Code, Dialog, ErrorState, Input, Select, Time, formatTime } from "../../ui";
import type { SelectOption } from "../../ui";
import { LIFETIMES, secondsOf } from "./expiry";
import type { Lifetime } from "./expiry";
import styles from "./keys.module.css";

interface Props {
  roles: readonly string[];
  onClose: () => void;
  onChange: () => void;
}

type Created = Awaited<ReturnType<typeof createKey>>;

/** Longer names are no names. */
const NAME_CHARS_MAX = 100;

export function CreateKey({ roles, onClose, onChange }: Props) {
  const [created, setCreated] = useState<Created | undefined>(undefined);
  if (created !== undefined) return <Shown created={created} onClose={onClose} />;
  return (
    <Form
      roles={roles}
      onClose={onClose}
      onCreated={(key) => {
        setCreated(key);
        onChange();
      }}
    />
  );
}

function Form({ roles, onClose, onCreated }: { roles: readonly string[]; onClose: () => void; onCreated: (key: Created) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState("");
  const [lifetime, setLifetime] = useState<Lifetime>("90");
  const [date, setDate] = useState("");
  const seconds = secondsOf(lifetime, date, Date.now());
  const action = useAction(async () => {
    if (seconds !== undefined) onCreated(await createKey(name.trim(), role, seconds));
  });
  const options: SelectOption<string>[] = [{ value: "", label: "Choose…", disabled: true }, ...roles.map((each) => ({ value: each, label: each }))];
  const isReady = name.trim() !== "" && role !== "" && seconds !== undefined;
  return (
    <Dialog
      open
      onClose={onClose}
      title="Make a key"
      description="A credential of one program or person, with the rights of a role."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="make-a-key" busy={action.isRunning} disabled={!isReady}>
            Make the key
          </Button>
        </>
      }
    >
      <form
        id="make-a-key"
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) void action.run();
        }}
      >
        <Input label="Name" hint="Tells it from all other good keys, such as the program that uses it." required autoFocus maxLength={NAME_CHARS_MAX} value={name} onChange={setName} />
        <Select<string> label="Role" value={role} onChange={setRole} options={options} />
        <Select<Lifetime> label="Expires" value={lifetime} onChange={setLifetime} options={LIFETIMES} />
        {lifetime === "date" && <Input label="Last day" type="date" required value={date} onChange={setDate} error={date !== "" && seconds === undefined ? "This day is over." : undefined} />}
        {typeof seconds === "number" && lifetime !== "date" && <p className={styles.dim}>Good until {formatTime(Date.now() + seconds * 1000)}.</p>}
        {lifetime === "never" && <p className={styles.dim}>It stays good until somebody revokes it.</p>}
        {action.error && <ErrorState error={action.error} compact />}
      </form>
    </Dialog>
  );
}

function Shown({ created, onClose }: { created: Created; onClose: () => void }) {
  const { session } = useSession();
  const at = (path: string | null) => (path === null ? undefined : `${location.origin}${path}`);
  const { mcp, rest, rpc } = session.paths;
  const clients = clientsOf({ name: serverName(undefined), mcp: at(mcp), rest: at(rest), rpc: at(rpc), isOne: false, key: created.key });
  const [shown, setShown] = useState(clients[0]?.id ?? "");
  const client = clients.find((each) => each.id === shown);
  return (
    <Dialog
      open
      size="l"
      onClose={onClose}
      title={`The key ${created.name}`}
      footer={
        <Button variant="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <div className={styles.form}>
        <Callout tone="warn" title="Copy it now: it is not shown again.">
          <span>
            The gateway keeps only a hash of it. It has the role {created.role} and{" "}
            {created.expires_at === null ? (
              "does not expire"
            ) : (
              <>
                is good until <Time ms={created.expires_at * 1000} />
              </>
            )}
            .
          </span>
        </Callout>
        <Code value={created.key} label="The key" />
        {client !== undefined && (
          <>
            <Select<string> label="What to paste into" value={shown} onChange={setShown} options={clients.map((each) => ({ value: each.id, label: each.label }))} />
            {client.snippets.map((snippet) => (
              <div key={snippet.where} className={styles.snippet}>
                <span className={styles.dim}>{snippet.where}</span>
                <Code value={snippet.text} label={`${client.label}: ${snippet.where}`} />
              </div>
            ))}
            {client.note !== undefined && <p className={styles.dim}>{client.note}</p>}
          </>
        )}
      </div>
    </Dialog>
  );
}
