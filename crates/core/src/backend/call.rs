//! One request in flight, and its target.

use std::sync::Arc;
use std::time::Duration;

use sentinel_wire::header::Param;
use sentinel_wire::{Method, Params, Revision, translate};

use super::Backend;
use crate::admission::PermitSlot;
use crate::audit::AuditTrail;
use crate::caller::Caller;
use crate::circuit::Circuit;
use crate::fault::Fault;
use crate::in_flight::Hold;
use crate::invocation::{Extra, Invocation, Refusals, Round, TaskOf, View};
use crate::line::Line;
use crate::operation::Operation;

/// The target of a call, found in the catalog before any policy check.
#[derive(Clone)]
pub struct Target {
    pub backend: Arc<dyn Backend>,
    /// The backend's slot in the registry.
    pub index: usize,
    /// The backend's own name for the operation, where the caller used another.
    pub own_name: Option<Arc<str>>,
    pub circuit: Arc<Circuit>,
    /// Arguments repeated in headers, where the backend requires that.
    pub mirrored: Option<Arc<[Param]>>,
    /// The operation that policy decides on.
    pub operation: Arc<Operation>,
    /// Keeps the backend running, should a reload replace it.
    pub hold: Hold,
}

pub struct Call {
    /// The call and its round.
    pub round: Round,
    pub caller: Arc<Caller>,
    pub view: View,
    pub method: Method,
    pub params: Params,
    /// The form of refusals for its caller.
    pub refusals: Refusals,
    /// The confirmation token, where it came beside the params.
    pub confirmation: Option<Arc<str>>,
    pub extra: Extra,
    /// The task that it is about, if any.
    pub about: Option<Arc<TaskOf>>,
    /// The time to live of the task that it shall become at a 2025-11-25 server.
    pub task_ttl_ms: Option<u64>,
    /// Sends notices and questions to the caller.
    pub line: Line,
    /// Set by the first step of the walk.
    pub target: Option<Target>,
    /// Facts for its audit record.
    pub trail: Arc<AuditTrail>,
    /// Its permit, released while it waits for a person.
    pub slot: PermitSlot,
}

impl Call {
    /// A call before its first step.
    pub(crate) fn new(
        invocation: Invocation,
        line: Line,
        trail: Arc<AuditTrail>,
        slot: PermitSlot,
    ) -> Self {
        let (method, about) = invocation.action.into_method();
        Self {
            round: invocation.round,
            caller: invocation.caller,
            view: invocation.view,
            method,
            params: invocation.input,
            refusals: invocation.refusals,
            confirmation: invocation.confirmation,
            extra: invocation.extra,
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

    /// Whether it only cancels a task by a handle that its caller was given. That is harmless, so it is allowed even
    /// if the tool is switched off or no longer permitted.
    pub(crate) fn ends_a_task(&self) -> bool {
        self.method == Method::TasksCancel && self.about.is_some()
    }

    /// Records that the connector refused the call without sending it, with this fault.
    pub fn turned_back(&self, fault: Fault) -> Fault {
        self.trail.turned_back();
        fault
    }

    /// How long a piece of its reply may wait for the caller, if the reply may be streamed: no step inspects or
    /// changes it, and the caller accepts pieces. Cached answers, tasks and revisions that differ need the whole
    /// reply.
    pub fn patience(&self, from: Revision) -> Option<Duration> {
        let patience = self.trail.patience()?;
        let plain = matches!(self.method, Method::ToolsCall | Method::PromptsGet)
            && self.task_ttl_ms.is_none()
            && !self.target().operation.needs_task;
        let verbatim = translate::is_verbatim(&self.method, from, self.caller.revision);
        (plain && verbatim).then_some(patience)
    }
}
