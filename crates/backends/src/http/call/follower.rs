//! Reads the stream of one call: progress, log lines and questions, up to the answer.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use sentinel_core::{self as core, Call, Fault, Notice};
use sentinel_wire::envelope::{Id, error_object, write_error_object, write_result};
use sentinel_wire::json::Rules;
use sentinel_wire::{Incoming, Message, Method, Outcome, Payload, Request, Revision, meta, sse};
use tokio::time::Instant;

use super::super::post::{Answer, Stream};
use super::super::session_stream;
use super::{Answers, Follower, Place, post_aside};
use crate::relay;

impl Follower<'_> {
    pub(super) async fn follow(
        &mut self,
        mut stream: Stream,
        outside: &mut Option<session_stream::CallMessages>,
        deadline: Instant,
    ) -> Result<Outcome, Fault> {
        let mut decoder = sse::Decoder::new(self.inner.config.reply_bytes_max);
        let mut answers = Answers::default();
        let mut place = Place::default();
        let mut is_new = true;
        let mut waiting_since = None;
        let clock = tokio::time::sleep_until(deadline);
        tokio::pin!(clock);
        loop {
            tokio::select! {
                biased;
                chunk = stream.chunk(&self.inner.post) => {
                    let Some(mut chunk) = chunk.map_err(Fault::from)? else {
                        stream = self.resume(&mut place).await?;
                        decoder = sse::Decoder::new(self.inner.config.reply_bytes_max);
                        continue;
                    };
                    while let Some(event) = decoder.next(&mut chunk) {
                        let event = event.map_err(relay::bad_reply)?;
                        place.note(&event);
                        if std::mem::take(&mut is_new) && self.is_primed(&event) {
                            self.line.notice(Notice::Primed);
                        }
                        if let Some(outcome) = self.hear(event, &mut answers)? {
                            return Ok(outcome);
                        }
                    }
                    if !answers.is_empty() && waiting_since.is_none() {
                        waiting_since = Some(Instant::now());
                    }
                }
                Some(message) = overhear(outside) => {
                    self.take(message, &mut answers);
                    if !answers.is_empty() && waiting_since.is_none() {
                        waiting_since = Some(Instant::now());
                    }
                }
                Some(answered) = answers.coming.next(), if !answers.is_empty() => {
                    if let Some((id, answer)) = answered {
                        answers.withdraw.remove(&id);
                        self.answer(id, answer);
                    }
                    if answers.is_empty() && let Some(since) = waiting_since.take() {
                        // The caller's time for an answer is not counted against the server.
                        let later = clock.deadline() + since.elapsed();
                        clock.as_mut().reset(later);
                    }
                }
                () = &mut clock, if answers.is_empty() => return Err(self.inner.timed_out()),
            }
        }
    }

    /// Whether the server begins its stream with an id and a `retry`, as resumable streams do.
    fn is_primed(&self, event: &sse::Event) -> bool {
        self.upstream.revision >= Revision::V2025_11_25
            && event.data.is_empty()
            && event.id.as_ref().is_some_and(|id| !id.is_empty())
            && event.retry.is_some()
    }

    /// Passes on what the server logged for this call on the session's own stream before it answered.
    pub(super) async fn hear_out(
        &self,
        outside: &mut Option<session_stream::CallMessages>,
        call: &Call,
    ) {
        let wanted = call.caller.log_level.get().is_some();
        let Some(mut outside) = outside.take().filter(|_| wanted) else {
            return;
        };
        Box::pin(outside.catch_up()).await;
        while let Ok(message) = outside.messages.try_recv() {
            if let Message::Notification(notice) = message {
                self.pass_on(&notice.method, notice.params);
            }
        }
    }

    /// A 2025-11-25 server may close the connection before it answered: the stream continues by GET after its last
    /// event id. The call's deadline bounds how often.
    async fn resume(&self, place: &mut Place) -> Result<Stream, Fault> {
        let ended = || relay::bad_reply("the stream ended without an answer");
        let after = place.last_event.clone().ok_or_else(ended)?;
        self.line.notice(Notice::Pause);
        tokio::time::sleep(place.pause).await;
        let envelope = self.upstream.envelope(&Method::Listen);
        match self.inner.post.listen(envelope, Some(&after)).await? {
            Answer::Stream { events, .. } => Ok(events),
            _ => Err(ended()),
        }
    }

    /// Handles one event; returns the outcome if it is the answer to the call.
    fn hear(&self, event: sse::Event, answers: &mut Answers) -> Result<Option<Outcome>, Fault> {
        if event.data.is_empty() || !event.is_message() {
            return Ok(None);
        }
        let is_large = event.data.len() > self.inner.config.event_bytes_max;
        let messages = match Incoming::parse(event.data, Rules::backend()) {
            Ok(Incoming::One(message)) => vec![Ok(message)],
            Ok(Incoming::Batch(messages)) => messages,
            Err(refusal) => {
                return Err(relay::bad_reply(format!(
                    "an event is no message: {}",
                    refusal.message
                )));
            }
        };
        for message in messages.into_iter().flatten() {
            match message {
                Message::Response(r) if r.id.as_ref().and_then(Id::as_u64) == Some(self.id) => {
                    return Ok(Some(r.outcome));
                }
                other if is_large => self.pass_over(other, answers),
                other => self.take(other, answers),
            }
        }
        Ok(None)
    }

    /// Drops a message, other than the answer, that exceeds the size limit; a question is answered with an error.
    fn pass_over(&self, message: Message, answers: &mut Answers) {
        let max = self.inner.config.event_bytes_max;
        self.inner.warn_of_size(max);
        if let Message::Request(request) = message
            && !self.upstream.revision.is_modern()
        {
            let text = format!("the question is larger than the {max} bytes allowed");
            let error = core::Answer::Error(error_object(-32600, &text, None).into());
            answers.await_for(request.id, Box::pin(std::future::ready(error)));
        }
    }

    /// Handles a message that is not the answer to the call.
    fn take(&self, message: Message, answers: &mut Answers) {
        match message {
            Message::Response(_) => {
                tracing::debug!(backend = %self.inner.config.name, "dropped an answer to another request")
            }
            Message::Notification(notice) if notice.method == Method::Cancelled => {
                let id = notice.params.get_bytes("requestId").and_then(Id::from_raw);
                if let Some(handle) = id.and_then(|id| answers.withdraw.remove(&id)) {
                    handle.abort();
                }
            }
            Message::Notification(notice) => self.pass_on(&notice.method, notice.params),
            // Servers of this revision must not ask, and must not be answered.
            Message::Request(request) if self.upstream.revision.is_modern() => {
                if self.upstream.is_first_breach() {
                    let (name, method) = (&self.inner.config.name, request.method.as_str());
                    tracing::warn!(backend = %name, method, "ignored a request of a server of 2026-07-28, which has none; further ones are not logged");
                }
            }
            Message::Request(request) => self.ask(request, answers),
        }
    }

    fn pass_on(&self, method: &Method, params: sentinel_wire::Params) {
        self.inner.on_notification(method, &params);
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

    /// Handles a question of the server: for the gateway itself, or for the caller.
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
        answers.await_for(request.id, answer);
    }

    /// Posts an answer to a question in a request of its own.
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

/// The next message for this call on the session's own stream; pending for ever where there is no such stream.
async fn overhear(outside: &mut Option<session_stream::CallMessages>) -> Option<Message> {
    match outside {
        Some(heard) => heard.messages.recv().await,
        None => std::future::pending().await,
    }
}
