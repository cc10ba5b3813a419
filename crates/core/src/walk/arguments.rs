//! Compares arguments with the tool's schema. The call goes on with exactly what was checked. Those of prompts are looked at
//! where the caller speaks no MCP: its surface documents them as an object of texts.

use sentinel_wire::Method;
use sentinel_wire::json::Kind as JsonKind;

use super::{CallContext, Outcome, Rest};
use crate::arguments::{Checked, refusal, texts};
use crate::fault::{Fault, Kind};
use crate::invocation::Refusals;

pub(super) async fn step(mut ctx: CallContext, mut rest: impl Rest) -> Outcome {
    // The backend reads a request that it takes as a whole itself; the arguments only say which one it is.
    if ctx.call.extra.http.is_some() {
        return rest.call(ctx).await;
    }
    if ctx.call.method == Method::ToolsCall {
        let call = &mut *ctx.call;
        let arguments = call.params.get("arguments").unwrap_or(b"{}");
        if JsonKind::of(arguments) != Some(JsonKind::Object) {
            return Err(no_object(call.refusals));
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
                let schema = operation.schema.as_deref();
                let (revision, refusals) = (call.caller.revision, call.refusals);
                return refusal(&name, schema, &issues, revision, refusals);
            }
        }
    }
    if ctx.call.method == Method::PromptsGet && ctx.call.refusals == Refusals::Faults {
        let call = &*ctx.call;
        let issues = texts::check(call.params.get("arguments").unwrap_or(b"{}"));
        if !issues.is_empty() {
            let name = call.params.string("name").unwrap_or_default();
            let (revision, refusals) = (call.caller.revision, call.refusals);
            return refusal(&name, None, &issues, revision, refusals);
        }
    }
    rest.call(ctx).await
}

/// Arguments are a member of MCP's params, and the whole input of other surfaces.
fn no_object(refusals: Refusals) -> Fault {
    match refusals {
        Refusals::ByRevision => Fault::new(Kind::InvalidParams, "`arguments` must be an object"),
        Refusals::Faults => {
            let issues = r#""issues":[{"pointer":"","message":"is no object","keyword":"type"}]"#;
            Fault::new(Kind::InvalidArguments, "the arguments must be an object").with_data(issues)
        }
    }
}
