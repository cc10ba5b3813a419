//! Calls set aside while their caller thinks.
//!
//! A legacy backend asks in the middle of a call; a modern caller can only be answered. So the
//! answer says "input required", the conversation is parked here, and the caller's retry takes it
//! up again. A place is taken once: whoever holds the sealed id and asks a second time finds
//! nothing, so no call ever runs twice and no answer is given twice.

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

/// Parked calls at once, over all callers and for one: each holds a call open at a backend.
const PARKED_MAX: usize = 4096;
const PARKED_PER_CALLER_MAX: usize = 64;

/// A call that waits for its caller.
pub struct Parked {
    pub talk: Conversation,
    /// What was asked, by the key the caller knows it under.
    pub asks: Vec<(String, Ask)>,
    /// How often the caller was asked so far.
    pub rounds: u32,
    /// The round of the call that it was in.
    pub round: Round,
}

struct Place {
    parked: Parked,
    subject: Arc<str>,
    until: Instant,
}

pub struct Lot {
    places: Mutex<HashMap<String, Place>>,
    /// How long a caller may think, in milliseconds.
    ttl_ms: AtomicU64,
}

/// There is no room; the call is dropped, which cancels it.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Lot {
    pub fn new(ttl: Duration) -> Self {
        Self {
            places: Mutex::default(),
            ttl_ms: AtomicU64::new(ttl.as_millis() as u64),
        }
    }

    /// How long callers may think whose calls are set aside from now on.
    pub fn set_ttl(&self, ttl: Duration) {
        self.ttl_ms.store(ttl.as_millis() as u64, Ordering::Relaxed);
    }

    /// Sets a call aside and returns the id to find it by.
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
            Place {
                parked,
                subject: subject.clone(),
                until,
            },
        );
        Ok(id)
    }

    /// Takes a call up again; `None` if it was taken, expired, or never here. What `check` refuses stays, for
    /// the caller to do better.
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

    /// Drops the calls whose callers took too long.
    pub fn sweep(&self) {
        let now = Instant::now();
        let expired: Vec<Place> = {
            let mut places = self.places.lock();
            let ids: Vec<String> = places
                .iter()
                .filter(|(_, p)| p.until <= now)
                .map(|(id, _)| id.clone())
                .collect();
            ids.iter().filter_map(|id| places.remove(id)).collect()
        };
        // Outside the lock: dropping a call tells its backend.
        drop(expired);
    }

    pub fn len(&self) -> usize {
        self.places.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Uncounted continuations that are remembered. Evicting the oldest is safe: its retry is counted like a new call.
const CONTINUATIONS_MAX: usize = 16 * 1024;
/// Rounds of one call that are not counted; a backend that asks for ever must not make calls free.
const ROUNDS_UNCOUNTED_MAX: u8 = 10;

/// The rounds that callers may go on with uncounted. A relayed retry carries its round in a sealed state, which a caller
/// can send any number of times: the first time it continues its call, after that it is counted as a call of its own.
#[derive(Default)]
pub struct Continuations(Mutex<Issued>);

#[derive(Default)]
struct Issued {
    /// The round that each call may continue with.
    open: HashMap<CallId, u8>,
    /// Oldest first; entries of rounds that were taken are skipped.
    order: VecDeque<(CallId, u8)>,
}

impl Continuations {
    /// The round after this one, which may be taken once.
    pub fn issue(&self, round: Round) -> Round {
        let next = round.next();
        if next.number() > ROUNDS_UNCOUNTED_MAX {
            return next;
        }
        let mut issued = self.0.lock();
        while issued.order.len() >= CONTINUATIONS_MAX
            && let Some((call, number)) = issued.order.pop_front()
        {
            if issued.open.get(&call) == Some(&number) {
                issued.open.remove(&call);
            }
        }
        issued.open.insert(next.call, next.number());
        issued.order.push_back((next.call, next.number()));
        next
    }

    /// This round if it was issued and not taken before, otherwise the first of a new call.
    pub fn take(&self, round: Round) -> Round {
        let mut issued = self.0.lock();
        if issued.open.get(&round.call) != Some(&round.number()) {
            return Round::first();
        }
        issued.open.remove(&round.call);
        round
    }
}

/// Questions of a legacy backend as a modern caller is asked them: `{"key":{"method":…,"params":…},…}`
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

/// A legacy question in modern words: no `elicitationId`, and no tokens of the backend's.
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

/// Of `_meta` only what we put there.
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
    use crate::admission::Slot;
    use crate::line::Line;

    const TTL: Duration = Duration::from_secs(600);

    fn parked() -> Parked {
        let (_, events) = Line::open(Slot::default(), 0);
        let talk = Conversation::new(
            Box::pin(std::future::pending()),
            events,
            Arc::default(),
            Slot::default(),
        );
        Parked {
            talk,
            asks: Vec::new(),
            rounds: 1,
            round: Round::first(),
        }
    }

    fn taken(lot: &Lot, id: &str) -> bool {
        lot.take(id, |_| Ok::<_, ()>(())).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_taken_once_and_expires() {
        let lot = Lot::new(TTL);
        let alice: Arc<str> = "alice".into();
        let id = lot.park(&alice, parked()).expect("room");
        assert_eq!(lot.take(&id, |_| Err(())).expect("there").err(), Some(()));
        assert!(taken(&lot, &id), "what was refused is still there");
        assert!(!taken(&lot, &id));
        let id = lot.park(&alice, parked()).expect("room");
        tokio::time::advance(TTL + Duration::from_secs(1)).await;
        assert!(!taken(&lot, &id));
        lot.park(&alice, parked()).expect("room");
        tokio::time::advance(TTL + Duration::from_secs(1)).await;
        lot.sweep();
        assert!(lot.is_empty());
    }

    #[tokio::test]
    async fn one_caller_cannot_fill_the_lot() {
        let lot = Lot::new(TTL);
        let (alice, bob): (Arc<str>, Arc<str>) = ("alice".into(), "bob".into());
        for _ in 0..PARKED_PER_CALLER_MAX {
            lot.park(&alice, parked()).expect("room");
        }
        assert_eq!(lot.park(&alice, parked()).err(), Some(Full));
        assert!(lot.park(&bob, parked()).is_ok());
    }

    #[test]
    fn issue_17_a_round_is_uncounted_once_and_only_so_often() {
        let all = Continuations::default();
        let mut round = Round::first();
        for _ in 0..ROUNDS_UNCOUNTED_MAX {
            let next = all.issue(round);
            assert_eq!(all.take(next), next);
            assert!(all.take(next).is_first(), "sent again");
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
