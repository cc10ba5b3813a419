//! The supervisor's decisions one by one, and then random event sequences against a small model.

use proptest::prelude::*;

use super::*;

fn policy() -> Policy {
    Policy {
        restart_on_exit: true,
        max_restarts: Some(5),
        lazy: false,
        idle_stop: None,
        ping_interval: Some(Duration::from_secs(300)),
        unhealthy_after: 3,
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn operational(policy: Policy) -> (Supervisor, Instant) {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(policy, 7, now);
    supervisor.on(Event::Begin, now);
    supervisor.on(Event::Wanted, now);
    assert_eq!(
        supervisor.on(Event::Ready, now),
        [Action::Show(Presence::Up)]
    );
    (supervisor, now)
}

/// Lets the child die at `now`; returns when it is started again, if it is.
fn crash(supervisor: &mut Supervisor, served: bool, now: Instant) -> Option<Instant> {
    supervisor.on(Event::Exited { served }, now);
    let until = supervisor.next_wake()?;
    let tick = Event::Tick {
        in_flight: 0,
        last_call: now,
    };
    assert_eq!(
        supervisor.on(tick, until - Duration::from_millis(1)),
        [],
        "not too early"
    );
    assert_eq!(supervisor.on(tick, until), [Action::Spawn]);
    Some(until)
}

#[test]
fn p_r03_the_first_restart_comes_quickly_even_after_many_kills_of_a_working_child() {
    let (mut supervisor, mut now) = operational(Policy {
        max_restarts: None,
        ..policy()
    });
    for _ in 0..9 {
        let again = crash(&mut supervisor, true, now).unwrap();
        assert!(again - now >= FIRST_RESTART.0 && again - now <= FIRST_RESTART.1);
        supervisor.on(Event::Ready, again);
        now = again + secs(1);
    }
    // The tenth restart would be the eleventh start within a minute.
    let again = crash(&mut supervisor, true, now).unwrap();
    assert!(again - now > secs(40), "{:?}", again - now);
}

#[test]
fn issue_17_8_a_child_that_serves_nobody_is_restarted_ever_more_slowly_and_never_for_the_last_time()
{
    let (mut supervisor, mut now) = operational(policy());
    let expected = [(0.1, 0.25), (0.5, 1.0), (1.0, 2.0), (2.0, 4.0), (4.0, 8.0)];
    for (low, high) in expected {
        let again = crash(&mut supervisor, false, now).unwrap();
        let wait = (again - now).as_secs_f64();
        assert!((low..=high).contains(&wait), "{wait} not in {low}..{high}");
        now = again;
    }
    // `max_restarts` is five: from here on it is out of the catalog.
    for full in [16, 32, 64, 128, 256, 300, 300, 300] {
        let actions = supervisor.on(Event::Exited { served: false }, now);
        let until = supervisor.next_wake().unwrap();
        let next_start = Some(until);
        let out = Action::Show(Presence::Out { next_start });
        assert_eq!(actions, [Action::FailWaiting, out]);
        let wait = until - now;
        assert!(wait >= secs(full) / 2 && wait <= secs(full), "{wait:?}");
        let retry_after = wait;
        assert_eq!(supervisor.admit(now), Admission::Later { retry_after });
        now = until;
        let tick = Event::Tick {
            in_flight: 0,
            last_call: now,
        };
        assert_eq!(supervisor.on(tick, now), [Action::Spawn]);
    }
    let up = supervisor.on(Event::Ready, now);
    assert_eq!(up, [Action::Show(Presence::Up)]);
}

#[test]
fn issue_17_8_a_restart_starts_at_once_from_any_state_and_forgives() {
    let policy = Policy {
        max_restarts: Some(1),
        ..policy()
    };
    let (mut supervisor, mut now) = operational(policy.clone());
    now = crash(&mut supervisor, false, now).unwrap();
    supervisor.on(Event::Exited { served: false }, now);
    assert_eq!(supervisor.on(Event::Restart, now), [Action::Spawn]);
    assert_eq!(supervisor.admit(now), Admission::Wait, "calls wait for it");
    let again = crash(&mut supervisor, false, now).unwrap();
    assert!(
        again - now <= FIRST_RESTART.1,
        "all restarts to spend again"
    );

    let (mut supervisor, now) = operational(policy.clone());
    let until = now;
    let restarting = Action::Show(Presence::Restarting { until });
    let ended = supervisor.on(Event::Restart, now);
    assert_eq!(ended, [restarting, Action::End], "one that runs");
    let exited = supervisor.on(Event::Exited { served: false }, now);
    assert_eq!(exited, [Action::FailWaiting, Action::Spawn]);

    let (mut supervisor, now) = operational(Policy {
        restart_on_exit: false,
        ..policy
    });
    supervisor.on(Event::Exited { served: true }, now);
    let started = supervisor.on(Event::Restart, now);
    assert_eq!(
        started,
        [Action::Spawn],
        "one that is not restarted by itself"
    );
    supervisor.on(Event::Stop, now);
    assert_eq!(
        supervisor.on(Event::Restart, now),
        [],
        "but none that stops"
    );
}

#[test]
fn a_minute_of_health_forgives_earlier_restarts() {
    let (mut supervisor, mut now) = operational(policy());
    for _ in 0..50 {
        now = crash(&mut supervisor, false, now).expect("never given up");
        supervisor.on(Event::Ready, now);
        now += secs(61);
    }
}

#[test]
fn restart_on_exit_false_leaves_it_down_and_out_of_the_catalog() {
    let (mut supervisor, now) = operational(Policy {
        restart_on_exit: false,
        ..policy()
    });
    let actions = supervisor.on(Event::Exited { served: true }, now);
    assert_eq!(
        actions,
        [
            Action::FailWaiting,
            Action::Show(Presence::Out { next_start: None })
        ]
    );
    assert_eq!(
        (supervisor.next_wake(), supervisor.admit(now)),
        (None, Admission::Never)
    );
}

#[test]
fn a_lazy_child_is_started_once_however_many_calls_come() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(
        Policy {
            lazy: true,
            ..policy()
        },
        7,
        now,
    );
    assert_eq!(
        supervisor.on(Event::Begin, now),
        [Action::Show(Presence::Asleep)]
    );
    assert_eq!(supervisor.on(Event::Wanted, now), [Action::Spawn]);
    for _ in 0..50 {
        assert_eq!(supervisor.on(Event::Wanted, now), []);
        assert_eq!(supervisor.admit(now), Admission::Wait);
    }
}

#[test]
fn a_call_during_a_restart_is_told_when_to_come_again() {
    let (mut supervisor, now) = operational(policy());
    supervisor.on(Event::Exited { served: true }, now);
    assert!(matches!(supervisor.admit(now), Admission::Later { .. }));
    let until = supervisor.next_wake().unwrap();
    supervisor.on(
        Event::Tick {
            in_flight: 0,
            last_call: now,
        },
        until,
    );
    assert!(
        matches!(supervisor.admit(until), Admission::Later { .. }),
        "while it starts, too"
    );
}

#[test]
fn an_idle_child_is_stopped_and_wakes_at_the_next_call() {
    let idle = Policy {
        idle_stop: Some(secs(10)),
        ping_interval: None,
        ..policy()
    };
    let (mut supervisor, now) = operational(idle);
    assert_eq!(supervisor.next_wake(), Some(now + secs(10)));
    let busy = Event::Tick {
        in_flight: 1,
        last_call: now,
    };
    assert_eq!(supervisor.on(busy, now + secs(10)), []);
    let quiet = Event::Tick {
        in_flight: 0,
        last_call: now + secs(12),
    };
    assert_eq!(supervisor.on(quiet, now + secs(20)), []);
    assert_eq!(supervisor.next_wake(), Some(now + secs(22)));
    let actions = supervisor.on(quiet, now + secs(22));
    assert_eq!(actions, [Action::Show(Presence::Asleep), Action::End]);
    supervisor.on(Event::Exited { served: true }, now + secs(23));
    assert_eq!(
        supervisor.on(Event::Wanted, now + secs(24)),
        [Action::Spawn]
    );
    assert_eq!(supervisor.admit(now + secs(24)), Admission::Wait);
}

#[test]
fn g_72_three_failed_pings_take_it_out_and_an_answer_brings_it_back() {
    let (mut supervisor, mut now) = operational(policy());
    assert_eq!(
        supervisor.next_wake(),
        Some(now + secs(300)),
        "G-70: every 300 s by default"
    );
    for expected in [
        vec![],
        vec![],
        vec![Action::Show(Presence::Out { next_start: None })],
    ] {
        now = supervisor.next_wake().unwrap();
        let idle = Event::Tick {
            in_flight: 0,
            last_call: now,
        };
        assert_eq!(supervisor.on(idle, now), [Action::Ping]);
        assert_eq!(supervisor.next_wake(), None, "one ping at a time");
        assert_eq!(supervisor.on(Event::PingFailed, now), expected);
    }
    assert_eq!(supervisor.next_wake(), Some(now + secs(1)));
    assert_eq!(
        supervisor.on(Event::Pong, now),
        [Action::Show(Presence::Up)]
    );
    assert_eq!(supervisor.on(Event::Pong, now), []);
}

#[test]
fn a_child_at_work_is_pinged_when_it_pauses() {
    let (mut supervisor, _) = operational(policy());
    let mut now = supervisor.next_wake().unwrap();
    for _ in 0..5 {
        let busy = Event::Tick {
            in_flight: 1,
            last_call: now,
        };
        assert_eq!(supervisor.on(busy, now), []);
        now = supervisor.next_wake().unwrap();
    }
    let pause = Event::Tick {
        in_flight: 0,
        last_call: now,
    };
    assert_eq!(supervisor.on(pause, now), [Action::Ping]);
}

#[test]
fn a_child_that_neither_works_nor_answers_is_replaced() {
    let (mut supervisor, _) = operational(policy());
    let tick = |now| Event::Tick {
        in_flight: 0,
        last_call: now,
    };
    for _ in 0..3 {
        let now = supervisor.next_wake().unwrap();
        assert_eq!(supervisor.on(tick(now), now), [Action::Ping]);
        supervisor.on(Event::PingFailed, now);
    }
    let now = supervisor.next_wake().unwrap();
    assert_eq!(supervisor.on(tick(now), now), [Action::End]);
    supervisor.on(Event::Exited { served: true }, now);
    let now = supervisor.next_wake().unwrap();
    assert_eq!(supervisor.on(tick(now), now), [Action::Spawn]);
}

/// Events in the model. Numbers are milliseconds.
#[derive(Debug, Clone, Copy)]
enum Step {
    Call,
    Reply,
    Cancel,
    StartSucceeds,
    StartFails,
    Crash,
    Answer(bool),
    Restart,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Call),
        3 => Just(Step::Reply),
        2 => Just(Step::Cancel),
        4 => Just(Step::StartSucceeds),
        1 => Just(Step::StartFails),
        2 => Just(Step::Crash),
        2 => any::<bool>().prop_map(Step::Answer),
        1 => Just(Step::Restart),
        4 => (1u64..120_000).prop_map(Step::Pass),
    ]
}

/// A model with one backend: the state that the shell would hold.
struct World {
    supervisor: Supervisor,
    now: Instant,
    process: bool,
    started: bool,
    ending: bool,
    pinging: bool,
    served: bool,
    waiting: usize,
    in_flight: usize,
    last_call: Instant,
    spawns: Vec<Instant>,
    /// An operator asked: such starts do not count against the bound per minute.
    asked: bool,
}

impl World {
    fn new(policy: Policy, seed: u64) -> Self {
        let now = Instant::now();
        Self {
            supervisor: Supervisor::new(policy, seed, now),
            now,
            process: false,
            started: false,
            ending: false,
            pinging: false,
            served: false,
            waiting: 0,
            in_flight: 0,
            last_call: now,
            spawns: vec![],
            asked: false,
        }
    }

    fn on(&mut self, event: Event) {
        for action in self.supervisor.on(event, self.now) {
            match action {
                Action::Spawn => {
                    assert!(!self.process, "a second process beside the first");
                    (self.process, self.started, self.ending) = (true, false, false);
                    (self.served, self.pinging) = (false, false);
                    if std::mem::take(&mut self.asked) {
                        self.spawns.clear();
                    } else {
                        self.spawns.push(self.now);
                    }
                }
                Action::End => {
                    assert!(self.process && !self.ending);
                    self.ending = true;
                }
                Action::Ping => {
                    assert!(self.process && self.started && !self.pinging && !self.ending);
                    self.pinging = true;
                }
                Action::FailWaiting => self.waiting = 0,
                Action::Show(_) => {}
            }
        }
    }

    fn gone(&mut self, event: Event) {
        (self.process, self.started, self.in_flight) = (false, false, 0);
        self.on(event);
    }

    fn tick(&mut self) {
        self.on(Event::Tick {
            in_flight: self.in_flight,
            last_call: self.last_call,
        });
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Call => {
                self.last_call = self.now;
                self.on(Event::Wanted);
                match self.supervisor.admit(self.now) {
                    Admission::Go => {
                        assert!(self.process && self.started && !self.ending);
                        self.in_flight += 1;
                    }
                    Admission::Wait => self.waiting += 1,
                    Admission::Later { .. } | Admission::Never => {}
                }
            }
            Step::Reply if self.in_flight > 0 => {
                (self.in_flight, self.served, self.last_call) =
                    (self.in_flight - 1, true, self.now);
            }
            Step::Cancel if self.waiting > 0 => self.waiting -= 1,
            Step::Cancel => self.in_flight = self.in_flight.saturating_sub(1),
            Step::StartSucceeds if self.process && !self.started && !self.ending => {
                self.started = true;
                self.on(Event::Ready);
                self.in_flight += std::mem::take(&mut self.waiting);
            }
            Step::StartFails if self.process && !self.started => {
                self.gone(Event::Exited { served: false })
            }
            Step::Crash if self.process => self.gone(Event::Exited {
                served: self.served,
            }),
            Step::Answer(ok) if self.pinging && self.process => {
                self.pinging = false;
                self.on(if ok { Event::Pong } else { Event::PingFailed });
            }
            Step::Restart => {
                self.asked = true;
                self.on(Event::Restart);
            }
            Step::Pass(ms) => self.pass(Duration::from_millis(ms)),
            _ => {}
        }
        let kept = self.process && (!self.started || self.ending);
        assert!(self.waiting == 0 || kept, "a call waits for nothing");
        assert!(
            self.in_flight == 0 || self.started,
            "a call in flight without a child"
        );
    }

    /// Time passes; the timer fires whenever it was set to.
    fn pass(&mut self, by: Duration) {
        let end = self.now + by;
        for _ in 0..1000 {
            match self.supervisor.next_wake() {
                Some(at) if at <= end => {
                    assert!(at >= self.now, "a timer in the past would spin");
                    self.now = at;
                    let before = self.supervisor.next_wake();
                    self.tick();
                    assert_ne!(
                        self.supervisor.next_wake(),
                        before,
                        "a tick that changes nothing"
                    );
                }
                _ => break,
            }
            if self.ending {
                self.gone(Event::Exited {
                    served: self.served,
                });
                self.ending = false;
            }
        }
        self.now = self.now.max(end);
    }
}

proptest! {
    #[test]
    fn any_mix_of_events_leaves_no_waiting_call_and_no_orphan(
        steps in prop::collection::vec(step(), 0..200),
        seed in any::<u64>(),
        lazy in any::<bool>(),
        restart_on_exit in prop::bool::weighted(0.9),
        max_restarts in prop::option::of(0u32..8),
        idle in prop::option::of(1u64..100),
        ping in prop::option::of(1u64..100),
        unhealthy_after in 1u32..4,
    ) {
        let mut world = World::new(
            Policy {
                restart_on_exit,
                max_restarts,
                lazy,
                idle_stop: idle.map(secs),
                ping_interval: ping.map(secs),
                unhealthy_after,
            },
            seed,
        );
        world.on(Event::Begin);
        for step in steps {
            world.step(step);
        }
        for window in world.spawns.windows(STARTS_PER_MINUTE + 1) {
            prop_assert!(window[STARTS_PER_MINUTE] - window[0] >= MINUTE, "more than ten a minute");
        }
        world.on(Event::Stop);
        prop_assert_eq!(world.waiting, 0);
        prop_assert_eq!(world.supervisor.admit(world.now), Admission::Never);
        if world.process {
            prop_assert!(world.ending, "stopping ends the process");
            world.gone(Event::Exited { served: false });
        }
        prop_assert!(world.supervisor.is_over() && !world.process);
        prop_assert_eq!(world.in_flight, 0);
        prop_assert_eq!(world.supervisor.next_wake(), None);
    }
}
