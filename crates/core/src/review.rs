//! Code reviews between agents: the documents, and what a store of them must do.
//!
//! The rules (who may do what when) are `sentinel_review`'s, the SQL is `sentinel_stores`'; they
//! meet only here. `ReviewStore::act` reads a review, lets a decision look at it and writes the
//! decision's effect, all in one transaction, so no rule is ever checked against a stale row.
//!
//! Not here: the state machine, tools, SQL.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::builtin::Refused;
use crate::clock::Moment;

/// A word out of a fixed list, stored and shown as text.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[schemars(inline)]
        pub enum $name { $($(#[$of])* $variant,)+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// Where a review stands.
    Status {
        Created = "created",
        Claimed = "claimed",
        InDiscussion = "in_discussion",
        Approved = "approved",
        Rejected = "rejected",
        Closed = "closed",
    }
}

impl Status {
    /// A status in a filter: the names of other brokers are understood here, and only here.
    pub fn parse_in_filter(text: &str) -> Option<Self> {
        match text {
            "pending" => Some(Self::Created),
            "changes_requested" => Some(Self::Rejected),
            other => Self::parse(other),
        }
    }
}

words! {
    /// Which side somebody says to be on; for attribution, nobody checks it.
    Role { Proposer = "proposer", Reviewer = "reviewer", }
}

words! {
    Decision { Approved = "approved", Rejected = "rejected", }
}

words! {
    /// Most urgent first.
    Priority { Critical = "critical", Normal = "normal", Low = "low", }
}

words! {
    Category {
        PlanReview = "plan_review",
        CodeChange = "code_change",
        Verification = "verification",
        Handoff = "handoff",
    }
}

words! {
    Change { Create = "create", Modify = "modify", Delete = "delete", Rename = "rename", }
}

/// One file that a diff touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct AffectedFile {
    pub path: String,
    pub change: Change,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

/// A review, without the texts that hang on it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Review {
    pub review_id: String,
    pub status: Status,
    /// Grows with every change of this review.
    pub version: u64,
    pub intent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub agent_type: String,
    pub phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    pub category: Category,
    pub priority: Priority,
    /// Who proposed it, as the gateway knows the caller.
    pub proposed_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// How often this review was claimed; the number of the current claim while it has one.
    pub claim_generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_expires_at: Option<String>,
    /// The review that this one follows as a resubmission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    pub affected_files: Vec<AffectedFile>,
    pub message_count: u64,
    pub patch_count: u64,
    pub created_at: String,
    pub updated_at: String,
    #[serde(skip)]
    pub lease: Option<Lease>,
}

/// How long a claim holds without activity. Boot time decides while the machine is up, wall time
/// after it was started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub boot_id: String,
    pub boot_until_ms: i64,
    pub wall_until_ms: i64,
}

impl Lease {
    pub fn from(now: &Moment, ms: i64) -> Self {
        Self {
            boot_id: now.boot_id.to_string(),
            boot_until_ms: now.boot_ms + ms,
            wall_until_ms: now.wall_ms + ms,
        }
    }

    pub fn is_over(&self, now: &Moment) -> bool {
        if *self.boot_id == *now.boot_id {
            now.boot_ms >= self.boot_until_ms
        } else {
            now.wall_ms >= self.wall_until_ms
        }
    }
}

/// A message; never changed, never deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Message {
    pub message_id: String,
    pub review_id: String,
    pub role: Role,
    /// Markdown.
    pub body: String,
    /// The caller behind the role, as the gateway knows it.
    pub posted_by: String,
    pub created_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Verdict {
    pub verdict_id: String,
    pub review_id: String,
    pub decision: Decision,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub given_by: String,
    pub created_at: String,
}

/// A unified diff, or a page of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Patch {
    pub patch_id: String,
    pub review_id: String,
    pub role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The unified diff; a part of it when `next_offset` is there or `offset` was given.
    pub diff: String,
    /// Size of the whole diff in bytes.
    pub diff_bytes: u64,
    /// Where the next part begins, in bytes; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    pub affected_files: Vec<AffectedFile>,
    /// What the proposer said to this patch, if asked: accepted or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    pub submitted_by: String,
    pub created_at: String,
}

/// One line of a review's history; each is chained to the one before by a hash.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Event {
    pub seq: u64,
    pub review_id: String,
    pub event: String,
    pub actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_status: Option<Status>,
    /// The message, patch or verdict that came with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    pub created_at: String,
}

/// A new review.
#[derive(Clone, Debug)]
pub struct NewReview {
    /// Chosen by the proposer, or fresh.
    pub review_id: String,
    pub intent: String,
    pub description: Option<String>,
    pub agent_type: String,
    pub phase: String,
    pub plan: Option<String>,
    pub task: Option<String>,
    pub project: Option<String>,
    pub category: Category,
    pub priority: Priority,
    pub proposed_by: String,
    pub parent_id: Option<String>,
    pub diff: String,
    pub affected_files: Vec<AffectedFile>,
}

/// What a decision does to a review. Everything not named here stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    pub status: Status,
    pub claimed_by: Option<String>,
    pub claim_generation: u64,
    pub lease: Option<Lease>,
    pub addition: Option<Addition>,
    /// None: at most the lease changed, and the review's version stays.
    pub events: Vec<NewEvent>,
}

/// What hangs on a review from now on.
#[derive(Clone, Debug, PartialEq)]
pub enum Addition {
    Message {
        role: Role,
        body: String,
    },
    Patch {
        role: Role,
        description: Option<String>,
        diff: String,
        affected_files: Vec<AffectedFile>,
    },
    Verdict {
        decision: Decision,
        reason: Option<String>,
    },
    /// The proposer accepts or declines a patch.
    Judgement {
        patch_id: String,
        accepted: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    pub event: &'static str,
    pub old_status: Option<Status>,
    pub new_status: Option<Status>,
    pub detail: Option<Value>,
}

/// Names a write, so that trying it again does it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub key: String,
    /// Of what is written: the same key for something else is refused.
    pub digest: [u8; 32],
}

/// What an action left.
#[derive(Clone, Debug, PartialEq)]
pub struct Acted {
    pub review: Review,
    pub added: Option<Added>,
    /// Nothing happened now: this is what the first try did.
    pub repeated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Added {
    Message(Message),
    Patch(Patch),
    Verdict(Verdict),
}

/// Which reviews to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub statuses: Vec<Status>,
    pub category: Option<Category>,
    pub priority: Option<Priority>,
    pub projects: Vec<String>,
    pub agent_type: Option<String>,
    pub parent_id: Option<String>,
    pub order: Order,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Most urgent first, then oldest first: the order of a queue.
    #[default]
    Urgency,
    /// Latest change first: the order of a news page.
    Recent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub offset: u64,
    pub limit: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    pub items: Vec<T>,
    pub total: u64,
}

/// What happened after some place in the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// How far this goes: the number of the last event it covers, or of the last there is.
    pub seq: u64,
    /// Ids and versions as they are now.
    pub reviews: Vec<(String, u64)>,
}

impl Changes {
    /// Takes rows of (event, review, version) in the order of events.
    pub fn cover(&mut self, rows: Vec<(i64, String, i64)>) {
        for (seq, id, version) in rows {
            self.seq = seq as u64;
            if !self.reviews.iter().any(|(known, _)| *known == id) {
                self.reviews.push((id, version as u64));
            }
        }
    }
}

/// Diffs up to this size come whole; larger ones in pages of at most this many bytes.
pub const DIFF_PAGE: u64 = 256 << 10;

/// The span of a diff to read, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub offset: u64,
    pub limit: u64,
}

/// Figures over all reviews, or one project's. Unknown is absent, not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Statistics {
    pub total: u64,
    pub by_status: std::collections::BTreeMap<String, u64>,
    pub by_category: std::collections::BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_rate_pct: Option<f64>,
    /// Mean seconds from proposal to first verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_s_to_verdict: Option<f64>,
    /// Mean seconds from proposal to close.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_s_to_close: Option<f64>,
    /// Mean seconds that a review was in each status, as far as that is over.
    pub mean_s_in_status: std::collections::BTreeMap<String, f64>,
}

/// A history that is as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub events: u64,
    /// What was removed from it, oldest first.
    pub purges: Vec<Purge>,
}

/// Reviews that an operator removed in one go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Purge {
    pub at: String,
    pub by: String,
    pub reviews: u64,
}

/// A closed review that is removed, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Purged {
    pub review_id: String,
    pub intent: String,
    pub closed_at: String,
    pub messages: u64,
    pub patches: u64,
}

/// Why a store did not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Trouble {
    /// The decision said no.
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("there is no review `{0}`")]
    NoReview(String),
    #[error("this key was used for something else")]
    KeyReused,
    /// The store itself failed; `kind` is a stable word such as `storage_full`.
    #[error("{message}")]
    Store { kind: &'static str, message: String },
}

pub type Decide = Box<dyn FnOnce(&Review, &Moment) -> Result<Effect, Refused> + Send>;
pub type Promised<T> = BoxFuture<'static, Result<T, Trouble>>;

/// Keeps reviews. Whatever it acknowledged is on the disk.
pub trait ReviewStore: Send + Sync + 'static {
    /// Adds a review with its first patch. If it was added before under one of the keys, that is what comes back.
    fn submit(&self, new: NewReview, keys: Vec<Key>) -> Promised<Acted>;

    /// Reads the review, asks `decide`, and writes what it says, in one transaction. `actor` goes
    /// into the events.
    fn act(&self, id: String, actor: String, key: Option<Key>, decide: Decide) -> Promised<Acted>;

    /// Ends the claims whose lease is over; the reviews that changed.
    fn expire(&self) -> Promised<Vec<Review>>;

    fn get(&self, id: String) -> Promised<Review>;
    fn list(&self, filter: Filter, page: Page) -> Promised<Listed<Review>>;
    fn messages(&self, id: String, page: Page) -> Promised<Listed<Message>>;
    fn verdicts(&self, id: String) -> Promised<Vec<Verdict>>;
    /// The patch that came with the proposal, cut to `slice`.
    fn original(&self, id: String, slice: Slice) -> Promised<Patch>;
    /// The patches in order; each diff is cut to `slice`.
    fn patches(&self, id: String, slice: Slice) -> Promised<Vec<Patch>>;
    fn patch(&self, id: String, patch_id: String, slice: Slice) -> Promised<Patch>;
    fn events(&self, id: Option<String>, page: Page) -> Promised<Listed<Event>>;
    /// The review and everything it follows or that follows it, oldest first.
    fn chain(&self, id: String) -> Promised<Vec<Review>>;
    fn statistics(&self, project: Option<String>) -> Promised<Statistics>;

    /// Grows whenever the queue of unclaimed reviews (of these projects) changes.
    fn queue_version(&self, projects: Vec<String>) -> Promised<u64>;

    /// Which reviews changed after this place in the history.
    fn changes(&self, after: u64) -> Promised<Changes>;

    /// Writes a consistent copy to a file that does not exist yet.
    fn backup(&self, to: PathBuf) -> Promised<()>;
    /// Checks the chain of events and what hangs on it; what is in it, or what is wrong.
    fn verify(&self) -> Promised<Verified>;
    /// The reviews that were closed before this time (as in their documents) and that none which stays follows.
    fn purgeable(&self, before: String) -> Promised<Vec<Purged>>;
    /// Removes them for good, with everything that hangs on them; the history says that `by` did so.
    fn purge(&self, before: String, by: String) -> Promised<Vec<Purged>>;
}
