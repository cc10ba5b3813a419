//! Answers by idempotency key, so that a request that is sent again is not made again.
//!
//! Bounded by count, bytes and time, in all and for each caller: the oldest answer gives way, a caller's own first. A request
//! claims its key while it runs; a claim that is dropped before the call begins frees the key, and one that is dropped later keeps that
//! the end is unknown. Whoever waits for it looks again.
//!
//! Not here: what a request does with it (`once`), how a key is read (`headers`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ring::digest::{Context, SHA256};
use sentinel_core::{Fault, Identity, Kind};
use tokio::sync::watch;
use tokio::time::Instant;

use super::stored::StoredAnswer;

/// One of so many callers cannot take the room of the others.
const SHARES: usize = 16;

/// How many answers may be kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replayable {
    pub keys_max: usize,
    pub bytes_max: usize,
    pub ttl: Duration,
}

impl Default for Replayable {
    fn default() -> Self {
        Self {
            keys_max: 10_000,
            bytes_max: 64 << 20,
            ttl: Duration::from_secs(24 * 3600),
        }
    }
}

impl Replayable {
    /// The part of it that one caller may take: all, where callers cannot be told apart.
    pub(crate) fn share(self, is_guarded: bool) -> Self {
        match is_guarded {
            true => Self {
                keys_max: (self.keys_max / SHARES).max(1),
                bytes_max: self.bytes_max / SHARES,
                ..self
            },
            false => self,
        }
    }
}

type Digest = [u8; 32];

/// Texts as one digest; each has its length, so that none can be taken for a piece of another.
pub(super) fn digest_of(parts: &[&[u8]]) -> Digest {
    let mut digest = Context::new(&SHA256);
    for part in parts {
        digest.update(&(part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let hash = digest.finish();
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A request that must not be made twice.
#[derive(Clone, Copy)]
pub(super) struct Keyed {
    caller: Digest,
    /// Of caller, operation and key.
    id: Digest,
    /// Of the arguments in canonical form.
    arguments: Digest,
}

impl Keyed {
    pub(super) fn new(who: &Identity, operation: &str, key: &str, canonical: &[u8]) -> Self {
        let tenant = who.tenant.as_deref().map(str::as_bytes);
        let has_tenant = [u8::from(tenant.is_some())];
        let caller = digest_of(&[
            who.subject.as_bytes(),
            who.role.as_bytes(),
            &has_tenant,
            tenant.unwrap_or_default(),
        ]);
        Self {
            caller,
            id: digest_of(&[&caller, operation.as_bytes(), key.as_bytes()]),
            arguments: digest_of(&[canonical]),
        }
    }
}

/// What is known of a key.
pub(super) enum Found {
    /// Nothing: the request is to be made by whoever asked.
    Free(Claim),
    /// The first request runs; this ends when it does.
    Running(watch::Receiver<()>),
    Answered(Arc<StoredAnswer>),
    /// It was answered, by more than could be kept.
    TooLarge,
    /// Its client left before the answer: whether the call ran is not known.
    Unknown,
    /// The key belongs to a request with other arguments.
    OtherArguments,
    /// Every place is taken by a request that runs.
    Full,
}

#[derive(Default)]
pub(crate) struct Replays(Mutex<Table>);

#[derive(Default)]
struct Table {
    entries: HashMap<Digest, Entry>,
    /// Answers in the order in which they came.
    oldest: BTreeMap<u64, Digest>,
    callers: HashMap<Digest, Share>,
    bytes: usize,
    next: u64,
}

/// What one caller has in the table. Callers without a key are not in it.
#[derive(Default)]
struct Share {
    keys: usize,
    bytes: usize,
    oldest: BTreeMap<u64, Digest>,
}

struct Entry {
    caller: Digest,
    arguments: Digest,
    state: State,
}

enum State {
    Running(watch::Receiver<()>),
    Answered {
        at: u64,
        until: Instant,
        weight: usize,
        kept: Kept,
    },
}

/// What later requests with a key are told.
enum Kept {
    Answer(Arc<StoredAnswer>),
    TooLarge,
    Unknown,
}

impl Replays {
    /// Looks a key up, and claims it where nobody has.
    pub(super) fn find(
        self: &Arc<Self>,
        keyed: &Keyed,
        bounds: Replayable,
        share: Replayable,
    ) -> Found {
        let mut table = self.0.lock();
        table.expire(Instant::now());
        if let Some(entry) = table.entries.get(&keyed.id) {
            return match &entry.state {
                _ if entry.arguments != keyed.arguments => Found::OtherArguments,
                State::Running(running) => Found::Running(running.clone()),
                State::Answered { kept, .. } => match kept {
                    Kept::Answer(answer) => Found::Answered(answer.clone()),
                    Kept::TooLarge => Found::TooLarge,
                    Kept::Unknown => Found::Unknown,
                },
            };
        }
        if !table.has_room(&keyed.caller, bounds.keys_max, share.keys_max) {
            return Found::Full;
        }
        let (sender, running) = watch::channel(());
        table.callers.entry(keyed.caller).or_default().keys += 1;
        let entry = Entry {
            caller: keyed.caller,
            arguments: keyed.arguments,
            state: State::Running(running),
        };
        table.entries.insert(keyed.id, entry);
        Found::Free(Claim {
            replays: self.clone(),
            id: keyed.id,
            left_behind: None,
            is_answered: false,
            _running: sender,
        })
    }

    /// Drops answers whose time is over.
    pub(crate) fn sweep(&self) {
        self.0.lock().expire(Instant::now());
    }
}

impl Table {
    fn expire(&mut self, now: Instant) {
        while let Some((_, id)) = self.oldest.first_key_value() {
            let id = *id;
            match self.entries.get(&id).map(|entry| &entry.state) {
                Some(State::Answered { until, .. }) if *until > now => break,
                _ => self.remove(&id),
            }
        }
    }

    /// Makes room for one more key of this caller.
    fn has_room(&mut self, caller: &Digest, all_max: usize, own_max: usize) -> bool {
        if self
            .callers
            .get(caller)
            .is_some_and(|own| own.keys >= own_max)
        {
            return self.evict_of(caller);
        }
        self.entries.len() < all_max || self.evict()
    }

    /// Removes the oldest answer; false if there is none.
    fn evict(&mut self) -> bool {
        let oldest = self.oldest.first_key_value().map(|(_, id)| *id);
        oldest.map(|id| self.remove(&id)).is_some()
    }

    fn evict_of(&mut self, caller: &Digest) -> bool {
        let own = self.callers.get(caller);
        let oldest = own.and_then(|own| own.oldest.first_key_value());
        let oldest = oldest.map(|(_, id)| *id);
        oldest.map(|id| self.remove(&id)).is_some()
    }

    fn remove(&mut self, id: &Digest) {
        let Some(entry) = self.entries.remove(id) else {
            return;
        };
        let Some(own) = self.callers.get_mut(&entry.caller) else {
            return;
        };
        own.keys -= 1;
        if let State::Answered { at, weight, .. } = entry.state {
            self.oldest.remove(&at);
            own.oldest.remove(&at);
            own.bytes -= weight;
            self.bytes -= weight;
        }
        if own.keys == 0 {
            self.callers.remove(&entry.caller);
        }
    }

    fn keep(&mut self, id: &Digest, kept: Kept, bounds: Replayable, share: Replayable) {
        let Some(caller) = self.entries.get(id).map(|entry| entry.caller) else {
            return;
        };
        let weight = |kept: &Kept| match kept {
            Kept::Answer(answer) => answer.weight(),
            Kept::TooLarge | Kept::Unknown => 0,
        };
        let kept = match weight(&kept) <= share.bytes_max {
            true => kept,
            false => Kept::TooLarge,
        };
        let weight = weight(&kept);
        let of_caller = |table: &Self| table.callers.get(&caller).map_or(0, |own| own.bytes);
        while of_caller(self) + weight > share.bytes_max && self.evict_of(&caller) {}
        while self.bytes + weight > bounds.bytes_max && self.evict() {}
        let at = self.next;
        self.next += 1;
        self.bytes += weight;
        self.oldest.insert(at, *id);
        let own = self.callers.entry(caller).or_default();
        own.bytes += weight;
        own.oldest.insert(at, *id);
        if let Some(entry) = self.entries.get_mut(id) {
            entry.state = State::Answered {
                at,
                until: Instant::now() + bounds.ttl,
                weight,
                kept,
            };
        }
    }
}

/// The first request with a key, while it runs.
pub(super) struct Claim {
    replays: Arc<Replays>,
    id: Digest,
    /// The bounds by which "unknown" is kept if the request ends without an answer; `None` while nothing has begun.
    left_behind: Option<(Replayable, Replayable)>,
    is_answered: bool,
    /// Wakes those who wait when it is dropped, which is after `drop` has run.
    _running: watch::Sender<()>,
}

impl Claim {
    /// The answer that later requests with the key get.
    pub(super) fn keep(mut self, answer: StoredAnswer, bounds: Replayable, share: Replayable) {
        self.is_answered = true;
        let mut table = self.replays.0.lock();
        table.keep(&self.id, Kept::Answer(Arc::new(answer)), bounds, share);
    }

    /// The call begins. If its client leaves from here on, nobody knows whether it ran: a cancellation is only advice to a
    /// backend, so the key is not good for another call.
    pub(super) fn begin(&mut self, bounds: Replayable, share: Replayable) {
        self.left_behind = Some((bounds, share));
    }

    /// The request is answered, and may be made again with the same key.
    pub(super) fn free(mut self) {
        self.left_behind = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let mut table = self.replays.0.lock();
        match self.left_behind {
            Some((bounds, share)) => table.keep(&self.id, Kept::Unknown, bounds, share),
            None => table.remove(&self.id),
        }
    }
}

/// The refusal of a request with a key that somebody else's request has.
pub(super) fn refusal(found: &Found) -> Fault {
    match found {
        Found::OtherArguments => {
            let text = "this Idempotency-Key was used with other arguments; use a new one";
            Fault::new(Kind::IdempotencyMismatch, text)
        }
        Found::TooLarge => {
            let text =
                "the call was made, and its answer was too large to keep (limits.idempotency_mb)";
            Fault::new(Kind::AnswerLost, text)
        }
        Found::Unknown => {
            let text = "the client of the first request left before its answer: whether the call ran is not known. Find out \
                        before you make it again with another key";
            Fault::new(Kind::AnswerLost, text)
        }
        Found::Full => {
            let text = "too many requests with an Idempotency-Key run (limits.idempotency_keys)";
            Fault::new(Kind::Overloaded, text).retry_after_ms(1000)
        }
        Found::Running(_) | Found::Free(_) | Found::Answered(_) => {
            let text = "the first request with this Idempotency-Key still runs";
            Fault::new(Kind::IdempotencyInProgress, text).retry_after_ms(1000)
        }
    }
}

#[cfg(test)]
mod tests;
