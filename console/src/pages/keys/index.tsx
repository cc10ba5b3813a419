// Keys: who has one, until when, and with which role; made here, shown once, and revoked.

import { KeyRound, Plus } from "lucide-react";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import { useSession } from "../../api/session";
import { useQuery } from "../../api/use-query";
import { loadConfig, loadKeys, loadRoles, revokeKey } from "../../lib/control/contract";
import type { Key } from "../../lib/control/contract";
import { Callout } from "../../lib/control/parts";
import { traffic } from "../../lib/control/state";
import { plural } from "../../lib/control/words";
import { Ago, Button, Card, ConfirmDialog, EmptyState, ErrorState, Loading, PageHeader, SearchInput, Select, Status, Table, Text, Toolbar, toast, useNow, visible } from "../../ui";
import type { Column, SelectOption } from "../../ui";
import { useParam } from "../../shell/use-param";
import { CreateKey } from "./create";
import { expiryOf, stateOf } from "./expiry";
import styles from "./keys.module.css";

type Shown = "all" | "good" | "soon" | "ended";

const SHOWN: readonly SelectOption<Shown>[] = [
  { value: "all", label: "All keys" },
  { value: "good", label: "Good" },
  { value: "soon", label: "Expire soon" },
  { value: "ended", label: "Expired or revoked" },
];

/** Roles of the configuration, for a gateway that does not list them. */
function configuredRoles(config: Record<string, unknown> | undefined): string[] {
  const roles = (config?.["rbac"] as { roles?: Record<string, unknown> } | undefined)?.roles ?? {};
  return [...new Set(["admin", ...Object.keys(roles)])];
}

export default function Keys() {
  const keys = useQuery("admin/keys", loadKeys, { everyMs: 15_000 });
  const roles = useQuery("admin/roles", loadRoles);
  const config = useQuery("admin/config", loadConfig);
  const [make, setMake] = useParam("make");
  const [search, setSearch] = useParam("q");
  const [shown, setShown] = useParam("state", "all");
  const [revoked, setRevoked] = useState<Key | undefined>(undefined);
  const minute = Math.floor(useNow() / 60_000) * 60_000;

  const names = roles.data?.roles.map((role) => role.name) ?? configuredRoles(config.data);
  const all = useMemo(() => {
    const rank = { ok: 0, warn: 0, off: 1 };
    return [...(keys.data?.keys ?? [])].sort((a, b) => rank[stateOf(a, minute).tone] - rank[stateOf(b, minute).tone] || b.created_at - a.created_at);
  }, [keys.data, minute]);
  const wanted = search.trim().toLowerCase();
  const isShown = (key: Key) => {
    const { tone } = stateOf(key, minute);
    const isOfState = shown === "good" ? tone !== "off" : shown === "soon" ? tone === "warn" : shown === "ended" ? tone === "off" : true;
    return isOfState && `${key.name} ${key.id} ${key.role}`.toLowerCase().includes(wanted);
  };
  const rows = all.filter(isShown);
  const good = all.filter((key) => stateOf(key, minute).tone !== "off").length;
  const soon = all.filter((key) => stateOf(key, minute).tone === "warn").length;

  return (
    <>
      <PageHeader
        title="Keys"
        description={
          keys.data === undefined || all.length === 0
            ? "API keys are credentials that this gateway makes. Only their hashes are kept."
            : `${plural(good, "good key")}${soon > 0 ? `, ${soon} of ${good === 1 ? "it" : "them"} about to expire` : ""}.`
        }
        actions={
          <Button variant="primary" icon={<Plus size={14} aria-hidden />} onClick={() => setMake("key", { push: true })}>
            Make a key
          </Button>
        }
      />
      <div className={styles.page}>
        <Auth config={config.data} />
        {keys.error !== undefined && keys.data === undefined && <ErrorState error={keys.error} onRetry={keys.refetch} />}
        {keys.isLoading && <Loading />}
        {keys.data !== undefined && all.length === 0 && (
          <EmptyState
            icon={<KeyRound size={24} aria-hidden />}
            title="There is no key yet"
            actions={
              <Button variant="primary" onClick={() => setMake("key", { push: true })}>
                Make a key
              </Button>
            }
          >
            Make one for each program or person, with the least role that is enough.
          </EmptyState>
        )}
        {all.length > 0 && (
          <div>
            <Toolbar label="Filters">
              <SearchInput label="Search keys" value={search} onChange={setSearch} />
              <Select<Shown> aria-label="State" value={shown as Shown} onChange={setShown} options={SHOWN} />
            </Toolbar>
            <Card flush>
              <Table label="Keys" columns={columns(minute, setRevoked)} rows={rows} rowKey={(key) => key.id} empty={<EmptyState title="No key is like that" />} />
            </Card>
          </div>
        )}
      </div>
      {make === "key" && <CreateKey roles={names} onClose={() => setMake("")} onChange={keys.refetch} />}
      <ConfirmDialog
        open={revoked !== undefined}
        onClose={() => setRevoked(undefined)}
        title={`Revoke the key ${visible(revoked?.name ?? "")}?`}
        confirmLabel="Revoke"
        danger
        onConfirm={async () => {
          if (revoked === undefined) return;
          await revokeKey(revoked.id);
          keys.refetch();
          toast({ title: `Revoked the key ${visible(revoked.name)}`, tone: "ok" });
        }}
      >
        <p>It is refused from the next request on, and its streams and calls in flight end within a second. It cannot be made good again.</p>
      </ConfirmDialog>
    </>
  );
}

/** Where keys have no effect, a page about keys says so. */
function Auth({ config }: { config: Record<string, unknown> | undefined }) {
  const { session } = useSession();
  const auth = config?.["auth"] as { api_keys?: boolean } | null | undefined;
  if (!session.guarded) {
    return (
      <Callout tone="info" title="Nobody is asked for a key">
        <span>
          This gateway has no section [auth], so every local caller is an admin. Keys count once the <Link href="/config?tab=edit">configuration</Link> has one with api_keys = true.
        </span>
      </Callout>
    );
  }
  if (auth?.api_keys === false) {
    return (
      <Callout tone="warn" title="Keys are not accepted">
        <span>
          The key auth.api_keys of the <Link href="/config?q=auth.api_keys">configuration</Link> is false.
        </span>
      </Callout>
    );
  }
  return null;
}

function columns(now: number, onRevoke: (key: Key) => void): Column<Key>[] {
  return [
    {
      id: "name",
      header: "Name",
      primary: true,
      sort: (key) => key.name,
      cell: (key) => (
        <div>
          <Text value={key.name} max={80} />
          <div className={styles.dim}>
            <Text value={key.id} mono max={40} />
          </div>
        </div>
      ),
    },
    {
      id: "role",
      header: "Role",
      sort: (key) => key.role,
      cell: (key) => (
        <Link href={`/access?detail=${encodeURIComponent(key.role)}`}>
          <Text value={key.role} max={60} />
        </Link>
      ),
    },
    {
      id: "state",
      header: "State",
      nowrap: true,
      cell: (key) => {
        const { tone, word } = stateOf(key, now);
        return <Status tone={tone}>{word}</Status>;
      },
    },
    {
      id: "expires",
      header: "Expires",
      nowrap: true,
      sort: (key) => key.expires_at ?? Number.MAX_SAFE_INTEGER,
      cell: (key) => <span title={key.expires_at === null ? undefined : new Date(key.expires_at * 1000).toLocaleString()}>{expiryOf(key, now)}</span>,
    },
    { id: "created", header: "Made", nowrap: true, sort: (key) => key.created_at, cell: (key) => <Ago ms={key.created_at * 1000} /> },
    {
      id: "actions",
      header: <span className="visually-hidden">Actions</span>,
      align: "end",
      cell: (key) => (
        <span className={styles.actions}>
          <Link href={traffic({ caller: `key:${key.id}` })}>Records</Link>
          {key.state === "good" && (
            <Button size="s" variant="danger" aria-label={`Revoke ${visible(key.name)}`} onClick={() => onRevoke(key)}>
              Revoke
            </Button>
          )}
        </span>
      ),
    },
  ];
}
