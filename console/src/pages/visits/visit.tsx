// One visited server: what it offers, and the inspector of the catalog on it.

import { Globe } from "lucide-react";
import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { answer, api, send } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { findOffered, loadOffer } from "../../lib/visits/offer";
import type { OfferKind, Offered } from "../../lib/visits/offer";
import { useParamSet } from "../../shell/use-param";
import { Button, EmptyState, ErrorState, Json, LinkButton, Loading, PageHeader, SearchInput, Status, Text, cut, cx, formatCount, toneOf, visible } from "../../ui";
import { printJson } from "../../ui/json-parse";
import { useMedia } from "../../ui/use-narrow";
import { VisitInspector } from "./inspector";
import { useEnd } from "./visits";
import type { Visited } from "./visits";
import styles from "./visits.module.css";

const KINDS: readonly { kind: OfferKind; title: string }[] = [
  { kind: "tools", title: "Tools" },
  { kind: "resources", title: "Resources" },
  { kind: "templates", title: "Templates" },
  { kind: "prompts", title: "Prompts" },
];
/** Rows of each list; the search finds the others. */
const ROWS_MAX = 200;

export function Visit({ id }: { id: string }) {
  const { data, error, refetch } = useQuery("visits", (signal) => answer(api.GET("/admin/api/visits", { signal })));
  const visit = data?.visits.find((one) => one.id === id);
  const back = { href: "/visits", label: "Other servers" };
  if (visit === undefined) {
    return (
      <div aria-busy={data === undefined && error === undefined}>
        <PageHeader title="Another server" back={back} />
        {error !== undefined && <ErrorState error={error} onRetry={refetch} />}
        {data === undefined && error === undefined && <Loading />}
        {data !== undefined && (
          <EmptyState icon={<Globe size={24} aria-hidden />} title="This visit has ended" actions={<LinkButton href="/visits">Look at a server</LinkButton>}>
            Visits end after 30 minutes without a request, and with the gateway. They belong to whoever began them.
          </EmptyState>
        )}
      </div>
    );
  }
  return <Shown visit={visit} refetch={refetch} />;
}

function hostOf(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

function Shown({ visit, refetch }: { visit: Visited; refetch: () => void }) {
  const [, navigate] = useLocation();
  const end = useEnd(() => {
    refetch();
    navigate("/visits");
  });
  const offer = useQuery(`visit ${visit.id}`, (signal) => loadOffer(visit.endpoint, send, signal));
  const [params, setParams] = useParamSet();
  const [words, setWords] = useState("");
  const found = useMemo(() => findOffered(offer.data?.items ?? [], words), [offer.data, words]);
  const isNarrow = useMedia("(max-width: 820px)");
  const [kind, name] = [params.get("kind"), params.get("name")];
  const open = offer.data?.items.find((item) => item.kind === kind && item.name === name);
  return (
    <div aria-busy={offer.isLoading}>
      <PageHeader
        title={cut(hostOf(visit.url), 100)}
        back={{ href: "/visits", label: "Other servers" }}
        description={
          <span className={styles.facts}>
            <Text value={visit.url} mono max={200} />
            <Status tone={toneOf(visit.health)}>{visit.health}</Status>
            {visit.revision !== null && <span>MCP {visit.revision}</span>}
          </span>
        }
        actions={
          <>
            <Button
              onClick={() => {
                refetch();
                offer.refetch();
              }}
            >
              Look again
            </Button>
            <Button busy={end.isRunning} onClick={() => void end.run(visit.id)}>
              End the visit
            </Button>
          </>
        }
      />
      {end.error && <ErrorState error={end.error} compact />}
      {visit.problem !== null && (
        <p className={styles.problem} role="alert">
          <Text value={visit.problem} max={600} block />
        </p>
      )}
      {offer.error !== undefined && <ErrorState error={offer.error} onRetry={offer.refetch} />}
      {offer.isLoading && <Loading label="Asking what it offers…" />}
      {offer.data !== undefined && (
        <>
          {offer.data.problems.map((problem) => (
            <p key={problem} className={styles.problem} role="alert">
              <Text value={problem} max={400} />
            </p>
          ))}
          {offer.data.isCut && <p className={styles.quiet}>It offers more than is listed here.</p>}
          {offer.data.items.length === 0 ? (
            <EmptyState icon={<Globe size={24} aria-hidden />} title="It offers nothing">
              {visit.problem === null ? "It has no tools, resources or prompts for this caller." : "Once it answers, press “Look again”."}
            </EmptyState>
          ) : (
            <div className={styles.columns}>
              <nav className={styles.offer} aria-label="What it offers" hidden={isNarrow && open !== undefined}>
                <SearchInput label="Find" placeholder="Name or description" value={words} onChange={setWords} />
                {KINDS.map((group) => (
                  <Group key={group.kind} title={group.title} items={found.filter((item) => item.kind === group.kind)} open={open} onOpen={(item) => setParams({ kind: item.kind, name: item.name }, { push: true })} />
                ))}
                {found.length === 0 && <p className={styles.quiet}>Nothing matches.</p>}
              </nav>
              <div className={styles.place} hidden={isNarrow && open === undefined}>
                {isNarrow && open !== undefined && (
                  <p>
                    <Button size="s" onClick={() => setParams({ kind: "", name: "" })}>
                      Everything it offers
                    </Button>
                  </p>
                )}
                {open === undefined ? <EmptyState title="Choose something on the left">Tools are called, resources read, and prompts rendered here. To have it in the catalog, add it under <Link href="/backends">Backends</Link>.</EmptyState> : <Open key={`${open.kind} ${open.name}`} item={open} endpoint={visit.endpoint} />}
              </div>
            </div>
          )}
        </>
      )}
    </div>
  );
}

function Group({ title, items, open, onOpen }: { title: string; items: readonly Offered[]; open: Offered | undefined; onOpen: (item: Offered) => void }) {
  if (items.length === 0) return null;
  return (
    <section className={styles.group}>
      <h2 className={styles.groupTitle}>
        {title} <span className={styles.quiet}>{formatCount(items.length)}</span>
      </h2>
      <ul>
        {items.slice(0, ROWS_MAX).map((item) => (
          <li key={item.name}>
            <button type="button" className={cx(styles.item, item === open && styles.itemOn)} aria-current={item === open ? "true" : undefined} onClick={() => onOpen(item)}>
              <Text value={item.name} mono line />
              {item.title !== "" && item.title !== item.name && (
                <span className={styles.quiet}>
                  <Text value={item.title} line />
                </span>
              )}
            </button>
          </li>
        ))}
      </ul>
      {items.length > ROWS_MAX && <p className={styles.quiet}>{formatCount(items.length - ROWS_MAX)} more: find one by its name.</p>}
    </section>
  );
}

function Open({ item, endpoint }: { item: Offered; endpoint: string }) {
  return (
    <>
      <h2 className={styles.name}>
        <bdi>{cut(visible(item.name), 200)}</bdi>
      </h2>
      {item.description !== "" && (
        <div className={styles.description}>
          <Text value={item.description} max={600} block />
        </div>
      )}
      <VisitInspector item={item} endpoint={endpoint} />
      <details className={styles.definition}>
        <summary>Definition</summary>
        <Json text={printJson(item.definition)} label="Definition" />
      </details>
    </>
  );
}
