//! The acting caller, and the rights of each side under `review.enforce_roles` (C-28).
//!
//! Reviewers claim and give verdicts, proposers close and resubmit, both post. By default roles are attribution only.
//! Enforced, the reviewer is the holder of the claim and the proposer is `proposed_by`. Callers are told apart by their proven
//! identity (`[auth]`), else by session; callers with neither count as one.

use ring::digest::{SHA256, digest};
use sentinel_core::Caller;
use sentinel_core::builtin::Refused;

use crate::machine::Claimant;
use crate::store::{Addition, Review, Role};

/// The subject of callers without proven identity.
const ANYBODY: &str = "local";

/// The caller that acts on a review.
#[derive(Clone, Debug)]
pub struct Actor {
    /// As recorded in events.
    pub actor: String,
    /// As recorded in claims.
    pub claimant: Claimant,
    /// Its identity as a proposer, where roles are enforced.
    side: Option<Side>,
}

#[derive(Clone, Debug)]
struct Side {
    /// Its value of `proposed_by`.
    proposes_as: String,
    /// Its proven identity.
    subject: Option<String>,
}

impl Actor {
    pub(crate) fn of(reviewer_id: Option<&str>, caller: &Caller, enforced: bool) -> Self {
        let subject = Some(&*caller.subject).filter(|subject| *subject != ANYBODY);
        let claimant = match (enforced, reviewer_id, subject) {
            // A self-chosen name must not stand for a proven identity.
            (true, Some(id), Some(subject)) => Some(format!("caller:{subject} as {id}")),
            _ => claimant(reviewer_id, caller),
        };
        Self {
            actor: actor(reviewer_id, caller),
            claimant,
            side: enforced.then(|| Side {
                proposes_as: actor(None, caller),
                subject: subject.map(str::to_owned),
            }),
        }
    }

    /// An actor without role checks, whatever the settings.
    pub fn unchecked(actor: &str, claimant: Option<&str>) -> Self {
        Self {
            actor: actor.to_owned(),
            claimant: claimant.map(str::to_owned),
            side: None,
        }
    }

    pub(crate) fn is_checked(&self) -> bool {
        self.side.is_some()
    }

    /// Requires the proposer.
    pub(crate) fn proposer(&self, review: &Review, what: &str) -> Result<(), Refused> {
        match &self.side {
            Some(side) if !side.proposed(review) => Err(wrong(format!(
                "only the proposer ({}) may {what}",
                review.proposed_by
            ))),
            _ => Ok(()),
        }
    }

    /// Requires the holder of the claim.
    pub(crate) fn reviewer(&self, review: &Review, what: &str) -> Result<(), Refused> {
        let holds = self.claimant.is_some() && self.claimant == review.claimed_by;
        match (&self.side, &review.claimed_by) {
            (None, _) => Ok(()),
            (Some(_), _) if holds => Ok(()),
            (Some(_), Some(by)) => Err(wrong(format!(
                "only the reviewer who claimed it ({by}) may {what}; give the reviewer_id that you claimed with"
            ))),
            (Some(_), None) => Err(wrong(format!(
                "only the reviewer who claimed it may {what}: claim it first"
            ))),
        }
    }

    /// Refuses the proposer, as far as callers can be told apart.
    pub(crate) fn may_claim(&self, review: &Review) -> Result<(), Refused> {
        match &self.side {
            Some(side) if side.is_known() && side.proposed(review) => Err(wrong(
                "a proposer does not review its own proposal".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Requires the side in whose name something is added.
    pub(crate) fn may_add(&self, review: &Review, addition: &Addition) -> Result<(), Refused> {
        match addition {
            Addition::Message { role, .. } | Addition::Patch { role, .. } => match role {
                Role::Proposer => self.proposer(review, "speak as the proposer"),
                Role::Reviewer => self.reviewer(review, "speak as the reviewer"),
            },
            Addition::Judgement { .. } => self.proposer(review, "judge a patch"),
            Addition::Verdict { .. } => self.reviewer(review, "give a verdict"),
        }
    }
}

impl Side {
    fn proposed(&self, review: &Review) -> bool {
        let by = &review.proposed_by;
        // A proven identity may propose in one session and close in another.
        let in_a_session = |subject: &String| {
            let session = by.strip_prefix(subject.as_str());
            let session = session.and_then(|rest| rest.strip_prefix(" in session "));
            session.is_some_and(|id| id.len() == 12 && id.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        *by == self.proposes_as
            || self
                .subject
                .as_ref()
                .is_some_and(|subject| by == subject || in_a_session(subject))
    }

    /// Whether it identifies a single caller.
    fn is_known(&self) -> bool {
        self.subject.is_some() || self.proposes_as != ANYBODY
    }
}

fn wrong(message: String) -> Refused {
    Refused::new("wrong_role", format!("{message} (review.enforce_roles)"))
}

/// The holder of a claim: `reviewer_id`, else a proven identity, else the session, else `None`.
pub fn claimant(reviewer_id: Option<&str>, caller: &Caller) -> Claimant {
    if let Some(id) = reviewer_id {
        return Some(format!("reviewer:{id}"));
    }
    if &*caller.subject != ANYBODY {
        return Some(format!("caller:{}", caller.subject));
    }
    // A session id is a credential: readers of the review see only its fingerprint.
    let session = caller.session.as_deref()?;
    Some(format!("session:{}", fingerprint(session)))
}

/// The actor as recorded: the principal, and the name it gives itself.
pub fn actor(reviewer_id: Option<&str>, caller: &Caller) -> String {
    // A principal with spaces in its name must not read like another one who calls itself something.
    let who = match caller.subject.contains([' ', '"']) {
        true => format!("{:?}", &*caller.subject),
        false => caller.subject.to_string(),
    };
    match (reviewer_id, &caller.session) {
        (Some(id), _) => format!("{who} as {id}"),
        (None, Some(session)) => format!("{who} in session {}", fingerprint(session)),
        (None, None) => who,
    }
}

fn fingerprint(session: &str) -> String {
    let digest = digest(&SHA256, session.as_bytes());
    digest.as_ref()[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
