//! Has a caller confirm a call of a tool that needs it, in the call's first round. Whoever can be asked is asked now;
//! others get a token, and call again with it.

use std::time::Duration;

use sentinel_wire::json::{Rules, canonical, encode_string};
use sentinel_wire::{Method, Payload};

use super::{CallContext, Outcome, Rest, Shared};
use crate::backend::Call;
use crate::digest::sha256;
use crate::fault::{Fault, Kind};
use crate::invocation::Refusals;
use crate::line::Answer;
use crate::policy::Bound;
use crate::reply::{PROBLEM_META, Reply};

/// The member of `_meta` that has the token: of the result that asks for it, and of the request that comes with it.
pub const CONFIRMATION: &str = "sentinel-gateway/confirmation";
/// What a person is shown of the arguments.
const SHOWN_CHARS_MAX: usize = 1000;

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    if applies(&ctx.shared, &ctx.call)
        && let Some(refusal) = confirm(&ctx).await
    {
        return refusal;
    }
    rest.call(ctx).await
}

pub(super) fn applies(shared: &Shared, call: &Call) -> bool {
    shared.policy.uses_confirmations() && call.method == Method::ToolsCall && call.round.is_first()
}

/// `None`: the call goes on.
async fn confirm(ctx: &CallContext) -> Option<Outcome> {
    let (call, policy) = (&*ctx.call, &ctx.shared.policy);
    if !policy.must_confirm(&call.caller, &call.target().operation) {
        return None;
    }
    let tokens = policy.confirmations();
    let (principal, bound) = (call.caller.principal(), bound(call));
    let kind = match token(call) {
        Some(token) if tokens.redeem(&token, &principal, &bound) => return None,
        Some(_) => Kind::ConfirmationInvalid,
        None => Kind::ConfirmationRequired,
    };
    if kind == Kind::ConfirmationRequired && call.refusals == Refusals::ByRevision {
        let question = question(call);
        let asked = Payload::parse(question.clone().into(), Rules::backend());
        if asked.is_ok_and(|asked| call.caller.can_answer(&Method::Elicit, &asked)) {
            return ask(call, question).await;
        }
    }
    call.trail.refuse(kind);
    let token = tokens.issue(principal, bound);
    Some(refusal(call, kind, &token, tokens.ttl()))
}

/// The token that came beside the params, or in them.
fn token(call: &Call) -> Option<String> {
    if let Some(token) = &call.confirmation {
        return Some(token.as_ref().to_owned());
    }
    let raw = call.params.meta(CONFIRMATION)?;
    // Anything else than a text is a token that is wrong.
    Some(serde_json::from_slice(raw).unwrap_or_default())
}

/// Each part with its length, so that none can be taken for a piece of another.
fn bound(call: &Call) -> Bound {
    let (caller, operation) = (&call.caller, &call.target().operation);
    let arguments = canonical(call.params.get("arguments").unwrap_or(b"{}"));
    let principal = caller.principal();
    let mut text = Vec::with_capacity(arguments.len() + 128);
    for part in [
        principal.as_bytes(),
        caller.role.as_bytes(),
        operation.backend.as_bytes(),
        operation.own.as_bytes(),
        &arguments,
    ] {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part);
    }
    sha256(&text)
}

fn name(call: &Call) -> &str {
    call.target().operation.name_in(call.view)
}

fn question(call: &Call) -> Vec<u8> {
    let arguments = canonical(call.params.get("arguments").unwrap_or(b"{}"));
    let arguments = String::from_utf8_lossy(&arguments);
    let mut shown: String = arguments.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < arguments.len() {
        shown.push_str("... (cut)");
    }
    let message = format!("Confirm this call of the tool `{}`: {shown}", name(call));
    let mut out = b"{\"message\":".to_vec();
    encode_string(&message, &mut out);
    out.extend_from_slice(
        br#","requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean","title":"Make this call"}},"required":["confirm"]}}"#,
    );
    out
}

async fn ask(call: &Call, question: Vec<u8>) -> Option<Outcome> {
    match call.line.ask(Method::Elicit, question.into()).await {
        Some(Answer::Result(answer)) if is_yes(&answer) => None,
        Some(_) => {
            call.trail.refuse(Kind::ConfirmationRequired);
            let text = format!("`{}` was not confirmed, so it was not called", name(call));
            Some(Ok(Reply::tool_error(&text, call.caller.revision)))
        }
        None => {
            let text = "the caller left before it confirmed the call";
            Some(Err(Fault::new(Kind::Cancelled, text)))
        }
    }
}

fn is_yes(answer: &[u8]) -> bool {
    let answer: Result<serde_json::Value, _> = serde_json::from_slice(answer);
    answer.is_ok_and(|answer| answer["action"] == "accept" && answer["content"]["confirm"] == true)
}

fn refusal(call: &Call, kind: Kind, token: &str, ttl: Duration) -> Outcome {
    let (name, seconds) = (name(call), ttl.as_secs());
    let why = match kind {
        Kind::ConfirmationInvalid => {
            format!("the confirmation of `{name}` is used, expired or for another call")
        }
        _ => format!("`{name}` needs a confirmation"),
    };
    if call.refusals == Refusals::Faults {
        let text = format!(
            "{why}; send the same arguments again with the confirmation token within {seconds} s"
        );
        let data = format!(r#""confirmationToken":"{token}""#);
        return Err(Fault::new(kind, text).with_data(data));
    }
    let text = format!(
        "{why}. It was not called. To confirm, call it again within {seconds} s with the same arguments and \
         \"{CONFIRMATION}\": \"{token}\" in params._meta"
    );
    let code = kind.as_str();
    let meta = format!(r#""{CONFIRMATION}":"{token}","{PROBLEM_META}":{{"code":"{code}"}}"#);
    let revision = call.caller.revision;
    Ok(Reply::tool_error_with(&text, &meta, revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_accepted_true_confirms() {
        assert!(is_yes(br#"{"action":"accept","content":{"confirm":true}}"#));
        for no in [
            &br#"{"action":"decline","content":{"confirm":true}}"#[..],
            br#"{"action":"accept","content":{"confirm":false}}"#,
            br#"{"action":"accept","content":{"confirm":"true"}}"#,
            br#"{"action":"accept"}"#,
            br#"{"action":"cancel"}"#,
            b"[]",
            b"",
        ] {
            assert!(!is_yes(no), "{}", String::from_utf8_lossy(no));
        }
    }
}
