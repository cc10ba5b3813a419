//! Where the audit guarantee is `sync`, writes the intent to disk before the work begins.

use super::{CallContext, Outcome, Rest};
use crate::fault::{Fault, Kind};

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    let intent = ctx.shared.auditor.intend(&ctx.call.trail, &ctx.call.caller);
    if let Some(intent) = intent {
        intent.await.map_err(|error| {
            let text = "the audit record of this call could not be written, so it was not made";
            Fault::new(Kind::AuditUnavailable, text).because(error)
        })?;
    }
    rest.call(ctx).await
}
