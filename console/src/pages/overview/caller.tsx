// What a caller sees who is no admin: who it is, what it may call, and how to connect.

import { BookOpen, Plug } from "lucide-react";
import { Link } from "wouter";
import { request } from "../../api/client";
import { useSession } from "../../api/session";
import { useQuery } from "../../api/use-query";
import { Ago, Card, CopyButton, DefinitionList, EmptyState, ErrorState, InlineCode, LinkButton, Loading, PageHeader, Section, Stat, StatGrid, Text, formatCount } from "../../ui";
import styles from "./overview.module.css";

interface Offered {
  tools: { name: string; title?: string; description?: string; backend: string }[];
  resources: unknown[];
  prompts: unknown[];
}

async function loadOffered(path: string, signal: AbortSignal): Promise<Offered> {
  const answered = (await (await request(path, { signal })).json()) as Partial<Offered>;
  return { tools: answered.tools ?? [], resources: answered.resources ?? [], prompts: answered.prompts ?? [] };
}

/** Enough to see what it is about; the catalog has all. */
const TOOLS_SHOWN = 8;

export function CallerOverview() {
  const { caller, session } = useSession();
  const paths = session.paths as Partial<Record<string, string>>;
  const rest = paths["rest"] ?? "/api";
  const mcp = window.location.origin + (paths["mcp"] ?? "/mcp");
  const { data, error, refetch } = useQuery(`offered ${rest}`, (signal) => loadOffered(`${rest}/catalog`, signal));
  const backends = new Set(data?.tools.map((tool) => tool.backend));
  return (
    <>
      <PageHeader title="Overview" />
      <div className={styles.charts}>
        <Card title="You">
          <DefinitionList
            items={[
              ["Signed in as", <Text key="s" value={caller?.subject ?? ""} max={120} />],
              ["Role", <Text key="r" value={caller?.role ?? ""} max={120} />],
              ["Tenant", caller?.tenant ? <Text key="t" value={caller.tenant} max={120} /> : undefined],
              ["Signed in until", caller?.expires_at_ms ? <Ago key="e" ms={caller.expires_at_ms} /> : undefined],
            ]}
          />
          <p className={styles.hint}>Figures, backends and controls are for administrators. Ask one for another role if you need them.</p>
        </Card>
        <Card title="Connect">
          <p>Give this address and your key to your client. It has every tool that your role may use.</p>
          <p className={styles.address}>
            <InlineCode>{mcp}</InlineCode>
            <CopyButton value={mcp} label="Copy the address" />
          </p>
          <LinkButton href="/connect" icon={<Plug size={14} aria-hidden />}>
            What to paste into which client
          </LinkButton>
        </Card>
      </div>
      <Section title="What you see" description="A call that your role does not allow is refused, and the answer says why." {...(data !== undefined && data.tools.length > 0 && { actions: <Link href="/catalog">Open the catalog</Link> })}>
        {data === undefined ? (
          error === undefined ? (
            <div aria-busy="true">
              <Loading />
            </div>
          ) : (
            <ErrorState error={error} onRetry={refetch} />
          )
        ) : data.tools.length + data.resources.length + data.prompts.length === 0 ? (
          <EmptyState icon={<BookOpen size={24} aria-hidden />} title="Your role sees nothing">
            Ask an administrator for a role that may use the tools you need.
          </EmptyState>
        ) : (
          <>
            <StatGrid>
              <Stat label="Tools" value={formatCount(data.tools.length)} hint={`of ${formatCount(backends.size)} ${backends.size === 1 ? "backend" : "backends"}`} href="/catalog" />
              <Stat label="Resources" value={formatCount(data.resources.length)} href="/catalog?kind=resources" />
              <Stat label="Prompts" value={formatCount(data.prompts.length)} href="/catalog?kind=prompts" />
            </StatGrid>
            <ul className={styles.offered}>
              {data.tools.slice(0, TOOLS_SHOWN).map((tool) => (
                <li key={tool.name}>
                  <Link href={`/catalog/tools/${encodeURIComponent(tool.name)}`} className={styles.offeredName}>
                    <Text value={tool.name} max={80} />
                  </Link>
                  <span className={styles.offeredText}>
                    <Text value={tool.description ?? tool.title ?? ""} line />
                  </span>
                </li>
              ))}
            </ul>
            {data.tools.length > TOOLS_SHOWN && (
              <p>
                <Link href="/catalog">All {formatCount(data.tools.length)} tools</Link>
              </p>
            )}
          </>
        )}
      </Section>
    </>
  );
}
