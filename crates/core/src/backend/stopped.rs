//! The place of a backend that an operator keeps down: it has no program and no connection, and takes no calls.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{Backend, Call, Description, Health, OutputLog, Status};
use crate::fault::{Fault, Kind};
use crate::reply::Reply;

/// Longer reasons are cut for callers, as those of kills are.
const REASON_LEN_MAX: usize = 200;

/// Stands in for a backend until it is started again.
pub struct StoppedBackend {
    name: String,
    described: Description,
    reason: String,
    restarts: u32,
    /// What its children wrote before.
    output: Option<Arc<OutputLog>>,
}

impl StoppedBackend {
    /// In the place of this one, which runs no longer.
    pub fn of(stopped: &dyn Backend, reason: &str) -> Self {
        Self {
            name: stopped.name().to_owned(),
            described: stopped.describe(),
            reason: reason.to_owned(),
            restarts: stopped.status().restarts,
            output: stopped.output(),
        }
    }

    /// The same, where the configuration describes the backend in another way by now.
    #[must_use]
    pub fn described(&self, described: Description) -> Self {
        Self {
            name: self.name.clone(),
            described,
            reason: self.reason.clone(),
            restarts: self.restarts,
            output: self.output.clone(),
        }
    }
}

/// The refusal of a call of a backend that is kept down.
fn refused(name: &str, reason: &str) -> Fault {
    let mut text = format!("backend `{name}` is stopped by an operator");
    if !reason.is_empty() {
        text.push_str(": ");
        text.extend(reason.chars().take(REASON_LEN_MAX));
    }
    Fault::new(Kind::Disabled, text).not_run()
}

impl Backend for StoppedBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> Description {
        self.described.clone()
    }

    fn stopped(&self) -> Option<Fault> {
        Some(refused(&self.name, &self.reason))
    }

    fn call(&self, _: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        std::future::ready(Err(refused(&self.name, &self.reason))).boxed()
    }

    fn look(&self) -> BoxFuture<'static, Result<(), Fault>> {
        std::future::ready(Err(refused(&self.name, &self.reason))).boxed()
    }

    fn restart(&self) -> BoxFuture<'static, Result<(), Fault>> {
        std::future::ready(Err(refused(&self.name, &self.reason))).boxed()
    }

    fn output(&self) -> Option<Arc<OutputLog>> {
        self.output.clone()
    }

    fn status(&self) -> Status {
        let reason = (!self.reason.is_empty()).then(|| self.reason.clone());
        Status {
            restarts: self.restarts,
            problem: reason,
            ..Status::of(Health::Stopped)
        }
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}
