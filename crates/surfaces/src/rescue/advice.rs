//! What each kind of fault means to the person or program that met it: a title, a sentence of meaning, what to do, and
//! whether another attempt can succeed. Problem documents and the pages at `/problems/{code}` are written from it.
//!
//! Not here: codes and statuses (`rescue::row`), the words of one particular fault (`Fault::public`).

use sentinel_core::Kind;

/// The explanation of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    pub title: &'static str,
    pub meaning: &'static str,
    /// What to do about it.
    pub hint: &'static str,
    /// Another attempt can succeed: later, with the request corrected, or with what the answer asks for.
    pub is_retryable: bool,
}

const fn retry(title: &'static str, meaning: &'static str, hint: &'static str) -> Advice {
    Advice {
        title,
        meaning,
        hint,
        is_retryable: true,
    }
}

const fn give_up(title: &'static str, meaning: &'static str, hint: &'static str) -> Advice {
    Advice {
        is_retryable: false,
        ..retry(title, meaning, hint)
    }
}

/// What to do about a fault of this kind.
pub fn hint(kind: Kind) -> &'static str {
    advice(kind).hint
}

/// Whether another attempt can succeed: later, with the request corrected, or with what the answer asks for.
pub fn is_retryable(kind: Kind) -> bool {
    advice(kind).is_retryable
}

/// The name of a kind for people.
pub fn title(kind: Kind) -> &'static str {
    advice(kind).title
}

/// The table.
#[rustfmt::skip] // a table has columns
pub fn advice(kind: Kind) -> Advice {
    match kind {
        Kind::ParseError => retry("Malformed JSON",
            "The request body is not valid JSON.",
            "Send a body that is one valid JSON value in UTF-8."),
        Kind::InvalidRequest => retry("Invalid request",
            "The request is valid JSON but not a valid request of this protocol.",
            "Correct the request as `detail` says, and send it again."),
        Kind::MethodNotFound => give_up("Unknown method",
            "The protocol method does not exist here.",
            "Call a method that the gateway or the named backend offers."),
        Kind::UnknownName => give_up("Unknown operation",
            "No tool or prompt of this name exists, or you may not see it.",
            "Read `GET /api/catalog` for the operations you can call; names are case-sensitive."),
        Kind::UnknownResource => give_up("Unknown resource",
            "No backend has this URI, or you may not see it.",
            "Read `GET /api/resources` for the URIs and URI templates you can read."),
        Kind::InvalidParams | Kind::InvalidMeta => retry("Invalid parameters",
            "A parameter of the protocol message is missing or malformed.",
            "Correct the parameter that `detail` names, and send the request again."),
        Kind::InvalidParameter => retry("Invalid query parameter",
            "A query parameter is unknown, or its text does not fit the type that the operation's input schema gives it.",
            "Correct the parameters listed in `issues`; send arguments that are objects as a JSON body with POST."),
        Kind::InvalidArguments => retry("Invalid arguments",
            "The arguments do not match the operation's input schema. The operation was not run.",
            "Correct the members listed in `issues`, following the operation's input schema, and call again."),
        Kind::ToolError => give_up("The tool reports an error",
            "The operation ran and its result is an error.",
            "Read `detail` and `content`: they are the tool's own words. Change the arguments if they say so."),
        Kind::InputRequired => retry("More input is needed",
            "The operation stopped to ask the caller for something.",
            "Answer each entry of `inputRequests` and send the answers with the same arguments and `requestState` to the operation's path followed by `/continue`, or to the method `rpc.continue`."),
        Kind::ConfirmationRequired => retry("Confirmation is needed",
            "The operation runs only after it was confirmed. It was not run.",
            "If the call is intended, repeat the same request with the header `X-Confirmation-Token` set to `confirmationToken`."),
        Kind::ConfirmationInvalid => retry("The confirmation does not fit",
            "The confirmation token is expired, already used, or was issued for a different request, for which it stays good.",
            "If this call is intended, repeat it with the new `confirmationToken` of this answer."),
        Kind::IdempotencyInProgress => retry("The first request is still running",
            "Another request with the same `Idempotency-Key` has not ended yet.",
            "Wait for the time in `Retry-After`, then send the same request with the same key."),
        Kind::IdempotencyMismatch => give_up("The key belongs to another request",
            "This `Idempotency-Key` was used with other arguments or for another operation.",
            "Use a new key for a new request, and an old key only to repeat the same request."),
        Kind::AnswerLost => give_up("The answer is lost",
            "The call was made, or may have been made, and its answer was not kept.",
            "Find out whether the call took effect before you make it again. To make it again, send a new request with a new `Idempotency-Key`."),
        Kind::HeaderMismatch => retry("Header and body differ",
            "A header that repeats a part of the body is missing or differs from it.",
            "Set the header that `detail` names to the value in the body."),
        Kind::UnsupportedVersion => give_up("Unsupported protocol revision",
            "The gateway does not speak this revision of MCP.",
            "Use one of the revisions listed in the answer."),
        Kind::BadState => give_up("The call cannot be continued",
            "The `requestState` is altered, expired, already used, or of another caller.",
            "Begin the call again without `requestState`."),
        Kind::NotInitialized => retry("The session is not initialized",
            "A request came before `initialize` was completed.",
            "Initialize the session, then send the request."),
        Kind::UnknownSession => give_up("Unknown session",
            "The session ended, never existed, or belongs to another caller.",
            "Open a new session with `initialize`."),
        Kind::Unauthorized => give_up("Not authenticated",
            "The request has no credential, or one that is not accepted.",
            "Send `Authorization: Bearer <API key or access token>` with a valid, unexpired credential."),
        Kind::Forbidden => give_up("Not allowed",
            "The credential is good, but its role or scopes do not allow this; or the host or origin is not allowed.",
            "Ask an operator for a role that allows it."),
        Kind::Disabled => give_up("Switched off",
            "An operator has switched off this operation, its backend, this caller, or everything.",
            "Ask the operator; the call works again once it is switched on."),
        Kind::RateLimited => retry("Too many calls",
            "A rate limit is used up.",
            "Wait for the time in `Retry-After`, then call again."),
        Kind::Overloaded => retry("Overloaded",
            "The gateway has no place for another call at the moment.",
            "Wait for the time in `Retry-After`, then call again, with fewer calls at once."),
        Kind::CircuitOpen => retry("The backend is failing",
            "The backend failed repeatedly and gets no calls until it recovers.",
            "Wait for the time in `Retry-After`, then call again."),
        Kind::BackendUnavailable => retry("The backend is unavailable",
            "The backend could not be reached, or ended during the call.",
            "Call again later. If the operation changes something, check first whether the call took effect."),
        Kind::BackendBusy => retry("The backend is busy",
            "The backend takes one call at a time, and the present one waits for a person.",
            "Call again once that call has ended."),
        Kind::BackendTimeout => retry("The backend did not answer in time",
            "The backend gave no answer within the time limit of the call.",
            "If the operation changes something, check first whether the call took effect; then call again."),
        Kind::BackendBadReply => give_up("The backend's answer is invalid",
            "The backend answered with something that is not a valid answer.",
            "Report it to the operator of the backend; the gateway's log has the details."),
        Kind::BackendError => give_up("The backend reports an error",
            "The backend answered the call with a protocol error of its own.",
            "Read `detail`: it is the backend's own message, unless the error is internal to it; then the gateway's log has the message under the id in `instance`."),
        Kind::MissingCapability => give_up("A client capability is missing",
            "The operation needs something that this client did not declare, such as elicitation or sampling.",
            "Call with a client that declares the capability that `detail` names."),
        Kind::Cancelled => retry("Cancelled",
            "The call was cancelled before it ended.",
            "Call again if the result is still wanted."),
        Kind::AuditUnavailable => retry("The audit log is unavailable",
            "The call needs an audit record, and the record could not be written. The operation was not run.",
            "Call again later; tell the operator if it persists."),
        Kind::Internal => give_up("Internal error",
            "The gateway failed in a way it should not.",
            "Report it with the id in `instance`; the gateway's log has the details."),
        Kind::NotFound => give_up("Not found",
            "Nothing is served at this path in this configuration.",
            "Check the path; `GET /openapi.json` lists the paths of the HTTP API."),
        Kind::MethodNotAllowed => give_up("Method not allowed",
            "The path exists, but not with this HTTP method. GET calls only operations that are declared read-only.",
            "Use a method from the `Allow` header."),
        Kind::NotAcceptable => retry("Not acceptable",
            "The answer cannot be written in any media type of the `Accept` header.",
            "Accept `application/json`, or leave the header out."),
        Kind::RequestTimeout => retry("The request came too slowly",
            "The request was not received completely within the time limit.",
            "Send the request again on a faster connection, or with a smaller body."),
        Kind::TooLarge => give_up("The request is too large",
            "The request body is larger than the configured limit.",
            "Send less, or ask the operator to raise the limit."),
        Kind::UriTooLong => retry("The URI is too long",
            "The path and query are longer than the configured limit.",
            "Send the arguments as a JSON body with POST."),
        Kind::UnsupportedMediaType => retry("Unsupported media type",
            "The `Content-Type` of the request body is not supported here.",
            "Send the arguments as `application/json`."),
        Kind::RangeNotSatisfiable => retry("The range is not satisfiable",
            "The `Range` header asks for bytes beyond the end of the resource.",
            "Ask for a range within the length that `Content-Range` gives."),
        Kind::ExpectationFailed => retry("Expectation failed",
            "The `Expect` header asks for something the gateway does not do.",
            "Leave the header out, or send `Expect: 100-continue`."),
        Kind::UnsupportedCoding => give_up("Unsupported transfer coding",
            "The request uses a transfer coding that the gateway does not know.",
            "Send the body with `Content-Length`, or with chunked transfer coding alone."),
        Kind::Unprocessable => retry("Not processable",
            "The request is well-formed, but what it asks for cannot be put in force.",
            "Correct what `detail` names, and send the request again."),
        Kind::Conflict => give_up("Conflict",
            "The request contradicts what is stored, for example because something of that name or number exists already.",
            "Read the present state, then send a request that fits it."),
        Kind::TransactionConflict => retry("Transaction conflict",
            "Other transactions changed the same data at the same time, at each attempt. Nothing was changed.",
            "Wait for the time in `Retry-After`, then send the same request again."),
        Kind::TooManySessions => retry("Too many sessions",
            "The gateway has no place for another session.",
            "End sessions that are no longer used, or try again later."),
        Kind::TooManyStreams => retry("Too many streams",
            "Too many event streams are open.",
            "Close streams that are no longer read, or try again later."),
        Kind::Unavailable => retry("Unavailable",
            "The caller does not read what it was sent before.",
            "Read the open streams, then try again."),
        Kind::GoingDown => retry("Shutting down",
            "The gateway is shutting down and takes no new requests.",
            "Connect again; another instance or the restarted gateway will answer."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_explanation_is_made_of_sentences() {
        for kind in Kind::ALL {
            let Advice {
                title,
                meaning,
                hint,
                ..
            } = advice(*kind);
            assert!(!title.is_empty() && !title.ends_with('.'), "{kind:?}");
            assert!(meaning.ends_with('.') && hint.ends_with('.'), "{kind:?}");
        }
    }

    #[test]
    fn kinds_of_one_word_have_one_explanation() {
        for kind in Kind::ALL {
            for other in Kind::ALL {
                if kind.as_str() == other.as_str() {
                    assert_eq!(advice(*kind), advice(*other), "{kind:?} {other:?}");
                }
            }
        }
    }
}
