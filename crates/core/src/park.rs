//! Parked calls, which wait for their caller's answer.
//!
//! A legacy backend asks in the middle of a call, but a modern caller can only be answered. So the answer is
//! `input_required`, the conversation is parked here, and the caller's retry resumes it. An entry is taken once: a
//! second retry with the same sealed id finds nothing, so no call runs twice and no answer is delivered twice.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use sentinel_wire::Payload;
use sentinel_wire::json::{self, Rules};
use tokio::time::Instant;

use crate::attribution::ASKED_BY;
use crate::invocation::{CallId, Round};
use crate::line::{Ask, Conversation};
use crate::seal::random_id;

/// Bounds on parked calls, in total and per caller: each holds a call open at a backend.
const PARKED_MAX: usize = 4096;
const PARKED_PER_CALLER_MAX: usize = 64;

/// A call that waits for its caller.
pub struct Parked {
    pub talk: Conversation,
    /// The open questions by the keys that the caller knows.
    pub asks: Vec<(String, Ask)>,
    /// Number of times the caller was asked.
    pub rounds: u32,
    /// The round of the call in which it was parked.
    pub round: Round,
}

struct Entry {
    parked: Parked,
    subject: Arc<str>,
    until: Instant,
}

pub struct ParkedCalls {
    places: Mutex<HashMap<String, Entry>>,
    /// How long a call may stay parked, in milliseconds.
    ttl_ms: AtomicU64,
}

/// The table is full; the call is dropped, which cancels it.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl ParkedCalls {
    pub fn new(ttl: Duration) -> Self {
        Self {
            places: Mutex::default(),
            ttl_ms: AtomicU64::new(ttl.as_millis() as u64),
        }
    }

    /// Sets the time to live of calls parked from now on.
    pub fn set_ttl(&self, ttl: Duration) {
        self.ttl_ms.store(ttl.as_millis() as u64, Ordering::Relaxed);
    }

    /// Parks a call and returns its id.
    pub fn park(&self, subject: &Arc<str>, parked: Parked) -> Result<String, Full> {
        let mut places = self.places.lock();
        let of_caller = places
            .values()
            .filter(|place| place.subject == *subject)
            .count();
        if places.len() >= PARKED_MAX || of_caller >= PARKED_PER_CALLER_MAX {
            return Err(Full);
        }
        let id = random_id();
        let until = Instant::now() + Duration::from_millis(self.ttl_ms.load(Ordering::Relaxed));
        places.insert(
            id.clone(),
            Entry {
                parked,
                subject: subject.clone(),
                until,
            },
        );
        Ok(id)
    }

    /// Resumes a call; `None` if it was taken, expired, or never here. If `check` refuses, the call stays parked for
    /// a better retry.
    pub fn take<E>(
        &self,
        id: &str,
        check: impl FnOnce(&[(String, Ask)]) -> Result<(), E>,
    ) -> Option<Result<Parked, E>> {
        let mut places = self.places.lock();
        let place = places.get(id)?;
        if place.until > Instant::now()
            && let Err(refusal) = check(&place.parked.asks)
        {
            return Some(Err(refusal));
        }
        let place = places.remove(id)?;
        drop(places);
        (place.until > Instant::now()).then_some(Ok(place.parked))
    }

    /// Drops expired calls.
    pub fn sweep(&self) {
        let now = Instant::now();
        let expired: Vec<Entry> = {
            let mut places = self.places.lock();
            let ids: Vec<String> = places
                .iter()
                .filter(|(_, p)| p.until <= now)
                .map(|(id, _)| id.clone())
                .collect();
            ids.iter().filter_map(|id| places.remove(id)).collect()
        };
        // Outside the lock: dropping a call notifies its backend.
        drop(expired);
    }

    pub fn len(&self) -> usize {
        self.places.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bound on stored continuations. Evicting the oldest is safe: its retry is counted like a new call, and where a state is
/// good once, the call has to be begun again.
const CONTINUATIONS_MAX: usize = 16 * 1024;
/// Uncounted rounds per call, so that a backend which asks without end does not make calls free.
const ROUNDS_UNCOUNTED_MAX: u8 = 10;

/// Rounds that may continue uncounted. A relayed retry has its round in a sealed state, which a caller can send any
/// number of times: the first time it continues its call, after that it is counted as a new call.
#[derive(Default)]
pub struct Continuations(Mutex<Issued>);

#[derive(Default)]
struct Issued {
    /// The round with which each call may continue.
    open: HashMap<CallId, u8>,
    /// Oldest first; entries of consumed rounds are skipped.
    order: VecDeque<(CallId, u8)>,
}

impl Issued {
    fn insert(&mut self, round: Round) {
        while self.order.len() >= CONTINUATIONS_MAX
            && let Some((call, number)) = self.order.pop_front()
        {
            if self.open.get(&call) == Some(&number) {
                self.open.remove(&call);
            }
        }
        self.open.insert(round.call, round.number());
        self.order.push_back((round.call, round.number()));
    }
}

impl Continuations {
    /// Issues the next round, which may be taken once.
    pub fn issue(&self, round: Round) -> Round {
        let next = round.next();
        if next.number() > ROUNDS_UNCOUNTED_MAX {
            return next;
        }
        self.0.lock().insert(next);
        next
    }

    /// Makes a round that was taken good once more: what it continued certainly did not run.
    pub fn reopen(&self, round: Round) {
        let mut issued = self.0.lock();
        issued.insert(round);
    }

    /// This round if it was issued and not yet taken, otherwise the first of a new call.
    pub fn take(&self, round: Round) -> Round {
        let mut issued = self.0.lock();
        if issued.open.get(&round.call) != Some(&round.number()) {
            return Round::first();
        }
        issued.open.remove(&round.call);
        round
    }
}

/// A legacy backend's questions in the form for modern callers: `{"key":{"method":…,"params":…},…}`
pub fn input_requests<'a>(asks: impl IntoIterator<Item = &'a (String, Ask)>) -> String {
    let mut out = vec![b'{'];
    for (key, ask) in asks {
        if out.len() > 1 {
            out.push(b',');
        }
        json::encode_string(key, &mut out);
        out.extend_from_slice(br#":{"method":"#);
        json::encode_string(ask.method.as_str(), &mut out);
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(&modern_params(ask));
        out.push(b'}');
    }
    out.push(b'}');
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// A legacy question in modern form: no `elicitationId`, and no tokens of the backend's.
fn modern_params(ask: &Ask) -> Bytes {
    let Ok(params) = Payload::parse(ask.params.clone(), Rules::backend()) else {
        return ask.params.clone();
    };
    let legacy = ["elicitationId", "_meta", "task"];
    if legacy.iter().all(|name| params.get(name).is_none()) {
        return ask.params.clone();
    }
    let meta = asked_by(&params);
    let mut out = Vec::new();
    params.as_raw().rewrite(
        &[
            ("elicitationId", None),
            ("_meta", meta.as_deref()),
            ("task", None),
        ],
        &mut out,
    );
    out.into()
}

/// Keeps only the members of `_meta` that we added.
fn asked_by(params: &Payload) -> Option<Vec<u8>> {
    let meta = Payload::parse(params.get_bytes("_meta")?, Rules::backend()).ok()?;
    let name = meta.get(ASKED_BY)?;
    let mut out = vec![b'{'];
    json::encode_string(ASKED_BY, &mut out);
    out.push(b':');
    out.extend_from_slice(name);
    out.push(b'}');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::PermitSlot;
    use crate::line::Line;

    const TTL: Duration = Duration::from_secs(600);

    fn parked() -> Parked {
        let (_, events) = Line::open(PermitSlot::default(), 0);
        let talk = Conversation::new(
            Box::pin(std::future::pending()),
            events,
            Arc::default(),
            PermitSlot::default(),
        );
        Parked {
            talk,
            asks: Vec::new(),
            rounds: 1,
            round: Round::first(),
        }
    }

    fn taken(parked_calls: &ParkedCalls, id: &str) -> bool {
        parked_calls.take(id, |_| Ok::<_, ()>(())).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_taken_once_and_expires() {
        let parked_calls = ParkedCalls::new(TTL);
        let alice: Arc<str> = "alice".into();
        let id = parked_calls.park(&alice, parked()).expect("room");
        assert_eq!(
            parked_calls.take(&id, |_| Err(())).expect("there").err(),
            Some(())
        );
        assert!(taken(&parked_calls, &id), "what was refused is still there");
        assert!(!taken(&parked_calls, &id));
        let id = parked_calls.park(&alice, parked()).expect("room");
        tokio::time::advance(TTL + Duration::from_secs(1)).await;
        assert!(!taken(&parked_calls, &id));
        parked_calls.park(&alice, parked()).expect("room");
        tokio::time::advance(TTL + Duration::from_secs(1)).await;
        parked_calls.sweep();
        assert!(parked_calls.is_empty());
    }

    #[tokio::test]
    async fn one_caller_cannot_fill_the_parked_calls() {
        let parked_calls = ParkedCalls::new(TTL);
        let (alice, bob): (Arc<str>, Arc<str>) = ("alice".into(), "bob".into());
        for _ in 0..PARKED_PER_CALLER_MAX {
            parked_calls.park(&alice, parked()).expect("room");
        }
        assert_eq!(parked_calls.park(&alice, parked()).err(), Some(Full));
        assert!(parked_calls.park(&bob, parked()).is_ok());
    }

    #[test]
    fn issue_17_a_round_is_uncounted_once_and_only_so_often() {
        let all = Continuations::default();
        let mut round = Round::first();
        for _ in 0..ROUNDS_UNCOUNTED_MAX {
            let next = all.issue(round);
            assert_eq!(all.take(next), next);
            assert!(all.take(next).is_first(), "sent again");
            all.reopen(next);
            assert_eq!(all.take(next), next, "good once more");
            assert!(all.take(next).is_first());
            round = next;
        }
        let next = all.issue(round);
        assert!(all.take(next).is_first(), "too many rounds");
        let first = all.issue(Round::first());
        for _ in 0..CONTINUATIONS_MAX {
            all.issue(Round::first());
        }
        let issued = all.0.lock();
        assert!(issued.open.len() <= CONTINUATIONS_MAX && issued.order.len() <= CONTINUATIONS_MAX);
        drop(issued);
        assert!(all.take(first).is_first(), "evicted");
    }
}
