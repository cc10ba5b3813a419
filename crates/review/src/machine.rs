//! The state machine of a review as data, and the decisions based on it.
//!
//! `MOVES` is the whole state machine: an action on a status that has no row is refused with the
//! names of both states, and changes nothing. Decisions are pure functions of the review as it is
//! in the transaction and the time there; the store writes what they return.
//!
//! A claim is a lease. An action that meets an expired one sees the review as `created` again, and
//! its effect begins with the expiry.

use crate::store::{Addition, Decision, Effect, Lease, NewEvent, Review, ReviewStatus};
use sentinel_core::builtin::Refused;
use sentinel_core::clock::Moment;
use serde_json::{Value, json};

/// An action on a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Claim,
    Post,
    Patch,
    Approve,
    Reject,
    Close,
    /// The lease of the claim is over.
    Expire,
    /// The proposer accepts or declines a patch.
    Judge,
}

use Action::{Approve, Claim, Close, Expire, Judge, Patch, Post, Reject};
use ReviewStatus::{Approved, Claimed, Closed, Created, InDiscussion, Rejected};

impl Action {
    pub const ALL: [Self; 8] = [Claim, Post, Patch, Approve, Reject, Close, Expire, Judge];

    /// The target status, for the message of a refusal.
    fn aim(self) -> ReviewStatus {
        match self {
            Claim => Claimed,
            Post | Patch | Judge => InDiscussion,
            Approve => Approved,
            Reject => Rejected,
            Close => Closed,
            Expire => Created,
        }
    }

    fn event(self) -> &'static str {
        match self {
            Claim => "review_claimed",
            Post => "message_posted",
            Patch => "patch_submitted",
            Approve => "verdict_approved",
            Reject => "verdict_rejected",
            Close => "review_closed",
            Expire => "claim_expired",
            Judge => "patch_judged",
        }
    }
}

/// Every transition: from, action, to.
pub const MOVES: &[(ReviewStatus, Action, ReviewStatus)] = &[
    (Created, Claim, Claimed),
    (Claimed, Post, InDiscussion),
    (Claimed, Patch, Claimed),
    (Claimed, Judge, Claimed),
    (Claimed, Approve, Approved),
    (Claimed, Reject, Rejected),
    (Claimed, Expire, Created),
    (InDiscussion, Post, InDiscussion),
    (InDiscussion, Patch, InDiscussion),
    (InDiscussion, Judge, InDiscussion),
    (InDiscussion, Approve, Approved),
    (InDiscussion, Reject, Rejected),
    (InDiscussion, Expire, Created),
    (Approved, Judge, Approved),
    (Approved, Close, Closed),
    (Rejected, Close, Closed),
];

/// The status after an action.
pub fn follow(from: ReviewStatus, action: Action) -> Result<ReviewStatus, Refused> {
    MOVES
        .iter()
        .find(|(at, by, _)| *at == from && *by == action)
        .map(|(_, _, to)| *to)
        .ok_or_else(|| {
            let message = format!("Cannot transition from '{from}' to '{}'", action.aim());
            Refused::new("invalid_transition", message)
        })
}

/// Who acts, as far as claims are concerned: `reviewer_id`, else identity, else session.
pub type Claimant = Option<String>;

/// The review as an action must see it: an expired claim is no claim.
struct Seen {
    status: ReviewStatus,
    claimed_by: Option<String>,
    claim_generation: u64,
    lease: Option<Lease>,
    events: Vec<NewEvent>,
}

impl Seen {
    fn of(review: &Review, now: &Moment) -> Self {
        let mut seen = Self {
            status: review.status,
            claimed_by: review.claimed_by.clone(),
            claim_generation: review.claim_generation,
            lease: review.lease.clone(),
            events: Vec::new(),
        };
        if seen.lease.as_ref().is_some_and(|lease| lease.is_over(now))
            && let Ok(to) = follow(seen.status, Expire)
        {
            seen.events.push(event(Expire, seen.status, to));
            seen.status = to;
            seen.claimed_by = None;
            seen.lease = None;
        }
        seen
    }

    fn step(&mut self, action: Action) -> Result<(), Refused> {
        let to = follow(self.status, action)?;
        self.events.push(event(action, self.status, to));
        self.status = to;
        Ok(())
    }

    /// The detail of the last event.
    fn tell(&mut self, detail: Value) {
        if let Some(event) = self.events.last_mut() {
            event.detail = Some(detail);
        }
    }

    fn renew(&mut self, claimant: &Claimant, now: &Moment, timeout_ms: i64) {
        if self.claimed_by.is_some() && self.claimed_by == *claimant {
            self.lease = Some(Lease::starting_at(now, timeout_ms));
        }
    }

    fn effect(self, addition: Option<Addition>) -> Effect {
        // A review that came to its end has no lease to lose; who claimed it stays readable.
        let holds = matches!(self.status, Claimed | InDiscussion);
        Effect {
            status: self.status,
            claimed_by: self.claimed_by,
            claim_generation: self.claim_generation,
            lease: self.lease.filter(|_| holds),
            addition,
            events: self.events,
        }
    }
}

fn event(action: Action, from: ReviewStatus, to: ReviewStatus) -> NewEvent {
    NewEvent {
        event: action.event(),
        old_status: Some(from),
        new_status: Some(to),
        detail: None,
    }
}

/// Takes a review. The same claimant may do so again: the claim stays and is renewed.
pub fn claim(
    review: &Review,
    now: &Moment,
    claimant: &str,
    timeout_ms: i64,
) -> Result<Effect, Refused> {
    let mut seen = Seen::of(review, now);
    if matches!(seen.status, Claimed | InDiscussion) {
        if seen.claimed_by.as_deref() != Some(claimant) {
            let message = format!(
                "already claimed by {}: Cannot transition from '{}' to 'claimed'",
                seen.claimed_by.as_deref().unwrap_or("somebody else"),
                seen.status
            );
            return Err(Refused::new("already_claimed", message));
        }
        seen.renew(&Some(claimant.to_owned()), now, timeout_ms);
        return Ok(seen.effect(None));
    }
    seen.step(Claim)?;
    seen.claimed_by = Some(claimant.to_owned());
    seen.claim_generation += 1;
    seen.lease = Some(Lease::starting_at(now, timeout_ms));
    seen.tell(json!({ "claimed_by": claimant, "claim_generation": seen.claim_generation }));
    Ok(seen.effect(None))
}

/// Adds a message, a patch or a judgement of a patch.
pub fn add(
    review: &Review,
    now: &Moment,
    claimant: &Claimant,
    timeout_ms: i64,
    addition: Addition,
) -> Result<Effect, Refused> {
    let action = match &addition {
        Addition::Message { .. } => Post,
        Addition::Patch { .. } => Patch,
        Addition::Judgement { .. } => Judge,
        Addition::Verdict { decision, .. } => by_decision(*decision),
    };
    let mut seen = Seen::of(review, now);
    seen.step(action)?;
    if let Addition::Judgement { patch_id, accepted } = &addition {
        seen.tell(json!({ "patch_id": patch_id, "accepted": accepted }));
    }
    seen.renew(claimant, now, timeout_ms);
    Ok(seen.effect(Some(addition)))
}

/// Gives a verdict. A generation that is no longer the claim's is refused.
pub fn verdict(
    review: &Review,
    now: &Moment,
    generation: Option<u64>,
    decision: Decision,
    reason: Option<String>,
) -> Result<Effect, Refused> {
    let mut seen = Seen::of(review, now);
    if let Some(generation) = generation
        && generation != seen.claim_generation
    {
        let message = format!(
            "Stale claim: claim_generation {generation} was given, the claim is now {}",
            seen.claim_generation
        );
        return Err(Refused::new("stale_claim", message));
    }
    seen.step(by_decision(decision))?;
    Ok(seen.effect(Some(Addition::Verdict { decision, reason })))
}

fn by_decision(decision: Decision) -> Action {
    match decision {
        Decision::Approved => Approve,
        Decision::Rejected => Reject,
    }
}

pub fn close(review: &Review, now: &Moment) -> Result<Effect, Refused> {
    let mut seen = Seen::of(review, now);
    seen.step(Close)?;
    Ok(seen.effect(None))
}

/// Ends a claim whose lease is over; `None` while it holds.
pub fn expire(review: &Review, now: &Moment) -> Option<Effect> {
    let seen = Seen::of(review, now);
    (!seen.events.is_empty()).then(|| seen.effect(None))
}

#[cfg(test)]
mod tests;
