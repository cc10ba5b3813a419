//! The calls in flight of one session or connection, found by the caller's own id for cancellation.

use std::sync::Arc;

use futures_util::future::{AbortHandle, Abortable};
use parking_lot::Mutex;
use sentinel_core::map::Map;
use sentinel_core::{Fault, Kind};
use sentinel_wire::Id;
use tokio::sync::oneshot;

/// Bound on calls in flight; far beyond any client's use.
const IN_FLIGHT_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct InFlight(Mutex<Table>);

#[derive(Default)]
struct Table {
    calls: Map<Id, Call>,
    begun: u64,
    /// The session ended: no call begins any more.
    closed: bool,
    /// Signalled when the last call ends.
    idle: Option<oneshot::Sender<()>>,
}

struct Call {
    /// Distinguishes it from an earlier call of the same id.
    number: u64,
    /// `None` until the call runs.
    abort: Option<AbortHandle>,
}

impl InFlight {
    /// Enters a call, which stays cancellable by its id until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, id: &Id) -> Result<CallGuard, Fault> {
        let refuse = |text| Err(Fault::new(Kind::InvalidRequest, text));
        let mut table = self.0.lock();
        if table.calls.contains_key(id) {
            return refuse("this id is in use by a request in flight");
        }
        if table.calls.len() >= IN_FLIGHT_MAX {
            return refuse("too many requests in flight");
        }
        if table.closed {
            return refuse("the session has ended");
        }
        table.begun += 1;
        let (number, abort) = (table.begun, None);
        table.calls.insert(id.clone(), Call { number, abort });
        Ok(CallGuard {
            in_flight: self.clone(),
            id: id.clone(),
            number,
        })
    }

    /// Cancels a call by dropping its future. Its id is free at once.
    pub(crate) fn cancel(&self, id: &Id) {
        let call = self.0.lock().remove(id);
        if let Some(abort) = call.and_then(|call| call.abort) {
            abort.abort();
        }
    }

    /// Cancels all calls; no other begins.
    pub(crate) fn close(&self) {
        let calls = {
            let mut table = self.0.lock();
            table.closed = true;
            table.idle = None;
            std::mem::take(&mut table.calls)
        };
        for abort in calls.into_values().filter_map(|call| call.abort) {
            abort.abort();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().calls.len()
    }

    /// Waits until no call is in flight. For one waiter at a time.
    pub(crate) async fn idle(&self) {
        let idle = {
            let mut table = self.0.lock();
            if table.calls.is_empty() {
                return;
            }
            let (last, idle) = oneshot::channel();
            table.idle = Some(last);
            idle
        };
        let _ = idle.await;
    }
}

impl Table {
    fn remove(&mut self, id: &Id) -> Option<Call> {
        let call = self.calls.remove(id);
        if self.calls.is_empty() {
            // Dropping the sender wakes the waiter.
            self.idle = None;
        }
        call
    }
}

/// One call's entry in the table.
pub(crate) struct CallGuard {
    in_flight: Arc<InFlight>,
    id: Id,
    number: u64,
}

impl CallGuard {
    /// Makes the work of the call, or of its next part, cancellable; `None` if the call was cancelled already.
    pub(crate) fn cancellable<W>(&self, work: W) -> Option<Abortable<W>> {
        let mut table = self.in_flight.0.lock();
        let call = table.calls.get_mut(&self.id)?;
        if call.number != self.number {
            return None;
        }
        let (abort, aborted) = AbortHandle::new_pair();
        call.abort = Some(abort);
        Some(Abortable::new(work, aborted))
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut table = self.in_flight.0.lock();
        // The id of a cancelled call may be in use again.
        let call = table.calls.get(&self.id);
        if call.is_some_and(|call| call.number == self.number) {
            table.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_cancelled_call_ends_and_its_id_is_free_at_once() {
        let in_flight = Arc::new(InFlight::default());
        let id = Id::from_number(1);
        let first = in_flight.begin(&id).expect("free");
        let work = first.cancellable(std::future::pending::<()>());
        assert!(in_flight.begin(&id).is_err(), "in use");
        in_flight.cancel(&id);
        work.expect("running").await.expect_err("cancelled");
        let second = in_flight.begin(&id).expect("free again");
        assert!(first.cancellable(()).is_none(), "cancelled before");
        drop(first);
        assert!(second.cancellable(()).is_some(), "another call");
        assert!(in_flight.idle().now_or_never().is_none());
        drop(second);
        in_flight.idle().await;
    }

    #[tokio::test]
    async fn a_closed_table_cancels_its_calls_and_begins_no_other() {
        let in_flight = Arc::new(InFlight::default());
        let call = in_flight.begin(&Id::from_number(1)).expect("free");
        in_flight.close();
        assert!(call.cancellable(()).is_none());
        assert!(in_flight.begin(&Id::from_number(2)).is_err());
    }
}
