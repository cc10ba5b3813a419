// Traffic: every request on record, as it happens and back in time.

import { Download, Pause, Play, RefreshCw, ShieldCheck } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useSearch } from "wouter";
import { useCallerNames } from "../../lib/records/caller-name";
import { isSame, paramsOf, readFilters, trafficHref } from "../../lib/records/filters";
import type { FilterName, Filters } from "../../lib/records/filters";
import { useParamSet } from "../../shell/use-param";
import { Button, EmptyState, ErrorState, LinkButton, Loading, PageHeader, Status, Time, formatCount, formatRate } from "../../ui";
import { cx } from "../../ui/cx";
import { ExportDialog } from "./export-dialog";
import { RecordFeed } from "./feed";
import type { FeedStatus } from "./feed";
import { FilterBar } from "./filter-bar";
import { RecordDrawer } from "./record-drawer";
import { RecordList } from "./record-list";
import type { ListHandle } from "./record-list";
import { VerifyDialog } from "./verify-dialog";
import styles from "./traffic.module.css";

/** The feed of the filters, which lives as long as they stay. The one before is shown until it has its first records. */
function useFeed(filters: Filters): [RecordFeed, FeedStatus] {
  const [feed, setFeed] = useState(() => new RecordFeed(filters));
  useEffect(() => {
    const next = new RecordFeed(filters);
    const show = () => {
      if (next.status().isLoading) return;
      unsubscribe();
      setFeed(next);
    };
    const unsubscribe = next.subscribe(show);
    next.start();
    return () => {
      unsubscribe();
      next.stop();
    };
  }, [filters]);
  return [feed, useSyncExternalStore(feed.subscribe, feed.status)];
}

/** The same object as long as the filters of the address are the same. */
function useFilters(): Filters {
  const search = useSearch();
  const last = useRef<Filters | undefined>(undefined);
  return useMemo(() => {
    const read = readFilters(new URLSearchParams(search));
    if (last.current === undefined || !isSame(last.current, read)) last.current = read;
    return last.current;
  }, [search]);
}

export default function Traffic() {
  const filters = useFilters();
  const [params, setParams] = useParamSet();
  const selected = params.get("record");
  const [feed, status] = useFeed(filters);
  const names = useCallerNames();
  const [isPaused, setPaused] = useState(false);
  const [dialog, setDialog] = useState<"verify" | "export" | null>(null);
  const list = useRef<ListHandle>(null);
  const holds = useRef(new Set<string>());

  const hold = useCallback(
    (reason: string, isHeld: boolean) => {
      if (isHeld) holds.current.add(reason);
      else holds.current.delete(reason);
      feed.hold(holds.current.size > 0);
    },
    [feed],
  );
  // A feed of other filters is held for the same reasons; nothing of it was scrolled yet.
  useEffect(() => {
    holds.current.delete("scroll");
    list.current?.scrollToTop();
    hold("pause", isPaused);
  }, [feed, hold, isPaused]);
  useEffect(() => hold("record", selected !== null), [hold, selected]);

  const change = useCallback((changes: Partial<Record<FilterName, string>>) => setParams({ ...changes, record: "" } as Record<string, string>), [setParams]);
  const open = useCallback((key: string) => setParams({ record: key }, { push: selected === null }), [setParams, selected]);
  const close = useCallback(() => {
    setParams({ record: "" });
    list.current?.focus();
  }, [setParams]);
  const hrefOf = useCallback((key: string) => `${import.meta.env.BASE_URL.replace(/\/$/, "")}${trafficHref(filters, { record: key })}`, [filters]);
  const nearEnd = useCallback(() => {
    const { searchedTo, olderProblem, isLoading } = feed.status();
    if (searchedTo === undefined && olderProblem === undefined && !isLoading) void feed.loadOlder();
  }, [feed]);
  const showNewer = () => {
    list.current?.scrollToTop();
    feed.showWaiting();
  };

  const isStale = feed.filters !== filters;
  const index = selected === null ? -1 : feed.window.indexOf(selected);
  const keyAt = (at: number) => (index < 0 ? undefined : feed.window.at(at)?.key);
  return (
    <div className={styles.page}>
      <PageHeader
        title="Traffic"
        actions={
          <>
            <Button icon={<ShieldCheck size={14} aria-hidden />} onClick={() => setDialog("verify")}>
              Verify the chain
            </Button>
            <Button icon={<Download size={14} aria-hidden />} onClick={() => setDialog("export")}>
              Export
            </Button>
          </>
        }
      />
      <FilterBar filters={filters} names={names} onChange={change} />
      <div className={styles.status}>
        <State status={status} isPaused={isPaused} />
        {status.waiting > 0 && (
          <Button size="s" variant="primary" onClick={showNewer}>
            Show {formatCount(status.waiting)} newer
          </Button>
        )}
        <span className={styles.grow} />
        {status.skipped > 0 && (
          <span className={styles.skipped} title="More records came than are sent to a page. They are in the store.">
            {formatCount(status.skipped)} not shown
          </span>
        )}
        {status.state === "fixed" || status.state === "off" || status.skipped > 0 ? (
          <Button size="s" icon={<RefreshCw size={14} aria-hidden />} onClick={() => feed.refresh()}>
            Load again
          </Button>
        ) : null}
        {status.state !== "fixed" && status.state !== "off" && (
          <Button size="s" icon={isPaused ? <Play size={14} aria-hidden /> : <Pause size={14} aria-hidden />} onClick={() => setPaused(!isPaused)}>
            {isPaused ? "Resume" : "Pause"}
          </Button>
        )}
      </div>
      <div className={cx(styles.list, isStale && styles.stale)} aria-busy={isStale || undefined}>
        {feed.window.length === 0 ? (
          <Nothing status={status} filters={filters} onChange={change} feed={feed} />
        ) : (
          <RecordList
            handle={list}
            records={feed.window}
            version={status.version}
            names={names}
            selected={selected}
            onOpen={open}
            hrefOf={hrefOf}
            onHold={hold}
            onNearEnd={nearEnd}
            end={<End status={status} feed={feed} onChange={change} />}
          />
        )}
      </div>
      <RecordDrawer
        recordKey={selected}
        names={names}
        known={index < 0 ? undefined : feed.window.at(index)?.record}
        onClose={close}
        newer={keyAt(index - 1)}
        older={keyAt(index + 1)}
        onGo={open}
      />
      {dialog === "verify" && <VerifyDialog open onClose={() => setDialog(null)} />}
      {dialog === "export" && <ExportDialog open onClose={() => setDialog(null)} filters={filters} />}
    </div>
  );
}

function State({ status, isPaused }: { status: FeedStatus; isPaused: boolean }) {
  const { state, rate, problem } = status;
  if (state === "fixed") return <Status tone="off">A time in the past</Status>;
  if (state === "off") {
    return (
      <Status tone="warn" {...(problem?.detail && { title: problem.detail })}>
        {problem?.status === 404 ? "This gateway has no live tail" : (problem?.title ?? "No live tail")}
      </Status>
    );
  }
  if (state === "offline") return <Status tone="error">Offline: trying again</Status>;
  if (isPaused) return <Status tone="off">Paused</Status>;
  if (state === "connecting") return <Status tone="info">Connecting</Status>;
  return <Status tone="ok">{rate > 0 ? `Live, ${formatRate(rate)} a second` : "Live"}</Status>;
}

interface NothingProps {
  status: FeedStatus;
  filters: Filters;
  feed: RecordFeed;
  onChange: (changes: Partial<Record<FilterName, string>>) => void;
}

/** No record is there to show. */
function Nothing({ status, filters, feed, onChange }: NothingProps) {
  if (status.olderProblem !== undefined) return <ErrorState error={status.olderProblem} onRetry={() => feed.refresh()} />;
  if (status.isLoading || status.isLoadingOlder) {
    return (
      <div aria-busy="true">
        <Loading label="Reading records…" />
      </div>
    );
  }
  if (status.searchedTo !== undefined) {
    return (
      <EmptyState
        title="Nothing found so far"
        actions={
          <>
            <Button onClick={() => void feed.loadOlder()}>Search further back</Button>
            <ClearButton filters={filters} onChange={onChange} />
          </>
        }
      >
        Searched back to <Time ms={status.searchedTo} />.
      </EmptyState>
    );
  }
  const isFiltered = Object.keys(paramsOf(filters)).length > 0;
  return isFiltered ? (
    <EmptyState title="No record matches" actions={<ClearButton filters={filters} onChange={onChange} />}>
      New records that match appear here by themselves.
    </EmptyState>
  ) : (
    <EmptyState
      title="No records yet"
      actions={
        <>
          <LinkButton href="/connect" variant="primary">
            Connect a client
          </LinkButton>
          <LinkButton href="/catalog">Call a tool yourself</LinkButton>
        </>
      }
    >
      Every request that the gateway answers is shown here as it happens.
    </EmptyState>
  );
}

function ClearButton({ filters, onChange }: Pick<NothingProps, "filters" | "onChange">) {
  if (Object.keys(paramsOf(filters)).length === 0) return null;
  return <Button onClick={() => onChange(Object.fromEntries(Object.keys(filters).map((name) => [name, ""])))}>Clear the filters</Button>;
}

/** What is below the oldest record that is held. */
function End({ status, feed, onChange }: Omit<NothingProps, "filters">) {
  if (status.olderProblem !== undefined) return <ErrorState error={status.olderProblem} onRetry={() => void feed.loadOlder()} compact />;
  if (status.isLoadingOlder) return <>Reading older records…</>;
  if (status.isEnd) return <>There are no older records.</>;
  const oldest = feed.window.oldest();
  if (status.isFull && oldest !== undefined) {
    return (
      <>
        The list holds {formatCount(feed.window.length)} records.{" "}
        <Button size="s" onClick={() => onChange({ until: String(oldest.record.at_ms + 1) })}>
          Go on from here
        </Button>
      </>
    );
  }
  if (status.searchedTo !== undefined) {
    return (
      <>
        Searched back to <Time ms={status.searchedTo} /> without a match.{" "}
        <Button size="s" onClick={() => void feed.loadOlder()}>
          Search further back
        </Button>
      </>
    );
  }
  return null;
}
