//! Finds the operation in the catalog, and hides from its caller what a backend's error would reveal.

use sentinel_wire::{Method, Outcome as Answer};

use super::{CallContext, Outcome, Rest, Shared};
use crate::backend::Call;
use crate::capabilities::CapabilitySet;
use crate::fault::{Fault, Kind};
use crate::offer::ItemKind;
use crate::operation::unknown::unseen;

pub(super) async fn step(mut ctx: CallContext, mut rest: impl Rest) -> Outcome {
    let found = find(&ctx.shared, &mut ctx.call);
    match may_be_offered(&ctx, &found) {
        false => found?,
        true => {
            let set = ctx.call.caller.capability_set();
            let registry = &ctx.shared.policy.registry;
            registry.variants_ready(ctx.call.view, set).await;
            find(&ctx.shared, &mut ctx.call)?;
        }
    }
    let hidden = answer_if_hidden(&ctx.shared, &ctx.call);
    let outcome = rest.call(ctx).await;
    match (hidden, &outcome) {
        (Some(unseen), Ok(reply)) => match &reply.outcome {
            Answer::Error(error) if error.get("code") != Some(URL_NEEDED) => Err(*unseen),
            _ => outcome,
        },
        _ => outcome,
    }
}

/// The backend wants its user to visit a page first, which says nothing about what exists.
const URL_NEEDED: &[u8] = b"-32042";

/// Sets the call's target.
pub(super) fn find(shared: &Shared, call: &mut Call) -> Result<(), Fault> {
    let target = shared.policy.registry.resolve(call)?;
    call.line.sign(&target.operation.backend);
    call.trail.resolved(&target.operation);
    call.target = Some(target);
    Ok(())
}

/// Whether backends are still to be asked for an operation that only callers like this one are offered.
fn may_be_offered(ctx: &CallContext, found: &Result<(), Fault>) -> bool {
    let caller = &ctx.call.caller;
    let is_missing = match found {
        Ok(()) => !ctx.call.target().operation.is_offered_to(caller),
        Err(fault) => fault.kind == Kind::UnknownName,
    };
    is_missing && {
        let set = caller.capability_set();
        set != CapabilitySet::NONE && !ctx.shared.policy.registry.knows_variants(set)
    }
}

/// The methods that name a resource by its URI.
pub(super) fn names_a_uri(method: &Method) -> bool {
    matches!(
        method,
        Method::ResourcesRead
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::Complete
    )
}

/// What replaces a backend's own error about a URI that is in no list: where resources may be hidden from this caller,
/// the answers for hidden and for missing ones must not differ. `None` where the error passes.
fn answer_if_hidden(shared: &Shared, call: &Call) -> Option<Box<Fault>> {
    if !names_a_uri(&call.method) {
        return None;
    }
    let (policy, operation) = (&shared.policy, &call.target().operation);
    let is_uri = operation.kind != Some(ItemKind::Prompt);
    let hidden = is_uri && policy.hides_resources(&call.caller, &operation.backend);
    (hidden && !policy.registry.lists_uri(operation))
        .then(|| Box::new(unseen(operation, call.view, &call.method)))
}
