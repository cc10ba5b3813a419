import { Globe } from "lucide-react";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { answer, api } from "../../api/client";
import type { Answer } from "../../api/client";
import { useSession } from "../../api/session";
import { useAction, useQuery } from "../../api/use-query";
import { Button, Card, Code, EmptyState, ErrorState, InlineCode, Input, Loading, PageHeader, Section, Status, Table, Text, toast, toneOf } from "../../ui";
import type { Column } from "../../ui";
import styles from "./visits.module.css";

export type Visited = Answer<"/admin/api/visits">["visits"][number];
type Connect = "off" | "public" | "any";

/** As the gateway takes it. */
const URL_CHARS_MAX = 2_048;
const BEARER_CHARS_MAX = 16_384;
const EVERY_MS = 10_000;

/** What the configuration allows; `undefined`: not told. */
async function allowed(signal: AbortSignal): Promise<Connect | undefined> {
  const config = (await answer(api.GET("/admin/api/config", { signal }))) as { console?: { connect?: unknown } };
  const connect = config.console?.connect;
  return connect === "off" || connect === "public" || connect === "any" ? connect : undefined;
}

export function Visits() {
  const { isAdmin } = useSession();
  const { data: connect } = useQuery(isAdmin ? "visits-allowed" : null, allowed);
  const { data, error, refetch } = useQuery(isAdmin ? "visits" : null, (signal) => answer(api.GET("/admin/api/visits", { signal })), { everyMs: EVERY_MS });
  if (!isAdmin) {
    return (
      <>
        <PageHeader title="Other servers" />
        <EmptyState icon={<Globe size={24} aria-hidden />} title="For operators">
          Your role may not look at other servers through this gateway.
        </EmptyState>
      </>
    );
  }
  const isOff = connect === "off";
  return (
    <div aria-busy={data === undefined && error === undefined}>
      <PageHeader title="Other servers" description="Look at an MCP server before you add it: the gateway connects to it, and it is in nobody's catalog. What you call there is on record like any call." />
      {isOff ? <IsOff /> : <Begin connect={connect} onBegun={refetch} />}
      {error !== undefined && <ErrorState error={error} onRetry={refetch} compact={data !== undefined} />}
      {data === undefined && error === undefined && <Loading />}
      {data !== undefined && (data.visits.length > 0 || !isOff) && (
        <Section title="Looked at now" description="Each ends after 30 minutes without a request, and with the gateway. Others do not see yours.">
          {data.visits.length === 0 ? (
            <EmptyState icon={<Globe size={24} aria-hidden />} title="None yet">
              Paste the address of an MCP server above.
            </EmptyState>
          ) : (
            <List visits={data.visits} onEnded={refetch} />
          )}
        </Section>
      )}
    </div>
  );
}

function IsOff() {
  return (
    <Card title="Switched off">
      <div className={styles.stack}>
        <p>
          This gateway does not connect to servers that are not in its configuration. Whoever may edit the configuration allows it: <InlineCode>public</InlineCode> for servers on public addresses, <InlineCode>any</InlineCode> for those on this machine and its networks, too.
        </p>
        <Code value={'[console]\nconnect = "public"'} label="Configuration" />
        <p className={styles.quiet}>
          Change it under <Link href="/config">Config</Link>, or in the file, and reload. No restart is needed.
        </p>
      </div>
    </Card>
  );
}

function Begin({ connect, onBegun }: { connect: Connect | undefined; onBegun: () => void }) {
  const [url, setUrl] = useState("");
  const [bearer, setBearer] = useState("");
  const [, navigate] = useLocation();
  const begin = useAction(async () => {
    const visited = await answer(api.POST("/admin/api/visits", { body: { url: url.trim(), bearer: bearer.trim() === "" ? null : bearer.trim() } }));
    setBearer("");
    onBegun();
    navigate(`/visits/${encodeURIComponent(visited.id)}`);
  });
  return (
    <Card>
      <form
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          if (url.trim() !== "") void begin.run();
        }}
      >
        <Input label="Address of the MCP server" type="url" required mono placeholder="https://example.com/mcp" maxLength={URL_CHARS_MAX} value={url} onChange={setUrl} autoComplete="off" hint={connect === "public" ? "Public addresses only (console.connect)." : undefined} />
        <Input label="Bearer token" type="password" mono maxLength={BEARER_CHARS_MAX} value={bearer} onChange={setBearer} autoComplete="off" hint="If it asks for one. The gateway keeps it until the visit ends." />
        <div className={styles.submit}>
          <Button type="submit" variant="primary" busy={begin.isRunning} disabled={url.trim() === ""}>
            Look at it
          </Button>
        </div>
      </form>
      {begin.error && (begin.error.status === 403 ? <IsOff /> : <ErrorState error={begin.error} compact />)}
    </Card>
  );
}

function List({ visits, onEnded }: { visits: readonly Visited[]; onEnded: () => void }) {
  const [, navigate] = useLocation();
  const end = useEnd(onEnded);
  const columns: readonly Column<Visited>[] = [
    {
      id: "url",
      header: "Server",
      primary: true,
      cell: (visit) => (
        <Link href={`/visits/${visit.id}`}>
          <Text value={visit.url} mono max={120} />
        </Link>
      ),
    },
    { id: "health", header: "State", width: "110px", cell: (visit) => <Status tone={toneOf(visit.health)}>{visit.health}</Status> },
    { id: "revision", header: "Revision", width: "120px", cell: (visit) => visit.revision ?? <span className={styles.quiet}>not known</span> },
    { id: "problem", header: "Problem", narrow: "wide", cell: (visit) => (visit.problem === null ? "" : <Text value={visit.problem} max={160} />) },
    {
      id: "end",
      header: "",
      width: "84px",
      align: "end",
      cell: (visit) => (
        <Button size="s" aria-label={`End the visit of ${visit.url.slice(0, 100)}`} onClick={() => void end.run(visit.id)}>
          End
        </Button>
      ),
    },
  ];
  return (
    <Card flush>
      <Table label="Servers that are looked at" columns={columns} rows={visits} rowKey={(visit) => visit.id} onOpen={(visit) => navigate(`/visits/${visit.id}`)} />
      {end.error && <ErrorState error={end.error} compact />}
    </Card>
  );
}

export function useEnd(onEnded: () => void) {
  return useAction(async (id: string) => {
    await answer(api.POST("/admin/api/visits/end", { body: { id } }));
    toast({ title: "The visit has ended", tone: "ok" });
    onEnded();
  });
}
