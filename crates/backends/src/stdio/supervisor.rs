//! Decides when one child is started, restarted, pinged and stopped. Pure: no process, no clock, no I/O.
//!
//! The shell around it (`super::keeper`) reports every [`Event`] with the time it happened, does every
//! [`Action`] in the order given, and calls again with [`Event::Tick`] at [`Supervisor::next_wake`]. There
//! is at most one process at a time: `Spawn` is only ever asked for after the last one was reported gone.
//!
//! Not here: the numbers (`Policy` comes from the configuration), pending calls (`super::pipe`), the
//! handshake (`super::handshake`).

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The first restart follows at once, but not so soon that a port or lock of the dead child is still
/// taken; with a handshake of half a second the backend is back well within two seconds.
const FIRST_RESTART: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_millis(250));
/// Nobody is asked to come back sooner: a start that is under way takes a moment as well.
pub(super) const SOON: Duration = FIRST_RESTART.1;
/// Then this much, doubled each time...
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// ...up to this much.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// No child is started more often than this, whatever else allows it.
const STARTS_PER_MINUTE: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Healthy for so long, its earlier restarts are forgotten.
const HEALTHY_AGAIN: Duration = MINUTE;
/// A child that stopped answering is asked more often than a healthy one.
const PING_AGAIN: Duration = Duration::from_secs(1);

/// What the configuration says about one child.
#[derive(Debug, Clone)]
pub struct Policy {
    pub restart_on_exit: bool,
    /// In a row; `None` is no limit.
    pub max_restarts: Option<u32>,
    /// Started by the first call instead of at once.
    pub lazy: bool,
    /// Stopped after so long without a call.
    pub idle_stop: Option<Duration>,
    pub ping_interval: Option<Duration>,
    /// Failed pings in a row after which it is out of the catalog.
    pub unhealthy_after: u32,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The backend is built, or someone asks for it back after it was given up.
    Begin,
    /// A call needs the child.
    Wanted,
    /// Started, shaken hands, discovered.
    Ready,
    /// There is no process any more, or it could not be started. `served`: it had answered a call.
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
    /// The gateway ends, or the backend is no longer configured.
    Stop,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Spawn,
    /// End the process politely; `Exited` follows.
    End,
    Ping,
    /// Calls that wait for a start get the failure that the shell knows of.
    FailWaiting,
    Show(Presence),
}

/// How the catalog should see the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Listed and served.
    Up,
    /// Listed; calls fail at once until about then.
    Restarting { until: Instant },
    /// Listed; the next call starts it.
    Asleep,
    /// Not listed until it recovers.
    Out,
}

/// What a call may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Go,
    /// It is being started, or about to: wait for `Ready` or `FailWaiting`.
    Wait,
    /// Not now; perhaps then.
    Later {
        retry_after: Duration,
    },
    /// Given up or stopped.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No process and no need for one. Not started again before `not_before`.
    Asleep {
        not_before: Instant,
    },
    /// `patient`: calls may wait for it, for nobody was served by a predecessor a moment ago.
    Starting {
        patient: bool,
    },
    Operational {
        since: Instant,
    },
    Backoff {
        until: Instant,
    },
    /// `end` was asked for; `then` follows the exit.
    Ending {
        then: Then,
    },
    /// Given up: restarts are spent or not wanted.
    Down,
    /// Stopped for good.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Sleep,
    Restart,
    Over,
}

/// The state of one child.
#[derive(Debug)]
pub struct Supervisor {
    policy: Policy,
    state: State,
    /// Restarts since it was last healthy for long, against `max_restarts`.
    restarts: u32,
    /// Lives in a row that served nobody: the exponent of the backoff.
    fruitless: u32,
    /// When it was started lately; at most [`STARTS_PER_MINUTE`] entries.
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
            State::Operational { .. } => Admission::Go,
            // One that is put to sleep for being idle is started again as soon as it has gone.
            State::Starting { patient: true } | State::Ending { then: Then::Sleep } => {
                Admission::Wait
            }
            State::Starting { patient: false } => Admission::Later { retry_after: SOON },
            State::Backoff { until } | State::Asleep { not_before: until } => {
                let left = until.saturating_duration_since(now);
                Admission::Later {
                    retry_after: left.max(SOON),
                }
            }
            State::Ending { then: Then::Over } | State::Down | State::Over => Admission::Never,
            State::Ending { .. } => Admission::Later { retry_after: SOON },
        }
    }

    /// From when on a call may start it, if it sleeps.
    pub fn sleeps_until(&self) -> Option<Instant> {
        match self.state {
            State::Asleep { not_before } => Some(not_before),
            _ => None,
        }
    }

    /// When [`Event::Tick`] is next needed.
    pub fn next_wake(&self) -> Option<Instant> {
        match self.state {
            State::Backoff { until } => Some(until),
            State::Operational { .. } => self.ping_at.into_iter().chain(self.idle_at).min(),
            _ => None,
        }
    }

    /// True when it was stopped for good and no process is left.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Takes in what happened and says what is to be done.
    pub fn on(&mut self, event: Event, now: Instant) -> Vec<Action> {
        match event {
            Event::Begin => self.begin(now),
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
            State::Down => {
                self.restarts = 0;
                self.fruitless = 0;
                self.spawn(false, now)
            }
            _ => vec![],
        }
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
            State::Ending { then: Then::Over } => self.state = State::Over,
            State::Ending { then: Then::Sleep } => {
                self.state = State::Asleep {
                    not_before: self.earliest(now),
                };
            }
            State::Starting { .. } | State::Operational { .. } | State::Ending { .. } => {
                actions.push(Action::Show(self.plan_restart(was, served, now)));
            }
            // There was no process; nothing can have gone.
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
        if !self.policy.restart_on_exit
            || self
                .policy
                .max_restarts
                .is_some_and(|max| self.restarts >= max)
        {
            self.state = State::Down;
            return Presence::Out;
        }
        let until = (now + self.backoff()).max(self.earliest(now));
        self.restarts += 1;
        self.fruitless = self.fruitless.saturating_add(1);
        if self.policy.lazy {
            // Nobody waits for it now; whoever comes next starts it.
            self.state = State::Asleep { not_before: until };
            Presence::Asleep
        } else {
            self.state = State::Backoff { until };
            Presence::Restarting { until }
        }
    }

    fn backoff(&mut self) -> Duration {
        let Some(doublings) = self.fruitless.checked_sub(1) else {
            let (low, high) = FIRST_RESTART;
            return low + (high - low).mul_f64(self.jitter.next());
        };
        let full = BACKOFF_MIN
            .saturating_mul(1u32 << doublings.min(16))
            .min(BACKOFF_MAX);
        full.mul_f64(0.5 + 0.5 * self.jitter.next())
    }

    /// The first moment at which one more start keeps within [`STARTS_PER_MINUTE`].
    fn earliest(&self, now: Instant) -> Instant {
        match self.starts.front() {
            Some(oldest) if self.starts.len() == STARTS_PER_MINUTE => now.max(*oldest + MINUTE),
            _ => now,
        }
    }

    fn pong(&mut self, now: Instant) -> Vec<Action> {
        let State::Operational { since } = self.state else {
            return vec![];
        };
        let was_out = self.pings_failed >= self.policy.unhealthy_after;
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
        // Once, when the line is crossed; `tick` decides what becomes of it.
        if self.pings_failed == self.policy.unhealthy_after {
            vec![Action::Show(Presence::Out)]
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
                self.state = State::Ending { then: Then::Sleep };
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
        // A child that works may be too busy, in its only thread, to answer. Its calls have deadlines of
        // their own; the ping waits for a pause.
        if in_flight > 0 {
            self.ping_at = Some(now + PING_AGAIN);
            return vec![];
        }
        // It neither works nor answers: a new one is the only recovery.
        if self.pings_failed >= self.policy.unhealthy_after {
            self.state = State::Ending {
                then: Then::Restart,
            };
            return vec![Action::End];
        }
        // Until the answer or its failure is reported.
        self.ping_at = None;
        vec![Action::Ping]
    }

    /// Whether it stays listed is for whoever stops it to say.
    fn stop(&mut self) -> Vec<Action> {
        let end = match self.state {
            State::Starting { .. } | State::Operational { .. } => Some(Action::End),
            State::Ending { .. } => None,
            State::Asleep { .. } | State::Backoff { .. } | State::Down | State::Over => {
                self.state = State::Over;
                return vec![Action::FailWaiting];
            }
        };
        self.state = State::Ending { then: Then::Over };
        std::iter::once(Action::FailWaiting).chain(end).collect()
    }
}

/// A small generator (xorshift): spreading restarts needs no better one.
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
