//! Compares arguments with the tool's schema. The call goes on with exactly what was checked.

use sentinel_wire::Method;
use sentinel_wire::json::Kind as JsonKind;

use super::{CallContext, Outcome, Rest};
use crate::arguments::{Checked, refusal};
use crate::fault::{Fault, Kind};

pub(super) async fn step(mut ctx: CallContext, mut rest: impl Rest) -> Outcome {
    if ctx.call.method == Method::ToolsCall {
        let call = &mut *ctx.call;
        let arguments = call.params.get("arguments").unwrap_or(b"{}");
        if JsonKind::of(arguments) != Some(JsonKind::Object) {
            let text = "`arguments` must be an object";
            return Err(Fault::new(Kind::InvalidParams, text));
        }
        let operation = &call.target().operation;
        let checked = match &operation.schema {
            Some(schema) => schema.check(&operation.exposed, &call.params),
            None => Checked::Good,
        };
        match checked {
            Checked::Good => {}
            Checked::Without(params) => call.params = params,
            Checked::Wrong(issues) => {
                // Some revisions are told in a result; the audit record says refused all the same.
                call.trail.refuse(Kind::InvalidArguments);
                let name = call.params.string("name").unwrap_or_default();
                return refusal(&name, &issues, call.caller.revision, call.refusals);
            }
        }
    }
    rest.call(ctx).await
}
