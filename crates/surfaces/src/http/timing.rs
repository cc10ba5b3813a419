//! How long the stages of a request took, for its `Server-Timing` header (W3C Server Timing).
//!
//! Only where `surfaces.server_timing` is on is any clock read. A batch of calls has no stages of its own.

use std::fmt::Write;
use std::sync::OnceLock;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sentinel_core::audit::AuditTrail;
use tokio::time::Instant;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The clock of one request.
pub(super) struct Timing {
    began: Instant,
    authenticated: OnceLock<Instant>,
    /// `None`: there are several calls.
    stages: OnceLock<Option<Stages>>,
}

/// What the time of one call went to.
#[derive(Clone, Copy)]
struct Stages {
    policy: Duration,
    /// `None`: it was not sent there.
    backend: Option<Duration>,
}

impl Timing {
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            authenticated: OnceLock::new(),
            stages: OnceLock::new(),
        }
    }

    pub(super) fn authenticated(&self) {
        let _ = self.authenticated.set(Instant::now());
    }

    /// Several calls run side by side.
    pub(super) fn has_several(&self) {
        let _ = self.stages.set(None);
    }

    /// A call that began at this moment has ended.
    pub(super) fn called(&self, began: Instant, trail: &AuditTrail) {
        let dispatched = trail.dispatched_at();
        let _ = self.stages.set(Some(Stages {
            policy: dispatched.unwrap_or_else(Instant::now) - began,
            backend: dispatched.map(|at| at.elapsed()),
        }));
    }

    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        let mut out = String::new();
        let mut push = |name: &str, took: Duration| {
            let comma = if out.is_empty() { "" } else { ", " };
            let ms = took.as_secs_f64() * 1000.0;
            let _ = write!(out, "{comma}{name};dur={ms:.3}");
        };
        if let Some(at) = self.authenticated.get() {
            push("auth", *at - self.began);
        }
        if let Some(Some(stages)) = self.stages.get() {
            push("policy", stages.policy);
            if let Some(took) = stages.backend {
                push("backend", took);
            }
        }
        push("total", self.began.elapsed());
        if let Ok(value) = HeaderValue::try_from(out) {
            headers.append(SERVER_TIMING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(timing: &Timing) -> String {
        let mut headers = HeaderMap::new();
        timing.tell(&mut headers);
        headers[SERVER_TIMING].to_str().expect("text").to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn each_stage_has_its_time() {
        let timing = Timing::begin();
        tokio::time::advance(Duration::from_millis(2)).await;
        assert_eq!(told(&timing), "total;dur=2.000");
        timing.authenticated();
        let began = Instant::now();
        tokio::time::advance(Duration::from_micros(1500)).await;
        timing.called(began, &AuditTrail::default());
        assert_eq!(
            told(&timing),
            "auth;dur=2.000, policy;dur=1.500, total;dur=3.500"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_has_no_stages() {
        let timing = Timing::begin();
        timing.has_several();
        timing.called(Instant::now(), &AuditTrail::default());
        assert_eq!(told(&timing), "total;dur=0.000");
    }
}
