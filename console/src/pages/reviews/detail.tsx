// One review: what is proposed, what was said, and what the person can do.

import { useCallback, useMemo, useState } from "react";
import { Link } from "wouter";
import { useAction, useQuery } from "../../api/use-query";
import { Markdown } from "../../lib/markdown/markdown";
import { interdiff } from "../../lib/patch/interdiff";
import { viewOf } from "../../lib/patch/rows";
import type { Side, ViewFile } from "../../lib/patch/rows";
import type { HistoryEvent, Message, Page, Patch, Proposal } from "../../lib/reviews/documents";
import { STATUS_TEXT, nameOf, standingOf } from "../../lib/reviews/standing";
import { discussionOf, placeKey } from "../../lib/reviews/threads";
import type { Discussion, Place } from "../../lib/reviews/threads";
import type { Reviews } from "../../lib/reviews/tools";
import { useParamSet } from "../../shell/use-param";
import { Ago, Badge, Button, Card, CopyButton, EmptyState, ErrorState, Loading, PageHeader, Select, Status, Tabs, Text, cut, toast, visible } from "../../ui";
import { Act } from "./act";
import type { Acting } from "./act";
import { DiffView, useLatest } from "./diff-view";
import { DiscussionView, Reply, ThreadView } from "./discussion";
import { History } from "./history";
import styles from "./reviews.module.css";
import { Lines, linesOf } from "./status-badge";
import { useFollow, useMe, usePatch } from "./use-reviews";

/** More messages than this are not read; nobody could. */
const MESSAGES_MAX = 1_000;
const EVENTS_MAX = 1_000;
/** Reviews of a chain whose patches can be compared. */
const CHAIN_MAX = 8;

interface Loaded {
  proposal: Proposal;
  patches: Patch[];
  messages: Page<Message>;
  events: Page<HistoryEvent> | undefined;
}

async function load(reviews: Reviews, id: string, signal: AbortSignal): Promise<Loaded> {
  // The review first: a wait from its version on then repeats a change rather than missing one.
  const proposal = await reviews.proposal(id, signal);
  const [patches, messages, events] = await Promise.all([
    reviews.may("get_patch") ? reviews.patches(id, signal) : [proposal.patch],
    reviews.may("get_messages") ? reviews.messages(id, MESSAGES_MAX, signal) : { items: [], total: 0 },
    reviews.may("get_review_timeline") ? reviews.history(id, EVENTS_MAX, signal) : undefined,
  ]);
  return { proposal, patches, messages, events };
}

type TabName = "changes" | "discussion" | "history";

export function Detail({ reviews, id }: { reviews: Reviews; id: string }) {
  const { data, error, refetch } = useQuery(`review ${id}`, (signal) => load(reviews, id, signal));
  const version = data?.proposal.version;
  const following = useFollow(
    version !== undefined && reviews.may("get_review_status") ? `${id} ${version}` : null,
    async (waitMs, signal) => (await reviews.status(id, version ?? 0, waitMs, signal)).version !== version,
    refetch,
  );
  const back = { href: "/reviews", label: "Reviews" };
  if (data === undefined) {
    return (
      <div aria-busy={error === undefined}>
        <PageHeader title="Review" back={back} />
        {error === undefined ? <Loading /> : <ErrorState error={error} onRetry={refetch} />}
      </div>
    );
  }
  const { proposal } = data;
  return (
    <>
      <PageHeader
        title={cut(proposal.intent, 240)}
        back={back}
        actions={following === "live" ? <Status tone="ok">Follows changes</Status> : <Status tone="warn">Asks again every few seconds</Status>}
      />
      <Facts proposal={proposal} />
      {error !== undefined && <ErrorState error={error} onRetry={refetch} compact />}
      <Body reviews={reviews} data={data} refetch={refetch} />
    </>
  );
}

function Facts({ proposal }: { proposal: Proposal }) {
  const where = [proposal.project, proposal.plan, proposal.task].filter((part) => part !== undefined).join(" · ");
  return (
    <div className={styles.facts}>
      <span>
        <Text value={proposal.proposed_by} max={80} /> proposed this <Ago ms={Date.parse(proposal.created_at)} />
      </span>
      <span>
        <Text value={proposal.agent_type} max={60} />, phase <Text value={proposal.phase} max={60} />
      </span>
      {where !== "" && <Text value={where} max={120} />}
      {proposal.priority !== "normal" && <Badge tone={proposal.priority === "critical" ? "error" : "off"}>{proposal.priority}</Badge>}
      {proposal.claimed_by !== undefined && (
        <span>
          Reviewer: <Text value={nameOf(proposal.claimed_by)} max={60} />
        </span>
      )}
      <span>
        <Lines {...linesOf(proposal.affected_files)} /> in {proposal.affected_files.length.toLocaleString("en")} {proposal.affected_files.length === 1 ? "file" : "files"}
      </span>
      <CopyButton value={proposal.review_id} label="Copy the review's id" size="s" />
    </div>
  );
}

function Body({ reviews, data, refetch }: { reviews: Reviews; data: Loaded; refetch: () => void }) {
  const { proposal, patches, messages, events } = data;
  const { me, who, isNamed, setName } = useMe();
  const [params, setParams] = useParamSet();
  const tab = (["discussion", "history"].find((name) => name === params.get("tab")) ?? "changes") as TabName;
  const [drafts, setDrafts] = useState<ReadonlyMap<string, string>>(new Map());
  const onDraft = useCallback((key: string, text: string) => setDrafts((before) => new Map(before).set(key, text)), []);
  const acting: Acting = { reviews, review: proposal, verdicts: proposal.verdicts, me, who, isNamed, setName, onDone: refetch };
  const paths = useMemo(() => new Set(patches.flatMap((patch) => patch.affected_files.map((file) => file.path))), [patches]);
  const discussion = useMemo(() => discussionOf(messages.items, paths), [messages, paths]);
  const mayPost = standingOf(proposal, me).mayDiscuss && reviews.may("post_message") && isNamed;
  const addressOf = (changes: Record<string, string>) => {
    const next = new URLSearchParams(changes);
    const search = next.toString();
    return `/reviews/${proposal.review_id}${search === "" ? "" : `?${search}`}`;
  };
  const hrefOf = (place: Place): string => {
    const patch = place.patch === undefined ? undefined : patches.find((one) => one.patch_id.startsWith(place.patch ?? ""))?.patch_id;
    return addressOf(patch === undefined ? {} : { patch });
  };
  return (
    <>
      <Act {...acting} />
      <Chain proposal={proposal} />
      {proposal.description !== undefined && (
        <Card title="Description">
          <Markdown value={proposal.description} />
        </Card>
      )}
      {proposal.intent.length > 240 && (
        <Card title="Intent">
          <Markdown value={proposal.intent} />
        </Card>
      )}
      <Tabs<TabName>
        label="Parts of the review"
        value={tab}
        onChange={(value) => setParams({ tab: value === "changes" ? "" : value })}
        items={[
          { value: "changes", label: "Changes", count: proposal.affected_files.length },
          { value: "discussion", label: "Discussion", count: messages.total + proposal.verdicts.length },
          { value: "history", label: "History" },
        ]}
      >
        {tab === "changes" && <Changes acting={acting} proposal={proposal} patches={patches} discussion={discussion} mayPost={mayPost} drafts={drafts} onDraft={onDraft} />}
        {tab === "discussion" && (
          <DiscussionView
            acting={acting}
            discussion={discussion}
            patches={patches}
            verdicts={proposal.verdicts}
            total={messages.total}
            mayPost={mayPost}
            drafts={drafts}
            onDraft={onDraft}
            hrefOf={hrefOf}
            patchHref={(patch) => addressOf({ patch: patch.patch_id })}
          />
        )}
        {tab === "history" && <History proposal={proposal} messages={messages.items} patches={patches} events={events?.items} total={events?.total ?? 0} />}
      </Tabs>
    </>
  );
}

/** The reviews that this one follows, and that follow it. */
function Chain({ proposal }: { proposal: Proposal }) {
  if (proposal.chain.length < 2) return null;
  return (
    <nav className={styles.chain} aria-label="Attempts" style={{ marginBottom: 16 }}>
      <span className={styles.hint}>Attempts:</span>
      <ol>
        {proposal.chain.map((link) => (
          <li key={link.review_id}>
            {link.review_id === proposal.review_id ? <strong>this one</strong> : <Link href={`/reviews/${link.review_id}`}>{cut(visible(link.intent), 60)}</Link>}
            <span className={styles.quiet}>{STATUS_TEXT[link.status]}</span>
          </li>
        ))}
      </ol>
    </nav>
  );
}

interface ChangesProps {
  acting: Acting;
  proposal: Proposal;
  patches: readonly Patch[];
  discussion: Discussion;
  mayPost: boolean;
  drafts: ReadonlyMap<string, string>;
  onDraft: (key: string, text: string) => void;
}

function labelOf(patch: Patch, index: number): string {
  if (index === 0) return "The proposal";
  const about = patch.description === undefined ? "" : `: ${cut(visible(patch.description), 50)}`;
  return `Patch ${index} by the ${patch.role}${about}`;
}

function Changes({ acting, proposal, patches, discussion, mayPost, drafts, onDraft }: ChangesProps) {
  const { reviews, review } = acting;
  const [params, setParams] = useParamSet();
  const original = patches[0]?.patch_id ?? proposal.patch.patch_id;
  const asked = params.get("patch");
  const patchId = patches.find((patch) => patch.patch_id === asked)?.patch_id ?? original;
  const patch = patches.find((one) => one.patch_id === patchId) ?? proposal.patch;
  const against = params.get("against") ?? "";

  // Patches of the other attempts, to compare with.
  const others = proposal.chain.filter((link) => link.review_id !== review.review_id).slice(-CHAIN_MAX);
  const { data: chain } = useQuery(others.length === 0 || !reviews.may("get_patch") ? null : `chain ${others.map((link) => link.review_id).join()}`, (signal) =>
    Promise.all(others.map(async (link) => ({ link, patches: await reviews.patches(link.review_id, signal) }))),
  );
  const choices = [
    { value: "", label: "The code before it" },
    ...patches.filter((one) => one.patch_id !== patchId).map((one) => ({ value: `${review.review_id}/${one.patch_id}`, label: labelOf(one, patches.indexOf(one)) })),
    ...(chain ?? []).flatMap(({ link, patches: theirs }) =>
      theirs.map((one, index) => ({ value: `${link.review_id}/${one.patch_id}`, label: `${link.created_at < review.created_at ? "Earlier" : "Later"} attempt “${cut(visible(link.intent), 40)}”: ${labelOf(one, index).toLowerCase()}` })),
    ),
  ];
  const isComparing = choices.some((choice) => choice.value !== "" && choice.value === against);
  const [otherReview, otherPatch] = isComparing ? against.split("/") : [undefined, undefined];

  const shown = usePatch(reviews, review.review_id, patchId);
  const compared = usePatch(reviews, otherReview ?? review.review_id, otherPatch);
  const files = useMemo<readonly ViewFile[] | undefined>(() => {
    if (shown.data === undefined) return undefined;
    if (!isComparing) return shown.data.files.map(viewOf);
    return compared.data === undefined ? undefined : interdiff(compared.data.files, shown.data.files);
  }, [shown.data, compared.data, isComparing]);

  const short = patchId === original ? undefined : patchId.slice(0, 8);
  const placeOf = useCallback((file: ViewFile, side: Side, line: number): Place => ({ path: file.path, line, side, patch: short }), [short]);
  const [composing, setComposing] = useState<string | undefined>(undefined);
  const hasBelow = useCallback(
    (file: ViewFile, side: Side, line: number) => {
      if (isComparing) return false;
      const key = placeKey(placeOf(file, side, line));
      return key === composing || discussion.threads.has(key);
    },
    [discussion, composing, isComparing, placeOf],
  );
  const below = (file: ViewFile, side: Side, line: number) => {
    const place = placeOf(file, side, line);
    const key = placeKey(place);
    const thread = discussion.threads.get(key);
    const isOpen = key === composing;
    const reply = mayPost ? (
      isOpen ? (
        <Reply {...acting} place={place} label={`Comment on line ${line}`} draft={drafts.get(key) ?? ""} onDraft={(text) => onDraft(key, text)} onCancel={() => setComposing(undefined)} />
      ) : (
        <div>
          <Button size="s" onClick={() => setComposing(key)}>
            Answer
          </Button>
        </div>
      )
    ) : null;
    return thread === undefined ? reply : <ThreadView thread={thread} reply={reply} />;
  };
  const onLine = useLatest((file: ViewFile, side: Side, line: number) => setComposing(placeKey(placeOf(file, side, line))));
  const judge = useAction(async (isAccepted: boolean) => {
    await reviews.judge(review.review_id, patchId, isAccepted);
    toast({ title: isAccepted ? "The patch is accepted" : "The patch is declined", tone: "ok" });
    acting.onDone();
  });

  const failed = shown.error ?? compared.error;
  const progress = Math.min(shown.progress, isComparing ? compared.progress : 1);
  const mayJudge = patchId !== original && patch.accepted === undefined && reviews.may("accept_patch") && ["claimed", "in_discussion", "approved"].includes(review.status);
  return (
    <div className={styles.stack} aria-busy={files === undefined && failed === undefined}>
      {choices.length > 1 && (
        <div className={styles.choose}>
          <Select label="Show" value={patchId} onChange={(value) => setParams({ patch: value === original ? "" : value, against: "" })} options={patches.map((one, index) => ({ value: one.patch_id, label: labelOf(one, index) }))} />
          <Select label="Compared with" value={isComparing ? against : ""} onChange={(value) => setParams({ against: value })} options={choices} />
        </div>
      )}
      {patchId !== original && (
        <div className={styles.patchNote}>
          <span>
            Attached by <Text value={patch.submitted_by} max={80} /> <Ago ms={Date.parse(patch.created_at)} />
            {patch.description !== undefined && (
              <>
                : <Text value={patch.description} max={400} />
              </>
            )}
          </span>
          {patch.accepted !== undefined && <Badge tone={patch.accepted ? "ok" : "error"}>{patch.accepted ? "accepted by the proposer" : "declined by the proposer"}</Badge>}
          {mayJudge && (
            <>
              <Button size="s" busy={judge.isRunning} onClick={() => void judge.run(true)}>
                Accept as the proposer
              </Button>
              <Button size="s" disabled={judge.isRunning} onClick={() => void judge.run(false)}>
                Decline
              </Button>
            </>
          )}
        </div>
      )}
      {judge.error && <ErrorState error={judge.error} compact />}
      {failed !== undefined && (
        <ErrorState
          error={failed}
          onRetry={() => {
            shown.retry();
            compared.retry();
          }}
        />
      )}
      {files === undefined && failed === undefined && <Loading label={progress > 0 ? `Loading the diff: ${Math.round(progress * 100)} %` : "Loading the diff…"} />}
      {!isComparing && shown.data !== undefined && shown.data.preamble !== "" && (
        <Card title="Before the diff">
          <Text value={shown.data.preamble} block mono max={1_000} />
        </Card>
      )}
      {files !== undefined && (
        <DiffView
          key={`${patchId} ${against}`}
          files={files}
          labels={isComparing ? [choices.find((choice) => choice.value === against)?.label ?? "", labelOf(patch, patches.indexOf(patch))] : ["Before", "After"]}
          mode={(["split", "unified"] as const).find((mode) => mode === params.get("view")) ?? ""}
          onMode={(mode) => setParams({ view: mode })}
          onLine={mayPost && !isComparing ? onLine : undefined}
          hasBelow={hasBelow}
          below={below}
          empty={<EmptyState title={isComparing ? "Both leave the code the same" : "There is no file in this diff"} />}
        />
      )}
    </div>
  );
}
