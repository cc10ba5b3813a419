//! The review store: its trait, and what goes in and comes out.
//!
//! `ReviewStore::act` reads a review, passes it to a decision (`machine`) and writes the resulting
//! `Effect`, all in one transaction, so no rule is checked against a stale row.
//!
//! Not here: the SQL (`sentinel_stores::review`), the rules (`machine`).

mod document;

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use sentinel_core::builtin::Refused;
use sentinel_core::clock::Moment;
use serde::Serialize;
use serde_json::Value;

pub use document::{
    AffectedFile, Category, Decision, Event, FileChange, Lease, Message, Patch, Priority, Review,
    ReviewStatus, Role, Statistics, Verdict,
};

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
    pub status: ReviewStatus,
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
    pub old_status: Option<ReviewStatus>,
    pub new_status: Option<ReviewStatus>,
    pub detail: Option<Value>,
}

/// Names a write, so that trying it again does it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteKey {
    pub key: String,
    /// Of what is written: the same key for something else is refused.
    pub digest: [u8; 32],
}

/// What an action left.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionOutcome {
    pub review: Review,
    pub added: Option<Attachment>,
    /// Nothing happened now: this is what the first try did.
    pub repeated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Attachment {
    Message(Message),
    Patch(Patch),
    Verdict(Verdict),
}

/// Which reviews to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewFilter {
    pub statuses: Vec<ReviewStatus>,
    pub category: Option<Category>,
    pub priority: Option<Priority>,
    pub projects: Vec<String>,
    pub agent_type: Option<String>,
    pub parent_id: Option<String>,
    pub order: ListOrder,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
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
pub struct ListPage<T> {
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
pub struct DiffRange {
    pub offset: u64,
    pub limit: u64,
}

/// A history that is as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
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
pub struct PurgedReview {
    pub review_id: String,
    pub intent: String,
    pub closed_at: String,
    pub messages: u64,
    pub patches: u64,
}

/// Why a store did not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReviewError {
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
pub type StoreFuture<T> = BoxFuture<'static, Result<T, ReviewError>>;

/// Keeps reviews. Whatever it acknowledged is on the disk.
pub trait ReviewStore: Send + Sync + 'static {
    /// Adds a review with its first patch. If it was added before under one of the keys, that is what comes back.
    fn submit(&self, new: NewReview, keys: Vec<WriteKey>) -> StoreFuture<ActionOutcome>;

    /// Reads the review, asks `decide`, and writes what it says, in one transaction. `actor` goes
    /// into the events.
    fn act(
        &self,
        id: String,
        actor: String,
        key: Option<WriteKey>,
        decide: Decide,
    ) -> StoreFuture<ActionOutcome>;

    /// Ends the claims whose lease is over; the reviews that changed.
    fn expire(&self) -> StoreFuture<Vec<Review>>;

    fn get(&self, id: String) -> StoreFuture<Review>;
    fn list(&self, filter: ReviewFilter, page: Page) -> StoreFuture<ListPage<Review>>;
    fn messages(&self, id: String, page: Page) -> StoreFuture<ListPage<Message>>;
    fn verdicts(&self, id: String) -> StoreFuture<Vec<Verdict>>;
    /// The patch that came with the proposal, cut to `slice`.
    fn original(&self, id: String, slice: DiffRange) -> StoreFuture<Patch>;
    /// The patches in order; each diff is cut to `slice`.
    fn patches(&self, id: String, slice: DiffRange) -> StoreFuture<Vec<Patch>>;
    fn patch(&self, id: String, patch_id: String, slice: DiffRange) -> StoreFuture<Patch>;
    fn events(&self, id: Option<String>, page: Page) -> StoreFuture<ListPage<Event>>;
    /// The review and everything it follows or that follows it, oldest first.
    fn chain(&self, id: String) -> StoreFuture<Vec<Review>>;
    fn statistics(&self, project: Option<String>) -> StoreFuture<Statistics>;

    /// Grows whenever the queue of unclaimed reviews (of these projects) changes.
    fn queue_version(&self, projects: Vec<String>) -> StoreFuture<u64>;

    /// Which reviews changed after this place in the history.
    fn changes(&self, after: u64) -> StoreFuture<Changes>;

    /// Writes a consistent copy to a file that does not exist yet.
    fn backup(&self, to: PathBuf) -> StoreFuture<()>;
    /// Checks the chain of events and what hangs on it; what is in it, or what is wrong.
    fn verify(&self) -> StoreFuture<VerifyReport>;
    /// The reviews that were closed before this time (as in their documents) and that none which stays follows.
    fn purgeable(&self, before: String) -> StoreFuture<Vec<PurgedReview>>;
    /// Removes them for good, with everything that hangs on them; the history says that `by` did so.
    fn purge(&self, before: String, by: String) -> StoreFuture<Vec<PurgedReview>>;
}
