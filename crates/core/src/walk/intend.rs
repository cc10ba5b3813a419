//! Where the audit guarantee is `sync`, writes the intent to disk before the work of a call begins, in its first round.

use super::{CallContext, Outcome, Rest};
use crate::backend::Call;
use crate::fault::{Fault, Kind};

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    let Call { trail, caller, .. } = &*ctx.call;
    if ctx.call.round.is_first()
        && let Some(intent) = ctx.shared.auditor.intend(trail, caller)
    {
        intent.await.map_err(|error| {
            let text = "the audit record of this call could not be written, so it was not made";
            Fault::new(Kind::AuditUnavailable, text).because(error)
        })?;
    }
    rest.call(ctx).await
}
