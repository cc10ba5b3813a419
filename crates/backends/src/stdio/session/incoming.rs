//! Lines of the child: answers, notices, and lines that are no message.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use sentinel_core::{Fault, ItemKind, Kind, Line as CallerLine};
use sentinel_wire::envelope::Refusal;
use sentinel_wire::json::Rules;
use sentinel_wire::{Id, Incoming, Message, Method, Notification, Payload, meta};
use tokio::time::Instant;

use super::super::pipe::Line;
use super::super::stderr::Allowance;
use super::ChildSession;
use crate::relay;

impl ChildSession {
    /// Handles one line of the child. Never blocks: it runs in the task that reads.
    pub(crate) fn on_line(self: &Arc<Self>, line: Line) {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong { error, id } => return self.too_long(error, id),
        };
        match Incoming::parse(line, Rules::backend()) {
            Ok(Incoming::One(message)) => self.on_message(message),
            // Only 2025-03-26 has batches, but reading one costs nothing in any revision.
            Ok(Incoming::Batch(messages)) => {
                for message in messages {
                    match message {
                        Ok(message) => self.on_message(message),
                        Err(refusal) => self.invalid_line(&refusal),
                    }
                }
            }
            Err(refusal) => self.invalid_line(&refusal),
        }
    }

    fn on_message(self: &Arc<Self>, message: Message) {
        match message {
            Message::Response(response) => {
                let id = response.id.as_ref().and_then(Id::as_u64);
                if let Some(waiter) = self.pipe.take(id) {
                    if waiter.side.is_some() {
                        self.served.store(true, Ordering::Relaxed);
                    }
                    // The waiting call may have been dropped just now.
                    let _ = waiter.reply.send(Ok(response.outcome));
                } else {
                    tracing::debug!(backend = %self.name, id = ?response.id, "an answer to no waiting request");
                }
            }
            Message::Notification(notification) => self.on_notification(notification),
            Message::Request(request) => self.on_request(request),
        }
    }

    fn on_notification(&self, notification: Notification) {
        let Notification { method, params } = notification;
        match method {
            Method::Progress => {
                let token = params.get(meta::PROGRESS_TOKEN).map(Bytes::copy_from_slice);
                let id = token
                    .and_then(Id::from_raw)
                    .and_then(|token| token.as_u64());
                let line = id.and_then(|id| self.pipe.with(id, |w| w.line()).flatten());
                self.pass_on(line, &method, params.as_bytes());
            }
            // These notifications name no request: they reach a caller only if there is no other.
            Method::LogMessage | Method::ElicitationComplete => {
                let line = self
                    .pipe
                    .only(|w| w.side.is_some(), |_, w| w.line())
                    .flatten();
                self.pass_on(line, &method, params.as_bytes());
            }
            Method::ToolsChanged => self.tools_changed(),
            Method::ResourcesChanged => {
                self.changed.set(&[ItemKind::Resource, ItemKind::Template]);
            }
            Method::PromptsChanged => self.changed.set(&[ItemKind::Prompt]),
            Method::ResourceUpdated => {
                if let Some(uri) = params.string("uri") {
                    self.publisher.updated(&uri);
                }
            }
            Method::TaskChanged => self.publisher.task_changed(&params),
            Method::Cancelled => self.withdraw_ask(params.get("requestId")),
            _ => {}
        }
    }

    fn pass_on(&self, line: Option<CallerLine>, method: &Method, params: &[u8]) {
        let Some(line) = line else { return };
        let payload = Payload::parse(Bytes::copy_from_slice(params), Rules::backend());
        if let Some(notice) = payload
            .ok()
            .and_then(|params| relay::notice(method, params))
        {
            line.notice(notice);
        }
    }

    /// Handles an invalid line. If it has an id of ours, that request fails at once.
    fn invalid_line(&self, refusal: &Refusal) {
        let id = refusal.id.as_ref().and_then(Id::as_u64);
        if let Some(waiter) = id.and_then(|id| self.pipe.take(Some(id))) {
            let fault = relay::bad_reply(&refusal.message);
            let _ = waiter.reply.send(Err(fault));
        }
        let left_out = match self.invalid_lines.lock().take(Instant::now()) {
            Allowance::Yes => 0,
            Allowance::YesAfter(left_out) => left_out,
            Allowance::No => return,
        };
        let text = format!(
            "its standard output has a line that is no message: {}",
            refusal.message
        );
        tracing::warn!(backend = %self.name, left_out, "{text}");
        self.output_tail.push(&format!("({text})"));
    }

    fn too_long(&self, error: impl std::error::Error + Send + Sync + 'static, id: Option<u64>) {
        // Without a readable id it is attributed to the only request in flight, if there is one.
        let id = id.or_else(|| self.pipe.only(|_| true, |id, _| id));
        tracing::warn!(backend = %self.name, "{error}");
        if let Some(waiter) = id.and_then(|id| self.pipe.take(Some(id))) {
            let text = "the backend's answer is longer than `limits.line_mb` allows";
            let _ = waiter
                .reply
                .send(Err(Fault::new(Kind::BackendBadReply, text).because(error)));
        }
    }
}
