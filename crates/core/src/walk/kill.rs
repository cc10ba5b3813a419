//! Refuses what the kill switch disabled, and ends what it disables while it runs.

use std::pin::pin;

use super::{CallContext, Outcome, Rest, Shared};
use crate::backend::Call;
use crate::fault::Fault;
use crate::operation::unknown::held;
use crate::policy::disabled;

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    check(&ctx.shared, &ctx.call)?;
    let shared = ctx.shared.clone();
    let (caller, operation) = (ctx.call.caller.clone(), ctx.call.target().operation.clone());
    let (view, ends_a_task) = (ctx.call.view, ctx.call.ends_a_task());
    let work = pin!(rest.call(ctx));
    let kills = shared.policy.kills();
    kills
        .watch(&caller, &operation, view, ends_a_task, work)
        .await
}

pub(super) fn check(shared: &Shared, call: &Call) -> Result<(), Fault> {
    check_pin(call)?;
    check_switch(shared, call)?;
    check_stop(call)
}

/// What an operator keeps down takes no calls. They would be refused there; here they cost nothing before.
pub(super) fn check_stop(call: &Call) -> Result<(), Fault> {
    call.target().backend.stopped().map_or(Ok(()), Err)
}

/// A task may be ended, whatever became of its tool.
pub(super) fn check_pin(call: &Call) -> Result<(), Fault> {
    let operation = &call.target().operation;
    match operation.held {
        Some(how) if !call.ends_a_task() => Err(held(operation, call.view, how)),
        _ => Ok(()),
    }
}

/// To end a task only its caller must not be disabled.
pub(super) fn check_switch(shared: &Shared, call: &Call) -> Result<(), Fault> {
    let operation = &call.target().operation;
    let kills = shared.policy.kills().now();
    match kills.stops(&call.caller, operation, call.ends_a_task()) {
        Some(by) => Err(disabled(operation.name_in(call.view), by.reason)),
        None => Ok(()),
    }
}
