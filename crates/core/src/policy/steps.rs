//! The steps that policy adds to the walk of a call, each testable alone. `walk` puts them in order.

use std::ops::ControlFlow;

use futures_util::future::BoxFuture;
use sentinel_wire::json::Kind as JsonKind;
use sentinel_wire::{Method, Outcome, Params};

use super::arguments::Checked;
use super::shared::Said;
use super::{Policy, arguments, kill};
use crate::call::{Call, Reply};
use crate::catalog::unknown::{held, unseen};
use crate::fault::{Fault, Kind};
use crate::offer::ItemKind;

/// The terminal answer of a call that goes no further, or nothing.
pub(crate) type Verdict = ControlFlow<Result<Reply, Fault>>;

fn stop(fault: Fault) -> Verdict {
    ControlFlow::Break(Err(fault))
}

/// May this caller see it, and call it?
pub(crate) fn authorize(policy: &Policy, call: &Call) -> Verdict {
    if call.ends_a_task() {
        return ControlFlow::Continue(());
    }
    let operation = &call.target().operation;
    let grant = policy.grant(&call.caller, operation);
    if !grant.see || is_guessed(policy, call) {
        // Word for word what is said about a name that does not exist.
        return stop(unseen(operation, call.view, &call.method));
    }
    if !grant.call {
        let name = operation.name_in(call.view);
        let text = format!("your role may see `{name}` but not use it");
        return stop(Fault::new(Kind::Forbidden, text));
    }
    ControlFlow::Continue(())
}

/// The methods that name a resource by its URI.
fn names_a_uri(method: &Method) -> bool {
    matches!(
        method,
        Method::ResourcesRead
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::Complete
    )
}

/// A URI that nobody named to this caller, where others are hidden from it. Reading tells by its answer whether
/// it is there; other requests many servers grant for whatever is not there, and would tell it from what is
/// hidden.
fn is_guessed(policy: &Policy, call: &Call) -> bool {
    let operation = &call.target().operation;
    names_a_uri(&call.method)
        && call.method != Method::ResourcesRead
        && matches!(
            operation.kind,
            Some(ItemKind::Resource | ItemKind::Template)
        )
        && policy.hides_resources(&call.caller, &operation.backend)
        && !policy.registry.names_uri(operation)
}

/// What a caller hears in place of a backend's own error about a URI that is in no list: where resources may be
/// hidden from it, those must not differ from what does not exist. `None` where the error passes.
pub(crate) fn veil(policy: &Policy, call: &Call) -> Option<Box<Fault>> {
    if !names_a_uri(&call.method) {
        return None;
    }
    let operation = &call.target().operation;
    let is_uri = operation.kind != Some(ItemKind::Prompt);
    let hidden = is_uri && policy.hides_resources(&call.caller, &operation.backend);
    (hidden && !policy.registry.lists_uri(operation))
        .then(|| Box::new(unseen(operation, call.view, &call.method)))
}

/// The backend wants its user to visit a page first: that is no word about what exists.
const URL_NEEDED: &[u8] = b"-32042";

/// Puts the veil over an error of the backend's.
pub(crate) fn veiled(
    veil: Option<Box<Fault>>,
    outcome: Result<Reply, Fault>,
) -> Result<Reply, Fault> {
    match (veil, &outcome) {
        (Some(unseen), Ok(reply)) => match &reply.outcome {
            Outcome::Error(error) if error.get("code") != Some(URL_NEEDED) => Err(*unseen),
            _ => outcome,
        },
        _ => outcome,
    }
}

/// Is it switched off? To end a task only its caller must not be.
pub(crate) fn is_killed(policy: &Policy, call: &Call) -> Verdict {
    let operation = &call.target().operation;
    let ends = call.ends_a_task();
    if let (Some(how), false) = (operation.held, ends) {
        return stop(held(operation, call.view, how));
    }
    if let Some(reason) = policy.kills.now().stops(&call.caller, operation, ends) {
        return stop(kill::disabled(operation.name_in(call.view), reason));
    }
    ControlFlow::Continue(())
}

/// Whom to ask first whether this caller calls this tool too often, where limits are shared.
pub(crate) fn ask_others(policy: &Policy, call: &Call) -> Option<BoxFuture<'static, Said>> {
    if call.method != Method::ToolsCall {
        return None;
    }
    let operation = &call.target().operation;
    policy.rates.ask(&call.caller.subject, operation)
}

/// Does this caller call this tool too often?
pub(crate) fn limit(policy: &Policy, call: &Call, said: Option<Said>) -> Verdict {
    if call.method != Method::ToolsCall {
        return ControlFlow::Continue(());
    }
    let (subject, operation) = (&call.caller.subject, &call.target().operation);
    let taken = match said {
        None => policy.rates.take(subject, operation),
        Some(said) => policy.rates.settle(said, subject, operation),
    };
    match taken {
        Ok(()) => ControlFlow::Continue(()),
        Err(limited) => {
            let name = operation.name_in(call.view);
            let text = format!("too many calls of `{name}`; try again later");
            let fault = Fault::new(Kind::RateLimited, text);
            stop(fault.retry_after_ms(limited.retry_after_ms))
        }
    }
}

/// Are the arguments what the tool's schema asks for? Other params than those that came go on where arguments count as
/// left out.
pub(crate) fn check_arguments(call: &Call) -> ControlFlow<Result<Reply, Fault>, Option<Params>> {
    if call.method != Method::ToolsCall {
        return ControlFlow::Continue(None);
    }
    let arguments = call.params.get("arguments").unwrap_or(b"{}");
    if JsonKind::of(arguments) != Some(JsonKind::Object) {
        let text = "`arguments` must be an object";
        return ControlFlow::Break(Err(Fault::new(Kind::InvalidParams, text)));
    }
    let operation = &call.target().operation;
    let Some(schema) = &operation.schema else {
        return ControlFlow::Continue(None);
    };
    let issues = match schema.check(&operation.exposed, &call.params) {
        Checked::Good => return ControlFlow::Continue(None),
        Checked::Without(params) => return ControlFlow::Continue(Some(params)),
        Checked::Wrong(issues) => issues,
    };
    // Some revisions hear of it in a result; on record it is a refusal of ours all the same.
    call.trail.refuse(Kind::InvalidArguments);
    let name = call.params.string("name").unwrap_or_default();
    ControlFlow::Break(arguments::refusal(&name, &issues, call.caller.revision))
}

/// Whether calls of this method take one of the places of `admission`.
pub(crate) fn takes_a_place(method: &Method) -> bool {
    matches!(
        method,
        Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet | Method::Complete
    )
}
