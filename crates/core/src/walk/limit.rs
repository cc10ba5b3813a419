//! Rate limits of tool calls, per caller and tool. A call is charged once, in its first round.

use sentinel_wire::Method;

use super::{CallContext, Outcome, Rest};
use crate::backend::Call;
use crate::fault::{Fault, Kind};
use crate::policy::Limited;

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    if applies(&ctx.call) {
        charge(&ctx).await?;
    }
    rest.call(ctx).await
}

pub(super) fn applies(call: &Call) -> bool {
    call.method == Method::ToolsCall && call.round.is_first()
}

/// Takes a token: from the buckets that gateways share where there are such, otherwise at once from our own.
async fn charge(ctx: &CallContext) -> Result<(), Fault> {
    let rates = ctx.shared.policy.rates();
    let (subject, operation) = (&ctx.call.caller.subject, &ctx.call.target().operation);
    let taken = match rates.ask(subject, operation) {
        None => rates.take(subject, operation),
        Some(asking) => rates.settle(asking.await, subject, operation),
    };
    taken.map_err(|limited| refused(&ctx.call, limited))
}

pub(super) fn refused(call: &Call, limited: Limited) -> Fault {
    let name = call.target().operation.name_in(call.view);
    let text = format!("too many calls of `{name}`; try again later");
    Fault::new(Kind::RateLimited, text).retry_after_ms(limited.retry_after_ms)
}
