//! Answers reads from the cache, and caches what backends allow to be cached.

use super::{CallContext, Outcome, Rest};

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    let asked = match ctx.shared.policy.registry.cache().look(&ctx.call) {
        None => return rest.call(ctx).await,
        Some(Ok(reply)) => return Ok(reply),
        Some(Err(asked)) => asked,
    };
    let shared = ctx.shared.clone();
    let reply = rest.call(ctx).await?;
    shared.policy.registry.cache().note(asked, &reply);
    Ok(reply)
}
