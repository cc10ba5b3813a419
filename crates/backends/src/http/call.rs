//! One call to an HTTP server: writes the request, follows the answer.

mod follower;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{AbortHandle, BoxFuture, abortable};
use futures_util::stream::FuturesUnordered;
use http::{HeaderName, HeaderValue};
use sentinel_core::{self as core, Call, Fault, Kind, Line, LogLevel, Reply};
use sentinel_wire::envelope::{Id, write_notification};
use sentinel_wire::{Method, header, sse};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::large::{self, ExpectedAnswer};
use super::post::{Answer, Envelope, Failure, header_name};
use super::speak::Speaker;
use super::upstream::{Key, Upstream};
use super::{Inner, Ready, State, eras, session_stream, speak};
use crate::discover::Peer;
use crate::relay;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Answers to a server's questions that are still to be sent.
#[derive(Default)]
struct Answers {
    coming: FuturesUnordered<BoxFuture<'static, Option<(Id, core::Answer)>>>,
    /// Aborts a question that the server withdrew.
    withdraw: HashMap<Id, AbortHandle>,
}

impl Answers {
    fn is_empty(&self) -> bool {
        self.coming.is_empty()
    }

    fn await_for(&mut self, id: Id, answer: BoxFuture<'static, core::Answer>) {
        let (answer, handle) = abortable(answer);
        self.withdraw.insert(id.clone(), handle);
        self.coming.push(Box::pin(async move {
            answer.await.ok().map(|answer| (id, answer))
        }));
    }
}

pub(super) async fn run(inner: Arc<Inner>, call: Box<Call>) -> Result<Reply, Fault> {
    let mut subscribed = None;
    if let State::Ready(ready) = &*inner.state.borrow()
        && ready.base.revision.is_modern()
        && let Some(reply) = relay::answer_for_modern(&call)
    {
        subscribed = Some(reply);
    }
    if let Some(reply) = subscribed {
        Box::pin(inner.publisher.are_told()).await;
        return Ok(reply);
    }
    let deadline = Instant::now() + inner.config.timeout;
    let timed = tokio::time::timeout_at(deadline, begin(&inner, &call));
    let (upstream, id, answer, mut guard, mut outside) =
        timed.await.map_err(|_| inner.timed_out())??;
    let mut follower = Follower {
        inner: &inner,
        upstream: &upstream,
        line: &call.line,
        id,
    };
    let outcome = match answer {
        Answer::Json { status, body, .. } => speak::read_json(&inner, status, body, id)?,
        Answer::Large(large) => {
            // Other messages would interrupt the pieces of the answer.
            follower.hear_out(&mut outside, &call).await;
            Box::pin(large::pass(&inner, &call, *large)).await?
        }
        Answer::Stream { events, .. } => {
            Box::pin(follower.follow(events, &mut outside, deadline)).await?
        }
        Answer::Nothing { .. } => return Err(speak::empty()),
        Answer::Refused(refusal) => {
            guard.disarm();
            return Err(inner.refused(&refusal));
        }
    };
    guard.disarm();
    follower.hear_out(&mut outside, &call).await;
    relay::reply(&call, outcome, upstream.revision)
}

/// Sends the request and waits for the head of its answer, renewing a session that expired.
async fn begin(
    inner: &Arc<Inner>,
    call: &Call,
) -> Result<
    (
        Arc<Upstream>,
        u64,
        Answer,
        Guard,
        Option<session_stream::CallMessages>,
    ),
    Fault,
> {
    let mut renewed = false;
    let mut lost = None;
    let mut attempts = inner.config.retries;
    loop {
        let ready = inner.ready().await?;
        let (upstream, key) = inner.upstream(&ready, call).await?;
        inner.tell_level(&upstream, call).await;
        let id = inner.mint_id();
        let outside = match &key {
            Some(key) if key.is_personal() => {
                let task = relay::awaited_task(call);
                Some(Box::pin(session_stream::subscribe(inner, &upstream, id, task)).await)
            }
            _ => None,
        };
        if inner.publisher.concerns(call) {
            Box::pin(inner.confirm(call, &mut lost)).await?;
        }
        let mut guard = Guard::new(inner, &upstream, id);
        let body: Bytes = relay::request(call, id, upstream.revision).into();
        let name = header_name(&call.method, &call.params);
        let own = call
            .target
            .as_ref()
            .and_then(|target| target.own_name.as_deref());
        let mut extra = if upstream.revision.is_modern() {
            mirrored(call)?
        } else {
            Vec::new()
        };
        let trace = call.trail.traceparent().map(HeaderValue::from_str);
        if let Some(Ok(trace)) = trace {
            extra.push((TRACEPARENT, trace));
        }
        let envelope = Envelope {
            method: &call.method,
            name: own.or(name.as_deref()),
            revision: Some(upstream.revision),
            session: upstream.session.as_ref(),
            extra: &extra,
        };
        let wanted = call
            .patience(upstream.revision)
            .map(|patience| ExpectedAnswer {
                id,
                revision: upstream.revision,
                patience,
            });
        match inner.post.send_for(wanted, envelope, body).await {
            Ok(answer) if !renewed && is_unknown_session(&answer, &upstream) => {
                // The server never saw the call: requests with an unknown session are refused unread.
                guard.disarm();
                renewed = true;
                call.trail.retried();
                Box::pin(inner.renew(&ready, key, &upstream)).await?;
            }
            Ok(answer) => return Ok((upstream, id, answer, guard, outside)),
            Err(Failure::Lost(fault)) if attempts > 0 && inner.may_repeat(call) => {
                guard.disarm();
                inner.freshness.invalidate();
                lost = Some(fault);
                attempts -= 1;
                call.trail.retried();
            }
            Err(failure) => {
                guard.disarm();
                // The next answer may come from another server.
                inner.freshness.invalidate();
                return Err(failure.into());
            }
        }
    }
}

/// The arguments that the server wants repeated in headers.
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
    upstream.session.is_some() && answer.is_unknown()
}

impl Inner {
    /// The session or revision under which this caller's call is sent.
    async fn upstream(
        &self,
        ready: &Ready,
        call: &Call,
    ) -> Result<(Arc<Upstream>, Option<Key>), Fault> {
        let shared = matches!(
            call.method,
            Method::ResourcesSubscribe | Method::ResourcesUnsubscribe
        );
        // Updates arrive on the stream of the base session, so subscriptions belong to that session.
        let key = ready.session_of(&call.caller).filter(|_| !shared);
        let Some(key) = key else {
            return Ok((ready.base.clone(), None));
        };
        if ready.base.revision.is_modern() {
            let legacy = Box::pin(eras::legacy(self, ready, call, &key)).await;
            return Ok(match legacy {
                Some(upstream) => (upstream, Some(key)),
                None => (ready.base.clone(), None),
            });
        }
        let cell = self.sessions.cell(&key);
        let opened = cell
            .get_or_try_init(|| Box::pin(speak::open_session(self, &key)))
            .await?;
        Ok((opened.clone(), Some(key)))
    }

    /// Sets a legacy server's log level to what the caller wants; callers that want less are spared the rest on the
    /// way up.
    async fn tell_level(&self, upstream: &Upstream, call: &Call) {
        let Some(rank) = call.caller.log_level.get() else {
            return;
        };
        if !upstream.logs || !upstream.needs_level(rank) {
            return;
        }
        let level = LogLevel::name(rank)
            .map(String::from_utf8_lossy)
            .unwrap_or_default();
        let params = format!(r#"{{"level":{level}}}"#).into_bytes();
        let speaker = Speaker::within(self, upstream);
        if let Err(error) = Box::pin(speaker.request(Method::SetLevel, params)).await {
            tracing::debug!(backend = %self.config.name, "logging/setLevel: {error}");
        }
    }

    /// Replaces a session that the server no longer knows.
    pub(super) async fn renew(
        &self,
        ready: &Ready,
        key: Option<Key>,
        stale: &Arc<Upstream>,
    ) -> Result<(), Fault> {
        if let Some(key) = key {
            self.sessions.forget(&key, stale);
            // The server was probably restarted, so the other sessions may be unknown as well.
            self.freshness.invalidate();
            return Ok(());
        }
        let _one_at_a_time = self.renewing.lock().await;
        let current = self.state.borrow().clone();
        if matches!(current, State::Ready(current) if !Arc::ptr_eq(&current.base, &ready.base)) {
            return Ok(());
        }
        let fresh = speak::greet(self).await?;
        self.freshness.invalidate();
        self.enter(State::Ready(fresh));
        self.refresh.notify_one();
        Ok(())
    }

    /// Whether running the call twice is harmless by the protocol or by our configuration; the server's own
    /// annotations do not count.
    fn may_repeat(&self, call: &Call) -> bool {
        match call.method {
            Method::ResourcesRead | Method::PromptsGet | Method::Complete => true,
            Method::ToolsCall => {
                let own = call.target.as_ref().and_then(|t| t.own_name.as_deref());
                let name = call.params.string("name").unwrap_or_default();
                let name = own.unwrap_or(&name);
                (self.config.idempotent_tools.iter()).any(|tool| tool.matches(name))
            }
            _ => false,
        }
    }
}

/// Where a stream can be resumed.
struct Place {
    last_event: Option<Bytes>,
    pause: Duration,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            last_event: None,
            pause: Duration::from_secs(1),
        }
    }
}

impl Place {
    fn note(&mut self, event: &sse::Event) {
        if let Some(id) = &event.id {
            self.last_event = Some(id.clone()).filter(|id| !id.is_empty());
        }
        if let Some(ms) = event.retry {
            self.pause = Duration::from_millis(ms.min(30_000));
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

/// Posts a message without waiting for its answer.
pub(super) fn post_aside(
    inner: Arc<Inner>,
    upstream: Arc<Upstream>,
    method: Method,
    body: Vec<u8>,
) {
    tokio::spawn(async move {
        let envelope = upstream.envelope(&method);
        let sent = inner.post.send(envelope, body.into());
        if let Ok(Err(failure)) = tokio::time::timeout(inner.config.timeout, sent).await {
            tracing::debug!(backend = %inner.config.name, "could not be told: {:?}", Fault::from(failure));
        }
    });
}

/// Sends `notifications/cancelled` to a legacy server when its call is dropped. A modern one sees its stream close.
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
