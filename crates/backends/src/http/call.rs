//! One call to an HTTP server, from the core's shape to bytes and back.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use http::{HeaderName, HeaderValue, StatusCode};
use sentinel_core::{self as core, Call, Fault, Kind, Line, Reply};
use sentinel_wire::envelope::{
    Id, error_object, write_error_object, write_notification, write_result,
};
use sentinel_wire::json::Rules;
use sentinel_wire::{
    Incoming, Message, Method, Outcome, Payload, Request, Revision, header, meta, sse,
};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::post::{Answer, Envelope, Failure, Stream, header_name};
use super::upstream::{Key, Upstream};
use super::{Inner, Ready, State, keep, speak};
use crate::relay;

/// Answers to a server's questions, on their way back to it.
type Answers = FuturesUnordered<BoxFuture<'static, (Id, core::Answer)>>;

pub(super) async fn run(inner: Arc<Inner>, call: Call) -> Result<Reply, Fault> {
    let deadline = Instant::now() + inner.config.timeout;
    let timed = tokio::time::timeout_at(deadline, begin(&inner, &call));
    let (upstream, id, answer, mut guard) = timed.await.map_err(|_| inner.timed_out())??;
    let outcome = match answer {
        Answer::Json { status, body, .. } => speak::read_json(&inner, status, body, id)?,
        Answer::Stream { events, .. } => {
            let mut follower = Follower {
                inner: &inner,
                upstream: &upstream,
                line: &call.line,
                id,
            };
            Box::pin(follower.follow(events, deadline)).await?
        }
        Answer::Nothing { .. } => return Err(relay::bad_reply("an empty answer")),
        Answer::Refused {
            status,
            retry_after_ms,
            body,
        } => {
            guard.disarm();
            return Err(inner.refused(status, retry_after_ms, &body));
        }
    };
    guard.disarm();
    relay::reply(outcome, upstream.revision)
}

/// Sends the request and waits for the head of its answer, renewing a session that expired.
async fn begin(
    inner: &Arc<Inner>,
    call: &Call,
) -> Result<(Arc<Upstream>, u64, Answer, Guard), Fault> {
    let mut renewed = false;
    let mut attempts = inner.config.retries;
    loop {
        let ready = inner.ready().await?;
        let (upstream, key) = inner.upstream(&ready, call).await?;
        let id = inner.mint_id();
        let mut guard = Guard::new(inner, &upstream, id);
        let body: Bytes = relay::request(call, id, upstream.revision).into();
        let name = header_name(&call.method, &call.params);
        let own = call
            .target
            .as_ref()
            .and_then(|target| target.own_name.as_deref());
        let extra = if upstream.revision.is_modern() {
            mirrored(call)?
        } else {
            Vec::new()
        };
        let envelope = Envelope {
            method: &call.method,
            name: own.or(name.as_deref()),
            revision: Some(upstream.revision),
            session: upstream.session.as_ref(),
            extra: &extra,
        };
        match inner.post.send(envelope, body).await {
            Ok(answer) if !renewed && is_unknown_session(&answer, &upstream) => {
                // The server never saw the call: a session it does not know is refused unread.
                guard.disarm();
                renewed = true;
                Box::pin(inner.renew(&ready, key, &upstream)).await?;
            }
            Ok(answer) => return Ok((upstream, id, answer, guard)),
            Err(Failure::Lost(_)) if attempts > 0 && inner.may_repeat(call) => {
                guard.disarm();
                attempts -= 1;
            }
            Err(failure) => {
                guard.disarm();
                return Err(failure.into());
            }
        }
    }
}

/// The arguments that the server wants to see in headers as well.
fn mirrored(call: &Call) -> Result<Vec<(HeaderName, HeaderValue)>, Fault> {
    let Some(params) = call
        .target
        .as_ref()
        .and_then(|target| target.mirrored.as_deref())
    else {
        return Ok(Vec::new());
    };
    let unfit = |why: String| Fault::new(Kind::InvalidParams, why);
    let arguments: Option<&RawValue> = call
        .params
        .get("arguments")
        .and_then(|raw| serde_json::from_slice(raw).ok());
    let headers = header::params::headers(params, arguments).map_err(|e| unfit(e.to_string()))?;
    let encode = |(name, value): (&str, String)| {
        let name = HeaderName::try_from(name).map_err(|e| unfit(e.to_string()))?;
        let value = HeaderValue::try_from(value).map_err(|e| unfit(e.to_string()))?;
        Ok((name, value))
    };
    headers.into_iter().map(encode).collect()
}

fn is_unknown_session(answer: &Answer, upstream: &Upstream) -> bool {
    let status = match answer {
        Answer::Json { status, .. } | Answer::Refused { status, .. } => *status,
        _ => return false,
    };
    status == StatusCode::NOT_FOUND && upstream.session.is_some()
}

impl Inner {
    /// The way to address the server for this caller.
    async fn upstream(
        &self,
        ready: &Ready,
        call: &Call,
    ) -> Result<(Arc<Upstream>, Option<Key>), Fault> {
        let key = if ready.base.revision.is_modern() {
            None
        } else {
            Key::of(&call.caller)
        };
        let Some(key) = key else {
            return Ok((ready.base.clone(), None));
        };
        let cell = self.sessions.cell(&key);
        let opened = cell
            .get_or_try_init(|| Box::pin(speak::open_session(self, key.capabilities())))
            .await?;
        Ok((opened.clone(), Some(key)))
    }

    /// Replaces a session that the server no longer knows.
    async fn renew(
        &self,
        ready: &Ready,
        key: Option<Key>,
        stale: &Arc<Upstream>,
    ) -> Result<(), Fault> {
        if let Some(key) = key {
            self.sessions.forget(&key, stale);
            return Ok(());
        }
        let _one_at_a_time = self.renewing.lock().await;
        let current = self.state.borrow().clone();
        if matches!(current, State::Ready(current) if !Arc::ptr_eq(&current.base, &ready.base)) {
            return Ok(());
        }
        let fresh = speak::greet(self).await?;
        self.state.send_replace(State::Ready(fresh));
        self.refresh.notify_one();
        Ok(())
    }

    /// Whether running it twice does no harm, by the protocol or by our own configuration; what a
    /// server claims of its tools does not count.
    fn may_repeat(&self, call: &Call) -> bool {
        match call.method {
            Method::ResourcesRead | Method::PromptsGet | Method::Complete => true,
            Method::ToolsCall => {
                let own = call.target.as_ref().and_then(|t| t.own_name.as_deref());
                let name = call.params.string("name").unwrap_or_default();
                let name = own.unwrap_or(&name);
                self.config.idempotent_tools.iter().any(|tool| tool == name)
            }
            _ => false,
        }
    }
}

/// Reads the stream of one call.
struct Follower<'a> {
    inner: &'a Arc<Inner>,
    upstream: &'a Arc<Upstream>,
    line: &'a Line,
    id: u64,
}

impl Follower<'_> {
    async fn follow(&mut self, mut stream: Stream, deadline: Instant) -> Result<Outcome, Fault> {
        let mut decoder = sse::Decoder::new(self.inner.config.reply_bytes_max);
        let mut answers = Answers::new();
        let mut waiting_since = None;
        let clock = tokio::time::sleep_until(deadline);
        tokio::pin!(clock);
        loop {
            tokio::select! {
                biased;
                chunk = stream.chunk(&self.inner.post) => {
                    let Some(mut chunk) = chunk.map_err(Fault::from)? else {
                        return Err(relay::bad_reply("the stream ended without an answer"));
                    };
                    while let Some(event) = decoder.next(&mut chunk) {
                        let event = event.map_err(|e| relay::bad_reply("an event is too large").because(e))?;
                        if let Some(outcome) = self.hear(event, &mut answers)? {
                            return Ok(outcome);
                        }
                    }
                    if !answers.is_empty() && waiting_since.is_none() {
                        waiting_since = Some(Instant::now());
                    }
                }
                Some((id, answer)) = answers.next(), if !answers.is_empty() => {
                    self.answer(id, answer);
                    if answers.is_empty() && let Some(since) = waiting_since.take() {
                        // The caller's time to think is not the server's.
                        let later = clock.deadline() + since.elapsed();
                        clock.as_mut().reset(later);
                    }
                }
                () = &mut clock, if answers.is_empty() => return Err(self.inner.timed_out()),
            }
        }
    }

    /// Takes one event; the outcome if it is the answer to the call.
    fn hear(&self, event: sse::Event, answers: &mut Answers) -> Result<Option<Outcome>, Fault> {
        if event.data.is_empty() || !event.is_message() {
            return Ok(None);
        }
        let messages = match Incoming::parse(event.data, Rules::backend()) {
            Ok(Incoming::One(message)) => vec![Ok(message)],
            Ok(Incoming::Batch(messages)) => messages,
            Err(refusal) => {
                return Err(relay::bad_reply("an event is no message").because(refusal.message));
            }
        };
        for message in messages.into_iter().flatten() {
            match message {
                Message::Response(r) if r.id.as_ref().and_then(Id::as_u64) == Some(self.id) => {
                    return Ok(Some(r.outcome));
                }
                Message::Response(_) => {
                    tracing::debug!(backend = %self.inner.config.name, "dropped an answer to another request")
                }
                Message::Notification(notice) => self.pass_on(&notice.method, notice.params),
                Message::Request(request) => self.ask(request, answers),
            }
        }
        Ok(None)
    }

    fn pass_on(&self, method: &Method, params: sentinel_wire::Params) {
        if keep::is_change(method) {
            self.inner.refresh.notify_one();
        }
        let for_this_call = *method != Method::Progress
            || params
                .get(meta::PROGRESS_TOKEN)
                .and_then(|t| std::str::from_utf8(t).ok()?.parse().ok())
                == Some(self.id);
        let raw = Bytes::copy_from_slice(params.as_bytes());
        if let (true, Ok(payload)) = (for_this_call, Payload::parse(raw, Rules::backend()))
            && let Some(notice) = relay::notice(method, payload)
        {
            self.line.notice(notice);
        }
    }

    /// The server asks something: of us, or of the caller.
    fn ask(&self, request: Request, answers: &mut Answers) {
        let answer: BoxFuture<'static, core::Answer> = match request.method {
            Method::Ping => Box::pin(std::future::ready(core::Answer::Result(
                Bytes::from_static(b"{}"),
            ))),
            Method::Elicit | Method::Sample | Method::RootsList => {
                let params = Bytes::copy_from_slice(request.params.as_bytes());
                let heard = self.line.ask(request.method.clone(), params);
                let gone = core::Answer::Error(relay::nobody_to_ask(&request.method));
                Box::pin(async move { heard.await.unwrap_or(gone) })
            }
            ref other => {
                let text = format!("unknown method: {}", other.as_str());
                let error = error_object(-32601, &text, None);
                Box::pin(std::future::ready(core::Answer::Error(error.into())))
            }
        };
        let id = request.id;
        answers.push(Box::pin(async move { (id, answer.await) }));
    }

    /// Sends an answer back in a request of its own, beside the stream.
    fn answer(&self, id: Id, answer: core::Answer) {
        let mut body = Vec::new();
        match answer {
            core::Answer::Result(result) => write_result(&id, &result, &mut body),
            core::Answer::Error(error) => {
                write_error_object(Some(&id), Revision::NEWEST_LEGACY, &error, &mut body)
            }
        }
        post_aside(
            self.inner.clone(),
            self.upstream.clone(),
            Method::Other("".into()),
            body,
        );
    }
}

/// Posts something that nobody waits for.
fn post_aside(inner: Arc<Inner>, upstream: Arc<Upstream>, method: Method, body: Vec<u8>) {
    tokio::spawn(async move {
        let envelope = Envelope {
            method: &method,
            name: None,
            revision: Some(upstream.revision),
            session: upstream.session.as_ref(),
            extra: &[],
        };
        let sent = inner.post.send(envelope, body.into());
        if let Ok(Err(failure)) = tokio::time::timeout(inner.config.timeout, sent).await {
            tracing::debug!(backend = %inner.config.name, "could not be told: {:?}", Fault::from(failure));
        }
    });
}

/// Tells a legacy server when its call is dropped. A modern one hears the stream close.
struct Guard {
    armed: Option<(Arc<Inner>, Arc<Upstream>, u64)>,
}

impl Guard {
    fn new(inner: &Arc<Inner>, upstream: &Arc<Upstream>, id: u64) -> Self {
        let legacy = !upstream.revision.is_modern();
        Self {
            armed: legacy.then(|| (inner.clone(), upstream.clone(), id)),
        }
    }

    fn disarm(&mut self) {
        self.armed = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some((inner, upstream, id)) = self.armed.take() {
            let mut body = Vec::new();
            write_notification(
                Method::Cancelled.as_str(),
                &relay::cancelled_params(id),
                &mut body,
            );
            post_aside(inner, upstream, Method::Cancelled, body);
        }
    }
}
