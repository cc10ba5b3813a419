//! Admission: bounds on running and queued calls, and the refusal of the others.
//!
//! `Scheduler` decides; this module adds the clock, the error object and the hook. A call holds its permit in a
//! `PermitSlot`, which releases it while the call waits for its caller rather than for its backend.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::fault::{Fault, Kind};

mod scheduler;

pub use scheduler::{Bounds, Figures, Prospect, Reason, Refused, RoomFigures};
use scheduler::{Entry, Scheduler, State};

/// `retry_after` of refusals; a queue usually moves in less.
const RETRY_AFTER_MS: u64 = 1000;
/// Minimum interval between log lines about overloads.
const LOG_EVERY_MS: u64 = 1000;

type Permit = scheduler::Permit<Mutex<State>>;

#[derive(Clone, Debug)]
pub struct AdmissionConfig {
    pub bounds: Bounds,
    pub queue_timeout: Duration,
    /// For callers up to 2025-11-25.
    pub overload_error_code: i32,
    /// One per backend, in the order of the configuration.
    pub backends: Vec<Bounds>,
}

/// One overload, as passed to the hook.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    pub refused: Refused,
    pub queue_timeout_ms: u64,
}

impl Overload {
    /// When to try again.
    pub const RETRY_AFTER_MS: u64 = RETRY_AFTER_MS;

    /// The six members that say what happened.
    pub fn members(&self) -> String {
        let Refused {
            reason,
            active,
            queued,
            bounds,
        } = self.refused;
        format!(
            r#""reason":"{}","active":{active},"queued":{queued},"max_concurrent":{},"queue_size":{},"queue_timeout_ms":{}"#,
            reason.as_str(),
            bounds.max_concurrent,
            bounds.queue_size,
            self.queue_timeout_ms,
        )
    }
}

/// Called on each overload; must not wait.
pub type Hook = Box<dyn Fn(&Overload) + Send + Sync>;

/// How overloads are reported.
struct OverloadReporting {
    queue_timeout: Duration,
    code: i32,
    hook: Option<Hook>,
}

impl OverloadReporting {
    fn new(config: &AdmissionConfig, hook: Option<Hook>) -> Self {
        Self {
            queue_timeout: config.queue_timeout,
            code: config.overload_error_code,
            hook,
        }
    }
}

pub struct Admission {
    scheduler: Arc<Scheduler<Mutex<State>>>,
    reporting: ArcSwap<OverloadReporting>,
    began: Instant,
    /// When an overload was last logged, in milliseconds since then, plus one.
    logged_ms: AtomicU64,
    unlogged: AtomicU64,
}

impl Admission {
    pub fn new(config: &AdmissionConfig, hook: Option<Hook>) -> Arc<Self> {
        Arc::new(Self {
            scheduler: Scheduler::new(config.bounds, config.backends.iter().copied()),
            reporting: ArcSwap::from_pointee(OverloadReporting::new(config, hook)),
            began: Instant::now(),
            logged_ms: AtomicU64::new(0),
            unlogged: AtomicU64::new(0),
        })
    }

    /// Replaces the bounds for calls that arrive from now on; `places` gives the registry index of each configured
    /// backend. Running and queued calls stay.
    pub fn reconfigure(&self, config: &AdmissionConfig, places: &[usize], hook: Option<Hook>) {
        self.reporting
            .store(Arc::new(OverloadReporting::new(config, hook)));
        let rooms = places.iter().copied().zip(config.backends.iter().copied());
        self.scheduler.reconfigure(config.bounds, rooms);
    }

    /// Waits for a permit; a fault if the queue is full or the wait too long.
    async fn admit(&self, subject: &Arc<str>, backend: usize) -> Result<Permit, Fault> {
        match self.scheduler.enter(subject, backend) {
            Ok(Entry::Now(permit)) => Ok(permit),
            Ok(Entry::Wait(mut ticket)) => {
                let patience = self.reporting.load().queue_timeout;
                tokio::select! {
                    biased;
                    given = &mut ticket => given.map_err(|refused| self.overloaded(refused)),
                    () = tokio::time::sleep(patience) => {
                        ticket.give_up().map_err(|refused| self.overloaded(refused))
                    }
                }
            }
            Err(refused) => Err(self.overloaded(refused)),
        }
    }

    /// Waits for a permit without a time limit.
    async fn admit_again(&self, subject: &Arc<str>, backend: usize) -> Permit {
        match self.scheduler.enter_again(subject, backend) {
            Entry::Now(permit) => permit,
            Entry::Wait(mut ticket) => {
                let granted = (&mut ticket).await;
                granted.expect("a call that returns makes room for nobody")
            }
        }
    }

    fn overloaded(&self, refused: Refused) -> Fault {
        let reporting = self.reporting.load();
        let overload = Overload {
            refused,
            queue_timeout_ms: reporting.queue_timeout.as_millis() as u64,
        };
        self.log(&overload);
        if let Some(hook) = &reporting.hook {
            hook(&overload);
        }
        Fault::new(Kind::Overloaded, "SERVER_OVERLOADED")
            .legacy_code(reporting.code)
            .retry_after_ms(RETRY_AFTER_MS)
            .with_data(overload.members())
    }

    fn log(&self, overload: &Overload) {
        let now = self.began.elapsed().as_millis() as u64 + 1;
        let last = self.logged_ms.load(Ordering::Relaxed);
        let due = last == 0 || now >= last + LOG_EVERY_MS;
        if due
            && self
                .logged_ms
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            let others = self.unlogged.swap(0, Ordering::Relaxed);
            tracing::warn!(
                reason = overload.refused.reason.as_str(),
                active = overload.refused.active,
                queued = overload.refused.queued,
                others,
                "overloaded: a call was refused"
            );
        } else {
            self.unlogged.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn figures(&self) -> Figures {
        self.scheduler.figures()
    }

    /// How many calls may run at once.
    pub fn max_concurrent(&self) -> u32 {
        self.scheduler.bounds().max_concurrent
    }

    /// Running and queued at one backend.
    pub fn backend(&self, index: usize) -> RoomFigures {
        self.scheduler.room(index)
    }

    /// What a new call of this backend would find.
    pub fn prospect(&self, index: usize) -> Prospect {
        self.scheduler.prospect(index)
    }

    /// How long a call may wait in the queue.
    pub fn queue_timeout(&self) -> Duration {
        self.reporting.load().queue_timeout
    }
}

/// Holds a call's permit. Clones share the slot.
#[derive(Clone, Default)]
pub struct PermitSlot(Arc<SlotState>);

#[derive(Default)]
struct SlotState {
    permit: Mutex<Option<Permit>>,
    claim: Mutex<Option<Admitted>>,
    /// Set aside by the surface: the call must not be polled before it has a permit again.
    parked: AtomicBool,
    /// Unanswered questions to the caller.
    open_questions: AtomicUsize,
}

#[derive(Clone)]
struct Admitted {
    admission: Arc<Admission>,
    subject: Arc<str>,
    backend: usize,
}

impl std::fmt::Debug for PermitSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PermitSlot")
    }
}

impl PermitSlot {
    /// Runs a call's work once it has a permit, and releases the permit while the call is parked.
    pub(crate) async fn run<T, W: Future<Output = Result<T, Fault>>>(
        &self,
        admission: &Arc<Admission>,
        subject: &Arc<str>,
        backend: usize,
        begin: impl FnOnce() -> W,
    ) -> Result<T, Fault> {
        let permit = admission.admit(subject, backend).await?;
        *self.0.claim.lock() = Some(Admitted {
            admission: admission.clone(),
            subject: subject.clone(),
            backend,
        });
        *self.0.permit.lock() = Some(permit);
        let _release = ReleaseOnDrop(self);
        let mut work = pin!(begin());
        loop {
            let parked = &self.0.parked;
            let step = std::future::poll_fn(|cx| {
                if parked.load(Ordering::Acquire) {
                    return std::task::Poll::Ready(None);
                }
                work.as_mut().poll(cx).map(Some)
            });
            match step.await {
                Some(outcome) => return outcome,
                None => {
                    self.resume().await?;
                    parked.store(false, Ordering::Release);
                }
            }
        }
    }

    /// The call waits for its caller and is not polled meanwhile: its permit is released, and its next step takes
    /// another.
    pub fn park(&self) {
        if self.set_aside() {
            self.0.parked.store(true, Ordering::Release);
        }
    }

    /// For a backend that waits for something else in the middle of a call: releases the permit, true if there was
    /// one. `resume` before going on.
    pub fn set_aside(&self) -> bool {
        let permit = self.0.permit.lock().take();
        permit.is_some()
    }

    /// Takes a permit again, queued with other calls but never refused, since the call was admitted before. No effect
    /// if it had none.
    pub async fn resume(&self) -> Result<(), Fault> {
        let claim = self.0.claim.lock().clone();
        if let Some(Admitted {
            admission,
            subject,
            backend,
        }) = claim
        {
            let permit = admission.admit_again(&subject, backend).await;
            *self.0.permit.lock() = Some(permit);
        }
        Ok(())
    }

    /// A question to the caller begins: the permit is released meanwhile. The call is still polled, since its backend
    /// may send more.
    pub(crate) fn ask(&self) -> OpenQuestion {
        if self.0.open_questions.fetch_add(1, Ordering::AcqRel) == 0 {
            self.set_aside();
        }
        OpenQuestion(self.clone())
    }
}

/// An open question. If it is dropped unanswered (withdrawn by the backend), the call goes on without a permit until
/// the next question.
pub(crate) struct OpenQuestion(PermitSlot);

impl OpenQuestion {
    /// Ends the question; after the last open one the call takes a permit again.
    pub(crate) async fn answered(self) {
        let slot = self.0.clone();
        drop(self);
        let is_last = slot.0.open_questions.load(Ordering::Acquire) == 0;
        if is_last && !slot.0.parked.load(Ordering::Acquire) {
            let _ = slot.resume().await;
        }
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.0.open_questions.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Releases the permit however the call ends.
struct ReleaseOnDrop<'a>(&'a PermitSlot);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.0.claim.lock().take();
        let permit = self.0.0.permit.lock().take();
        drop(permit);
    }
}

#[cfg(test)]
mod tests;
