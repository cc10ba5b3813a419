//! The circuit breaker of the backend: fails at once while it is open, and learns how each call ended.

use super::{CallContext, Outcome, Rest};
use crate::backend::Call;
use crate::circuit::Open;
use crate::fault::{Fault, Kind, Side};

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    let admitted = ctx.call.target().circuit.admit();
    let pass = admitted.map_err(|open| refused(&ctx.call, open))?;
    let outcome = rest.call(ctx).await;
    match &outcome {
        Ok(_) => pass.end(true),
        Err(fault) if fault.side() == Side::Backend && !fault.is_uncounted => pass.end(false),
        Err(_) => drop(pass),
    }
    outcome
}

pub(super) fn refused(call: &Call, open: Open) -> Fault {
    let name = call.target().backend.name();
    let text = format!("backend `{name}` keeps failing; try again later");
    Fault::new(Kind::CircuitOpen, text).retry_after_ms(open.retry_after_ms)
}
