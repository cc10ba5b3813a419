//! The state: who runs, who waits for what, and in which order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::task::Waker;

use slab::Slab;

use super::{Bounds, Reason, Refused};

#[derive(Debug)]
pub(super) struct Occupancy {
    pub(super) bounds: Bounds,
    pub(super) active: u32,
    /// Waiting calls that are new.
    pub(super) queued: u32,
    /// Waiting calls that ran before.
    pub(super) returning: u32,
    /// Callers with calls waiting for this room, by the time they were last served.
    pub(super) ring: BTreeMap<u64, Arc<str>>,
}

impl Occupancy {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            active: 0,
            queued: 0,
            returning: 0,
            ring: BTreeMap::new(),
        }
    }

    pub(super) fn waiting(&mut self, returns: bool) -> &mut u32 {
        match returns {
            true => &mut self.returning,
            false => &mut self.queued,
        }
    }

    pub(super) fn has_place(&self) -> bool {
        self.active < self.bounds.max_concurrent
    }

    /// Why the queue takes no call, if so.
    pub(super) fn full(&self) -> Option<Refused> {
        (self.queued >= self.bounds.queue_size).then(|| {
            self.refused(match self.bounds.queue_size {
                0 => Reason::ConcurrencyLimit,
                _ => Reason::QueueFull,
            })
        })
    }

    pub(super) fn refused(&self, reason: Reason) -> Refused {
        Refused {
            reason,
            active: self.active,
            queued: self.queued,
            bounds: self.bounds,
        }
    }
}

/// One caller with waiting calls.
pub(super) struct Waiting {
    pub(super) turn: u64,
    pub(super) rooms: BTreeMap<usize, Queue>,
}

/// A caller's calls that wait for one room: order of arrival to slab key.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) new: BTreeMap<u64, usize>,
    /// Separate, so that a search for new calls does not visit them.
    pub(super) returning: BTreeMap<u64, usize>,
}

impl Queue {
    pub(super) fn of(&mut self, returns: bool) -> &mut BTreeMap<u64, usize> {
        match returns {
            true => &mut self.returning,
            false => &mut self.new,
        }
    }

    /// The first in order of arrival, new or returning.
    pub(super) fn first(&self) -> Option<usize> {
        let firsts = [&self.new, &self.returning].map(BTreeMap::first_key_value);
        let (_, key) = firsts.into_iter().flatten().min()?;
        Some(*key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.returning.is_empty()
    }
}

pub(super) struct Waiter {
    pub(super) subject: Arc<str>,
    pub(super) room: usize,
    pub(super) arrival: u64,
    /// It ran before.
    pub(super) returns: bool,
    pub(super) verdict: Verdict,
    pub(super) waker: Option<Waker>,
}

/// What a new call finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prospect {
    Runs,
    Waits,
    /// It is refused, if no other call gives way.
    IsFull(Refused),
}

/// The result of waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    None,
    Granted,
    /// It was evicted for another caller's call and is in no queue any more.
    Displaced(Refused),
}

pub(in super::super) struct State {
    pub(super) all: Occupancy,
    pub(super) rooms: Vec<Occupancy>,
    pub(super) callers: HashMap<Arc<str>, Waiting>,
    pub(super) waiters: Slab<Waiter>,
    /// Counts arrivals and turns.
    pub(super) clock: u64,
    pub(super) admitted: u64,
    pub(super) rejected: [u64; 3],
}

impl State {
    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn occupy(&mut self, room: usize) {
        self.all.active += 1;
        self.rooms[room].active += 1;
        self.admitted += 1;
    }

    pub(super) fn refuse(&mut self, refused: Refused) -> Refused {
        self.rejected[refused.reason as usize] += 1;
        refused
    }

    pub(super) fn enter(&mut self, subject: &Arc<str>, room: usize) -> Entered {
        let woken = match self.prospect(room) {
            Prospect::Runs => {
                self.occupy(room);
                return Entered::Runs;
            }
            Prospect::Waits => None,
            Prospect::IsFull(refused) => match self.displace(subject, room, refused) {
                Some(woken) => woken,
                None => return Entered::Refused(self.refuse(refused)),
            },
        };
        Entered::Waits(self.enqueue(subject, room, false), woken)
    }

    /// What a new call finds.
    pub(super) fn prospect(&self, room: usize) -> Prospect {
        let here = &self.rooms[room];
        if self.all.has_place() && here.has_place() {
            return Prospect::Runs;
        }
        // The bound that is full determines the answer.
        let refused = if self.all.has_place() {
            here.full().or_else(|| self.all.full())
        } else {
            self.all.full().or_else(|| here.full())
        };
        refused.map_or(Prospect::Waits, Prospect::IsFull)
    }

    /// Evicts the newest call of the caller with the longest queue from a full queue, if the arriving caller has a
    /// shorter one; returns it with its waker. `None` if no call is evicted.
    pub(super) fn displace(
        &mut self,
        subject: &Arc<str>,
        room: usize,
        refused: Refused,
    ) -> Option<Option<Waker>> {
        if refused.reason != Reason::QueueFull {
            return None;
        }
        // A full room evicts one of its own calls; otherwise any call will do.
        let room_is_full = self.rooms[room].full().is_some();
        let counts = |waiting: &Waiting| match room_is_full {
            true => waiting.rooms.get(&room).map_or(0, |queue| queue.new.len()),
            false => waiting.rooms.values().map(|queue| queue.new.len()).sum(),
        };
        let mine = self.callers.get(subject).map_or(0, counts);
        let others = self.callers.iter();
        let (most, _, whose) = others
            .map(|(whose, waiting)| (counts(waiting), waiting.turn, whose))
            .max()?;
        // Otherwise two callers would evict each other in turn.
        if most < mine + 2 {
            return None;
        }
        let queues = self.callers[whose].rooms.iter();
        let (_, &key) = queues
            .filter(|(at, _)| !room_is_full || **at == room)
            .filter_map(|(_, queue)| queue.new.last_key_value())
            .max()?;
        self.dequeue(key);
        let refused = self.refuse(refused);
        let waiter = &mut self.waiters[key];
        waiter.verdict = Verdict::Displaced(refused);
        Some(waiter.waker.take())
    }

    pub(super) fn enqueue(&mut self, subject: &Arc<str>, room: usize, returns: bool) -> usize {
        let arrival = self.tick();
        let key = self.waiters.insert(Waiter {
            subject: subject.clone(),
            room,
            arrival,
            returns,
            verdict: Verdict::None,
            waker: None,
        });
        // A caller that joins is served after those that wait already.
        let caller = self
            .callers
            .entry(subject.clone())
            .or_insert_with(|| Waiting {
                turn: arrival,
                rooms: BTreeMap::new(),
            });
        let queue = caller.rooms.entry(room).or_default();
        queue.of(returns).insert(arrival, key);
        let here = &mut self.rooms[room];
        here.ring.insert(caller.turn, subject.clone());
        *here.waiting(returns) += 1;
        *self.all.waiting(returns) += 1;
        key
    }

    /// Takes a call out of its queue.
    pub(super) fn dequeue(&mut self, key: usize) {
        let waiter = &self.waiters[key];
        let here = &mut self.rooms[waiter.room];
        *here.waiting(waiter.returns) -= 1;
        *self.all.waiting(waiter.returns) -= 1;
        let caller = self
            .callers
            .get_mut(&waiter.subject)
            .expect("a waiting call's caller is known");
        let queue = caller
            .rooms
            .get_mut(&waiter.room)
            .expect("its queue for the room exists");
        let held = queue.of(waiter.returns).remove(&waiter.arrival);
        debug_assert_eq!(held, Some(key), "the call is in it");
        if queue.is_empty() {
            caller.rooms.remove(&waiter.room);
            here.ring.remove(&caller.turn);
            if caller.rooms.is_empty() {
                self.callers.remove(&waiter.subject);
            }
        }
    }

    /// Removes a call that waits no longer, and returns its verdict.
    pub(super) fn leave(&mut self, key: usize) -> Verdict {
        if self.waiters[key].verdict == Verdict::None {
            self.dequeue(key);
        }
        self.waiters.remove(key).verdict
    }

    pub(super) fn release(&mut self, room: usize) -> Option<Waker> {
        self.all.active -= 1;
        self.rooms[room].active -= 1;
        self.grant_next()
    }

    /// Gives a free permit to the next call that can use it.
    pub(super) fn grant_next(&mut self) -> Option<Waker> {
        if self.callers.is_empty() || !self.all.has_place() {
            return None;
        }
        let open = |(index, room): (usize, &Occupancy)| {
            let (turn, _) = room.ring.first_key_value()?;
            room.has_place().then_some((*turn, index))
        };
        let (turn, room) = self.rooms.iter().enumerate().filter_map(open).min()?;
        let subject = self.rooms[room].ring[&turn].clone();
        let queue = &self.callers[&subject].rooms[&room];
        let key = queue.first().expect("empty queues are removed");
        self.dequeue(key);
        self.served(&subject);
        self.occupy(room);
        let waiter = &mut self.waiters[key];
        waiter.verdict = Verdict::Granted;
        waiter.waker.take()
    }

    /// Moves a caller to the end of every ring.
    pub(super) fn served(&mut self, subject: &Arc<str>) {
        let turn = self.tick();
        if let Some(caller) = self.callers.get_mut(subject) {
            for room in caller.rooms.keys() {
                let ring = &mut self.rooms[*room].ring;
                ring.remove(&caller.turn);
                ring.insert(turn, subject.clone());
            }
            caller.turn = turn;
        }
    }
}

/// The decision of `State::enter`.
pub(super) enum Entered {
    Runs,
    /// Queued at this key; an evicted call is to be woken.
    Waits(usize, Option<Waker>),
    Refused(Refused),
}
