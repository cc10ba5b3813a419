// Messages in threads, with patches and verdicts where they came between them.

import { FileDiff, Gavel } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { useAction } from "../../api/use-query";
import { Markdown } from "../../lib/markdown/markdown";
import type { Patch, Role, Verdict } from "../../lib/reviews/documents";
import { writePlace } from "../../lib/reviews/threads";
import type { Discussion, Place, Post, Thread } from "../../lib/reviews/threads";
import { Ago, Badge, Button, EmptyState, ErrorState, Select, Text, Textarea, toast } from "../../ui";
import { ROLES, sideOf } from "./act";
import type { Acting } from "./act";
import styles from "./reviews.module.css";
import { useWriteKey } from "./use-reviews";

export function PostView({ post }: { post: Post }) {
  return (
    <article className={styles.post}>
      <div className={styles.postHead}>
        <strong>
          <Text value={post.posted_by} max={80} />
        </strong>
        <Badge tone={post.role === "reviewer" ? "info" : "neutral"}>{post.role}</Badge>
        <Ago ms={Date.parse(post.created_at)} />
      </div>
      <Markdown value={post.text} />
    </article>
  );
}

interface ReplyProps extends Acting {
  place?: Place;
  label: string;
  onCancel?: () => void;
  /** Kept by the page, so that scrolling does not lose it. */
  draft: string;
  onDraft: (text: string) => void;
}

/** A message about a line, or to the general thread. */
export function Reply({ reviews, review, me, who, onDone, place, label, onCancel, draft, onDraft }: ReplyProps) {
  const [role, setRole] = useState<Role>(() => sideOf(review, me));
  const key = useWriteKey();
  const post = useAction(async () => {
    const body = place === undefined ? draft.trim() : writePlace(place, draft.trim());
    await reviews.post(review.review_id, role, body, who, key.keyOf(`${role}\n${body}`));
    key.done();
    onDraft("");
    toast({ title: "The comment is posted", tone: "ok" });
    onDone();
    onCancel?.();
  });
  return (
    <div className={styles.stack}>
      <Textarea
        label={label}
        rows={2}
        autoFocus={onCancel !== undefined}
        value={draft}
        onChange={onDraft}
        maxLength={200_000}
        onKeyDown={(event) => {
          if (event.key === "Escape") onCancel?.();
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && draft.trim() !== "") void post.run();
        }}
      />
      {post.error && <ErrorState error={post.error} compact />}
      <div className={styles.actions}>
        <Button size="s" variant="primary" busy={post.isRunning} disabled={draft.trim() === ""} onClick={() => void post.run()}>
          Post
        </Button>
        <Select aria-label="Speak" controlSize="s" value={role} onChange={setRole} options={ROLES} />
        {onCancel !== undefined && (
          <Button size="s" variant="ghost" onClick={onCancel}>
            Cancel
          </Button>
        )}
      </div>
    </div>
  );
}

export function ThreadView({ thread, reply }: { thread: Thread; reply: React.ReactNode }) {
  return (
    <div className={styles.thread}>
      {thread.posts.map((post) => (
        <PostView key={post.message_id} post={post} />
      ))}
      {reply}
    </div>
  );
}

type Moment = { at: string; key: string } & ({ post: Post } | { patch: Patch } | { verdict: Verdict });

interface Props {
  acting: Acting;
  discussion: Discussion;
  patches: readonly Patch[];
  verdicts: readonly Verdict[];
  total: number;
  mayPost: boolean;
  drafts: ReadonlyMap<string, string>;
  onDraft: (key: string, text: string) => void;
  /** Leads to a thread's line. */
  hrefOf: (place: Place) => string;
  patchHref: (patch: Patch) => string;
}

export function DiscussionView({ acting, discussion, patches, verdicts, total, mayPost, drafts, onDraft, hrefOf, patchHref }: Props) {
  const moments: Moment[] = [
    ...discussion.general.map((post) => ({ at: post.created_at, key: post.message_id, post })),
    ...patches.slice(1).map((patch) => ({ at: patch.created_at, key: patch.patch_id, patch })),
    ...verdicts.map((verdict) => ({ at: verdict.created_at, key: verdict.verdict_id, verdict })),
  ].sort((a, b) => a.at.localeCompare(b.at));
  const threads = [...discussion.threads.values()];
  const loaded = discussion.general.length + threads.reduce((sum, thread) => sum + thread.posts.length, 0);
  if (moments.length === 0 && threads.length === 0) {
    return <EmptyState title="Nobody has said anything yet">{mayPost ? "Write a comment above, or press a line's number among the changes." : "Once the review is claimed, both sides can write here."}</EmptyState>;
  }
  const replyTo = (key: string, label: string, place?: Place) =>
    mayPost ? <Reply {...acting} {...(place && { place })} label={label} draft={drafts.get(key) ?? ""} onDraft={(text) => onDraft(key, text)} /> : null;
  return (
    <div className={styles.stack}>
      {loaded < total && (
        <p className={styles.hint}>
          {total - loaded} later messages are not shown here: <code>sentinel review show</code> prints all of them.
        </p>
      )}
      {threads.map((thread) => (
        <section key={thread.key} className={styles.thread} aria-label={`${thread.place.path} line ${thread.place.line}`}>
          <div className={styles.place}>
            <FileDiff size={14} aria-hidden />
            <Link href={hrefOf(thread.place)}>
              <Text value={`${thread.place.path}:${thread.place.line}`} mono max={200} />
            </Link>
            {thread.place.side === "before" && <span>before the change</span>}
          </div>
          <ThreadView thread={thread} reply={replyTo(thread.key, `Answer about line ${thread.place.line}`, thread.place)} />
        </section>
      ))}
      <section className={styles.thread} aria-label="General discussion">
        {threads.length > 0 && <div className={styles.place}>The whole change</div>}
        {moments.map((moment) => (
          <MomentView key={moment.key} moment={moment} patchHref={patchHref} />
        ))}
        {replyTo("general", "Answer")}
      </section>
    </div>
  );
}

function MomentView({ moment, patchHref }: { moment: Moment; patchHref: (patch: Patch) => string }) {
  if ("post" in moment) return <PostView post={moment.post} />;
  if ("patch" in moment) {
    const { patch } = moment;
    return (
      <div className={styles.moment}>
        <FileDiff size={14} aria-hidden />
        <Text value={patch.submitted_by} max={80} /> attached <Link href={patchHref(patch)}>a patch</Link>
        {patch.description !== undefined && (
          <>
            : <Text value={patch.description} max={200} />
          </>
        )}
        <Ago ms={Date.parse(patch.created_at)} />
      </div>
    );
  }
  const { verdict } = moment;
  return (
    <article className={styles.post}>
      <div className={styles.postHead}>
        <Gavel size={14} aria-hidden />
        <strong>
          <Text value={verdict.given_by} max={80} />
        </strong>
        <Badge tone={verdict.decision === "approved" ? "ok" : "error"}>{verdict.decision}</Badge>
        <Ago ms={Date.parse(verdict.created_at)} />
      </div>
      {verdict.reason === undefined ? <span className={styles.hint}>Without a reason</span> : <Markdown value={verdict.reason} />}
    </article>
  );
}
