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

#[cfg(test)]
mod consistency;
mod state;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use slab::Slab;

pub use state::Prospect;
pub(super) use state::State;
use state::{Entered, Occupancy, Verdict};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// One backend's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomFigures {
    pub active: u32,
    pub queued: u32,
    pub bounds: Bounds,
}

/// Counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub bounds: Bounds,
    pub active: u32,
    pub queued: u32,
    /// Returning calls that wait for a permit.
    pub returning: u32,
    pub admitted: u64,
    /// By `Reason`.
    pub rejected: [u64; 3],
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
                all: Occupancy::new(all),
                rooms: rooms.into_iter().map(Occupancy::new).collect(),
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
                    state.rooms.push(Occupancy::new(bounds));
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
            bounds: state.all.bounds,
            active: state.all.active,
            queued: state.all.queued,
            returning: state.all.returning,
            admitted: state.admitted,
            rejected: state.rejected,
        })
    }

    /// The bounds of all calls.
    pub(super) fn bounds(&self) -> Bounds {
        self.state.with(|state| state.all.bounds)
    }

    /// Running and queued at one backend.
    pub(super) fn room(&self, room: usize) -> RoomFigures {
        self.state.with(|state| {
            let room = &state.rooms[room];
            RoomFigures {
                active: room.active,
                queued: room.queued,
                bounds: room.bounds,
            }
        })
    }

    /// What a new call would find.
    pub(super) fn prospect(&self, room: usize) -> Prospect {
        self.state.with(|state| state.prospect(room))
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
