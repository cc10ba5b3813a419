//! May this caller see the operation, and call it?

use sentinel_wire::Method;

use super::resolve::names_a_uri;
use super::{CallContext, Outcome, Rest, Shared};
use crate::backend::Call;
use crate::fault::{Fault, Kind};
use crate::offer::ItemKind;
use crate::operation::unknown::unseen;

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    check(&ctx.shared, &ctx.call)?;
    rest.call(ctx).await
}

pub(super) fn check(shared: &Shared, call: &Call) -> Result<(), Fault> {
    if call.ends_a_task() {
        return Ok(());
    }
    let operation = &call.target().operation;
    let grant = shared.policy.grant(&call.caller, operation);
    if !grant.see || is_guessed(shared, call) {
        // Byte for byte the answer for a name that does not exist.
        return Err(unseen(operation, call.view, &call.method));
    }
    if !grant.call {
        let name = operation.name_in(call.view);
        let text = format!("your role may see `{name}` but not use it");
        return Err(Fault::new(Kind::Forbidden, text));
    }
    Ok(())
}

/// A URI that no list and no template names, where resources may be hidden from this caller. The answer of a read tells
/// whether it exists (`resolve` hides that); many servers grant other requests for anything, which would tell hidden
/// resources from missing ones.
fn is_guessed(shared: &Shared, call: &Call) -> bool {
    let (policy, operation) = (&shared.policy, &call.target().operation);
    names_a_uri(&call.method)
        && call.method != Method::ResourcesRead
        && matches!(
            operation.kind,
            Some(ItemKind::Resource | ItemKind::Template)
        )
        && policy.hides_resources(&call.caller, &operation.backend)
        && !policy.registry.names_uri(operation)
}
