// All reviews, by whom they wait for.

import { GitPullRequest } from "lucide-react";
import { useMemo, useRef } from "react";
import { Link, useLocation } from "wouter";
import { useQuery } from "../../api/use-query";
import type { Review, Status } from "../../lib/reviews/documents";
import { GROUPS, STATUS_TEXT, byUrgency, groupOf, nameOf } from "../../lib/reviews/standing";
import type { Reviews } from "../../lib/reviews/tools";
import { useParam } from "../../shell/use-param";
import { Ago, Badge, Button, Card, Count, EmptyState, ErrorState, Loading, PageHeader, SearchInput, Section, Select, Status as StatusWord, Table, Text, Toolbar, cut, visible } from "../../ui";
import type { Column } from "../../ui";
import styles from "./reviews.module.css";
import { Lines, StatusBadge, linesOf } from "./status-badge";
import { useFollow, useMe } from "./use-reviews";

const OPEN: readonly Status[] = ["created", "claimed", "in_discussion", "approved", "rejected"];
/** Of each status: more are loaded when asked for, up to this. */
const LOADED_STEP = 200;
const LOADED_MAX = 1_000;
/** Changes other than of the queue are looked for this often. */
const LOOK_MS = 10_000;

const STATUSES = [
  { value: "", label: "Open" },
  ...(Object.keys(STATUS_TEXT) as Status[]).map((value) => ({ value: value as string, label: STATUS_TEXT[value] })),
  { value: "all", label: "All" },
];
const AGES = [
  { value: "", label: "Any age" },
  { value: "1h", label: "Newer than an hour" },
  { value: "1d", label: "Newer than a day" },
  { value: "7d", label: "Newer than a week" },
  { value: "-1d", label: "Older than a day" },
  { value: "-7d", label: "Older than a week" },
];
const HOUR = 3_600_000;
const AGE_MS: Readonly<Record<string, number>> = { "1h": HOUR, "1d": 24 * HOUR, "7d": 168 * HOUR };

function isOfAge(review: Review, age: string, now: number): boolean {
  if (age === "") return true;
  const passed = now - Date.parse(review.created_at);
  return age.startsWith("-") ? passed > (AGE_MS[age.slice(1)] ?? 0) : passed <= (AGE_MS[age] ?? Infinity);
}

function contains(review: Review, words: string): boolean {
  const text = [review.intent, review.description, review.review_id, review.agent_type, review.project, review.plan, review.task, review.proposed_by, review.claimed_by, ...review.affected_files.slice(0, 200).map((file) => file.path)];
  const all = text.join("\n").toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

interface Loaded {
  items: Review[];
  /** Reviews that match and were not loaded. */
  left: number;
}

async function load(reviews: Reviews, status: string, max: number, signal: AbortSignal): Promise<Loaded> {
  const statuses: (string | undefined)[] = status === "" ? [...OPEN] : [status === "all" ? undefined : status];
  const pages = await Promise.all(
    statuses.map((one) => {
      const isOver = one === undefined || one === "closed" || one === "approved" || one === "rejected";
      return reviews.list({ ...(one === undefined ? {} : { status: one }), recent_first: isOver }, max, signal);
    }),
  );
  // A review that changes its status between two answers is in both.
  const items = new Map(pages.flatMap((page) => page.items).map((review) => [review.review_id, review]));
  return { items: [...items.values()], left: pages.reduce((sum, page) => sum + Math.max(0, page.total - page.items.length), 0) };
}

export function Queue({ reviews }: { reviews: Reviews }) {
  const { me } = useMe();
  const [status, setStatus] = useParam("status");
  const [author, setAuthor] = useParam("author");
  const [age, setAge] = useParam("age");
  const [words, setWords] = useParam("q");
  const [loaded, setLoaded] = useParam("loaded", String(LOADED_STEP));
  const max = Math.min(LOADED_MAX, Math.max(LOADED_STEP, Number(loaded) || LOADED_STEP));
  const [, navigate] = useLocation();
  const { data, error, at, refetch, isFetching } = useQuery(`reviews ${status} ${max}`, (signal) => load(reviews, status, max, signal));

  const queue = useRef<number | undefined>(undefined);
  const following = useFollow(
    reviews.may("list_pending") ? "queue" : null,
    async (waitMs, signal) => {
      const before = queue.current;
      const { queue_version } = await reviews.queue(before, waitMs, signal);
      queue.current = queue_version;
      return before !== undefined && before !== queue_version;
    },
    refetch,
  );
  const latest = useRef<string | undefined>(undefined);
  // What happens to claimed reviews does not change the queue: the latest change is looked at.
  useQuery(
    "reviews-latest",
    async (signal) => {
      const { items } = await reviews.list({ recent_first: true }, 1, signal);
      const mark = `${items[0]?.review_id} ${items[0]?.version}`;
      if (latest.current !== undefined && latest.current !== mark) refetch();
      latest.current = mark;
      return mark;
    },
    { everyMs: LOOK_MS },
  );

  const authors = useMemo(() => [...new Set((data?.items ?? []).flatMap((review) => [review.proposed_by, review.agent_type]))].sort(), [data]);
  const shown = useMemo(() => {
    const now = at ?? Date.now();
    return (data?.items ?? []).filter(
      (review) => isOfAge(review, age, now) && (author === "" || review.proposed_by === author || review.agent_type === author) && (words.trim() === "" || contains(review, words.trim())),
    );
  }, [data, age, author, words, at]);
  const isFiltered = author !== "" || age !== "" || words.trim() !== "";

  return (
    <div aria-busy={data === undefined && error === undefined}>
      <PageHeader
        title="Reviews"
        description="Changes that agents propose, and what reviewers say about them. The gateway keeps the conversation; it applies nothing."
        actions={data === undefined ? undefined : following === "live" ? <StatusWord tone="ok">Follows changes</StatusWord> : <StatusWord tone="warn">Asks again every few seconds</StatusWord>}
      />
      <Toolbar label="Filters">
        <SearchInput label="Find a review" placeholder="Intent, file, project, id" value={words} onChange={setWords} />
        <Select aria-label="Status" value={status} onChange={setStatus} options={STATUSES} />
        <Select aria-label="Author" value={author} onChange={setAuthor} options={[{ value: "", label: "Any author" }, ...authors.concat(author === "" || authors.includes(author) ? [] : [author]).map((value) => ({ value, label: cut(visible(value), 60) }))]} />
        <Select aria-label="Age" value={age} onChange={setAge} options={AGES} />
      </Toolbar>
      {error !== undefined && <ErrorState error={error} onRetry={refetch} compact={data !== undefined} />}
      {data === undefined && error === undefined && <Loading />}
      {data !== undefined && shown.length === 0 && <Nothing isFiltered={isFiltered} status={status} onClear={() => navigate("/reviews")} />}
      {GROUPS.map(({ group, title, description }) => {
        const rows = shown.filter((review) => groupOf(review, me) === group).sort(byUrgency);
        if (rows.length === 0) return null;
        return (
          <Section key={group} title={<>{title} <span className={styles.quiet}>{rows.length}</span></>} description={description === "" ? undefined : description}>
            <Card flush>
              <Table label={title} columns={COLUMNS} rows={rows} rowKey={(review) => review.review_id} onOpen={(review) => navigate(`/reviews/${review.review_id}`)} />
            </Card>
          </Section>
        );
      })}
      {data !== undefined && data.left > 0 && (
        <p className={styles.more}>
          <Count value={data.left} /> more are not loaded.{" "}
          {max < LOADED_MAX ? (
            <Button size="s" busy={isFetching} onClick={() => setLoaded(String(max + LOADED_STEP))}>
              Load more
            </Button>
          ) : (
            "Choose a status to see fewer at a time."
          )}
        </p>
      )}
    </div>
  );
}

const COLUMNS: readonly Column<Review>[] = [
  {
    id: "intent",
    header: "Change",
    primary: true,
    cell: (review) => (
      <span className={styles.intent}>
        <Link href={`/reviews/${review.review_id}`}>
          <Text value={review.intent} max={160} />
        </Link>
        <span className={styles.sub}>
          {review.priority !== "normal" && <Badge tone={review.priority === "critical" ? "error" : "off"}>{review.priority}</Badge>}
          {review.parent_id !== undefined && <Badge tone="neutral">follow-up</Badge>}
          <Text value={[review.project, review.plan, `phase ${review.phase}`].filter((part) => part !== undefined).join(" · ")} max={100} />
        </span>
      </span>
    ),
  },
  { id: "status", header: "Status", width: "140px", nowrap: true, cell: (review) => <StatusBadge status={review.status} /> },
  {
    id: "author",
    header: "Proposed by",
    width: "160px",
    cell: (review) => (
      <>
        <Text value={review.proposed_by} max={60} />
        <div className={styles.sub}>
          <Text value={review.agent_type} max={60} />
        </div>
      </>
    ),
  },
  { id: "reviewer", header: "Reviewer", width: "130px", cell: (review) => (review.claimed_by === undefined ? <span className={styles.quiet}>nobody</span> : <Text value={nameOf(review.claimed_by)} max={60} />) },
  {
    id: "size",
    header: "Change size",
    width: "118px",
    align: "end",
    nowrap: true,
    cell: (review) => (
      <>
        <Lines {...linesOf(review.affected_files)} />
        <div className={styles.files}>
          {review.affected_files.length.toLocaleString("en")} {review.affected_files.length === 1 ? "file" : "files"}
        </div>
      </>
    ),
  },
  { id: "messages", header: "Messages", width: "92px", align: "end", cell: (review) => <Count value={review.message_count} /> },
  { id: "age", header: "Proposed", width: "104px", align: "end", nowrap: true, cell: (review) => <Ago ms={Date.parse(review.created_at)} /> },
];

function Nothing({ isFiltered, status, onClear }: { isFiltered: boolean; status: string; onClear: () => void }) {
  if (isFiltered || status !== "") {
    return (
      <EmptyState icon={<GitPullRequest size={24} aria-hidden />} title="No review matches" actions={<Button onClick={onClear}>Show all open ones</Button>}>
        Take a filter away to see more.
      </EmptyState>
    );
  }
  return (
    <EmptyState icon={<GitPullRequest size={24} aria-hidden />} title="Nothing waits for a review">
      An agent proposes a change with the tool <code>submit_proposal</code>. See <Link href="/connect">Connect</Link> for what to paste into your agent, and tell it to have its changes reviewed.
    </EmptyState>
  );
}
