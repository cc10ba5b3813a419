// What happened to a review, in order. Its events where the gateway tells them, else what its documents say.

import type { HistoryEvent, Message, Patch, Proposal } from "../../lib/reviews/documents";
import { STATUS_TEXT } from "../../lib/reviews/standing";
import { Text, Time } from "../../ui";
import styles from "./reviews.module.css";

const WORDS: Readonly<Record<string, string>> = {
  review_created: "proposed the change",
  review_claimed: "claimed the review",
  message_posted: "wrote a message",
  patch_submitted: "attached a patch",
  patch_judged: "judged a patch",
  verdict_approved: "approved",
  verdict_rejected: "rejected",
  review_closed: "closed the review",
  claim_expired: "the claim ended without activity",
};

/** Without `review.extended_tools`. */
function known(proposal: Proposal, messages: readonly Message[], patches: readonly Patch[]): HistoryEvent[] {
  const all = [
    { event: "review_created", actor: proposal.proposed_by, created_at: proposal.created_at },
    ...messages.map((message) => ({ event: "message_posted", actor: message.posted_by, created_at: message.created_at })),
    ...patches.slice(1).map((patch) => ({ event: "patch_submitted", actor: patch.submitted_by, created_at: patch.created_at })),
    ...proposal.verdicts.map((verdict) => ({ event: `verdict_${verdict.decision}`, actor: verdict.given_by, created_at: verdict.created_at })),
  ];
  return all.sort((a, b) => a.created_at.localeCompare(b.created_at)).map((event, seq) => ({ seq, ...event }));
}

interface Props {
  proposal: Proposal;
  messages: readonly Message[];
  patches: readonly Patch[];
  /** `undefined`: the tools do not tell it. */
  events: readonly HistoryEvent[] | undefined;
  total: number;
}

export function History({ proposal, messages, patches, events, total }: Props) {
  const shown = events ?? known(proposal, messages, patches);
  return (
    <div className={styles.stack}>
      {events === undefined && (
        <p className={styles.hint}>
          Claims and closing are not listed: <code>get_review_timeline</code> is one of the tools of <code>review.extended_tools = true</code>.
        </p>
      )}
      {events !== undefined && events.length < total && <p className={styles.hint}>{total - events.length} later events are not shown.</p>}
      <ol className={styles.history}>
        {shown.map((event) => (
          <li key={event.seq}>
            <span>
              <Time ms={Date.parse(event.created_at)} />
            </span>
            <span>
              {event.event !== "claim_expired" && <Text value={event.actor} max={80} />} {WORDS[event.event] ?? event.event}
              {event.old_status !== undefined && event.new_status !== undefined && event.old_status !== event.new_status && (
                <span className={styles.quiet}>
                  {" "}
                  {STATUS_TEXT[event.old_status]} → {STATUS_TEXT[event.new_status]}
                </span>
              )}
              {event.detail !== undefined && event.detail !== null && (
                <span className={styles.detail}>
                  <Text value={typeof event.detail === "string" ? event.detail : JSON.stringify(event.detail)} mono max={300} />
                </span>
              )}
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}
