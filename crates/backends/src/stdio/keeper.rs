//! Keeps one child alive: the thin shell around the supervisor.
//!
//! [`Keeper`] is the handle that calls hold: it gives them the running session, or the reason why there is none. Its
//! task ([`Shell`]) owns the supervisor and the current process, performs the supervisor's actions, and ends when it
//! was stopped and no process is left; if the task is dropped, the process is killed.
//!
//! Not here: when a child is started or stopped (`super::supervisor`), one process from start to end
//! (`super::life`).

mod shell;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sentinel_core::backend::OutputLog;
use sentinel_core::{Fault, Health, Kind, Status};
use sentinel_wire::Revision;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::life::{Ended, Plan, Ready};
use super::session::ChildSession;
use super::supervisor::{self, Policy, Supervisor};

/// Restarts that are requested and not begun, and those that wait for completion.
const RESTARTS_MAX: usize = 8;

/// One child, as its callers see it.
pub(crate) struct Keeper {
    name: Arc<str>,
    phase: watch::Receiver<Phase>,
    wanted: Arc<Notify>,
    /// Replied to when the child is up or has failed.
    restart: mpsc::Sender<oneshot::Sender<()>>,
    stop: watch::Sender<bool>,
    facts: Arc<Mutex<Facts>>,
    plan: Arc<Plan>,
}

/// What a call sees of the child.
#[derive(Clone)]
enum Phase {
    /// Not running; a call may start it from `not_before` on.
    Asleep {
        not_before: Instant,
    },
    /// Calls wait for it.
    Starting,
    Up(Arc<ChildSession>),
    /// Restarting, or given up; the time of the next start.
    Later {
        at: Instant,
    },
    Never,
}

/// The status for operators.
struct Facts {
    /// The next start of a child that was given up.
    next_start: Option<Instant>,
    health: Health,
    revision: Option<Revision>,
    start_up: Option<Duration>,
    restarts: u32,
    problem: Option<String>,
}

impl Keeper {
    /// Starts keeping the child, in a task of the current runtime.
    pub(crate) fn begin(plan: Arc<Plan>, policy: Policy) -> Self {
        let now = Instant::now();
        let (phase, seen) = watch::channel(Phase::Asleep { not_before: now });
        let (stop, stopping) = watch::channel(false);
        let (restart, restarts) = mpsc::channel(RESTARTS_MAX);
        let wanted = Arc::new(Notify::new());
        let facts = Arc::new(Mutex::new(Facts {
            next_start: None,
            health: if policy.lazy {
                Health::Asleep
            } else {
                Health::Starting
            },
            revision: None,
            start_up: None,
            restarts: 0,
            problem: None,
        }));
        let shell = Shell {
            supervisor: Supervisor::new(policy, RandomState::new().hash_one(now), now),
            plan: plan.clone(),
            phase,
            wanted: wanted.clone(),
            restarts,
            restarting: Vec::new(),
            stopping,
            facts: facts.clone(),
            life: JoinSet::new(),
            ready: None,
            end: None,
            session: None,
            offer_known: false,
            ping: None,
            spawned: now,
            asked_to_stop: false,
            died: false,
        };
        // The first actions run before the handle exists, so that a call made at once waits for an eager start.
        tokio::spawn(shell.begun().run());
        Self {
            name: plan.name.clone(),
            phase: seen,
            wanted,
            restart,
            stop,
            facts,
            plan,
        }
    }

    /// The session with the running child. Starts a sleeping child; waits for a first start until `deadline`, but not
    /// for a restart.
    pub(crate) async fn session(&self, deadline: Instant) -> Result<Arc<ChildSession>, Fault> {
        if let Phase::Up(session) = &*self.phase.borrow() {
            return Ok(session.clone());
        }
        timeout_at(deadline, self.wait()).await.unwrap_or_else(|_| {
            let text = format!("backend `{}` did not start in time", self.name);
            Err(Fault::new(Kind::BackendTimeout, text).not_run())
        })
    }

    async fn wait(&self) -> Result<Arc<ChildSession>, Fault> {
        let mut phase = self.phase.clone();
        loop {
            let now = Instant::now();
            match phase.borrow_and_update().clone() {
                Phase::Up(session) => return Ok(session),
                Phase::Starting => {}
                Phase::Asleep { not_before } if not_before <= now => self.wanted.notify_one(),
                Phase::Asleep { not_before: at } | Phase::Later { at } => {
                    return Err(self.unavailable(Some(at.saturating_duration_since(now))));
                }
                Phase::Never => return Err(self.unavailable(None)),
            }
            if phase.changed().await.is_err() {
                return Err(self.unavailable(None));
            }
        }
    }

    /// For a call that found the session closed before the end of the process was reported.
    pub(crate) fn ending(&self) -> Fault {
        self.unavailable(Some(supervisor::SOON))
    }

    fn unavailable(&self, retry_after: Option<Duration>) -> Fault {
        let name = &self.name;
        let text = match retry_after {
            Some(_) if self.facts.lock().health == Health::Down => {
                format!("backend `{name}` keeps failing; it is started again later")
            }
            Some(_) => format!("backend `{name}` is restarting; try again shortly"),
            None => format!("backend `{name}` is not running"),
        };
        let mut fault = Fault::new(Kind::BackendUnavailable, text).not_run();
        if let Some(after) = retry_after {
            let after = after.max(supervisor::SOON);
            // Not counted by the circuit breaker, which would keep callers from the new child after it is up.
            fault = fault.retry_after_ms(after.as_millis() as u64).unheard();
        }
        match self.facts.lock().problem.clone() {
            Some(problem) => fault.because(problem),
            None => fault,
        }
    }

    /// Restarts at once, ending the running process; returns when the new one is up or has failed.
    pub(crate) fn restart(self: &Arc<Self>) -> BoxFuture<'static, Result<(), Fault>> {
        let keeper = self.clone();
        async move {
            let (settled, settling) = oneshot::channel();
            if keeper.restart.send(settled).await.is_ok() {
                let _ = settling.await;
            }
            let at = match &*keeper.phase.borrow() {
                Phase::Up(_) => return Ok(()),
                Phase::Later { at } | Phase::Asleep { not_before: at } => Some(*at),
                Phase::Starting | Phase::Never => None,
            };
            let left = at.map(|at| at.saturating_duration_since(Instant::now()));
            Err(keeper.unavailable(left))
        }
        .boxed()
    }

    /// Tells a running legacy child that its caller's roots changed; one that starts later asks for them.
    pub(crate) fn tell_roots_changed(&self) {
        if let Phase::Up(session) = &*self.phase.borrow() {
            session.roots_changed();
        }
    }

    /// Whether it can be ended unnoticed: no call in flight, and no resource followed.
    pub(crate) fn is_idle(&self) -> bool {
        let works = match &*self.phase.borrow() {
            Phase::Up(session) => session.calls_in_flight() > 0,
            Phase::Starting => true,
            _ => false,
        };
        !works && !self.plan.is_followed()
    }

    pub(crate) fn output(&self) -> Arc<OutputLog> {
        self.plan.output_tail.log().clone()
    }

    pub(crate) fn status(&self) -> Status {
        let facts = self.facts.lock();
        Status {
            health: facts.health,
            retry_in: facts
                .next_start
                .map(|at| at.saturating_duration_since(Instant::now())),
            revision: facts.revision,
            start_up: facts.start_up,
            restarts: facts.restarts,
            problem: facts.problem.clone(),
            stderr: self.plan.output_tail.lines(),
            notices: Vec::new(),
        }
    }

    /// Ends the child for good; returns when all its processes are gone.
    pub(crate) fn stop(&self) -> BoxFuture<'static, ()> {
        self.stop.send_replace(true);
        let mut phase = self.phase.clone();
        // The task's end drops the sender.
        async move { while phase.changed().await.is_ok() {} }.boxed()
    }
}

/// The task that keeps the child.
struct Shell {
    supervisor: Supervisor,
    plan: Arc<Plan>,
    phase: watch::Sender<Phase>,
    wanted: Arc<Notify>,
    restarts: mpsc::Receiver<oneshot::Sender<()>>,
    /// Replies for the restart under way; at most [`RESTARTS_MAX`].
    restarting: Vec<oneshot::Sender<()>>,
    stopping: watch::Receiver<bool>,
    facts: Arc<Mutex<Facts>>,
    /// The current process; at most one. Dropping the set kills it.
    life: JoinSet<Ended>,
    ready: Option<oneshot::Receiver<Ready>>,
    end: Option<oneshot::Sender<()>>,
    session: Option<Arc<ChildSession>>,
    offer_known: bool,
    ping: Option<BoxFuture<'static, bool>>,
    spawned: Instant,
    asked_to_stop: bool,
    /// The last process ended without having been stopped.
    died: bool,
}

/// What woke the shell.
enum Woken {
    Wanted,
    Restart(oneshot::Sender<()>),
    Ready(Box<Ready>),
    Ended(Ended),
    Ping(bool),
    Time,
    Stop,
}
