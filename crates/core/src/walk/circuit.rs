//! The circuit breaker of the backend: fails at once while it is open, and learns how each call ended.

use super::{CallContext, Outcome, Rest};
use crate::fault::{Fault, Kind, Side};

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    let target = ctx.call.target();
    let pass = target.circuit.admit().map_err(|open| {
        let text = format!(
            "backend `{}` keeps failing; try again later",
            target.backend.name()
        );
        Fault::new(Kind::CircuitOpen, text).retry_after_ms(open.retry_after_ms)
    })?;
    let outcome = rest.call(ctx).await;
    match &outcome {
        Ok(_) => pass.end(true),
        Err(fault) if fault.side() == Side::Backend && !fault.is_uncounted => pass.end(false),
        Err(_) => drop(pass),
    }
    outcome
}
