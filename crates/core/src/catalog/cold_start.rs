//! Lists before every backend has answered for the first time.
//!
//! A list waits for first answers, so that callers of a gateway that was just started do not get an empty one. Bare
//! names wait as well: they are assigned in configuration order, not by which backend was faster. Both waits share
//! one bound, counted from the moment a backend is first asked, so a hanging backend delays lists once and not
//! repeatedly.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{Inner, Known, Layout, Prefix, Publisher, Registry, Slot};
use crate::invocation::View;
use crate::offer::Offer;

/// Default of `Registry::set_first_answer_wait`: longer than most servers need, shorter than most callers wait.
pub(super) const FIRST_ANSWER_WAIT: Duration = Duration::from_secs(2);

impl Known {
    /// It is being asked for the first time, without a remembered offer.
    fn is_awaited(&self) -> bool {
        !self.answered && self.offer.is_none()
    }

    /// Backends configured after it do not take bare names yet.
    fn holds_names(&self) -> bool {
        !self.tried && self.offer.is_none()
    }
}

impl Slot {
    /// Whether its bare names depend on what earlier backends offer.
    fn waits_for_names(&self, known: &Known) -> bool {
        !known.remembered && self.listing.prefix != Prefix::Always
    }
}

impl Registry {
    /// How long lists and bare names wait for a backend's first answer.
    pub fn set_first_answer_wait(&self, wait: Duration) {
        *self.first_answer_wait.lock() = wait;
    }

    /// Waits until every backend of a view has answered or failed once, or its time is over.
    pub async fn first_answers(&self, view: View) {
        while self.awaits_any.load(Ordering::Relaxed) {
            let mut answered = pin!(self.answered.notified());
            answered.as_mut().enable();
            let Some(deadline) = self.first_answers_due(view) else {
                return self.settle_names();
            };
            tokio::select! {
                () = answered => {}
                () = sleep_until(deadline) => self.settle_names(),
            }
        }
    }

    /// Whether `first_answers` would wait.
    pub fn awaits_first_answers(&self, view: View) -> bool {
        self.awaits_any.load(Ordering::Relaxed) && self.first_answers_due(view).is_some()
    }

    /// The time until which a list of this view waits.
    fn first_answers_due(&self, view: View) -> Option<Instant> {
        let wait = *self.first_answer_wait.lock();
        let now = Instant::now();
        let due = |slot: &Slot| {
            let asked_at = slot.running.facts.asked_at.max(self.started);
            Some(asked_at + wait).filter(|due| *due > now)
        };
        let layout = self.layout.load();
        let mut latest = None;
        for (index, slot) in layout.in_use() {
            let known = slot.running.facts.known.lock();
            let is_viewed = match view {
                View::Merged => true,
                View::Only(only) => only == index,
            };
            let is_awaited = match is_viewed {
                true => known.is_awaited(),
                false => known.holds_names(),
            };
            latest = latest.max(is_awaited.then(|| due(slot)).flatten());
            if is_viewed && view != View::Merged {
                // Its names do not depend on earlier backends, or these are counted already.
                let alone = !slot.waits_for_names(&known);
                let own = known.is_awaited().then(|| due(slot)).flatten();
                return if alone { own } else { latest };
            }
        }
        latest.filter(|_| view == View::Merged)
    }

    /// Ends the wait of bare names; run once by the owner of the registry.
    pub async fn end_cold_start(self: Arc<Self>) {
        let wait = *self.first_answer_wait.lock();
        sleep_until(self.started + wait).await;
        self.settle_names();
    }

    fn settle_names(&self) {
        let mut inner = self.inner.lock();
        if self.is_cold(&inner) || inner.names_settled {
            return;
        }
        inner.names_settled = true;
        self.rebuild_in(&mut inner, None);
    }

    /// Whether bare names still wait.
    pub(super) fn is_cold(&self, inner: &Inner) -> bool {
        !inner.names_settled && self.started.elapsed() < *self.first_answer_wait.lock()
    }

    /// Called with each new catalog.
    pub(super) fn note_answers(&self, layout: &Layout) {
        let awaited = |slot: &Slot| slot.running.facts.known.lock().is_awaited();
        let any = layout.in_use().any(|(_, slot)| awaited(slot));
        self.awaits_any.store(any, Ordering::Relaxed);
        self.answered.notify_waiters();
    }
}

/// The visible offer of each slot. On a cold start a backend is hidden while an earlier one was not tried, even at
/// its own endpoint, since rules use the name that it does not have yet. Prefixed and remembered names cannot
/// conflict, so they do not wait.
pub(super) fn visible_offers(layout: &Layout, cold: bool) -> Vec<Option<Arc<Offer>>> {
    let mut waiting = false;
    let mut visible = vec![None; layout.slots.len()];
    for (index, slot) in layout.in_use() {
        let known = slot.running.facts.known.lock();
        let shown = known.listed && !(cold && waiting && slot.waits_for_names(&known));
        waiting |= known.holds_names();
        visible[index] = known.shown.clone().filter(|_| shown);
    }
    visible
}

impl Publisher {
    /// The backend is started only to be listed: lists wait for it, readiness and names do not.
    pub fn first_asked(&self) {
        self.update(|known| known.answered = false);
    }
}
