//! The review store: its trait, inputs and results.
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

/// The URI scheme of review documents.
const SCHEME: &str = "review://";

/// The URI of a review's document.
pub fn uri(id: &str) -> String {
    format!("{SCHEME}{id}")
}

/// The id in the URI of a review's document.
pub fn id_of(uri: &str) -> Option<&str> {
    uri.strip_prefix(SCHEME)
}

/// A new review.
#[derive(Clone, Debug)]
pub struct NewReview {
    /// Chosen by the proposer, or generated.
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

/// The changes that a decision makes to a review; other fields stay.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    pub status: ReviewStatus,
    pub claimed_by: Option<String>,
    pub claim_generation: u64,
    pub lease: Option<Lease>,
    pub addition: Option<Addition>,
    /// Empty if at most the lease changed; the review's version then stays.
    pub events: Vec<NewEvent>,
}

/// A new message, patch, verdict or judgement of a review.
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

/// An idempotency key: a repeated write under it happens once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteKey {
    pub key: String,
    /// Digest of the content; the same key with other content is refused.
    pub digest: [u8; 32],
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionOutcome {
    pub review: Review,
    pub added: Option<Attachment>,
    /// The key was used before: this is the result of that first write.
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
    /// Latest change first.
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

/// The reviews that changed after a point of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The last event covered.
    pub seq: u64,
    /// Ids and current versions.
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

/// Diffs up to this size are returned whole; larger ones in pages of at most this many bytes.
pub const DIFF_PAGE: u64 = 256 << 10;

/// A byte range of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffRange {
    pub offset: u64,
    pub limit: u64,
}

/// The extent of a history without errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub events: u64,
    /// Purges, oldest first.
    pub purges: Vec<Purge>,
}

/// One purge by an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Purge {
    pub at: String,
    pub by: String,
    pub reviews: u64,
}

/// A closed review that is purged, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PurgedReview {
    pub review_id: String,
    pub intent: String,
    pub closed_at: String,
    pub messages: u64,
    pub patches: u64,
}

/// Why the store refused or failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReviewError {
    /// Refused by the decision.
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

/// Keeps reviews. Acknowledged writes are durable.
pub trait ReviewStore: Send + Sync + 'static {
    /// Adds a review with its first patch. If one of the keys was used before, returns that first result.
    fn submit(&self, new: NewReview, keys: Vec<WriteKey>) -> StoreFuture<ActionOutcome>;

    /// Reads the review, calls `decide` and writes its effect, in one transaction. `actor` is recorded in
    /// the events.
    fn act(
        &self,
        id: String,
        actor: String,
        key: Option<WriteKey>,
        decide: Decide,
    ) -> StoreFuture<ActionOutcome>;

    /// Ends claims whose lease is over; returns the changed reviews.
    fn expire(&self) -> StoreFuture<Vec<Review>>;

    fn get(&self, id: String) -> StoreFuture<Review>;
    fn list(&self, filter: ReviewFilter, page: Page) -> StoreFuture<ListPage<Review>>;
    fn messages(&self, id: String, page: Page) -> StoreFuture<ListPage<Message>>;
    fn verdicts(&self, id: String) -> StoreFuture<Vec<Verdict>>;
    /// The patch of the proposal; its diff is cut to `slice`.
    fn original(&self, id: String, slice: DiffRange) -> StoreFuture<Patch>;
    /// The patches in order; each diff is cut to `slice`.
    fn patches(&self, id: String, slice: DiffRange) -> StoreFuture<Vec<Patch>>;
    fn patch(&self, id: String, patch_id: String, slice: DiffRange) -> StoreFuture<Patch>;
    fn events(&self, id: Option<String>, page: Page) -> StoreFuture<ListPage<Event>>;
    /// The review and everything it follows or that follows it, oldest first.
    fn chain(&self, id: String) -> StoreFuture<Vec<Review>>;
    fn statistics(&self, project: Option<String>) -> StoreFuture<Statistics>;

    /// A number that grows when the queue of unclaimed reviews (of these projects) changes.
    fn queue_version(&self, projects: Vec<String>) -> StoreFuture<u64>;

    /// The reviews that changed after event `after`.
    fn changes(&self, after: u64) -> StoreFuture<Changes>;

    /// Writes a consistent copy to a file that does not exist yet.
    fn backup(&self, to: PathBuf) -> StoreFuture<()>;
    /// Verifies the hash chain of events and the rows they cover; returns the first error.
    fn verify(&self) -> StoreFuture<VerifyReport>;
    /// Reviews closed before this time (as in their documents) that no remaining review follows.
    fn purgeable(&self, before: String) -> StoreFuture<Vec<PurgedReview>>;
    /// Deletes those reviews with their texts; the history records `by`.
    fn purge(&self, before: String, by: String) -> StoreFuture<Vec<PurgedReview>>;
}
