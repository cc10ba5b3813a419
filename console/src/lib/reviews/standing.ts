// What the state of a review allows, and whom it waits for. The rules are those of `crates/review/src/machine.rs`; the
// gateway has the last word.

import type { Review, Status } from "./documents";

/** Who looks at the page. */
export interface Me {
  /** The subject of the caller. */
  subject: string;
  /** With `[auth]` the caller is the reviewer. Without, everybody is `local`, and a name tells people apart. */
  isGuarded: boolean;
  /** The name that was chosen, without `[auth]`. */
  name: string;
}

/** How the gateway notes a claim of this person. */
export function claimantOf(me: Me): string | undefined {
  if (me.isGuarded) return `caller:${me.subject}`;
  return me.name === "" ? undefined : `reviewer:${me.name}`;
}

/** A claimant as people read it: `reviewer:codex-1` is codex-1. */
export function nameOf(claimant: string): string {
  return claimant.replace(/^(reviewer|caller):/, "").replace(/^session:/, "session ");
}

export type Group = "mine" | "waiting" | "others" | "decided" | "closed";

export const GROUPS: readonly { group: Group; title: string; description: string }[] = [
  { group: "mine", title: "Yours", description: "You claimed these. They wait for your comment or verdict." },
  { group: "waiting", title: "Waiting for a reviewer", description: "Nobody has claimed these. The most urgent and oldest come first." },
  { group: "others", title: "With another reviewer", description: "Claimed by somebody else. A claim without activity ends by itself." },
  { group: "decided", title: "Decided", description: "These wait for their proposer, who applies the change or follows up, and closes the review." },
  { group: "closed", title: "Closed", description: "" },
];

export function isMine(review: Pick<Review, "status" | "claimed_by">, me: Me): boolean {
  const own = claimantOf(me);
  return own !== undefined && review.claimed_by === own && (review.status === "claimed" || review.status === "in_discussion");
}

export function groupOf(review: Review, me: Me): Group {
  switch (review.status) {
    case "created":
      return "waiting";
    case "claimed":
    case "in_discussion":
      return isMine(review, me) ? "mine" : "others";
    case "approved":
    case "rejected":
      return "decided";
    default:
      return "closed";
  }
}

const URGENCY = { critical: 0, normal: 1, low: 2 } as const;

/** The order of the queue: most urgent, then oldest. What is over comes latest first. */
export function byUrgency(a: Review, b: Review): number {
  const isOver = ["approved", "rejected", "closed"].includes(a.status) && ["approved", "rejected", "closed"].includes(b.status);
  if (isOver) return b.updated_at.localeCompare(a.updated_at);
  return URGENCY[a.priority] - URGENCY[b.priority] || a.created_at.localeCompare(b.created_at);
}

export interface Standing {
  /** The state in words. */
  text: string;
  mayClaim: boolean;
  /** Comments and patches are taken. */
  mayDiscuss: boolean;
  mayDecide: boolean;
  mayClose: boolean;
}

const NOTHING = { mayClaim: false, mayDiscuss: false, mayDecide: false, mayClose: false };

export function standingOf(review: Pick<Review, "status" | "claimed_by" | "proposed_by">, me: Me): Standing {
  switch (review.status) {
    case "created":
      return { ...NOTHING, mayClaim: true, text: "Nobody reviews this yet. Claim it to comment, to attach a patch and to decide." };
    case "claimed":
    case "in_discussion": {
      const by = nameOf(review.claimed_by ?? "somebody");
      const rights = { mayClaim: false, mayDiscuss: true, mayDecide: true, mayClose: false };
      if (isMine(review, me)) return { ...rights, text: "You review this. Comment, attach a patch, or decide. Without a word from you the claim ends by itself." };
      return { ...rights, text: `${by} reviews this. You can comment, attach a patch, and decide as well; everything is recorded under your name.` };
    }
    case "approved":
      return { ...NOTHING, mayClose: true, text: "The proposer applies the change and closes the review." };
    case "rejected":
      return { ...NOTHING, mayClose: true, text: "The proposer follows up with a new proposal, or closes the review. A rejected review stays rejected." };
    default:
      return { ...NOTHING, text: "Nothing more happens here. The next attempt is a new review that names this one as its parent." };
  }
}

export const STATUS_TEXT: Readonly<Record<Status, string>> = {
  created: "Waiting",
  claimed: "Claimed",
  in_discussion: "In discussion",
  approved: "Approved",
  rejected: "Rejected",
  closed: "Closed",
};
