//! The answers of the REST surface that are not results: one response for each status, with the kinds of fault that it
//! can mean, from the tables of `rescue`.

use std::collections::BTreeMap;

use http::StatusCode;
use sentinel_core::Kind;
use serde_json::{Map, Value, json};

use super::names::type_name;
use super::schemas::{Components, reference};
use crate::rescue::{self, RestInput};

/// What is asked for, by how it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A tool, with a body.
    Call,
    /// A tool, with query parameters.
    Query,
    Continue,
    /// How a call goes that is answered later, or its answer.
    Task,
    TaskEnd,
    TaskContinue,
    Prompt,
    Resource,
    List,
    Admin,
}

/// Whatever is asked for.
const ALWAYS: &[Kind] = &[
    Kind::Unauthorized,
    Kind::Forbidden,
    Kind::NotAcceptable,
    Kind::GoingDown,
    Kind::Internal,
];
/// What is answered by a backend.
const RUNS: &[Kind] = &[
    Kind::InvalidParams,
    Kind::UnknownName,
    Kind::Disabled,
    Kind::RateLimited,
    Kind::Overloaded,
    Kind::CircuitOpen,
    Kind::BackendUnavailable,
    Kind::BackendBusy,
    Kind::BackendTimeout,
    Kind::BackendBadReply,
    Kind::BackendError,
    Kind::MissingCapability,
    Kind::Cancelled,
    Kind::AuditUnavailable,
    Kind::InputRequired,
    Kind::UriTooLong,
    Kind::Conflict,
    Kind::TransactionConflict,
];
const HAS_BODY: &[Kind] = &[
    Kind::ParseError,
    Kind::TooLarge,
    Kind::UnsupportedMediaType,
    Kind::RequestTimeout,
];
const TOOL: &[Kind] = &[
    Kind::InvalidArguments,
    Kind::ToolError,
    Kind::ConfirmationRequired,
    Kind::ConfirmationInvalid,
];
/// What an `Idempotency-Key` adds.
const KEYED: &[Kind] = &[
    Kind::InvalidRequest,
    Kind::IdempotencyInProgress,
    Kind::IdempotencyMismatch,
    Kind::AnswerLost,
];

/// Arguments as texts, and an answer that may be a stream.
const TEXTS: &[Kind] = &[Kind::InvalidParameter, Kind::TooManyStreams];

impl Asked {
    const ALL: [Self; 10] = [
        Self::Call,
        Self::Query,
        Self::Continue,
        Self::Task,
        Self::TaskEnd,
        Self::TaskContinue,
        Self::Prompt,
        Self::Resource,
        Self::List,
        Self::Admin,
    ];

    fn kinds(self) -> Vec<Kind> {
        let further: &[&[Kind]] = match self {
            Self::Call => &[RUNS, HAS_BODY, TOOL, KEYED, TEXTS],
            Self::Query => &[RUNS, TOOL, TEXTS],
            Self::Continue => &[RUNS, HAS_BODY, TOOL, &[Kind::BadState]],
            Self::Task => &[RUNS, TOOL, &[Kind::NotFound, Kind::AnswerLost]],
            Self::TaskEnd => &[&[Kind::NotFound]],
            Self::TaskContinue => &[RUNS, HAS_BODY, &[Kind::NotFound, Kind::BadState]],
            Self::Prompt => &[RUNS, HAS_BODY],
            Self::Resource => &[RUNS, &[Kind::UnknownResource, Kind::RangeNotSatisfiable]],
            Self::List => &[],
            Self::Admin => &[
                HAS_BODY,
                &[
                    Kind::InvalidParams,
                    Kind::NotFound,
                    Kind::Disabled,
                    Kind::Unprocessable,
                ],
            ],
        };
        let mut all = ALWAYS.to_vec();
        all.extend(further.iter().copied().flatten());
        all
    }

    fn status(self, kind: Kind) -> StatusCode {
        let input = match self {
            Self::Query | Self::Resource => RestInput::Query,
            _ => RestInput::Body,
        };
        rescue::rest_status(kind, input)
    }

    /// References to the responses of everything that can go wrong, by status.
    pub(super) fn add_errors(self, is_guarded: bool, responses: &mut Map<String, Value>) {
        let kinds = self.kinds().into_iter();
        let kinds = kinds.filter(|kind| is_guarded || *kind != Kind::Unauthorized);
        let mut all: Vec<StatusCode> = kinds.map(|kind| self.status(kind)).collect();
        all.sort();
        all.dedup();
        for status in all {
            let name = name(status);
            let reference = json!({ "$ref": format!("#/components/responses/{name}") });
            responses.insert(status.as_str().to_owned(), reference);
        }
        responses.insert(
            "default".to_owned(),
            json!({ "$ref": "#/components/responses/Other" }),
        );
    }
}

/// Every kind of fault of a call on any surface, each once.
pub(super) fn of_calls() -> Vec<Kind> {
    let mut all = Asked::Call.kinds();
    all.retain(|kind| !KEYED.contains(kind));
    for kind in [
        Kind::MethodNotFound,
        Kind::InvalidRequest,
        Kind::UnknownResource,
        Kind::BadState,
    ] {
        all.push(kind);
    }
    all
}

fn name(status: StatusCode) -> String {
    type_name(status.canonical_reason().unwrap_or(status.as_str()))
}

/// Every response of these kinds of request, by its name.
pub(super) fn responses(of: &[Asked]) -> Map<String, Value> {
    let mut by_status: BTreeMap<StatusCode, Vec<Kind>> = BTreeMap::new();
    for asked in Asked::ALL.iter().filter(|asked| of.contains(asked)) {
        for kind in asked.kinds() {
            let kinds = by_status.entry(asked.status(kind)).or_default();
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    let response = |(status, kinds): (StatusCode, Vec<Kind>)| {
        let word = |kind: &Kind| {
            let advice = rescue::advice(*kind);
            format!("- `{}`: {} {}", kind.as_str(), advice.meaning, advice.hint)
        };
        let words: Vec<String> = kinds.iter().map(word).collect();
        let reason = status.canonical_reason().unwrap_or_default();
        let text = format!("{reason}. By the member `code`:\n\n{}", words.join("\n"));
        (name(status), problem(&text, headers(status)))
    };
    let mut all: Map<String, Value> = by_status.into_iter().map(response).collect();
    let other = "Any other refusal. Each `code` is explained at `/problems`.";
    all.insert("Other".to_owned(), problem(other, json!({})));
    all
}

fn problem(description: &str, headers: Value) -> Value {
    json!({
        "description": description,
        "headers": headers,
        "content": { "application/problem+json": { "schema": reference("Problem") } },
    })
}

fn headers(status: StatusCode) -> Value {
    let mut all: Vec<&str> = vec!["RateLimit", "RateLimit-Policy"];
    match status {
        StatusCode::UNAUTHORIZED => all = vec!["WWW-Authenticate"],
        StatusCode::CONFLICT
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => all.push("Retry-After"),
        _ => {}
    }
    referred(&all)
}

/// References to headers that `own_headers` declares.
pub(super) fn referred(names: &[&str]) -> Value {
    let one = |name: &&str| {
        let reference = json!({ "$ref": format!("#/components/headers/{name}") });
        ((*name).to_owned(), reference)
    };
    Value::Object(names.iter().map(one).collect())
}

pub(super) fn own_headers() -> Value {
    let header =
        |kind: &str, text: &str| json!({ "description": text, "schema": { "type": kind } });
    json!({
        "ETag": header("string", "A tag of these bytes. Sent back in `If-None-Match`, it is answered with 304 while they are the same."),
        "Idempotency-Replayed": header("string", "`true`: this answer was given before, to the first request with this `Idempotency-Key`."),
        "Link": header("string", "The next page of the result (`rel=\"next\"`), where there is one and a GET can ask for it."),
        "Location": header("string", "The path at which the call is seen."),
        "Next-Arguments": header("string", "What to put over the arguments of this call for the next page of its result, as a JSON object."),
        "Preference-Applied": header("string", "The preference of `Prefer` that was followed."),
        "RateLimit": header("string", "What is left of the caller's limit for this operation: `r` calls, all of them again in `t` seconds."),
        "RateLimit-Policy": header("string", "The caller's limit for this operation: `q` calls in `w` seconds."),
        "Retry-After": header("integer", "Seconds after which another attempt may succeed."),
        "WWW-Authenticate": header("string", "How to authenticate."),
    })
}

/// The schemas of problem documents.
pub(super) fn add_schemas(components: &mut Components) {
    let mut codes: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    codes.sort_unstable();
    codes.dedup();
    components.own(
        "ProblemCode",
        json!({
            "type": "string",
            "description": "What went wrong. Each code is explained at `/problems/{code}`.",
            "enum": codes,
        }),
    );
    components.own("ProblemIssue", json!({
        "type": "object",
        "description": "One thing that is wrong with the arguments.",
        "required": ["pointer", "message"],
        "properties": {
            "pointer": { "type": "string", "description": "JSON Pointer into the arguments; empty for all of them." },
            "message": { "type": "string" },
            "keyword": { "type": "string", "description": "The keyword of the input schema that is not satisfied." },
        },
    }));
    components.own("Problem", json!({
        "type": "object",
        "description": "Why a request was refused or failed (RFC 9457).",
        "required": ["type", "title", "status", "detail", "code", "retryable", "hint", "kind"],
        "properties": {
            "type": { "type": "string", "format": "uri-reference", "description": "Where the code is explained." },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "What happened this time." },
            "instance": { "type": "string", "format": "uri", "description": "Names this occurrence in the gateway's log." },
            "code": reference("ProblemCode"),
            "kind": { "allOf": [reference("ProblemCode")], "description": "The same as `code`." },
            "retryable": { "type": "boolean", "description": "Another attempt can succeed: later, with the request corrected, or with what this answer asks for." },
            "hint": { "type": "string", "description": "What to do." },
            "retry_after_ms": { "type": "integer", "description": "Milliseconds after which another attempt may succeed." },
            "issues": { "type": "array", "items": reference("ProblemIssue"), "description": "What is wrong with the arguments." },
            "schema": { "type": "object", "additionalProperties": true, "description": "The schema that the arguments do not fit." },
            "confirmationToken": { "type": "string", "description": "Confirms the same request, sent in `X-Confirmation-Token`." },
            "inputRequests": { "type": "object", "additionalProperties": true, "description": "What the operation asks, by the name under which its answer is sent." },
            "requestState": { "type": "string", "description": "Sent back with the answers, to the path of the operation followed by `/continue`." },
            "upstream": { "type": "object", "additionalProperties": true, "description": "What the HTTP API behind the tool answered: `status`, `problem`, `body`." },
            "continue": { "type": "string", "format": "uri-reference", "description": "Where to send the answers of a call that is answered later." },
            "content": { "type": "array", "items": reference("ContentBlock"), "description": "The tool's own words about its error." },
            "structuredContent": { "description": "The same as data." },
        },
        "additionalProperties": true,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a request can be answered with is described under its status.
    #[test]
    fn every_status_of_a_request_has_its_response() {
        let all = responses(&Asked::ALL);
        for asked in Asked::ALL {
            let mut errors = Map::new();
            asked.add_errors(true, &mut errors);
            for (status, reference) in &errors {
                let target = reference["$ref"].as_str().expect("a reference");
                let name = target.rsplit('/').next().expect("a name");
                assert!(all.contains_key(name), "{asked:?} {status}");
            }
            for kind in asked.kinds() {
                let status = asked.status(kind);
                let text = all[&name(status)]["description"].as_str().expect("a text");
                assert!(
                    text.contains(&format!("`{}`", kind.as_str())),
                    "{asked:?} {kind:?}"
                );
                assert!(errors.contains_key(status.as_str()), "{asked:?} {kind:?}");
            }
        }
    }
}
