//! The channel between a call and its caller.
//!
//! A backend holds the `Line`: it sends notices and questions. The surface holds the `Conversation`: it receives
//! these and, last, the reply. Dropping the conversation cancels the call: the backend's future is dropped with it
//! and frees its resources. A conversation can be parked and resumed later, on another thread; meanwhile the call is
//! not polled.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Payload};
use tokio::sync::oneshot;

use crate::admission::PermitSlot;
use crate::attribution;
use crate::audit::AuditTrail;
use crate::fault::Fault;
use crate::pieces::{Beginning, Feed, feed};
use crate::queue::{Receiver, Sender, Weighted, queue};
use crate::reply::Reply;
use relation::{related, unrelated};

pub(crate) mod relation;

/// Unread notices of a call before further ones are dropped: enough for a burst, and little memory for ten thousand
/// calls.
const QUEUE_LEN_MAX: usize = 64;
/// The default bound in bytes (`limits.stream_buffer_kb`). A lone notice is accepted at any size.
pub(crate) const UNREAD_BYTES_MAX: usize = 256 * 1024;

/// A one-way message to the caller.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Params of `notifications/progress`; the surface inserts the caller's own token.
    Progress(Payload),
    /// Params of `notifications/message`.
    Log(Payload),
    /// Params of `notifications/elicitation/complete`.
    Elicited(Payload),
    /// The backend began a resumable stream.
    Primed,
    /// The backend closed its stream before it answered; the answer follows on another stream.
    Pause,
}

/// A caller's answer to a question.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The raw result object.
    Result(Bytes),
    /// The raw error object.
    Error(Bytes),
}

/// A question that a backend puts to the caller during a call.
#[derive(Debug)]
pub struct Ask {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: Method,
    pub params: Bytes,
    /// Closed when the backend withdraws the question.
    pub answer: oneshot::Sender<Answer>,
}

impl Weighted for Event {
    /// Questions have no weight, since their answers are awaited. A reply has bounds of its own.
    fn weight(&self) -> usize {
        match self {
            Self::Notice(notice) => match &**notice {
                Notice::Progress(said) | Notice::Log(said) | Notice::Elicited(said) => {
                    said.as_bytes().len()
                }
                Notice::Primed | Notice::Pause => 0,
            },
            Self::Ask(_) | Self::Begins(_) => 0,
        }
    }
}

/// Boxed to keep queues small.
#[derive(Debug)]
pub enum Event {
    Notice(Box<Notice>),
    Ask(Box<Ask>),
    /// The reply begins; the rest arrives through `Beginning`, and the outcome last.
    Begins(Box<Beginning>),
}

/// The backend's end.
#[derive(Clone)]
pub struct Line {
    events: Sender<Event>,
    /// The backend named in questions; set when the call is routed.
    asker: Option<Arc<str>>,
    /// The call's permit, released while the caller is asked.
    slot: PermitSlot,
    /// The call is a task at its server only: messages to the caller must not mention the task.
    hides_task: bool,
}

/// The surface's end of a line.
pub type Events = Receiver<Event>;

impl Line {
    /// A line for a call with this permit; unread messages of its caller are bounded in bytes.
    pub fn open(slot: PermitSlot, unread_bytes_max: usize) -> (Self, Events) {
        let (sender, events) = queue(QUEUE_LEN_MAX, unread_bytes_max);
        let line = Self {
            events: sender,
            asker: None,
            slot,
            hides_task: false,
        };
        (line, events)
    }

    /// A clone for a call that runs as a task which the caller does not know, or knows by another name: the server's
    /// task id is removed from messages and added to answers, as the server requires.
    pub(crate) fn hiding_task(&self) -> Self {
        Self {
            hides_task: true,
            ..self.clone()
        }
    }

    /// Sets the backend's name for questions.
    pub(crate) fn sign(&mut self, asker: &Arc<str>) {
        self.asker = Some(asker.clone());
    }

    /// Sends a notice; dropped when the caller does not keep up.
    pub fn notice(&self, mut notice: Notice) {
        if self.hides_task
            && let Notice::Progress(said) | Notice::Log(said) | Notice::Elicited(said) = &mut notice
            && let Some((plain, _)) = unrelated(said)
        {
            *said = plain;
        }
        self.events.send(Event::Notice(Box::new(notice)));
    }

    /// Begins the reply for a caller that takes it in pieces; each piece may wait for `patience`.
    pub fn begin(&self, first: Bytes, patience: Duration) -> Feed {
        let (feed, beginning) = feed(first, patience);
        self.events.send(Event::Begins(Box::new(beginning)));
        feed
    }

    /// Asks the caller; resolves without a value when the caller is gone. The call's permit is released until the
    /// answer.
    pub fn ask(
        &self,
        method: Method,
        params: Bytes,
    ) -> impl Future<Output = Option<Answer>> + Send + use<> {
        let (answer, heard) = oneshot::channel();
        let hidden = match self.hides_task {
            true => Payload::parse(params.clone(), Rules::backend()).ok(),
            false => None,
        };
        let (params, task) = match hidden.as_ref().and_then(unrelated) {
            Some((plain, task)) => (plain.to_bytes(), Some(task)),
            None => (params, None),
        };
        let params = match &self.asker {
            Some(asker) => attribution::sign(&method, params, asker),
            None => params,
        };
        self.events.send(Event::Ask(Box::new(Ask {
            method,
            params,
            answer,
        })));
        let asking = self.slot.ask();
        async move {
            let answer = heard.await.ok();
            asking.answered().await;
            match (answer, task) {
                (Some(Answer::Result(result)), Some(task)) => {
                    Some(Answer::Result(related(result, &task)))
                }
                (answer, _) => answer,
            }
        }
    }
}

/// The next event of a conversation.
#[derive(Debug)]
pub enum Step {
    Event(Event),
    Done(Result<Reply, Fault>),
}

/// The surface's end of a running call.
pub struct Conversation {
    /// The last progress value sent to the caller.
    progress: f64,
    reply: BoxFuture<'static, Result<Reply, Fault>>,
    events: Events,
    done: Option<Result<Reply, Fault>>,
    trail: Arc<AuditTrail>,
    slot: PermitSlot,
}

impl Conversation {
    pub fn new(
        reply: BoxFuture<'static, Result<Reply, Fault>>,
        events: Events,
        trail: Arc<AuditTrail>,
        slot: PermitSlot,
    ) -> Self {
        Self {
            progress: f64::NEG_INFINITY,
            reply,
            events,
            done: None,
            trail,
            slot,
        }
    }

    /// The walk's notes about the call.
    pub fn trail(&self) -> &AuditTrail {
        &self.trail
    }

    /// Releases the call's permit while the caller thinks; the next step takes another.
    pub fn set_aside(&self) {
        self.slot.park();
    }

    /// The next event, or the reply after all events that precede it. Must not be called again after `Done`.
    pub async fn next(&mut self) -> Step {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if self.done.is_none()
            && let Poll::Ready(outcome) = self.reply.as_mut().poll(cx)
        {
            self.done = Some(outcome);
        }
        // Events sent before the reply precede it, so the queue is checked after polling the reply's future.
        loop {
            match self.events.poll_next(cx) {
                Poll::Ready(event) if !self.is_progress(&event) => {}
                Poll::Ready(event) => {
                    if let Event::Ask(_) = &event {
                        self.trail.asked();
                    }
                    return Poll::Ready(Step::Event(event));
                }
                Poll::Pending => {
                    return match self.done.take() {
                        Some(outcome) => Poll::Ready(Step::Done(outcome)),
                        None => Poll::Pending,
                    };
                }
            }
        }
    }

    /// Whether an event is acceptable progress: values must increase, which not every server ensures. Other events
    /// pass.
    fn is_progress(&mut self, event: &Event) -> bool {
        let Event::Notice(notice) = event else {
            return true;
        };
        let Notice::Progress(said) = &**notice else {
            return true;
        };
        let number = said
            .get("progress")
            .and_then(|raw| std::str::from_utf8(raw).ok());
        let number: f64 = number.and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
        let rises = number > self.progress;
        if rises {
            self.progress = number;
        }
        rises
    }
}

#[cfg(test)]
mod tests;
