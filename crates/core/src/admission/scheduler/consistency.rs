//! Whether the counts of the state agree with its entries, for tests.

use super::state::{Occupancy, Queue, State, Verdict, Waiter};
use super::{Bounds, Lock, Scheduler};

impl<L: Lock<State>> Scheduler<L> {
    /// Whether every bound holds and every count agrees with the entries.
    pub(in super::super) fn is_consistent(&self) -> bool {
        self.agrees() && self.excess().iter().all(|over| *over == (0, 0))
    }

    /// By how many running and queued calls the bounds are exceeded: globally, then per room.
    pub(in super::super) fn excess(&self) -> Vec<(u32, u32)> {
        let over = |room: &Occupancy| {
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
    pub(in super::super) fn agrees(&self) -> bool {
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
            let agrees = |(at, room): (usize, &Occupancy)| {
                let (queued, returning) = (room.queued as usize, room.returning as usize);
                let callers = state.callers.values();
                queued == waits(at, false)
                    && queued == listed(at, |queue| queue.new.len())
                    && returning == waits(at, true)
                    && returning == listed(at, |queue| queue.returning.len())
                    && room.ring.len() == callers.filter(|c| c.rooms.contains_key(&at)).count()
            };
            let sum = |f: fn(&Occupancy) -> u32| state.rooms.iter().map(f).sum::<u32>();
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
}
