//! Rate limits of tool calls, per caller and tool. A call is charged once, in its first round.

use sentinel_wire::Method;

use super::{CallContext, Outcome, Rest};
use crate::fault::{Fault, Kind};

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    if ctx.call.method == Method::ToolsCall && ctx.call.round.is_first() {
        charge(&ctx).await?;
    }
    rest.call(ctx).await
}

/// Takes a token: from the buckets that gateways share where there are such, otherwise at once from our own.
async fn charge(ctx: &CallContext) -> Result<(), Fault> {
    let rates = ctx.shared.policy.rates();
    let (subject, operation) = (&ctx.call.caller.subject, &ctx.call.target().operation);
    let taken = match rates.ask(subject, operation) {
        None => rates.take(subject, operation),
        Some(asking) => rates.settle(asking.await, subject, operation),
    };
    taken.map_err(|limited| {
        let name = operation.name_in(ctx.call.view);
        let text = format!("too many calls of `{name}`; try again later");
        Fault::new(Kind::RateLimited, text).retry_after_ms(limited.retry_after_ms)
    })
}
