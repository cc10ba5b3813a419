//! A call with an `Idempotency-Key` or preferences: made once for each key, answered now or later.
//!
//! The answer of the first request is kept if it is final (`Completed::is_final`). A later request with the key and the same
//! arguments gets it, after the caller's rights were checked again, with a record of its own; it is not charged, and no
//! backend hears of it. While the first request runs, others wait for it for a while. When its client leaves, the call is
//! cancelled, and the key stays taken: the call may have run.
//!
//! Not here: where answers are kept (`replays`), answers that come later (`later`).

use std::time::Duration;

use http::Response;
use http::header::{HeaderName, HeaderValue};
use sentinel_core::audit::{Ending, Surface};
use sentinel_core::{Fault, Kind};
use sentinel_wire::json::canonical;
use tokio::time::{Instant, timeout_at};

use super::super::body::Body;
use super::super::exchange::Exchange;
use super::super::operations::{self, Completed, Wanted};
use super::accept::{Accept, Form};
use super::headers::{self, Preferences};
use super::replays::{self, Claim, Found, Keyed, Replayable};
use super::stored::StoredAnswer;
use super::{ToolCall, add_rate_limit, answered, later, refused, tool_answer};

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How long a repeated request waits for the first, where it does not prefer less.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn run(
    call: ToolCall<'_>,
    exchange: &Exchange<'_>,
    accept: Accept,
    form: Form,
) -> Result<Response<Body>, Fault> {
    let key = headers::idempotency_key(exchange.headers())?;
    let prefers = Preferences::of(exchange.headers());
    if form != Form::Json {
        return match key {
            Some(_) => Err(not_streamed()),
            // A stream is there at once, and tells how the call goes.
            None => call.run(exchange, &accept, form).await,
        };
    }
    let response = match key {
        None => make(call, exchange, accept, prefers).await?.0,
        Some(key) => make_once(call, exchange, accept, prefers, &key).await?,
    };
    Ok(response)
}

fn not_streamed() -> Fault {
    let text =
        "an answer that is kept for an Idempotency-Key is no stream: send Accept: application/json";
    Fault::new(Kind::InvalidRequest, text)
}

/// Makes the call. Whether its answer is final comes with it.
async fn make(
    call: ToolCall<'_>,
    exchange: &Exchange<'_>,
    accept: Accept,
    prefers: Preferences,
) -> Result<(Response<Body>, bool), Fault> {
    let (mut response, is_final) = if prefers.respond_async && !exchange.is_for_one_backend() {
        let wanted = call.wanted(exchange, true)?;
        later::begin(call, exchange, wanted, accept, prefers.wait).await?
    } else {
        let wanted = call.wanted(exchange, false)?;
        let completed = operations::run(exchange, Surface::Rest, wanted).await;
        let is_final = completed.is_final();
        let response = answered(*completed, call.input, |result| {
            tool_answer(result, &accept, call.called(exchange))
        });
        (response, is_final)
    };
    add_rate_limit(exchange, call.name, call.addressing, response.headers_mut());
    Ok((response, is_final))
}

async fn make_once(
    call: ToolCall<'_>,
    exchange: &Exchange<'_>,
    accept: Accept,
    prefers: Preferences,
    key: &str,
) -> Result<Response<Body>, Fault> {
    let wanted = call.wanted(exchange, false)?;
    let arguments = canonical(wanted.params.get("arguments").unwrap_or(b"{}"));
    let keyed = Keyed::new(exchange.identity(), call.name, key, &arguments);
    let (bounds, share) = exchange.server.replay_bounds();
    match find(exchange, &keyed, prefers.wait).await {
        Found::Free(mut claim) => {
            claim.begin(bounds, share);
            let made = make(call, exchange, accept, prefers).await;
            match &made {
                Ok((response, true)) => keep(claim, response, bounds, share),
                Ok((_, false)) | Err(_) => claim.free(),
            }
            made.map(|(response, _)| response)
        }
        Found::Answered(answer) => Ok(replay(call, exchange, &wanted, &answer)),
        found => {
            let record = operations::open(exchange, Surface::Rest, &wanted);
            let completed = Completed::refused(replays::refusal(&found), record);
            Ok(refused(completed, call.input))
        }
    }
}

/// Looks the key up, waiting for a first request that runs.
async fn find(exchange: &Exchange<'_>, keyed: &Keyed, wait: Option<Duration>) -> Found {
    let patience = wait.map_or(PATIENCE, |wait| wait.min(PATIENCE));
    let deadline = Instant::now() + patience;
    let (bounds, share) = exchange.server.replay_bounds();
    loop {
        let found = exchange.server.gateway.replays.find(keyed, bounds, share);
        let Found::Running(mut running) = found else {
            return found;
        };
        // Its sender says nothing, and is gone when the request has ended.
        if timeout_at(deadline, running.changed()).await.is_err() {
            return Found::Running(running);
        }
    }
}

fn keep(claim: Claim, response: &Response<Body>, bounds: Replayable, share: Replayable) {
    let Some(answer) = StoredAnswer::of(response) else {
        return;
    };
    claim.keep(answer.without_figures(), bounds, share);
}

/// Gives the answer of the first request again, to a caller who could make the call now.
fn replay(
    call: ToolCall<'_>,
    exchange: &Exchange<'_>,
    wanted: &Wanted,
    answer: &StoredAnswer,
) -> Response<Body> {
    let record = operations::open(exchange, Surface::Rest, wanted);
    if let Err(fault) = operations::permits(exchange, wanted, &record) {
        return refused(Completed::refused(fault, record), call.input);
    }
    let mut response = answer.respond();
    let headers = response.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    add_rate_limit(exchange, call.name, call.addressing, headers);
    let ending = Ending::Replayed {
        is_error: answer.is_error(),
    };
    record.end(&ending, answer.body_len());
    response
}
