//! Waits for a permit of the scheduler and holds it to the end. A call in the queue holds nothing else, and no deadline
//! of its backend runs yet.

use sentinel_wire::Method;

use super::{CallContext, Outcome, Rest};
use crate::backend::Call;

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    let admission = match ctx.shared.policy.admission() {
        Some(admission) if applies(&ctx.call) => admission.clone(),
        _ => return rest.call(ctx).await,
    };
    let (slot, subject) = (ctx.call.slot.clone(), ctx.call.caller.subject.clone());
    let backend = ctx.call.target().index;
    slot.run(&admission, &subject, backend, || rest.call(ctx))
        .await
}

pub(super) fn applies(call: &Call) -> bool {
    matches!(
        call.method,
        Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet | Method::Complete
    )
}
