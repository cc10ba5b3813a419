//! Keeps one child alive: the thin shell around the supervisor.
//!
//! [`Keeper`] is the handle that calls hold: it gives them the running session, or the reason why there is none. Its
//! task ([`Shell`]) owns the supervisor and the current process, performs the supervisor's actions, and ends when it
//! was stopped and no process is left; if the task is dropped, the process is killed.
//!
//! Not here: when a child is started or stopped (`super::supervisor`), one process from start to end
//! (`super::life`).

use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sentinel_core::{Fault, Health, Kind, Status};
use sentinel_wire::Revision;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::life::{Ended, Plan, Ready, live};
use super::session::ChildSession;
use super::supervisor::{self, Action, Admission, Event, Policy, Presence, Supervisor};

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
            Err(Fault::new(Kind::BackendTimeout, text))
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
        let mut fault = Fault::new(Kind::BackendUnavailable, text);
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

impl Shell {
    fn begun(mut self) -> Self {
        self.on(Event::Begin);
        // Nothing is remembered of a lazy backend that never ran: it must run once to be listed.
        if self.plan.lists && self.plan.publisher.offer().is_none() {
            self.plan.publisher.first_asked();
            self.on(Event::Wanted);
        }
        self
    }

    async fn run(mut self) {
        while !self.supervisor.is_over() {
            let woken = self.next().await;
            self.wake(woken);
        }
    }

    async fn next(&mut self) -> Woken {
        let wake_at = self.supervisor.next_wake();
        let time = async {
            match wake_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            stop = stopped(&mut self.stopping), if !self.asked_to_stop => { let () = stop; Woken::Stop }
            ready = arrived(&mut self.ready) => Woken::Ready(Box::new(ready)),
            Some(ended) = self.life.join_next() => Woken::Ended(ended.unwrap_or_else(|panic| Ended {
                served: false,
                why: format!("its task failed: {panic}"),
            })),
            ok = pinged(&mut self.ping) => Woken::Ping(ok),
            () = self.wanted.notified() => Woken::Wanted,
            Some(settled) = self.restarts.recv() => Woken::Restart(settled),
            () = time => Woken::Time,
        }
    }

    fn wake(&mut self, woken: Woken) {
        match woken {
            Woken::Wanted => self.on(Event::Wanted),
            Woken::Restart(settled) => {
                self.restarting.truncate(RESTARTS_MAX - 1);
                self.restarting.push(settled);
                self.on(Event::Restart);
            }
            Woken::Ready(ready) => self.up(*ready),
            Woken::Ended(ended) => self.down(ended),
            Woken::Ping(ok) => {
                self.ping = None;
                self.on(if ok { Event::Pong } else { Event::PingFailed });
            }
            Woken::Time => {
                let in_flight = self
                    .session
                    .as_ref()
                    .map_or(0, |session| session.calls_in_flight());
                let last_call = match &self.session {
                    _ if self.plan.is_followed() => Instant::now(),
                    Some(session) => session.last_call(),
                    None => self.spawned,
                };
                self.on(Event::Tick {
                    in_flight,
                    last_call,
                });
            }
            Woken::Stop => {
                self.asked_to_stop = true;
                self.facts.lock().health = Health::Down;
                self.on(Event::Stop);
            }
        }
    }

    fn up(&mut self, ready: Ready) {
        self.ready = None;
        let start_up = self.spawned.elapsed();
        let revision = ready.session.revision();
        tracing::info!(backend = %self.plan.name, %revision, start_up_ms = start_up.as_millis() as u64, "up");
        {
            let mut facts = self.facts.lock();
            facts.revision = Some(revision);
            facts.start_up = Some(start_up);
            facts.problem = None;
        }
        if let Some(offer) = ready.offer {
            // Calls made right after the publication wait until the child is up.
            self.phase.send_replace(Phase::Starting);
            self.plan.publisher.publish(offer);
            self.offer_known = true;
        }
        self.session = Some(ready.session);
        self.on(Event::Ready);
    }

    fn down(&mut self, ended: Ended) {
        let was_up = self.session.take().is_some();
        // The sender is consumed when the process is asked to end.
        self.died = self.end.take().is_some();
        (self.ready, self.ping) = (None, None);
        let why = &ended.why;
        if self.died {
            tracing::warn!(backend = %self.plan.name, was_up, "{why}");
            self.facts.lock().problem = Some(ended.why);
        } else {
            tracing::debug!(backend = %self.plan.name, "{why}");
        }
        self.on(Event::Exited {
            served: ended.served,
        });
        if self.died {
            self.come_back();
        }
    }

    /// Restarts a lazy child without a call if callers follow its resources.
    fn come_back(&self) {
        if let Some(at) = self
            .supervisor
            .sleeps_until()
            .filter(|_| self.plan.is_followed())
        {
            let wanted = self.wanted.clone();
            tokio::spawn(async move {
                sleep_until(at).await;
                wanted.notify_one();
            });
        }
    }

    fn on(&mut self, event: Event) {
        for action in self.supervisor.on(event, Instant::now()) {
            match action {
                Action::Spawn => self.spawn(),
                Action::End => drop(self.end.take().map(|end| end.send(()))),
                Action::Ping => {
                    self.ping = self
                        .session
                        .clone()
                        .map(|session| async move { session.ping().await }.boxed());
                }
                // Waiting calls see the phase that is set below.
                Action::FailWaiting => {}
                Action::Show(presence) => self.show(presence),
            }
        }
        self.set_phase();
    }

    fn spawn(&mut self) {
        let (ready, arriving) = oneshot::channel();
        let (end, ending) = oneshot::channel();
        (self.ready, self.end) = (Some(arriving), Some(end));
        self.spawned = Instant::now();
        self.life.spawn(live(self.plan.clone(), ready, ending));
        let mut facts = self.facts.lock();
        facts.restarts = facts
            .restarts
            .saturating_add(u32::from(std::mem::take(&mut self.died)));
        if facts.health == Health::Asleep {
            facts.health = Health::Starting;
        }
    }

    fn set_phase(&mut self) {
        let now = Instant::now();
        let phase = match self.supervisor.admit(now) {
            Admission::Go => self.session.clone().map_or(Phase::Starting, Phase::Up),
            Admission::Wait => Phase::Starting,
            Admission::Later { retry_after } => match self.supervisor.sleeps_until() {
                Some(not_before) => Phase::Asleep { not_before },
                None => Phase::Later {
                    at: now + retry_after,
                },
            },
            Admission::Never => Phase::Never,
        };
        self.phase.send_replace(phase);
        if self.supervisor.is_settled() {
            for settled in self.restarting.drain(..) {
                // The operator's connection may be closed.
                let _ = settled.send(());
            }
        }
    }

    fn show(&mut self, presence: Presence) {
        let (health, next_start) = match presence {
            Presence::Up => (Health::Up, None),
            Presence::Restarting { .. } => (Health::Failing, None),
            Presence::Asleep => (Health::Asleep, None),
            Presence::Out { next_start } => (Health::Down, next_start),
        };
        let before = {
            let mut facts = self.facts.lock();
            facts.next_start = next_start;
            std::mem::replace(&mut facts.health, health)
        };
        if let Some(at) = next_start {
            let next_start_s = at
                .saturating_duration_since(Instant::now())
                .as_secs_f32()
                .ceil();
            tracing::error!(backend = %self.plan.name, next_start_s, "given up after max_restarts: out of the catalog, started again later or by `sentinel restart {}`", self.plan.name);
        }
        if !self.plan.lists {
            return;
        }
        let publisher = &self.plan.publisher;
        match presence {
            // A new process has published its lists itself.
            Presence::Up if before == Health::Down && !std::mem::take(&mut self.offer_known) => {
                publisher.restore();
            }
            Presence::Up => self.offer_known = false,
            Presence::Restarting { .. } | Presence::Asleep => publisher.tried(),
            Presence::Out { .. } => publisher.withdraw(),
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that every handle was dropped, and with them every caller.
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn arrived(ready: &mut Option<oneshot::Receiver<Ready>>) -> Ready {
    let Some(receiver) = ready else {
        return pending().await;
    };
    match receiver.await {
        Ok(value) => value,
        // The process ended first, which is reported separately.
        Err(_) => {
            *ready = None;
            pending().await
        }
    }
}

async fn pinged(ping: &mut Option<BoxFuture<'static, bool>>) -> bool {
    match ping {
        Some(ping) => ping.await,
        None => pending().await,
    }
}
