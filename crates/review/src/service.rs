//! Runs the rules against a store, and lets callers wait for changes.
//!
//! Every wait is bounded: it ends by a change, by its time limit, or because the caller left. The owner
//! of the service spawns `run`, which ends expired claims and reports changes that other processes made
//! in the same store.
//!
//! Not here: arguments (`tools`), access control (policy).

mod topics;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::store::{
    self, ActionOutcome, Addition, Decision, ListPage, NewReview, Page, Review, ReviewError,
    ReviewFilter, ReviewStatus, ReviewStore, StoreFuture, WriteKey,
};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use sentinel_core::Caller;
use sentinel_core::builtin::{Refused, ToolContext};
use sentinel_core::catalog::Publisher;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::machine;
use crate::roles::Actor;
use topics::Topics;

/// The longest wait: clients give up on a tool call after 30 s, some after 60.
pub const WAIT_MAX: Duration = Duration::from_secs(25);
/// Concurrent waits; beyond that a wait answers at once, like polling. Each holds a few hundred bytes.
const WAITERS_MAX: usize = 4096;
/// Polling interval for changes of other processes and for expired claims.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The same while the store fails.
const LOOK_AGAIN_FAILING: Duration = Duration::from_secs(5);
/// The topic of the queue of unclaimed reviews; no review has this id.
const QUEUE: &str = "queue";

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a claim holds without activity.
    pub claim_timeout: Duration,
    /// Offer the less common tools as well.
    pub extended_tools: bool,
    /// Restrict each action to its side (`roles`).
    pub enforce_roles: bool,
}

impl Settings {
    fn claim_timeout_ms(&self) -> i64 {
        i64::try_from(self.claim_timeout.as_millis()).unwrap_or(i64::MAX / 4)
    }
}

/// What a caller last saw of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    Version(u64),
    ReviewStatus(ReviewStatus),
}

impl Since {
    fn differs(self, review: &Review) -> bool {
        match self {
            Self::Version(version) => review.version != version,
            Self::ReviewStatus(status) => review.status != status,
        }
    }
}

pub struct Service {
    pub store: Arc<dyn ReviewStore>,
    extended_tools: bool,
    claim_timeout_ms: AtomicI64,
    enforce_roles: AtomicBool,
    topics: Topics,
    waiters: Semaphore,
    /// Receives updates of review documents.
    publisher: OnceLock<Publisher>,
    /// Own changes that were published already, until `run` passes them.
    told: Mutex<HashMap<String, u64>>,
}

/// How long a caller waits, and the call whose admission slot is released meanwhile.
#[derive(Clone, Copy)]
pub struct WaitOptions<'a> {
    pub wait: Duration,
    pub context: Option<&'a ToolContext>,
}

impl WaitOptions<'_> {
    pub const NONE: Self = Self {
        wait: Duration::ZERO,
        context: None,
    };
}

impl Service {
    pub fn new(store: Arc<dyn ReviewStore>, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            store,
            extended_tools: settings.extended_tools,
            claim_timeout_ms: AtomicI64::new(settings.claim_timeout_ms()),
            enforce_roles: AtomicBool::new(settings.enforce_roles),
            topics: Topics::default(),
            waiters: Semaphore::new(WAITERS_MAX),
            publisher: OnceLock::new(),
            told: Mutex::default(),
        })
    }

    /// Publishes every change from now on.
    pub fn publish_to(&self, publisher: Publisher) {
        let _ = self.publisher.set(publisher);
    }

    /// Applies the settings that may change at run time: the lease of new and renewed claims, and role
    /// enforcement.
    pub fn follow(&self, settings: Settings) {
        let ms = settings.claim_timeout_ms();
        self.claim_timeout_ms.store(ms, Ordering::Relaxed);
        let enforced = settings.enforce_roles;
        self.enforce_roles.store(enforced, Ordering::Relaxed);
    }

    pub(crate) fn has_extended_tools(&self) -> bool {
        self.extended_tools
    }

    /// The actor of a call, with the reviewer name it gives itself.
    pub fn who(&self, reviewer_id: Option<&str>, caller: &Caller) -> Actor {
        let enforced = self.enforce_roles.load(Ordering::Relaxed);
        Actor::of(reviewer_id, caller, enforced)
    }

    fn timeout_ms(&self) -> i64 {
        self.claim_timeout_ms.load(Ordering::Relaxed)
    }

    /// Ends expired claims and polls for changes of other processes, until dropped.
    pub async fn run(self: Arc<Self>) {
        let mut seen = None;
        loop {
            let pause = match self.look_around(&mut seen).await {
                Ok(()) => LOOK_AGAIN,
                Err(error) => {
                    tracing::warn!("the review store cannot be watched: {error}");
                    LOOK_AGAIN_FAILING
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn look_around(&self, seen: &mut Option<u64>) -> Result<(), ReviewError> {
        for review in self.store.expire().await? {
            tracing::info!(review = %review.review_id, "a claim expired");
            self.changed(&review);
        }
        loop {
            // The first poll only learns the end of the history.
            let changes = self.store.changes(seen.unwrap_or(u64::MAX)).await?;
            let told = std::mem::take(&mut *self.told.lock());
            for (id, version) in &changes.reviews {
                if told.get(id) != Some(version) {
                    self.tell(id);
                }
            }
            let more = *seen != Some(changes.seq) && seen.is_some();
            *seen = Some(changes.seq);
            if !more {
                return Ok(());
            }
        }
    }

    /// Publishes an own change, and remembers not to publish it again.
    fn changed(&self, review: &Review) {
        let id = &review.review_id;
        self.told.lock().insert(id.clone(), review.version);
        self.tell(id);
    }

    /// Wakes waits for this review and for the queue, and notifies subscribers of its document.
    fn tell(&self, id: &str) {
        self.topics.notify(id);
        self.topics.notify(QUEUE);
        if let Some(publisher) = self.publisher.get() {
            publisher.updated(&store::uri(id));
        }
    }

    async fn finish(&self, work: StoreFuture<ActionOutcome>) -> Result<ActionOutcome, Refused> {
        let acted = work.await.map_err(refused)?;
        if !acted.repeated {
            self.changed(&acted.review);
        }
        Ok(acted)
    }

    pub async fn submit(
        &self,
        who: &Actor,
        new: NewReview,
        keys: impl IntoIterator<Item = WriteKey>,
    ) -> Result<ActionOutcome, Refused> {
        // Who proposed a review never changes, so this may come before the transaction.
        if let Some(parent) = new.parent_id.as_ref().filter(|_| who.is_checked())
            && let Ok(parent) = self.store.get(parent.clone()).await
        {
            who.proposer(&parent, "follow it up")?;
        }
        let keys = keys.into_iter().collect();
        self.finish(self.store.submit(new, keys)).await
    }

    pub async fn claim(
        &self,
        id: String,
        who: Actor,
        claimant: String,
    ) -> Result<ActionOutcome, Refused> {
        let timeout = self.timeout_ms();
        let actor = who.actor.clone();
        let decide = Box::new(move |review: &Review, now: &_| {
            let effect = machine::claim(review, now, &claimant, timeout)?;
            who.may_claim(review).map(|()| effect)
        });
        self.finish(self.store.act(id, actor, None, decide)).await
    }

    /// Adds a message, a patch or a judgement.
    pub async fn add(
        &self,
        id: String,
        who: Actor,
        key: Option<WriteKey>,
        addition: Addition,
    ) -> Result<ActionOutcome, Refused> {
        let timeout = self.timeout_ms();
        let actor = who.actor.clone();
        let decide = Box::new(move |review: &Review, now: &_| {
            let allowed = who.may_add(review, &addition);
            let effect = machine::add(review, now, &who.claimant, timeout, addition)?;
            allowed.map(|()| effect)
        });
        self.finish(self.store.act(id, actor, key, decide)).await
    }

    pub async fn verdict(
        &self,
        id: String,
        who: Actor,
        key: Option<WriteKey>,
        generation: Option<u64>,
        decision: Decision,
        reason: Option<String>,
    ) -> Result<ActionOutcome, Refused> {
        let actor = who.actor.clone();
        let decide = Box::new(move |review: &Review, now: &_| {
            let effect = machine::verdict(review, now, generation, decision, reason)?;
            who.reviewer(review, "give a verdict").map(|()| effect)
        });
        self.finish(self.store.act(id, actor, key, decide)).await
    }

    pub async fn close(
        &self,
        id: String,
        who: Actor,
        key: Option<WriteKey>,
    ) -> Result<ActionOutcome, Refused> {
        let actor = who.actor.clone();
        let decide = Box::new(move |review: &Review, now: &_| {
            let effect = machine::close(review, now)?;
            who.proposer(review, "close it").map(|()| effect)
        });
        self.finish(self.store.act(id, actor, key, decide)).await
    }

    /// The review, once it differs from what the caller saw, or when the time is over.
    pub async fn status(
        &self,
        id: String,
        since: Option<Since>,
        options: WaitOptions<'_>,
    ) -> Result<Review, Refused> {
        let look = || async {
            let review = self.store.get(id.clone()).await.map_err(refused)?;
            let news = since.is_none_or(|since| since.differs(&review));
            Ok((news, review))
        };
        self.wait(&id, options, look).await
    }

    /// The queue and its version, once it differs from `since`, or when the time is over. Without
    /// `since`, an empty queue is waited for.
    pub async fn pending(
        &self,
        filter: ReviewFilter,
        page: Page,
        since: Option<u64>,
        options: WaitOptions<'_>,
    ) -> Result<(ListPage<Review>, u64), Refused> {
        let look = || async {
            // The version first: what happens in between is seen again, never missed.
            let version = self.store.queue_version(filter.projects.clone());
            let version = version.await.map_err(refused)?;
            let news = since.is_none_or(|since| since != version);
            if !news && !options.wait.is_zero() {
                // Nothing to send while waiting; the list is read at the end.
                return Ok((false, (None, version)));
            }
            let listed = self
                .store
                .list(filter.clone(), page)
                .await
                .map_err(refused)?;
            let news = if since.is_some() {
                news
            } else {
                listed.total > 0
            };
            Ok((news, (Some(listed), version)))
        };
        match self.wait(QUEUE, options, look).await? {
            (Some(listed), version) => Ok((listed, version)),
            (None, version) => {
                let listed = self
                    .store
                    .list(filter.clone(), page)
                    .await
                    .map_err(refused)?;
                Ok((listed, version))
            }
        }
    }

    /// Ends all present and future waits as if their time were over, for shutdown.
    pub fn end_waits(&self) {
        self.waiters.close();
        self.topics.notify_all();
    }

    /// Repeats `look` until there is news or the time is over. It subscribes to the topic before each
    /// look, so no change is missed in between.
    async fn wait<T, F, Fut>(
        &self,
        topic: &str,
        options: WaitOptions<'_>,
        look: F,
    ) -> Result<T, Refused>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<(bool, T), Refused>>,
    {
        let until = Instant::now() + options.wait.min(WAIT_MAX);
        let bell = self.topics.listen(topic);
        let mut waiting = None;
        loop {
            let mut rung = std::pin::pin!(bell.notified());
            rung.as_mut().enable();
            let (news, seen) = look().await?;
            if news || Instant::now() >= until || self.waiters.is_closed() {
                return Ok(seen);
            }
            if waiting.is_none() {
                let Ok(permit) = self.waiters.try_acquire() else {
                    return Ok(seen);
                };
                waiting = Some(permit);
                if let Some(context) = options.context {
                    context.release_permit();
                }
            }
            tokio::select! {
                () = rung => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }
}

/// A store's error as a refusal for the model.
pub fn refused(trouble: ReviewError) -> Refused {
    match trouble {
        ReviewError::Refused(refused) => refused,
        ReviewError::NoReview(id) => {
            Refused::new("not_found", format!("there is no review `{id}`"))
        }
        ReviewError::KeyReused => Refused::new(
            "key_reused",
            "this idempotency_key (or review_id) was used before with other content: choose a new one",
        ),
        ReviewError::Store { kind, message } => {
            tracing::warn!(kind, "the review store failed: {message}");
            let advice = match kind {
                "storage_full" => {
                    "the disk is full: nothing was written; free some space and try again"
                }
                "unavailable" => {
                    "the database cannot be reached: nothing was acknowledged; try again with the same idempotency_key"
                }
                "busy" => "the database is busy: nothing was written; try again",
                _ => "the review store failed: nothing was acknowledged; see the gateway's log",
            };
            Refused::new(kind, advice)
        }
    }
}

/// The key of a write: per tool and caller, bound to everything the caller sent.
pub fn key(tool: &str, caller: &Caller, key: &str, arguments: &impl Serialize) -> WriteKey {
    let content = serde_json::to_vec(arguments).expect("arguments came as JSON");
    let digest = digest(&SHA256, &content);
    WriteKey {
        key: format!("{tool}\n{}\n{key}", caller.subject),
        digest: digest.as_ref().try_into().expect("SHA-256 has 32 bytes"),
    }
}
