//! One request in flight, and what comes back for it.

use std::sync::Arc;
use std::time::Duration;

use sentinel_wire::header::Param;
use sentinel_wire::{Method, Params, Revision, translate};

use super::Backend;
use crate::admission::Slot;
use crate::audit::Trail;
use crate::caller::Caller;
use crate::circuit::Circuit;
use crate::fault::Fault;
use crate::in_flight::Hold;
use crate::invocation::{Invocation, Refusals, Round, TaskOf, View};
use crate::line::Line;
use crate::operation::Operation;

/// Where a call goes: found in the catalog, before any policy looks at it.
#[derive(Clone)]
pub struct Target {
    pub backend: Arc<dyn Backend>,
    /// The backend's place in the registry.
    pub index: usize,
    /// The backend's own name for the operation, where the caller used another.
    pub own_name: Option<Arc<str>>,
    pub circuit: Arc<Circuit>,
    /// Arguments to repeat in headers, where the backend wants that.
    pub mirrored: Option<Arc<[Param]>>,
    /// What policy decides on.
    pub operation: Arc<Operation>,
    /// Keeps the backend from being stopped, should a reload replace it.
    pub hold: Hold,
}

pub struct Call {
    /// Which call it is, and which round of it.
    pub round: Round,
    pub caller: Arc<Caller>,
    pub view: View,
    pub method: Method,
    pub params: Params,
    /// How its caller hears of a refusal.
    pub refusals: Refusals,
    /// The token by which its caller confirms it, where it came beside the params.
    pub confirmation: Option<Arc<str>>,
    /// The task that it is about, where it is about one.
    pub about: Option<Arc<TaskOf>>,
    /// It shall become a task at a server of 2025-11-25, to be kept for so long.
    pub task_ttl_ms: Option<u64>,
    /// The way back to the caller for notices and asks.
    pub line: Line,
    /// Set by the walk's first step.
    pub target: Option<Target>,
    /// What its audit record will say.
    pub trail: Arc<Trail>,
    /// Its place among the calls that run; to be given back while it waits for a person.
    pub slot: Slot,
}

impl Call {
    /// A call before its first step.
    pub(crate) fn new(invocation: Invocation, line: Line, trail: Arc<Trail>, slot: Slot) -> Self {
        let (method, about) = invocation.action.into_method();
        Self {
            round: invocation.round,
            caller: invocation.caller,
            view: invocation.view,
            method,
            params: invocation.input,
            refusals: invocation.refusals,
            confirmation: invocation.confirmation,
            about,
            task_ttl_ms: None,
            line,
            target: None,
            trail,
            slot,
        }
    }

    pub(crate) fn target(&self) -> &Target {
        self.target.as_ref().expect("resolved by the first step")
    }

    /// It only has a task ended, by a handle that its caller was given. That does no harm, so neither a tool that is
    /// switched off nor one that the caller may no longer use stands in its way.
    pub(crate) fn ends_a_task(&self) -> bool {
        self.method == Method::TasksCancel && self.about.is_some()
    }

    /// Its connector did not send it, and answers with this: on record it was refused like any that goes no further.
    pub fn turned_back(&self, fault: Fault) -> Fault {
        self.trail.turned_back();
        fault
    }

    /// How long a piece of its reply may wait for the caller, if the reply may be handed on in pieces: nobody
    /// on the way looks into it or changes it, and the caller takes it so. Kept answers, tasks and whatever differs
    /// between the two revisions need the whole.
    pub fn patience(&self, from: Revision) -> Option<Duration> {
        let patience = self.trail.patience()?;
        let plain = matches!(self.method, Method::ToolsCall | Method::PromptsGet)
            && self.task_ttl_ms.is_none()
            && !self.target().operation.needs_task;
        let verbatim = translate::is_verbatim(&self.method, from, self.caller.revision);
        (plain && verbatim).then_some(patience)
    }
}
