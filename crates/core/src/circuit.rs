//! One circuit breaker per backend: after enough failures in a row, calls fail at once; after a
//! pause a single one is let through to see.

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

#[derive(Debug)]
pub struct Circuit {
    config: Config,
    state: Mutex<State>,
}

/// The circuit is open; try again after so many milliseconds.
#[derive(Debug, PartialEq, Eq)]
pub struct Open {
    pub retry_after_ms: u64,
}

impl Circuit {
    pub fn new(config: Config) -> Arc<Self> {
        Arc::new(Self {
            config,
            state: Mutex::new(State::Closed { failures: 0 }),
        })
    }

    /// Lets a call pass, or says when to come back.
    pub fn admit(self: &Arc<Self>) -> Result<Pass, Open> {
        let mut state = self.state.lock();
        match *state {
            State::Closed { .. } => Ok(Pass {
                circuit: Some(self.clone()),
                probe: false,
            }),
            State::Open { until } if Instant::now() >= until => {
                *state = State::HalfOpen;
                Ok(Pass {
                    circuit: Some(self.clone()),
                    probe: true,
                })
            }
            State::Open { until } => {
                let left = until.saturating_duration_since(Instant::now());
                Err(Open {
                    retry_after_ms: left.as_millis() as u64 + 1,
                })
            }
            State::HalfOpen => Err(Open {
                retry_after_ms: 1000,
            }),
        }
    }

    pub fn is_open(&self) -> bool {
        !matches!(*self.state.lock(), State::Closed { .. })
    }

    /// The backend came back by another way (a new child, a good ping): forget the past.
    pub fn reset(&self) {
        *self.state.lock() = State::Closed { failures: 0 };
    }

    fn settle(&self, good: Option<bool>, probe: bool) {
        let mut state = self.state.lock();
        let open = State::Open {
            until: Instant::now() + self.config.recovery,
        };
        *state = match (good, &*state) {
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
            // The probing call was dropped without a verdict: the next one may probe at once.
            (None, State::HalfOpen) if probe => State::Open {
                until: Instant::now(),
            },
            _ => return,
        };
    }
}

/// A call's passage; say how it ended, or drop it for no verdict (the caller left).
#[derive(Debug)]
pub struct Pass {
    circuit: Option<Arc<Circuit>>,
    probe: bool,
}

impl Pass {
    pub fn end(mut self, good: bool) {
        if let Some(circuit) = self.circuit.take() {
            circuit.settle(Some(good), self.probe);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(circuit) = self.circuit.take()
            && self.probe
        {
            circuit.settle(None, true);
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
}
