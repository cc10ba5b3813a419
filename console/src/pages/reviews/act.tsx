// What the person can do with a review as it stands: claim, comment, attach a patch, approve, reject, close.

import { Check, FileDiff, MessageSquare, X } from "lucide-react";
import { useState } from "react";
import type { Problem } from "../../api/problem";
import { useAction } from "../../api/use-query";
import { Markdown } from "../../lib/markdown/markdown";
import { parsePatch } from "../../lib/patch/parse";
import type { Review, Role, Verdict } from "../../lib/reviews/documents";
import { isMine, nameOf, standingOf } from "../../lib/reviews/standing";
import type { Me } from "../../lib/reviews/standing";
import type { Reviews, Who } from "../../lib/reviews/tools";
import { Ago, Button, ConfirmDialog, Dialog, ErrorState, Input, Select, Text, Textarea, Time, toast } from "../../ui";
import styles from "./reviews.module.css";
import { StatusBadge, linesOf } from "./status-badge";
import { NAME_CHARS_MAX, useWriteKey } from "./use-reviews";

/** As the tools take them. */
const TEXT_CHARS_MAX = 200_000;
const DIFF_CHARS_MAX = 3 << 20;

export interface Acting {
  reviews: Reviews;
  review: Review;
  verdicts: readonly Verdict[];
  me: Me;
  who: Who;
  isNamed: boolean;
  setName: (name: string) => void;
  onDone: () => void;
}

/** The side that the person is likely on. */
export function sideOf(review: Review, me: Me): Role {
  return me.isGuarded && review.proposed_by === me.subject && !isMine(review, me) ? "proposer" : "reviewer";
}

export const ROLES = [
  { value: "reviewer" as Role, label: "As a reviewer" },
  { value: "proposer" as Role, label: "As the proposer" },
];

export function Act(props: Acting) {
  const { reviews, review, me, isNamed } = props;
  const standing = standingOf(review, me);
  const mayClaim = standing.mayClaim && reviews.may("claim_review");
  const mayPost = standing.mayDiscuss && reviews.may("post_message");
  const mayDecide = standing.mayDecide && reviews.may("submit_verdict");
  const mayClose = standing.mayClose && reviews.may("close_review");
  const isReadOnly = !reviews.may("claim_review") && !reviews.may("post_message") && !reviews.may("submit_verdict") && !reviews.may("close_review");
  const acts = mayClaim || mayPost || mayDecide;
  return (
    <section className={styles.panel} aria-label="Your review">
      <div className={styles.panelHead}>
        <StatusBadge status={review.status} />
        <span>{standing.text}</span>
        {review.claim_expires_at !== undefined && (review.status === "claimed" || review.status === "in_discussion") && (
          <span className={styles.hint}>
            The claim of <Text value={nameOf(review.claimed_by ?? "")} max={60} /> ends at <Time ms={Date.parse(review.claim_expires_at)} /> unless its reviewer acts.
          </span>
        )}
      </div>
      <LastVerdict verdict={props.verdicts.at(-1)} />
      {isReadOnly && <p className={styles.hint}>Your role may read reviews, and not act on them.</p>}
      {acts && !me.isGuarded && <Name {...props} />}
      {mayClaim && isNamed && <Claim {...props} />}
      {(mayPost || mayDecide) && isNamed && <Speak {...props} mayPost={mayPost} mayDecide={mayDecide} />}
      {mayClose && <Close {...props} />}
    </section>
  );
}

/** What was decided, and why: whoever opens the review wants to know that first. */
function LastVerdict({ verdict }: { verdict: Verdict | undefined }) {
  if (verdict === undefined) return null;
  return (
    <div className={styles.verdict}>
      <span className={styles.hint}>
        {verdict.decision === "approved" ? "Approved" : "Rejected"} by <Text value={verdict.given_by} max={80} /> <Ago ms={Date.parse(verdict.created_at)} />
      </span>
      {verdict.reason !== undefined && <Markdown value={verdict.reason} />}
    </div>
  );
}

/** Without `[auth]` the gateway cannot tell people apart. */
function Name({ me, isNamed, setName }: Acting) {
  const [isOpen, setOpen] = useState(false);
  const [draft, setDraft] = useState(me.name);
  if (isNamed && !isOpen) {
    return (
      <p className={styles.hint}>
        You review as <Text value={me.name} max={60} />.{" "}
        <Button size="s" variant="ghost" onClick={() => setOpen(true)}>
          Change the name
        </Button>
      </p>
    );
  }
  return (
    <form
      className={styles.name}
      onSubmit={(event) => {
        event.preventDefault();
        if (draft.trim() === "") return;
        setName(draft);
        setOpen(false);
      }}
    >
      <div className={styles.nameRow}>
        <Input label="Your name as a reviewer" value={draft} onChange={setDraft} maxLength={NAME_CHARS_MAX} required autoComplete="nickname" />
        <Button type="submit" variant={isNamed ? "default" : "primary"} disabled={draft.trim() === ""}>
          Use this name
        </Button>
      </div>
      <p className={styles.hint}>Nobody signs in to this gateway, so your claims and comments carry a name that you choose. It is kept in this browser.</p>
    </form>
  );
}

function Claim({ reviews, review, who, onDone }: Acting) {
  const claim = useAction(async () => {
    await reviews.claim(review.review_id, who);
    toast({ title: "You review this now", tone: "ok" });
    onDone();
  });
  return (
    <>
      <div className={styles.actions}>
        <Button variant="primary" busy={claim.isRunning} onClick={() => void claim.run()}>
          Claim this review
        </Button>
      </div>
      {claim.error && <ErrorState error={claim.error} compact />}
    </>
  );
}

/** Refusals that mean that the page shows an older state. */
function isOutdated(problem: Problem): boolean {
  return ["invalid_transition", "stale_claim", "already_claimed"].includes(problem.code);
}

function Speak(props: Acting & { mayPost: boolean; mayDecide: boolean }) {
  const { reviews, review, me, who, onDone, mayPost, mayDecide } = props;
  const [text, setText] = useState("");
  const [role, setRole] = useState<Role>(() => sideOf(review, me));
  const [isMissing, setMissing] = useState(false);
  const [isPatching, setPatching] = useState(false);
  const [doing, setDoing] = useState<"comment" | "approved" | "rejected" | undefined>(undefined);
  const key = useWriteKey();
  const action = useAction(async (what: "comment" | "approved" | "rejected") => {
    setDoing(what);
    const said = text.trim();
    try {
      if (what === "comment") await reviews.post(review.review_id, role, said, who, key.keyOf(`${role}\n${said}`));
      else await reviews.decide(review.review_id, what, said, review.claim_generation, who, key.keyOf(`${what}\n${review.claim_generation}\n${said}`));
    } catch (error) {
      if (error instanceof Error && "code" in error && isOutdated(error as Problem)) onDone();
      throw error;
    }
    key.done();
    setText("");
    toast({ title: what === "comment" ? "The comment is posted" : what === "approved" ? "Approved" : "Rejected", tone: "ok" });
    onDone();
  });
  const run = (what: "comment" | "approved" | "rejected") => {
    // An approval speaks for itself; whoever is rejected must know what has to change.
    const needsWords = what !== "approved" && text.trim() === "";
    setMissing(needsWords);
    if (!needsWords) void action.run(what);
  };
  const isBusy = (what: string) => action.isRunning && doing === what;
  return (
    <>
      <Textarea
        label="Comment"
        hint={mayDecide ? "Markdown. It becomes the reason of a verdict, or a message in the discussion." : "Markdown."}
        error={isMissing ? "Write what you want to say, or what has to change." : undefined}
        rows={3}
        maxLength={TEXT_CHARS_MAX}
        value={text}
        onChange={(value) => {
          setText(value);
          setMissing(false);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && mayPost) run("comment");
        }}
      />
      {action.error && <ErrorState error={action.error} compact />}
      <div className={styles.actions}>
        {mayPost && (
          <Button icon={<MessageSquare size={14} aria-hidden />} busy={isBusy("comment")} disabled={action.isRunning} onClick={() => run("comment")}>
            Post the comment
          </Button>
        )}
        {mayPost && <Select aria-label="Speak" value={role} onChange={setRole} options={ROLES} />}
        {mayPost && reviews.may("submit_patch") && (
          <Button variant="ghost" icon={<FileDiff size={14} aria-hidden />} onClick={() => setPatching(true)}>
            Attach a patch
          </Button>
        )}
        <span className={styles.spacer} />
        {mayDecide && role === "reviewer" && (
          <>
            <Button variant="danger" icon={<X size={14} aria-hidden />} busy={isBusy("rejected")} disabled={action.isRunning} onClick={() => run("rejected")}>
              Reject
            </Button>
            <Button variant="primary" icon={<Check size={14} aria-hidden />} busy={isBusy("approved")} disabled={action.isRunning} onClick={() => run("approved")}>
              Approve
            </Button>
          </>
        )}
      </div>
      {isPatching && <AttachPatch {...props} role={role} onClose={() => setPatching(false)} />}
    </>
  );
}

function AttachPatch({ reviews, review, who, role, onDone, onClose }: Acting & { role: Role; onClose: () => void }) {
  const [diff, setDiff] = useState("");
  const [description, setDescription] = useState("");
  const key = useWriteKey();
  const files = diff.trim() === "" ? [] : parsePatch(diff).files;
  const lines = linesOf(files);
  const attach = useAction(async () => {
    // A diff ends with a line feed, which a text field may lose.
    const whole = diff.endsWith("\n") ? diff : `${diff}\n`;
    await reviews.patch(review.review_id, role, whole, description.trim(), who, key.keyOf(`${role}\n${description}\n${whole}`));
    key.done();
    toast({ title: "The patch is attached", tone: "ok" });
    onDone();
    onClose();
  });
  return (
    <Dialog
      open
      onClose={onClose}
      size="l"
      title="Attach a patch"
      description="An alternative to the proposal, for the proposer to read and judge. Nothing is applied."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" busy={attach.isRunning} disabled={files.length === 0} onClick={() => void attach.run()}>
            Attach
          </Button>
        </>
      }
    >
      <div className={styles.stack}>
        <Textarea
          label="Patch"
          hint={diff.trim() === "" ? "Paste what git diff prints: the whole change as you would have it." : files.length === 0 ? "No file is in it yet: it needs lines that begin with --- and +++." : `${files.length} ${files.length === 1 ? "file" : "files"}, ${lines.added} lines added, ${lines.removed} removed`}
          mono
          rows={14}
          maxLength={DIFF_CHARS_MAX}
          value={diff}
          onChange={setDiff}
          spellCheck={false}
        />
        <Input label="What it does differently" value={description} onChange={setDescription} maxLength={2_000} />
        {attach.error && <ErrorState error={attach.error} compact />}
      </div>
    </Dialog>
  );
}

function Close({ reviews, review, onDone }: Acting) {
  const [isOpen, setOpen] = useState(false);
  return (
    <div className={styles.actions}>
      <Button onClick={() => setOpen(true)}>Close the review</Button>
      <span className={styles.hint}>For its proposer: once the change is applied, or given up.</span>
      <ConfirmDialog
        open={isOpen}
        onClose={() => setOpen(false)}
        title="Close this review?"
        confirmLabel="Close the review"
        reason="none"
        onConfirm={async () => {
          await reviews.close(review.review_id);
          toast({ title: "The review is closed", tone: "ok" });
          onDone();
        }}
      >
        Closed is final. What was said stays readable.
      </ConfirmDialog>
    </div>
  );
}
