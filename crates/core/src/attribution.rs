//! Names the asking backend in questions: a person must see which server asks, and to the client every question comes
//! from the gateway. So the backend's configured name is put before the message, or into `_meta` where a question has
//! none.

use bytes::Bytes;
use sentinel_wire::json::{Object, Rules, encode_string};
use sentinel_wire::translate::elicitations;
use sentinel_wire::{Method, Outcome, Payload};

use crate::reply::Reply;

/// The member of `_meta` that names the backend which asks for a sample or for roots.
pub(crate) const ASKED_BY: &str = "sentinel-gateway/backend";

/// The params of a question, with the backend's name in the text that a person reads.
pub(crate) fn sign(method: &Method, params: Bytes, asker: &str) -> Bytes {
    let Ok(payload) = Payload::parse(params.clone(), Rules::backend()) else {
        return params;
    };
    if matches!(method, Method::Sample | Method::RootsList) {
        return sign_meta(&payload, asker).unwrap_or(params);
    }
    let Some(message) = payload
        .string("message")
        .filter(|_| *method == Method::Elicit)
    else {
        return params;
    };
    let mut signed = Vec::new();
    encode_string(&format!("[{asker}] {message}"), &mut signed);
    let mut out = Vec::with_capacity(params.len() + asker.len() + 3);
    payload
        .as_raw()
        .rewrite(&[("message", Some(&signed))], &mut out);
    out.into()
}

fn sign_meta(params: &Payload, asker: &str) -> Option<Bytes> {
    let mut quoted = Vec::new();
    encode_string(asker, &mut quoted);
    let meta = params.get_bytes("_meta");
    let meta = Payload::parse(meta.unwrap_or(Bytes::from_static(b"{}")), Rules::backend()).ok()?;
    let mut signed = Vec::new();
    meta.as_raw()
        .rewrite(&[(ASKED_BY, Some(&quoted))], &mut signed);
    let mut out = Vec::new();
    params
        .as_raw()
        .rewrite(&[("_meta", Some(&signed))], &mut out);
    Some(out.into())
}

/// Like [`sign`] for all questions of an `input_required`, of a call or of a task; other replies are unchanged.
pub(crate) fn sign_reply(reply: Reply, asker: &str) -> Reply {
    let result = match &reply.outcome {
        Outcome::Result(result) => result,
        Outcome::Error(error) => match sign_error(error, asker) {
            Some(signed) => {
                return Reply {
                    outcome: Outcome::Error(signed),
                    ..reply
                };
            }
            None => return reply,
        },
    };
    let asks = |member: &str| result.get(member) == Some(br#""input_required""#);
    if !reply.revision.is_modern() || !(asks("resultType") || asks("status")) {
        return reply;
    }
    let Some(signed) = sign_inputs(result, asker) else {
        return reply;
    };
    let mut out = Vec::with_capacity(result.as_bytes().len() + 64);
    result
        .as_raw()
        .rewrite(&[("inputRequests", Some(&signed))], &mut out);
    match Payload::parse(out.into(), Rules::backend()) {
        Ok(result) => Reply {
            outcome: Outcome::Result(result),
            ..reply
        },
        Err(_) => reply,
    }
}

/// Like [`sign`] for the state of a task that a modern backend sends.
pub(crate) fn sign_task(task: Payload, asker: &str) -> Payload {
    let Some(signed) = sign_inputs(&task, asker) else {
        return task;
    };
    let mut out = Vec::with_capacity(task.as_bytes().len() + 64);
    task.as_raw()
        .rewrite(&[("inputRequests", Some(&signed))], &mut out);
    Payload::parse(out.into(), Rules::backend()).unwrap_or(task)
}

/// "URL elicitation required" is a question in an error.
fn sign_error(error: &Payload, asker: &str) -> Option<Payload> {
    let asked = elicitations(error);
    if asked.is_empty() {
        return None;
    }
    let mut signed = vec![b'['];
    for (i, one) in asked.iter().enumerate() {
        if i > 0 {
            signed.push(b',');
        }
        signed.extend_from_slice(&sign(&Method::Elicit, one.to_bytes(), asker));
    }
    signed.push(b']');
    let data = Payload::parse(error.get_bytes("data")?, Rules::backend()).ok()?;
    let mut new = Vec::new();
    data.as_raw()
        .rewrite(&[("elicitations", Some(&signed))], &mut new);
    let mut out = Vec::new();
    error.as_raw().rewrite(&[("data", Some(&new))], &mut out);
    Payload::parse(out.into(), Rules::backend()).ok()
}

fn sign_inputs(result: &Payload, asker: &str) -> Option<Vec<u8>> {
    let inputs = result.get_bytes("inputRequests")?;
    let members = Object::parse(&inputs, Rules::backend()).ok()?.members;
    let mut out = vec![b'{'];
    for (i, member) in members.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        encode_string(&member.key.decode(&inputs), &mut out);
        out.push(b':');
        let input = Payload::parse(inputs.slice(member.value.range()), Rules::backend()).ok()?;
        let method = Method::parse(&input.string("method").unwrap_or_default());
        match input.get_bytes("params") {
            Some(params) => {
                let signed = sign(&method, params, asker);
                input
                    .as_raw()
                    .rewrite(&[("params", Some(&signed))], &mut out);
            }
            None => out.extend_from_slice(input.as_bytes()),
        }
    }
    out.push(b'}');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sentinel_wire::Revision;

    #[test]
    fn a_person_sees_which_backend_asks() {
        let params =
            Bytes::from_static(br#"{"message":"Your \"name\"?","requestedSchema":{"n":1.0}}"#);
        let signed = sign(&Method::Elicit, params.clone(), "shop");
        assert_eq!(
            signed,
            &br#"{"message":"[shop] Your \"name\"?","requestedSchema":{"n":1.0}}"#[..]
        );
        let sample = Bytes::from_static(br#"{"messages":[],"_meta":{"progressToken":1}}"#);
        assert_eq!(
            sign(&Method::Sample, sample, "shop"),
            &br#"{"messages":[],"_meta":{"progressToken":1,"sentinel-gateway/backend":"shop"}}"#[..]
        );
        assert_eq!(
            sign(&Method::RootsList, Bytes::from_static(b"{}"), "shop"),
            &br#"{"_meta":{"sentinel-gateway/backend":"shop"}}"#[..]
        );
    }

    #[test]
    fn a_modern_backends_questions_are_signed_and_the_rest_is_untouched() {
        let reply = |text: &'static str| Reply {
            revision: Revision::V2026_07_28,
            outcome: Outcome::Result(
                Payload::parse(Bytes::from_static(text.as_bytes()), Rules::backend())
                    .expect("json"),
            ),
        };
        let text = |reply: Reply| match reply.outcome {
            Outcome::Result(result) => String::from_utf8_lossy(result.as_bytes()).into_owned(),
            Outcome::Error(_) => panic!("a result"),
        };
        let asked = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"m"}},"b":{"method":"roots/list"}},"requestState":"s"}"#;
        assert_eq!(
            text(sign_reply(reply(asked), "x")),
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"[x] m"}},"b":{"method":"roots/list"}},"requestState":"s"}"#
        );
        let task = r#"{"resultType":"complete","status":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"m"}}}}"#;
        assert_eq!(
            text(sign_reply(reply(task), "x")),
            task.replace(r#""m""#, r#""[x] m""#)
        );
        let plain = r#"{ "resultType":"complete", "content":[] }"#;
        assert_eq!(text(sign_reply(reply(plain), "x")), plain);
    }
}
