//! One circuit breaker per backend: after a number of failures in a row calls fail at once; after a pause a single
//! probe is let through.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Failures in a row that open the circuit; 0 never opens it.
    pub threshold: u32,
    /// How long it stays open before one call may probe.
    pub recovery: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            threshold: 5,
            recovery: Duration::from_secs(30),
        }
    }
}

#[derive(Debug)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// One probe is under way.
    HalfOpen,
}

impl State {
    /// Whether a call that comes now would be a probe; or that it is refused.
    fn prospect(&self) -> Result<bool, Open> {
        match self {
            Self::Closed { .. } => Ok(false),
            Self::Open { until } if Instant::now() >= *until => Ok(true),
            Self::Open { until } => {
                let left = until.saturating_duration_since(Instant::now());
                Err(Open {
                    retry_after_ms: left.as_millis() as u64 + 1,
                })
            }
            Self::HalfOpen => Err(Open {
                retry_after_ms: 1000,
            }),
        }
    }
}

/// The state, for operators.
#[derive(Debug, PartialEq, Eq)]
pub struct CircuitFigures {
    /// In a row.
    pub failures: u32,
    /// 0 never opens it.
    pub threshold: u32,
    pub is_closed: bool,
    /// `None`: the next call passes.
    pub refuses: Option<Open>,
}

#[derive(Debug)]
pub struct Circuit {
    config: Config,
    present: Mutex<Present>,
}

#[derive(Debug)]
struct Present {
    state: State,
    /// Number of resets.
    age: u64,
}

/// The circuit is open; retry after this many milliseconds.
#[derive(Debug, PartialEq, Eq)]
pub struct Open {
    pub retry_after_ms: u64,
}

impl Circuit {
    pub fn new(config: Config) -> Arc<Self> {
        Arc::new(Self {
            config,
            present: Mutex::new(Present {
                state: State::Closed { failures: 0 },
                age: 0,
            }),
        })
    }

    /// Admits a call, or says when to retry.
    pub fn admit(self: &Arc<Self>) -> Result<Pass, Open> {
        let mut present = self.present.lock();
        let probe = present.state.prospect()?;
        if probe {
            present.state = State::HalfOpen;
        }
        Ok(Pass {
            circuit: Some(self.clone()),
            probe,
            age: present.age,
        })
    }

    pub fn figures(&self) -> CircuitFigures {
        let present = self.present.lock();
        CircuitFigures {
            failures: match present.state {
                State::Closed { failures } => failures,
                State::Open { .. } | State::HalfOpen => self.config.threshold,
            },
            threshold: self.config.threshold,
            is_closed: matches!(present.state, State::Closed { .. }),
            refuses: present.state.prospect().err(),
        }
    }

    pub fn is_open(&self) -> bool {
        !matches!(self.present.lock().state, State::Closed { .. })
    }

    /// The backend recovered by other means (a new child, a good ping): forgets the failures, and ignores the results
    /// of calls that began before.
    pub fn reset(&self) {
        let mut present = self.present.lock();
        present.state = State::Closed { failures: 0 };
        present.age += 1;
    }

    fn settle(&self, good: Option<bool>, pass: &Pass) {
        let mut present = self.present.lock();
        if pass.age != present.age {
            return;
        }
        let probe = pass.probe;
        let open = State::Open {
            until: Instant::now() + self.config.recovery,
        };
        present.state = match (good, &present.state) {
            (Some(true), _) => State::Closed { failures: 0 },
            (Some(false), State::Closed { failures }) => {
                let failures = failures.saturating_add(1);
                if self.config.threshold > 0 && failures >= self.config.threshold {
                    open
                } else {
                    State::Closed { failures }
                }
            }
            (Some(false), State::HalfOpen) if probe => open,
            // The probe was dropped without a result: the next call may probe at once.
            (None, State::HalfOpen) if probe => State::Open {
                until: Instant::now(),
            },
            _ => return,
        };
    }
}

/// A call's pass; report its result, or drop it for none (the caller left).
#[derive(Debug)]
pub struct Pass {
    circuit: Option<Arc<Circuit>>,
    probe: bool,
    age: u64,
}

impl Pass {
    pub fn end(mut self, good: bool) {
        if let Some(circuit) = self.circuit.take() {
            circuit.settle(Some(good), &self);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(circuit) = self.circuit.take()
            && self.probe
        {
            circuit.settle(None, self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(circuit: &Arc<Circuit>, times: u32) {
        for _ in 0..times {
            circuit.admit().expect("closed").end(false);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_after_the_threshold_and_admits_one_probe() {
        let circuit = Circuit::new(Config::default());
        fail(&circuit, 4);
        circuit.admit().expect("closed").end(true);
        fail(&circuit, 5);
        let refused = circuit.admit().expect_err("open");
        assert!(refused.retry_after_ms > 29_000 && refused.retry_after_ms <= 30_001);
        tokio::time::advance(Duration::from_secs(31)).await;
        let probe = circuit.admit().expect("half open");
        assert!(circuit.admit().is_err(), "only one probe");
        probe.end(false);
        assert!(circuit.admit().is_err(), "open again");
        tokio::time::advance(Duration::from_secs(31)).await;
        circuit.admit().expect("half open").end(true);
        assert!(!circuit.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_whose_caller_left_gives_its_place_to_the_next() {
        let circuit = Circuit::new(Config::default());
        fail(&circuit, 5);
        tokio::time::advance(Duration::from_secs(31)).await;
        drop(circuit.admit().expect("half open"));
        assert!(circuit.admit().is_ok());
    }

    #[test]
    fn calls_that_began_before_it_came_back_say_nothing_of_what_is_there_now() {
        let circuit = Circuit::new(Config::default());
        let begun: Vec<Pass> = (0..5).map(|_| circuit.admit().expect("closed")).collect();
        circuit.reset();
        begun.into_iter().for_each(|pass| pass.end(false));
        assert!(!circuit.is_open());
        fail(&circuit, 5);
        assert!(circuit.is_open());
    }
}
