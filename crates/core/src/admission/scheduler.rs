//! Decides which calls run, wait or are refused: plain state under one lock.
//!
//! A call needs a permit globally and one at its backend (its room). If both are free it runs at once; otherwise it
//! waits if both queues have space. Calls of one caller wait in order of arrival. A freed permit goes to the eligible
//! caller that was served longest ago, so no call waits that could run. When a queue is full, the newest call of the
//! caller with the longest queue is evicted if that queue is longer than the arriving caller's by two or more;
//! otherwise the arrival is refused. So one caller's burst does not keep the others out.
//!
//! A call that ran before and released its permit returns into the same queues, but is no new arrival: it does not
//! count toward the queue's bound, is never refused and evicts no other call.
//!
//! Permits and tickets are owned: dropping one gives everything back. The lock is a parameter so that the
//! interleaving checker can substitute its own; there is no other shared state and no clock here.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use slab::Slab;

/// A lock around the state.
pub(super) trait Lock<T>: Send + Sync {
    fn new(value: T) -> Self;
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R;
}

impl<T: Send> Lock<T> for parking_lot::Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.lock())
    }
}

/// Most running and most waiting calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub max_concurrent: u32,
    /// 0 refuses at once.
    pub queue_size: u32,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    QueueFull,
    QueueTimeout,
    ConcurrencyLimit,
}

impl Reason {
    pub const ALL: [Self; 3] = [Self::QueueFull, Self::QueueTimeout, Self::ConcurrencyLimit];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
            Self::ConcurrencyLimit => "concurrency_limit",
        }
    }
}

/// A refusal, with the figures of the bound that caused it: global, or one backend's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub reason: Reason,
    pub active: u32,
    pub queued: u32,
    pub bounds: Bounds,
}

/// Counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub active: u32,
    pub queued: u32,
    /// Returning calls that wait for a permit.
    pub returning: u32,
    pub admitted: u64,
    /// By `Reason`.
    pub rejected: [u64; 3],
}

#[derive(Debug)]
struct Room {
    bounds: Bounds,
    active: u32,
    /// Waiting calls that are new.
    queued: u32,
    /// Waiting calls that ran before.
    returning: u32,
    /// Callers with calls waiting for this room, by the time they were last served.
    ring: BTreeMap<u64, Arc<str>>,
}

impl Room {
    fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            active: 0,
            queued: 0,
            returning: 0,
            ring: BTreeMap::new(),
        }
    }

    fn waiting(&mut self, returns: bool) -> &mut u32 {
        match returns {
            true => &mut self.returning,
            false => &mut self.queued,
        }
    }

    fn has_place(&self) -> bool {
        self.active < self.bounds.max_concurrent
    }

    /// Why the queue takes no call, if so.
    fn full(&self) -> Option<Refused> {
        (self.queued >= self.bounds.queue_size).then(|| {
            self.refused(match self.bounds.queue_size {
                0 => Reason::ConcurrencyLimit,
                _ => Reason::QueueFull,
            })
        })
    }

    fn refused(&self, reason: Reason) -> Refused {
        Refused {
            reason,
            active: self.active,
            queued: self.queued,
            bounds: self.bounds,
        }
    }
}

/// One caller with waiting calls.
struct Waiting {
    turn: u64,
    rooms: BTreeMap<usize, Queue>,
}

/// A caller's calls that wait for one room: order of arrival to slab key.
#[derive(Default)]
struct Queue {
    new: BTreeMap<u64, usize>,
    /// Separate, so that a search for new calls does not visit them.
    returning: BTreeMap<u64, usize>,
}

impl Queue {
    fn of(&mut self, returns: bool) -> &mut BTreeMap<u64, usize> {
        match returns {
            true => &mut self.returning,
            false => &mut self.new,
        }
    }

    /// The first in order of arrival, new or returning.
    fn first(&self) -> Option<usize> {
        let firsts = [&self.new, &self.returning].map(BTreeMap::first_key_value);
        let (_, key) = firsts.into_iter().flatten().min()?;
        Some(*key)
    }

    fn is_empty(&self) -> bool {
        self.new.is_empty() && self.returning.is_empty()
    }
}

struct Waiter {
    subject: Arc<str>,
    room: usize,
    arrival: u64,
    /// It ran before.
    returns: bool,
    verdict: Verdict,
    waker: Option<Waker>,
}

/// The result of waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    None,
    Granted,
    /// It was evicted for another caller's call and is in no queue any more.
    Displaced(Refused),
}

pub(super) struct State {
    all: Room,
    rooms: Vec<Room>,
    callers: HashMap<Arc<str>, Waiting>,
    waiters: Slab<Waiter>,
    /// Counts arrivals and turns.
    clock: u64,
    admitted: u64,
    rejected: [u64; 3],
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn occupy(&mut self, room: usize) {
        self.all.active += 1;
        self.rooms[room].active += 1;
        self.admitted += 1;
    }

    fn refuse(&mut self, refused: Refused) -> Refused {
        self.rejected[refused.reason as usize] += 1;
        refused
    }

    fn enter(&mut self, subject: &Arc<str>, room: usize) -> Entered {
        let here = &self.rooms[room];
        if self.all.has_place() && here.has_place() {
            self.occupy(room);
            return Entered::Runs;
        }
        // The bound that is full determines the answer.
        let refused = if self.all.has_place() {
            here.full().or_else(|| self.all.full())
        } else {
            self.all.full().or_else(|| here.full())
        };
        let woken = match refused {
            None => None,
            Some(refused) => match self.displace(subject, room, refused) {
                Some(woken) => woken,
                None => return Entered::Refused(self.refuse(refused)),
            },
        };
        Entered::Waits(self.enqueue(subject, room, false), woken)
    }

    /// Evicts the newest call of the caller with the longest queue from a full queue, if the arriving caller has a
    /// shorter one; returns it with its waker. `None` if no call is evicted.
    fn displace(
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

    fn enqueue(&mut self, subject: &Arc<str>, room: usize, returns: bool) -> usize {
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
    fn dequeue(&mut self, key: usize) {
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
    fn leave(&mut self, key: usize) -> Verdict {
        if self.waiters[key].verdict == Verdict::None {
            self.dequeue(key);
        }
        self.waiters.remove(key).verdict
    }

    fn release(&mut self, room: usize) -> Option<Waker> {
        self.all.active -= 1;
        self.rooms[room].active -= 1;
        self.grant_next()
    }

    /// Gives a free permit to the next call that can use it.
    fn grant_next(&mut self) -> Option<Waker> {
        if self.callers.is_empty() || !self.all.has_place() {
            return None;
        }
        let open = |(index, room): (usize, &Room)| {
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
    fn served(&mut self, subject: &Arc<str>) {
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
enum Entered {
    Runs,
    /// Queued at this key; an evicted call is to be woken.
    Waits(usize, Option<Waker>),
    Refused(Refused),
}

pub(super) struct Scheduler<L> {
    state: L,
}

/// The result of entering the scheduler.
pub(super) enum Entry<L: Lock<State>> {
    Now(Permit<L>),
    Wait(Ticket<L>),
}

impl<L: Lock<State>> Scheduler<L> {
    pub(super) fn new(all: Bounds, rooms: impl IntoIterator<Item = Bounds>) -> Arc<Self> {
        Arc::new(Self {
            state: L::new(State {
                all: Room::new(all),
                rooms: rooms.into_iter().map(Room::new).collect(),
                callers: HashMap::new(),
                waiters: Slab::new(),
                clock: 0,
                admitted: 0,
                rejected: [0; 3],
            }),
        })
    }

    /// Replaces the bounds, for existing and new rooms; waiting calls that fit now run.
    pub(super) fn reconfigure(
        &self,
        all: Bounds,
        rooms: impl IntoIterator<Item = (usize, Bounds)>,
    ) {
        let woken = self.state.with(|state| {
            state.all.bounds = all;
            for (index, bounds) in rooms {
                while state.rooms.len() <= index {
                    state.rooms.push(Room::new(bounds));
                }
                state.rooms[index].bounds = bounds;
            }
            let mut woken = Vec::new();
            let mut granted = state.admitted;
            loop {
                woken.extend(state.grant_next());
                if std::mem::replace(&mut granted, state.admitted) == state.admitted {
                    return woken;
                }
            }
        });
        woken.into_iter().for_each(Waker::wake);
    }

    pub(super) fn enter(
        self: &Arc<Self>,
        subject: &Arc<str>,
        room: usize,
    ) -> Result<Entry<L>, Refused> {
        match self.state.with(|state| state.enter(subject, room)) {
            Entered::Runs => Ok(Entry::Now(self.permit(room))),
            Entered::Waits(key, woken) => {
                if let Some(waker) = woken {
                    waker.wake();
                }
                Ok(Entry::Wait(self.ticket(key, room)))
            }
            Entered::Refused(refused) => Err(refused),
        }
    }

    /// For a call that ran before and released its permit while it waited for its caller: never refused, whatever the
    /// queues hold. The number of such calls is bounded where they are parked.
    pub(super) fn enter_again(self: &Arc<Self>, subject: &Arc<str>, room: usize) -> Entry<L> {
        let key = self.state.with(|state| {
            let free = state.all.has_place() && state.rooms[room].has_place();
            match free {
                true => {
                    state.occupy(room);
                    None
                }
                false => Some(state.enqueue(subject, room, true)),
            }
        });
        match key {
            None => Entry::Now(self.permit(room)),
            Some(key) => Entry::Wait(self.ticket(key, room)),
        }
    }

    pub(super) fn figures(&self) -> Figures {
        self.state.with(|state| Figures {
            active: state.all.active,
            queued: state.all.queued,
            returning: state.all.returning,
            admitted: state.admitted,
            rejected: state.rejected,
        })
    }

    /// Running and queued at one backend.
    pub(super) fn room(&self, room: usize) -> (u32, u32) {
        self.state
            .with(|state| (state.rooms[room].active, state.rooms[room].queued))
    }

    /// Whether every bound holds and every count agrees with the entries.
    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        self.agrees() && self.excess().iter().all(|over| *over == (0, 0))
    }

    /// By how many running and queued calls the bounds are exceeded: globally, then per room.
    #[cfg(test)]
    pub(super) fn excess(&self) -> Vec<(u32, u32)> {
        let over = |room: &Room| {
            let Bounds {
                max_concurrent,
                queue_size,
            } = room.bounds;
            (
                room.active.saturating_sub(max_concurrent),
                room.queued.saturating_sub(queue_size),
            )
        };
        self.state.with(|state| {
            let rooms = std::iter::once(&state.all).chain(&state.rooms);
            rooms.map(over).collect()
        })
    }

    /// Whether every count agrees with the entries, and no call waits that could run.
    #[cfg(test)]
    pub(super) fn agrees(&self) -> bool {
        self.state.with(|state| {
            let waits = |at: usize, returns: bool| {
                let waiters = state.waiters.iter().map(|(_, waiter)| waiter);
                let waits = |w: &&Waiter| w.verdict == Verdict::None && w.room == at;
                waiters
                    .filter(waits)
                    .filter(|w| w.returns == returns)
                    .count()
            };
            let listed = |at: usize, which: fn(&Queue) -> usize| -> usize {
                let queues = state.callers.values().filter_map(|c| c.rooms.get(&at));
                queues.map(which).sum()
            };
            let agrees = |(at, room): (usize, &Room)| {
                let (queued, returning) = (room.queued as usize, room.returning as usize);
                let callers = state.callers.values();
                queued == waits(at, false)
                    && queued == listed(at, |queue| queue.new.len())
                    && returning == waits(at, true)
                    && returning == listed(at, |queue| queue.returning.len())
                    && room.ring.len() == callers.filter(|c| c.rooms.contains_key(&at)).count()
            };
            let sum = |f: fn(&Room) -> u32| state.rooms.iter().map(f).sum::<u32>();
            let could_run = state.all.has_place()
                && state
                    .rooms
                    .iter()
                    .any(|room| room.has_place() && !room.ring.is_empty());
            state.rooms.iter().enumerate().all(agrees)
                && sum(|r| r.active) == state.all.active
                && sum(|r| r.queued) == state.all.queued
                && sum(|r| r.returning) == state.all.returning
                && !could_run
        })
    }

    fn permit(self: &Arc<Self>, room: usize) -> Permit<L> {
        Permit {
            scheduler: self.clone(),
            room,
        }
    }

    fn ticket(self: &Arc<Self>, key: usize, room: usize) -> Ticket<L> {
        Ticket {
            scheduler: self.clone(),
            key,
            room,
            done: false,
        }
    }
}

/// A call's right to run, given back when dropped.
pub(super) struct Permit<L: Lock<State>> {
    scheduler: Arc<Scheduler<L>>,
    room: usize,
}

impl<L: Lock<State>> Drop for Permit<L> {
    fn drop(&mut self) {
        let woken = self.scheduler.state.with(|state| state.release(self.room));
        if let Some(waker) = woken {
            waker.wake();
        }
    }
}

/// A call's entry in the queue; it becomes a permit. Dropping it leaves the queue.
pub(super) struct Ticket<L: Lock<State>> {
    scheduler: Arc<Scheduler<L>>,
    key: usize,
    room: usize,
    done: bool,
}

impl<L: Lock<State>> Future for Ticket<L> {
    type Output = Result<Permit<L>, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key;
        let verdict = self.scheduler.state.with(|state| {
            let verdict = state.waiters[key].verdict;
            if verdict != Verdict::None {
                state.waiters.remove(key);
                return verdict;
            }
            let waker = &mut state.waiters[key].waker;
            match waker {
                Some(known) => known.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            verdict
        });
        self.done = verdict != Verdict::None;
        match verdict {
            Verdict::None => Poll::Pending,
            Verdict::Granted => Poll::Ready(Ok(self.scheduler.permit(self.room))),
            Verdict::Displaced(refused) => Poll::Ready(Err(refused)),
        }
    }
}

impl<L: Lock<State>> Ticket<L> {
    /// The wait timed out. A permit granted at the last moment is taken.
    pub(super) fn give_up(mut self) -> Result<Permit<L>, Refused> {
        self.done = true;
        let (key, room) = (self.key, self.room);
        let refused = self.scheduler.state.with(|state| {
            match state.leave(key) {
                Verdict::Granted => return None,
                Verdict::Displaced(refused) => return Some(refused),
                Verdict::None => {}
            }
            let full = match state.all.has_place() {
                true => &state.rooms[room],
                false => &state.all,
            };
            let refused = full.refused(Reason::QueueTimeout);
            Some(state.refuse(refused))
        });
        match refused {
            Some(refused) => Err(refused),
            None => Ok(self.scheduler.permit(room)),
        }
    }
}

impl<L: Lock<State>> Drop for Ticket<L> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let woken = self
            .scheduler
            .state
            .with(|state| match state.leave(self.key) {
                Verdict::Granted => state.release(self.room),
                Verdict::Displaced(_) | Verdict::None => None,
            });
        if let Some(waker) = woken {
            waker.wake();
        }
    }
}
