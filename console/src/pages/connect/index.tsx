// What to paste into each client, with this gateway's address, and word of the client when it arrives.

import { CircleCheck, KeyRound } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import { answer, api, request } from "../../api/client";
import { useSession } from "../../api/session";
import { useAction, useQuery } from "../../api/use-query";
import { callerOf } from "../../lib/connect/arrivals";
import type { Arrival } from "../../lib/connect/arrivals";
import { KEY_PLACEHOLDER, clientsOf, serverName } from "../../lib/connect/clients";
import { useParam } from "../../shell/use-param";
import { Ago, Badge, Button, Card, Code, CopyButton, ErrorState, InlineCode, Input, PageHeader, Section, Select, Status, Text, toast, visible } from "../../ui";
import styles from "./connect.module.css";
import { useArrivals } from "./use-arrivals";
import type { Watching } from "./use-arrivals";

const DAY_S = 86_400;
const EXPIRIES = [
  { value: "1", label: "In a day" },
  { value: "7", label: "In a week" },
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "", label: "Never" },
];
/** Longer than any key or token. */
const KEY_CHARS_MAX = 16_384;

/** Names of the backends that the caller sees. */
async function backendNames(isAdmin: boolean, rest: string | null, signal: AbortSignal): Promise<string[]> {
  if (isAdmin) return (await answer(api.GET("/admin/api/backends", { signal }))).map((backend) => backend.name);
  if (rest === null) return [];
  const catalog = (await (await request(`${rest}/catalog`, { signal })).json()) as Record<string, { backend?: string }[] | undefined>;
  const names = Object.values(catalog).flatMap((items) => (items ?? []).map((item) => item.backend));
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

export default function Connect() {
  const { session, isAdmin } = useSession();
  const { paths, guarded } = session;
  const [clientId, setClient] = useParam("client", "claude-code");
  const [backend, setBackend] = useParam("backend");
  // Never in the address, and never stored.
  const [key, setKey] = useState("");
  const { data: backends = [] } = useQuery(`connect-backends ${isAdmin}`, (signal) => backendNames(isAdmin, paths.rest, signal));
  const address = (path: string | null) => (path === null ? undefined : `${location.origin}${path}`);
  const mcp = address(paths.mcp);
  const target = {
    name: serverName(backend === "" ? undefined : backend),
    mcp: mcp === undefined || backend === "" ? mcp : `${mcp}/${encodeURIComponent(backend)}`,
    rest: address(paths.rest),
    rpc: address(paths.rpc),
    isOne: backend !== "",
    key: guarded ? key.trim() || KEY_PLACEHOLDER : undefined,
  };
  const clients = clientsOf(target);
  const client = clients.find((one) => one.id === clientId) ?? clients[0];
  const caller = useMemo(() => callerOf(key.trim()), [key]);
  const { arrivals, watching } = useArrivals(isAdmin, caller);
  return (
    <>
      <PageHeader title="Connect" description="Paste this into your client. It then has every tool that this gateway offers it, over one address." />
      <Address url={target.mcp} backends={backends} backend={backend} onBackend={setBackend} />
      {guarded && <Key keyText={key} onKey={setKey} isAdmin={isAdmin} />}
      <Section title="Client" description="Choose yours, and paste what it needs.">
        {client === undefined ? (
          <p className={styles.note}>This gateway serves neither MCP nor REST to you.</p>
        ) : (
          <div className={styles.clients}>
            <div className={styles.list} role="group" aria-label="Clients">
              {clients.map((one) => (
                <button key={one.id} type="button" className={styles.client} aria-pressed={one.id === client.id} onClick={() => setClient(one.id)}>
                  {one.label}
                </button>
              ))}
            </div>
            <div className={styles.snippets}>
              {client.note !== undefined && <p className={styles.note}>{client.note}</p>}
              {client.snippets.map((snippet, index) => (
                <figure key={index}>
                  <figcaption className={styles.where}>{snippet.where}</figcaption>
                  <Code value={snippet.text} label={`${client.label}: ${snippet.where}`} />
                </figure>
              ))}
              {target.key === KEY_PLACEHOLDER && (
                <p className={styles.note}>
                  <InlineCode>{KEY_PLACEHOLDER}</InlineCode> stands for a key: {isAdmin ? "make one above, or paste one." : "paste yours above, or ask an operator for one."}
                </p>
              )}
            </div>
          </div>
        )}
      </Section>
      <Arrivals arrivals={arrivals} watching={watching} isAdmin={isAdmin} />
    </>
  );
}

function Address({ url, backends, backend, onBackend }: { url: string | undefined; backends: readonly string[]; backend: string; onBackend: (backend: string) => void }) {
  const known = backend === "" || backends.includes(backend) ? backends : [...backends, backend];
  return (
    <div className={styles.address}>
      <Select
        label="Connect to"
        value={backend}
        onChange={onBackend}
        options={[{ value: "", label: "Everything together" }, ...known.map((name) => ({ value: name, label: `Only ${visible(name)}` }))]}
      />
      <div className={styles.url}>
        <span className={styles.urlLabel}>MCP endpoint</span>
        {url === undefined ? (
          <span className={styles.note}>MCP is not served (surfaces.mcp = false).</span>
        ) : (
          <span className={styles.urlText}>
            <Text value={url} mono max={300} />
            <CopyButton value={url} label="Copy the address" size="s" />
          </span>
        )}
      </div>
    </div>
  );
}

function Key({ keyText, onKey, isAdmin }: { keyText: string; onKey: (key: string) => void; isAdmin: boolean }) {
  return (
    <Section title="Key" description="This gateway asks each client for a key. It is in this page alone until you leave it, and nowhere else.">
      <div className={styles.keys}>
        {isAdmin && <MakeKey onKey={onKey} />}
        <Card title={isAdmin ? "Or paste one" : "Paste yours"}>
          <Input label="Key or token" mono type="password" autoComplete="off" maxLength={KEY_CHARS_MAX} value={keyText} onChange={onKey} hint="Filled into what you copy below. It is not stored and not sent anywhere." />
        </Card>
      </div>
    </Section>
  );
}

function MakeKey({ onKey }: { onKey: (key: string) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState("");
  const [days, setDays] = useState("90");
  const [made, setMade] = useState<{ name: string; role: string; key: string } | undefined>(undefined);
  const { data: roles, error } = useQuery("connect-roles", async (signal) => (await answer(api.GET("/admin/api/roles", { signal }))).roles.map((one) => one.name));
  // The least that there is, rather than the most.
  const chosen = role === "" ? (roles?.find((one) => one === "viewer") ?? roles?.find((one) => one !== "admin") ?? "") : role;
  const make = useAction(async () => {
    const expires_in_s = days === "" ? null : Number(days) * DAY_S;
    const created = await answer(api.POST("/admin/api/keys", { body: { name: name.trim(), role: chosen, expires_in_s } }));
    setMade({ name: name.trim(), role: chosen, key: created.key });
    onKey(created.key);
    setName("");
    toast({ title: "The key is made", detail: "It is filled in below, and shown only now.", tone: "ok" });
  });
  return (
    <Card title="Make one for this client">
      <form
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          if (name.trim() !== "" && chosen !== "") void make.run();
        }}
      >
        <Input label="Name" required value={name} onChange={setName} maxLength={200} placeholder="claude-code of Ada" autoComplete="off" />
        {error === undefined ? (
          <Select label="Role" value={chosen} onChange={setRole} options={(roles ?? []).map((value) => ({ value, label: visible(value) }))} />
        ) : (
          <Input label="Role" required value={role} onChange={setRole} />
        )}
        <Select label="Expires" value={days} onChange={setDays} options={EXPIRIES} />
        <Button type="submit" variant="primary" icon={<KeyRound size={14} aria-hidden />} busy={make.isRunning} disabled={name.trim() === "" || chosen === ""}>
          Make the key
        </Button>
      </form>
      {make.error && <ErrorState error={make.error} compact />}
      {made !== undefined && (
        <div className={styles.made}>
          <p>
            The key of <Text value={made.name} max={80} />, role <Text value={made.role} max={80} />. Copy it now: it cannot be shown again.
          </p>
          <Code value={made.key} label="The new key" />
          <p className={styles.note}>
            <Link href="/keys">Keys</Link> lists it, and takes it back.
          </p>
        </div>
      )}
    </Card>
  );
}

function Arrivals({ arrivals, watching, isAdmin }: { arrivals: readonly Arrival[]; watching: Watching; isAdmin: boolean }) {
  const announced = useRef(0);
  useEffect(() => {
    const newest = arrivals[0];
    if (newest !== undefined && arrivals.length > announced.current) toast({ title: newest.isOurs ? "Your client has arrived" : "A client has arrived", tone: "ok" });
    announced.current = arrivals.length;
  }, [arrivals]);
  if (!isAdmin) {
    return (
      <Section title="Has it arrived?">
        <p className={styles.note}>Ask your client to list its tools. Operators see here when a client arrives.</p>
      </Section>
    );
  }
  return (
    <Section title="Arrivals" description={watching === "off" ? "The gateway keeps no records that could be watched." : watching === "poll" ? "Looked for every two seconds while this page is open." : "Shown as they happen while this page is open."}>
      <div role="status">
        {arrivals.length === 0 && watching !== "off" && (
          <p className={styles.waiting}>
            <Status tone="info">Waiting for a client</Status>
            <span>Start your client, or have it list its tools.</span>
          </p>
        )}
        {arrivals.length > 0 && (
          <ul className={styles.arrivals}>
            {arrivals.map((arrival) => (
              <li key={arrival.key} className={styles.arrival}>
                <CircleCheck size={16} aria-hidden className={styles.check} />
                <strong>{arrival.isOurs ? "Your client has arrived" : "A client has arrived"}</strong>
                <span>
                  as <Text value={arrival.caller} max={80} />
                </span>
                {arrival.role !== "" && <Badge tone="neutral">{visible(arrival.role)}</Badge>}
                <span>
                  {arrival.revision === "" ? `over ${arrival.surface}` : `MCP ${arrival.revision} over ${arrival.surface}`}, {visible(arrival.method)}
                </span>
                {arrival.outcome !== "success" && <Status tone="error">{arrival.outcome}</Status>}
                <Ago ms={arrival.atMs} />
                <Link href={`/traffic?record=${encodeURIComponent(arrival.key)}`}>Record</Link>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Section>
  );
}
