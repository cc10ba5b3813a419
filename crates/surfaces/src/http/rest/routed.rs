//! Requests at the paths that backends declare (`core::catalog::routes`).
//!
//! A route leads to a tool, and the request is a call of it like any other. Where the backend takes the request as a whole, its
//! answer is the answer. Otherwise path, query and body are the arguments, and the answer is that of `POST /api/{operation}`.
//!
//! Rows of the gateway's own table come first: a route that one of them hides is reported (`shadowed`). A route whose tool the
//! caller does not see is not there.

use std::borrow::Cow;

use bytes::Bytes;
use http::{Method as Verb, Response};
use hyper::body::Incoming;
use sentinel_core::audit::Surface;
use sentinel_core::catalog::{Catalog, FoundRoute, PathMatch, RouteRequest};
use sentinel_core::{Addressing, Fault, Kind, Operation, RouteKind};
use sentinel_wire::json::{self, Kind as JsonKind, Rules, canonical};
use sentinel_wire::{Params, Payload};

use super::super::body::Body;
use super::super::exchange::{Exchange, options};
use super::super::mounts::Mounts;
use super::super::operations;
use super::super::post::take_any_body;
use super::super::routes::is_own;
use super::accept::Accept;
use super::whole::{self, WholeRequest};
use super::{
    ToolCall, add_rate_limit, arguments, arguments_of, input_schema, malformed, refused, rules,
};
use crate::rescue::RestInput;

/// A request at a path that no row of the table has.
pub(in super::super) async fn at_route(
    exchange: &Exchange<'_>,
    body: Incoming,
) -> Result<Response<Body>, Fault> {
    match find(exchange).await {
        PathMatch::Unknown => Err(exchange.not_found()),
        PathMatch::OtherVerbs(verbs) => other_verb(exchange, &verbs),
        PathMatch::Found(route) => {
            exchange.check_site()?;
            match (route.is_whole, &exchange.head.method) {
                (true, _) => as_a_whole(exchange, &route, body).await,
                (false, &Verb::GET | &Verb::HEAD) => by_query(exchange, &route).await,
                (false, _) => by_body(exchange, &route, body).await,
            }
        }
    }
}

async fn find(exchange: &Exchange<'_>) -> PathMatch {
    let Some(here) = exchange.routes_here() else {
        return PathMatch::Unknown;
    };
    let policy = &exchange.server.gateway.policy;
    let caller = operations::caller_by(exchange, Addressing::Route);
    let (registry, view) = (policy.registry(), sentinel_core::View::Merged);
    // Right after the start a backend may not have said yet what routes it has.
    registry.lists_ready(view, caller.capability_set()).await;
    let sees = |operation: &Operation| {
        here.has(&operation.backend) && policy.grant(&caller, operation).see
    };
    let headers = exchange.headers();
    let request = RouteRequest {
        verb: exchange.head.method.as_str(),
        path: exchange.head.uri.path(),
        header: &|name| headers.get(name)?.to_str().ok(),
    };
    registry.http_route(request, sees)
}

/// OPTIONS, and verbs that no route of the path has.
fn other_verb(exchange: &Exchange<'_>, verbs: &[Box<str>]) -> Result<Response<Body>, Fault> {
    let mut allow = verbs.join(", ");
    if verbs.iter().any(|verb| **verb == *"GET") && verbs.iter().all(|verb| **verb != *"HEAD") {
        allow.push_str(", HEAD");
    }
    match exchange.head.method == Verb::OPTIONS {
        true => Ok(options(&allow)),
        false => Err(exchange.only(allow, "method not allowed")),
    }
}

async fn as_a_whole(
    exchange: &Exchange<'_>,
    route: &FoundRoute,
    body: Incoming,
) -> Result<Response<Body>, Fault> {
    let bytes = take_any_body(exchange.server, exchange.headers(), body).await?;
    let request = WholeRequest::read(exchange, bytes)?;
    let (wanted, http) = request.wanted(&route.operation, Addressing::Route)?;
    let completed = operations::run(exchange, Surface::Rest, wanted).await;
    let is_head = exchange.head.method == Verb::HEAD;
    let mut response = match whole::answer_of(*completed, &http) {
        Ok((completed, answer)) => {
            let response = whole::respond(&answer, is_head);
            let bytes_out = http_body::Body::size_hint(response.body()).lower();
            completed
                .answered_with(answer.status)
                .record(bytes_out as usize);
            response
        }
        Err(completed) => refused(*completed, RestInput::Body),
    };
    let name = &route.operation.exposed;
    add_rate_limit(exchange, name, Addressing::Route, response.headers_mut());
    Ok(response)
}

async fn by_query(exchange: &Exchange<'_>, route: &FoundRoute) -> Result<Response<Body>, Fault> {
    let accept = Accept::of(exchange.headers());
    let form = accept.form()?;
    let arguments = of_texts(exchange, route)?;
    let call = ToolCall {
        name: &route.operation.exposed,
        arguments: &arguments,
        input: RestInput::Query,
        bytes_in: exchange.head.uri.query().unwrap_or_default().len(),
        addressing: Addressing::Route,
    };
    call.run(exchange, &accept, form).await
}

async fn by_body(
    exchange: &Exchange<'_>,
    route: &FoundRoute,
    body: Incoming,
) -> Result<Response<Body>, Fault> {
    let accept = Accept::of(exchange.headers());
    let form = accept.form()?;
    let texts = of_texts(exchange, route)?;
    let bytes = take_any_body(exchange.server, exchange.headers(), body).await?;
    let bytes_in = bytes.len();
    let sent = arguments_of(exchange, bytes, || Some(route.operation.clone()))?;
    let arguments = merged(texts, sent, rules(exchange))?;
    let call = ToolCall {
        name: &route.operation.exposed,
        arguments: &arguments,
        input: RestInput::Body,
        bytes_in,
        addressing: Addressing::Route,
    };
    call.run_with_body(exchange, accept, form).await
}

/// The arguments in path and query, as the tool's schema has them.
fn of_texts(exchange: &Exchange<'_>, route: &FoundRoute) -> Result<Vec<u8>, Fault> {
    let query = exchange.head.uri.query().unwrap_or_default();
    let in_path = |wanted: &str| {
        let mut all = route.parameters.iter();
        all.find(|(name, _)| name == wanted).map(|(_, value)| value)
    };
    let mut texts: Vec<(Cow<'_, str>, Cow<'_, str>)> = route
        .parameters
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match in_path(&name) {
            None => texts.push((name, value)),
            Some(same) if *same == *value => {}
            Some(_) => return Err(contradiction(&name)),
        }
    }
    arguments::coerce(texts.into_iter(), input_schema(&route.operation))
}

/// The arguments of path and query, and those of the body.
fn merged<'b>(texts: Vec<u8>, sent: Cow<'b, [u8]>, rules: Rules) -> Result<Cow<'b, [u8]>, Fault> {
    // What is no object is refused with the words that there are for it.
    if texts == b"{}" || JsonKind::of(&sent) != Some(JsonKind::Object) {
        return Ok(sent);
    }
    let given = Payload::parse(texts.into(), Rules::backend())
        .map_err(|error| Fault::new(Kind::Internal, "parameters cannot be read").because(error))?;
    let sent = Params::parse(Bytes::from(sent.into_owned()), rules).map_err(malformed)?;
    let mut out = given.as_bytes().to_vec();
    out.pop();
    let all = sent.as_raw();
    for member in &all.object.members {
        let (name, value) = (member.key.decode(all.text), member.value.of(all.text));
        match given.get(&name) {
            Some(same) if canonical(same) == canonical(value) => {}
            Some(_) => return Err(contradiction(&name)),
            None => {
                out.push(b',');
                json::encode_string(&name, &mut out);
                out.push(b':');
                out.extend_from_slice(value);
            }
        }
    }
    out.push(b'}');
    Ok(out.into())
}

fn contradiction(name: &str) -> Fault {
    let issue = serde_json::json!({
        "pointer": format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        "message": "is given twice, with different values", "keyword": "const",
    });
    let text = "a parameter of the path or query has another value elsewhere in the request";
    Fault::new(Kind::InvalidParameter, text).with_data(format!(r#""issues":[{issue}]"#))
}

/// The routes that are never taken, since a row of the gateway's own table has their paths.
pub(in super::super) fn shadowed(catalog: &Catalog, mounts: &Mounts) -> Vec<String> {
    let routes = catalog.routes().iter();
    let hidden = routes.filter_map(|known| {
        let RouteKind::Http { pattern, .. } = &known.route.kind else {
            return None;
        };
        let shown = pattern.shown();
        let operation = &known.operation;
        is_shadowed(mounts, shown).then(|| {
            format!(
                "the route {shown} of `{}` is never taken: the path is one of the gateway's own (backend `{}`)",
                operation.own, operation.backend
            )
        })
    });
    hidden.collect()
}

/// Whether a row of the gateway's own table has the paths of a pattern.
pub(in super::super) fn is_shadowed(mounts: &Mounts, shown: &str) -> bool {
    is_own(mounts, &sample(shown))
}

/// A path that fits the pattern: each parameter is a word.
fn sample(shown: &str) -> String {
    let mut out = String::with_capacity(shown.len());
    let mut rest = shown;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        out.push('x');
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(texts: &str, sent: &str) -> Result<String, Fault> {
        let merged = merged(texts.into(), sent.as_bytes().into(), Rules::caller(8))?;
        Ok(String::from_utf8_lossy(&merged).into_owned())
    }

    #[test]
    fn arguments_of_path_and_body_are_one_object() {
        for (texts, sent, want) in [
            ("{}", r#"{ "a":1 }"#, r#"{ "a":1 }"#),
            (r#"{"id":5}"#, "{}", r#"{"id":5}"#),
            (
                r#"{"id":5}"#,
                r#"{"a":1.0,"b":[ ]}"#,
                r#"{"id":5,"a":1.0,"b":[ ]}"#,
            ),
            (r#"{"id":5}"#, r#"{"id": 5,"a":1}"#, r#"{"id":5,"a":1}"#),
            (r#"{"id":"x"}"#, r#"{"\u0069d":"x"}"#, r#"{"id":"x"}"#),
            // Refused by the walk, like every body of this kind.
            (r#"{"id":5}"#, "[1]", "[1]"),
        ] {
            assert_eq!(both(texts, sent).expect(want), want);
        }
        let many: Vec<String> = (0..40).map(|n| format!(r#""k{n}":{n}"#)).collect();
        let many = both(r#"{"id":5}"#, &format!("{{{}}}", many.join(","))).expect("merged");
        assert!(many.starts_with(r#"{"id":5,"k0":0,"#) && many.ends_with(r#""k39":39}"#));
    }

    #[test]
    fn two_values_of_one_argument_are_refused_with_its_place() {
        let fault = both(r#"{"a/b":5}"#, r#"{"a/b":"5"}"#).expect_err("a contradiction");
        assert_eq!(fault.kind, Kind::InvalidParameter);
        assert!(fault.data.expect("issues").contains(r#""pointer":"/a~1b""#));
        let fault = both(r#"{"id":5}"#, r#"{"a":1,"a":2}"#).expect_err("a duplicate");
        assert_eq!(fault.kind, Kind::ParseError);
    }

    #[test]
    fn a_sample_fits_its_pattern() {
        for (shown, path) in [
            ("/orders", "/orders"),
            ("/orders/{id}", "/orders/x"),
            ("/a/{b}/c-{d}.txt", "/a/x/c-x.txt"),
            ("/broken/{id", "/broken/x"),
        ] {
            assert_eq!(sample(shown), path);
        }
    }
}
