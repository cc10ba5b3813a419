//! Admission: how many calls run at once, how many wait, and what the others are told.
//!
//! `Scheduler` decides; here are the clock, the error object and the hook. A call holds its permit in
//! a `Slot`, which gives it back while the call waits for somebody rather than for its backend.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::fault::{Fault, Kind};

mod scheduler;

pub use scheduler::{Bounds, Figures, Reason, Refused};
use scheduler::{Entry, Scheduler, State};

/// What callers are told to wait; a queue moves in less.
const RETRY_AFTER_MS: u64 = 1000;
/// Overloads are logged this often at most.
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

/// One overload, for the hook.
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

/// What is said to those who wait or are refused.
struct Manners {
    queue_timeout: Duration,
    code: i32,
    hook: Option<Hook>,
}

impl Manners {
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
    manners: ArcSwap<Manners>,
    began: Instant,
    /// When an overload was last logged, in milliseconds since then, plus one.
    logged_ms: AtomicU64,
    unlogged: AtomicU64,
}

impl Admission {
    pub fn new(config: &AdmissionConfig, hook: Option<Hook>) -> Arc<Self> {
        Arc::new(Self {
            scheduler: Scheduler::new(config.bounds, config.backends.iter().copied()),
            manners: ArcSwap::from_pointee(Manners::new(config, hook)),
            began: Instant::now(),
            logged_ms: AtomicU64::new(0),
            unlogged: AtomicU64::new(0),
        })
    }

    /// New bounds, in force for every call that comes from now on; `places` says where each of the
    /// configured backends is. Calls that run or wait stay.
    pub fn reconfigure(&self, config: &AdmissionConfig, places: &[usize], hook: Option<Hook>) {
        self.manners.store(Arc::new(Manners::new(config, hook)));
        let rooms = places.iter().copied().zip(config.backends.iter().copied());
        self.scheduler.reconfigure(config.bounds, rooms);
    }

    /// Waits for a place; a fault when there is none to wait for, or not in time.
    async fn admit(&self, subject: &Arc<str>, backend: usize) -> Result<Permit, Fault> {
        match self.scheduler.enter(subject, backend) {
            Ok(Entry::Now(permit)) => Ok(permit),
            Ok(Entry::Wait(mut ticket)) => {
                let patience = self.manners.load().queue_timeout;
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

    /// Waits for a place for as long as it takes.
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
        let manners = self.manners.load();
        let overload = Overload {
            refused,
            queue_timeout_ms: manners.queue_timeout.as_millis() as u64,
        };
        self.log(&overload);
        if let Some(hook) = &manners.hook {
            hook(&overload);
        }
        Fault::new(Kind::Overloaded, "SERVER_OVERLOADED")
            .legacy_code(manners.code)
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

    /// Running and queued at one backend.
    pub fn backend(&self, index: usize) -> (u32, u32) {
        self.scheduler.room(index)
    }
}

/// Where a call holds its permit. Clones are the same slot.
#[derive(Clone, Default)]
pub struct Slot(Arc<Place>);

#[derive(Default)]
struct Place {
    permit: Mutex<Option<Permit>>,
    claim: Mutex<Option<Claim>>,
    /// Set aside from outside: not to be driven before it has a permit again.
    parked: AtomicBool,
    /// Questions of the call that its caller has not answered yet.
    asking: AtomicUsize,
}

#[derive(Clone)]
struct Claim {
    admission: Arc<Admission>,
    subject: Arc<str>,
    backend: usize,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slot")
    }
}

impl Slot {
    /// Begins a call's work once there is a permit, and drives it while holding that; it gives it
    /// back while the call is parked.
    pub(crate) async fn run<T, W: Future<Output = Result<T, Fault>>>(
        &self,
        admission: &Arc<Admission>,
        subject: &Arc<str>,
        backend: usize,
        begin: impl FnOnce() -> W,
    ) -> Result<T, Fault> {
        let permit = admission.admit(subject, backend).await?;
        *self.0.claim.lock() = Some(Claim {
            admission: admission.clone(),
            subject: subject.clone(),
            backend,
        });
        *self.0.permit.lock() = Some(permit);
        let _emptied = Emptied(self);
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

    /// The caller is being waited for, and nothing runs meanwhile: the permit goes back, and the call
    /// takes another before its next step.
    pub fn park(&self) {
        if self.set_aside() {
            self.0.parked.store(true, Ordering::Release);
        }
    }

    /// For a backend that waits for somebody in the middle of a call: gives the permit back, true if
    /// there was one. Before going on: `resume`.
    pub fn set_aside(&self) -> bool {
        let permit = self.0.permit.lock().take();
        permit.is_some()
    }

    /// Takes a permit again, in turn with other calls but never refused: the call was admitted once.
    /// Nothing if there never was one.
    pub async fn resume(&self) -> Result<(), Fault> {
        let claim = self.0.claim.lock().clone();
        if let Some(Claim {
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

    /// The caller is asked something: its time to think is nobody's place. The call is driven on, for
    /// its backend may have more to say.
    pub(crate) fn ask(&self) -> Asking {
        if self.0.asking.fetch_add(1, Ordering::AcqRel) == 0 {
            self.set_aside();
        }
        Asking(self.clone())
    }
}

/// A question that waits for its answer. Dropped without one (its backend withdrew it), the call goes
/// on without a place until the next.
pub(crate) struct Asking(Slot);

impl Asking {
    /// It was answered, or nobody will; the last answer takes a permit again before it goes on.
    pub(crate) async fn answered(self) {
        let slot = self.0.clone();
        drop(self);
        let is_last = slot.0.asking.load(Ordering::Acquire) == 0;
        if is_last && !slot.0.parked.load(Ordering::Acquire) {
            let _ = slot.resume().await;
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.0.asking.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Gives the permit back however the call ends.
struct Emptied<'a>(&'a Slot);

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        self.0.0.claim.lock().take();
        let permit = self.0.0.permit.lock().take();
        drop(permit);
    }
}

#[cfg(test)]
mod tests;
