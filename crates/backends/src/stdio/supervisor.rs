//! Decides when one child is started, restarted, pinged and stopped. Pure: no process, no clock, no I/O.
//!
//! The shell around it (`super::keeper`) reports every [`Event`] with the time it happened, does every
//! [`Action`] in the order given, and calls again with [`Event::Tick`] at [`Supervisor::next_wake`]. There
//! is at most one process at a time: `Spawn` is only ever asked for after the last one was reported gone.
//!
//! Not here: the numbers (`Policy` comes from the configuration), pending calls (`super::pipe`), the
//! handshake (`super::life`).

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Pause before the first restart: long enough for a port or lock of the dead child to be released, and short enough
/// that with a handshake of half a second the backend is back within two seconds.
const FIRST_RESTART: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_millis(250));
/// Shortest `retry_after` given to callers: even a start under way takes a moment.
pub(super) const SOON: Duration = FIRST_RESTART.1;
/// Restart backoff: doubles from `BACKOFF_MIN` to `BACKOFF_MAX`.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Backoff once `max_restarts` is used up. It goes on for ever, so that a repaired program comes back.
const GIVEN_UP_MIN: Duration = Duration::from_secs(5);
const GIVEN_UP_MAX: Duration = Duration::from_secs(300);
/// Bound on automatic starts, whatever the backoff allows.
const STARTS_PER_MINUTE: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Time in operation after which earlier restarts are forgotten.
const HEALTHY_AGAIN: Duration = MINUTE;
/// Ping interval of a child that stopped answering.
const PING_AGAIN: Duration = Duration::from_secs(1);

/// What the configuration says about one child.
#[derive(Debug, Clone)]
pub struct Policy {
    pub restart_on_exit: bool,
    /// Restarts in a row after which it leaves the catalog and is tried rarely; `None` is no limit.
    pub max_restarts: Option<u32>,
    /// Started by the first call instead of at once.
    pub lazy: bool,
    /// Stopped after this time without a call.
    pub idle_stop: Option<Duration>,
    pub ping_interval: Option<Duration>,
    /// Failed pings in a row after which it is out of the catalog.
    pub unhealthy_after: u32,
}

/// Input of the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The backend is built.
    Begin,
    /// An operator requests a restart, whatever the state.
    Restart,
    /// A call needs the child.
    Wanted,
    /// Started, initialized, its lists read.
    Ready,
    /// The process ended, or could not be started. `served`: it had answered a call.
    Exited {
        served: bool,
    },
    Pong,
    PingFailed,
    /// Time passed. `last_call` is when the newest call began or ended.
    Tick {
        in_flight: usize,
        last_call: Instant,
    },
    /// The gateway ends, or the backend was removed from the configuration.
    Stop,
}

/// Output of the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Spawn,
    /// Close its input, then signal it; `Exited` follows.
    End,
    Ping,
    /// Calls that wait for a start must fail now.
    FailWaiting,
    Show(Presence),
}

/// The backend's state in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Listed and served.
    Up,
    /// Listed; calls fail until about then.
    Restarting { until: Instant },
    /// Listed; the next call starts it.
    Asleep,
    /// Not listed until it recovers. `next_start`: the next start of a child that was given up.
    Out { next_start: Option<Instant> },
}

/// What a call may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Go,
    /// A start is under way or due: wait for `Ready` or `FailWaiting`.
    Wait,
    /// Refused; try again after this time.
    Later {
        retry_after: Duration,
    },
    /// Stopped, or ended with `restart_on_exit = false`.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No process, and none needed. Not started again before `not_before`.
    Asleep {
        not_before: Instant,
    },
    /// `patient`: calls wait for it. After a crash they are refused at once instead.
    Starting {
        patient: bool,
    },
    Operational {
        since: Instant,
    },
    Backoff {
        until: Instant,
    },
    /// The process was asked to end; `then` follows its exit.
    Ending {
        then: AfterStop,
    },
    /// It ended and `restart_on_exit` is false.
    Down,
    /// Stopped for good.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterStop {
    Sleep,
    /// As after a crash, with backoff.
    Restart,
    /// At once, with the restart counters reset.
    StartAnew,
    Over,
}

/// The state of one child.
#[derive(Debug)]
pub struct Supervisor {
    policy: Policy,
    state: State,
    /// Restarts since it last ran long enough to be healthy, against `max_restarts`.
    restarts: u32,
    /// Processes in a row that answered no call: the exponent of the backoff.
    fruitless: u32,
    /// Recent starts; at most [`STARTS_PER_MINUTE`] entries.
    starts: VecDeque<Instant>,
    pings_failed: u32,
    ping_at: Option<Instant>,
    idle_at: Option<Instant>,
    jitter: Jitter,
}

impl Supervisor {
    /// `seed` spreads the restarts of children that died together.
    pub fn new(policy: Policy, seed: u64, now: Instant) -> Self {
        Self {
            policy,
            state: State::Asleep { not_before: now },
            restarts: 0,
            fruitless: 0,
            starts: VecDeque::with_capacity(STARTS_PER_MINUTE),
            pings_failed: 0,
            ping_at: None,
            idle_at: None,
            jitter: Jitter(seed | 1),
        }
    }

    /// What a call may do now. Report [`Event::Wanted`] first.
    pub fn admit(&self, now: Instant) -> Admission {
        match self.state {
            // Unlisted, and about to answer or to be replaced.
            State::Operational { .. } if self.is_unhealthy() => Admission::Later {
                retry_after: PING_AGAIN,
            },
            State::Operational { .. } => Admission::Go,
            // A child that is being stopped for idleness is started again as soon as it has ended.
            State::Starting { patient: true }
            | State::Ending {
                then: AfterStop::Sleep,
            } => Admission::Wait,
            State::Starting { patient: false } => Admission::Later { retry_after: SOON },
            State::Backoff { until } | State::Asleep { not_before: until } => {
                let left = until.saturating_duration_since(now);
                Admission::Later {
                    retry_after: left.max(SOON),
                }
            }
            State::Ending {
                then: AfterStop::Over,
            }
            | State::Down
            | State::Over => Admission::Never,
            State::Ending { .. } => Admission::Later { retry_after: SOON },
        }
    }

    /// When a call may start it, if it sleeps.
    pub fn sleeps_until(&self) -> Option<Instant> {
        match self.state {
            State::Asleep { not_before } => Some(not_before),
            _ => None,
        }
    }

    /// When [`Event::Tick`] is due next.
    pub fn next_wake(&self) -> Option<Instant> {
        match self.state {
            State::Backoff { until } => Some(until),
            State::Operational { .. } => self.ping_at.into_iter().chain(self.idle_at).min(),
            _ => None,
        }
    }

    /// No process is starting or ending.
    pub fn is_settled(&self) -> bool {
        !matches!(self.state, State::Starting { .. } | State::Ending { .. })
    }

    /// Stopped for good, and no process is left.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Handles an event and returns the actions to perform.
    pub fn on(&mut self, event: Event, now: Instant) -> Vec<Action> {
        match event {
            Event::Begin => self.begin(now),
            Event::Restart => self.restart(now),
            Event::Wanted => self.wanted(now),
            Event::Ready => self.ready(now),
            Event::Exited { served } => self.gone(served, now),
            Event::Pong => self.pong(now),
            Event::PingFailed => self.ping_failed(now),
            Event::Tick {
                in_flight,
                last_call,
            } => self.tick(in_flight, last_call, now),
            Event::Stop => self.stop(),
        }
    }

    fn begin(&mut self, now: Instant) -> Vec<Action> {
        match self.state {
            State::Asleep { .. } if self.policy.lazy => vec![Action::Show(Presence::Asleep)],
            State::Asleep { .. } => self.spawn(true, now),
            _ => vec![],
        }
    }

    fn restart(&mut self, now: Instant) -> Vec<Action> {
        let then = AfterStop::StartAnew;
        match self.state {
            State::Asleep { .. } | State::Backoff { .. } | State::Down => self.start_anew(now),
            State::Starting { .. } | State::Operational { .. } => {
                self.state = State::Ending { then };
                let restarting = Presence::Restarting { until: now };
                vec![Action::Show(restarting), Action::End]
            }
            State::Ending {
                then: AfterStop::Over,
            }
            | State::Over => vec![],
            State::Ending { .. } => {
                self.state = State::Ending { then };
                vec![]
            }
        }
    }

    fn start_anew(&mut self, now: Instant) -> Vec<Action> {
        self.restarts = 0;
        self.fruitless = 0;
        self.spawn(true, now)
    }

    fn wanted(&mut self, now: Instant) -> Vec<Action> {
        match self.state {
            State::Asleep { not_before } if not_before <= now => self.spawn(true, now),
            _ => vec![],
        }
    }

    fn spawn(&mut self, patient: bool, now: Instant) -> Vec<Action> {
        if self.starts.len() == STARTS_PER_MINUTE {
            self.starts.pop_front();
        }
        self.starts.push_back(now);
        self.state = State::Starting { patient };
        vec![Action::Spawn]
    }

    fn ready(&mut self, now: Instant) -> Vec<Action> {
        let State::Starting { .. } = self.state else {
            return vec![];
        };
        self.state = State::Operational { since: now };
        self.pings_failed = 0;
        self.ping_at = self.policy.ping_interval.map(|interval| now + interval);
        self.idle_at = self.policy.idle_stop.map(|idle| now + idle);
        vec![Action::Show(Presence::Up)]
    }

    fn gone(&mut self, served: bool, now: Instant) -> Vec<Action> {
        let was = self.state;
        let mut actions = vec![Action::FailWaiting];
        match was {
            State::Ending {
                then: AfterStop::Over,
            } => self.state = State::Over,
            State::Ending {
                then: AfterStop::Sleep,
            } => {
                self.state = State::Asleep {
                    not_before: self.earliest(now),
                };
            }
            State::Ending {
                then: AfterStop::StartAnew,
            } => actions.extend(self.start_anew(now)),
            State::Starting { .. } | State::Operational { .. } | State::Ending { .. } => {
                actions.push(Action::Show(self.plan_restart(was, served, now)));
            }
            // There was no process.
            State::Asleep { .. } | State::Backoff { .. } | State::Down | State::Over => {}
        }
        actions
    }

    /// Chooses between another start, sleep and giving up.
    fn plan_restart(&mut self, was: State, served: bool, now: Instant) -> Presence {
        let healthy = matches!(was, State::Operational { since } if now - since >= HEALTHY_AGAIN);
        if healthy {
            self.restarts = 0;
        }
        if healthy || served {
            self.fruitless = 0;
        }
        if !self.policy.restart_on_exit {
            self.state = State::Down;
            return Presence::Out { next_start: None };
        }
        let max = self.policy.max_restarts;
        let given_up = max.is_some_and(|max| self.restarts >= max);
        let until = (now + self.backoff(given_up)).max(self.earliest(now));
        self.restarts = self.restarts.saturating_add(1);
        self.fruitless = self.fruitless.saturating_add(1);
        if given_up {
            // Timed even if lazy: an unlisted backend gets no calls that could start it.
            self.state = State::Backoff { until };
            let next_start = Some(until);
            Presence::Out { next_start }
        } else if self.policy.lazy {
            self.state = State::Asleep { not_before: until };
            Presence::Asleep
        } else {
            self.state = State::Backoff { until };
            Presence::Restarting { until }
        }
    }

    fn backoff(&mut self, given_up: bool) -> Duration {
        let doublings = self.fruitless.checked_sub(1);
        if doublings.is_none() && !given_up {
            let (low, high) = FIRST_RESTART;
            return low + (high - low).mul_f64(self.jitter.next());
        }
        let full = BACKOFF_MIN.saturating_mul(1 << doublings.unwrap_or_default().min(16));
        let full = match given_up {
            true => full.clamp(GIVEN_UP_MIN, GIVEN_UP_MAX),
            false => full.min(BACKOFF_MAX),
        };
        full.mul_f64(0.5 + 0.5 * self.jitter.next())
    }

    /// The earliest time at which one more start keeps within [`STARTS_PER_MINUTE`].
    fn earliest(&self, now: Instant) -> Instant {
        match self.starts.front() {
            Some(oldest) if self.starts.len() == STARTS_PER_MINUTE => now.max(*oldest + MINUTE),
            _ => now,
        }
    }

    fn is_unhealthy(&self) -> bool {
        self.pings_failed >= self.policy.unhealthy_after
    }

    fn pong(&mut self, now: Instant) -> Vec<Action> {
        let State::Operational { since } = self.state else {
            return vec![];
        };
        let was_out = self.is_unhealthy();
        self.pings_failed = 0;
        self.ping_at = self.policy.ping_interval.map(|interval| now + interval);
        if now - since >= HEALTHY_AGAIN {
            self.restarts = 0;
        }
        if was_out {
            vec![Action::Show(Presence::Up)]
        } else {
            vec![]
        }
    }

    fn ping_failed(&mut self, now: Instant) -> Vec<Action> {
        let (State::Operational { .. }, Some(interval)) = (self.state, self.policy.ping_interval)
        else {
            return vec![];
        };
        self.pings_failed = self.pings_failed.saturating_add(1);
        self.ping_at = Some(now + interval.min(PING_AGAIN));
        // Reported once, when the threshold is crossed; `tick` decides about a restart.
        if self.pings_failed == self.policy.unhealthy_after {
            vec![Action::Show(Presence::Out { next_start: None })]
        } else {
            vec![]
        }
    }

    fn tick(&mut self, in_flight: usize, last_call: Instant, now: Instant) -> Vec<Action> {
        match self.state {
            State::Backoff { until } if until <= now => self.spawn(false, now),
            State::Operational { .. } => self.tick_operational(in_flight, last_call, now),
            _ => vec![],
        }
    }

    fn tick_operational(
        &mut self,
        in_flight: usize,
        last_call: Instant,
        now: Instant,
    ) -> Vec<Action> {
        if let Some(idle) = self.policy.idle_stop {
            let quiet_until = last_call + idle;
            if in_flight == 0 && quiet_until <= now {
                self.state = State::Ending {
                    then: AfterStop::Sleep,
                };
                return vec![Action::Show(Presence::Asleep), Action::End];
            }
            self.idle_at = Some(if in_flight == 0 {
                quiet_until
            } else {
                now + idle
            });
        }
        if self.ping_at.is_none_or(|at| now < at) {
            return vec![];
        }
        // A working child may be too busy, in its only thread, to answer. Its calls have deadlines of their own; the
        // ping waits for a pause.
        if in_flight > 0 {
            self.ping_at = Some(now + PING_AGAIN);
            return vec![];
        }
        // It neither works nor answers: only a new process can recover.
        if self.is_unhealthy() {
            self.state = State::Ending {
                then: AfterStop::Restart,
            };
            return vec![Action::End];
        }
        // Until the answer or its failure is reported.
        self.ping_at = None;
        vec![Action::Ping]
    }

    /// Leaves the catalog alone: the component that stops the backend decides whether it stays listed.
    fn stop(&mut self) -> Vec<Action> {
        let end = match self.state {
            State::Starting { .. } | State::Operational { .. } => Some(Action::End),
            State::Ending { .. } => None,
            State::Asleep { .. } | State::Backoff { .. } | State::Down | State::Over => {
                self.state = State::Over;
                return vec![Action::FailWaiting];
            }
        };
        self.state = State::Ending {
            then: AfterStop::Over,
        };
        std::iter::once(Action::FailWaiting).chain(end).collect()
    }
}

/// A xorshift generator: sufficient to spread restarts.
#[derive(Debug)]
struct Jitter(u64);

impl Jitter {
    /// At least 0, less than 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests;
