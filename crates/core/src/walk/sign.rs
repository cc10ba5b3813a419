//! Names the backend in its questions and failures.

use super::{CallContext, Outcome, Rest};
use crate::attribution::sign_reply;

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    let asker = ctx.call.target().operation.backend.clone();
    // The backend may drop its call before the last byte of the reply; it must not be stopped until then.
    let _hold = ctx.call.target().hold.clone();
    let reply = rest.call(ctx).await;
    let reply = reply.map_err(|fault| fault.of_backend(&asker))?;
    Ok(sign_reply(reply, &asker))
}
