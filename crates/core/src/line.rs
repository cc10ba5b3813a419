//! The line between a call and its caller while the call runs.
//!
//! A backend holds the `Line`: it sends notices and asks. The surface holds the `Conversation`: it
//! hears them and, last, the reply. Dropping the conversation is cancellation: the backend's future
//! goes with it and frees whatever it held. A conversation can be set aside (parked) and taken up
//! again later, on another thread; nothing runs in between but what the backend does by itself.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sentinel_wire::{Method, Payload};
use tokio::sync::oneshot;

use crate::attribution;
use crate::audit::Trail;
use crate::call::Reply;
use crate::fault::Fault;
use crate::policy::Slot;

/// Notices a caller may lag behind before further ones are dropped: enough for a burst, small
/// enough that ten thousand calls cannot hold much.
const QUEUE_LEN_MAX: usize = 64;
/// The same in bytes, unless told (`limits.stream_buffer_kb`). A notice that is alone passes whatever its size.
pub(crate) const UNREAD_BYTES_MAX: usize = 256 * 1024;

/// A one-way message on the way to the caller.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Params of `notifications/progress`; the surface puts in the caller's own token.
    Progress(Payload),
    /// Params of `notifications/message`.
    Log(Payload),
    /// Params of `notifications/elicitation/complete`.
    Elicited(Payload),
    /// The backend closed its stream before it answered; the answer comes by another one, later.
    Pause,
}

/// How a caller answered an ask.
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
    /// Closed when the backend no longer wants to know.
    pub answer: oneshot::Sender<Answer>,
}

impl Event {
    /// What counts against the bound: questions do not, for somebody waits for their answers.
    fn weight(&self) -> usize {
        match self {
            Self::Notice(notice) => match &**notice {
                Notice::Progress(said) | Notice::Log(said) | Notice::Elicited(said) => {
                    said.as_bytes().len()
                }
                Notice::Pause => 0,
            },
            Self::Ask(_) => 0,
        }
    }
}

/// Boxed, so that a queue of them is small.
#[derive(Debug)]
pub enum Event {
    Notice(Box<Notice>),
    Ask(Box<Ask>),
}

/// What was said and not yet heard. Most calls say nothing, so this holds nothing until one does.
struct Said {
    events: VecDeque<Event>,
    bytes: usize,
    bytes_max: usize,
    listener: Option<Waker>,
    /// The caller is gone; nothing more is taken.
    closed: bool,
}

/// The backend's end.
#[derive(Clone)]
pub struct Line {
    said: Arc<Mutex<Said>>,
    /// Whose questions these are; known once the call was routed.
    asker: Option<Arc<str>>,
    /// The call's place, which is given up while somebody is asked.
    slot: Slot,
}

/// The surface's end of a line.
pub struct Events(Arc<Mutex<Said>>);

impl Line {
    pub fn open() -> (Self, Events) {
        Self::holding_up_to(UNREAD_BYTES_MAX)
    }

    /// A line whose caller may lag behind by so many bytes.
    pub fn holding_up_to(bytes_max: usize) -> (Self, Events) {
        let said = Arc::new(Mutex::new(Said {
            events: VecDeque::new(),
            bytes: 0,
            bytes_max,
            listener: None,
            closed: false,
        }));
        let line = Self {
            said: said.clone(),
            asker: None,
            slot: Slot::default(),
        };
        (line, Events(said))
    }

    /// Whose place among running calls this is.
    pub(crate) fn holding(mut self, slot: Slot) -> Self {
        self.slot = slot;
        self
    }

    /// Names the backend in everything that is asked from now on.
    pub(crate) fn sign(&mut self, asker: &Arc<str>) {
        self.asker = Some(asker.clone());
    }

    /// Tells the caller something; dropped when the caller does not keep up.
    pub fn notice(&self, notice: Notice) {
        self.say(Event::Notice(Box::new(notice)));
    }

    /// Asks the caller, now; ends without a value when the caller is gone. The call gives its place
    /// up meanwhile and has it again when this ends.
    pub fn ask(
        &self,
        method: Method,
        params: Bytes,
    ) -> impl Future<Output = Option<Answer>> + Send + use<> {
        let (answer, heard) = oneshot::channel();
        let params = match &self.asker {
            Some(asker) => attribution::sign(&method, params, asker),
            None => params,
        };
        self.say(Event::Ask(Box::new(Ask {
            method,
            params,
            answer,
        })));
        let asking = self.slot.ask();
        async move {
            let answer = heard.await.ok();
            asking.answered().await;
            answer
        }
    }

    fn say(&self, event: Event) {
        let mut said = self.said.lock();
        let weight = event.weight();
        let is_too_much = said.bytes > 0 && said.bytes + weight > said.bytes_max;
        if said.closed || said.events.len() >= QUEUE_LEN_MAX || (weight > 0 && is_too_much) {
            return;
        }
        said.bytes += weight;
        said.events.push_back(event);
        let listener = said.listener.take();
        drop(said);
        if let Some(listener) = listener {
            listener.wake();
        }
    }
}

impl Events {
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Event> {
        let mut said = self.0.lock();
        if let Some(event) = said.events.pop_front() {
            said.bytes -= event.weight();
            return Poll::Ready(event);
        }
        match &mut said.listener {
            Some(listener) => listener.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let mut said = self.0.lock();
        said.closed = true;
        // Whoever asked hears that there is no answer; not under the lock.
        let unheard = std::mem::take(&mut said.events);
        said.listener = None;
        drop(said);
        drop(unheard);
    }
}

/// What happens next in a conversation.
#[derive(Debug)]
pub enum Step {
    Event(Event),
    Done(Result<Reply, Fault>),
}

/// The surface's end: the running call and what it says on the way.
pub struct Conversation {
    reply: BoxFuture<'static, Result<Reply, Fault>>,
    events: Events,
    done: Option<Result<Reply, Fault>>,
    trail: Arc<Trail>,
    slot: Slot,
}

impl Conversation {
    pub fn new(
        reply: BoxFuture<'static, Result<Reply, Fault>>,
        events: Events,
        trail: Arc<Trail>,
    ) -> Self {
        Self {
            reply,
            events,
            done: None,
            trail,
            slot: Slot::default(),
        }
    }

    /// What the walk noted about the call.
    pub fn trail(&self) -> &Trail {
        &self.trail
    }

    /// Whose place among running calls is this one.
    #[must_use]
    pub(crate) fn holding(mut self, slot: Slot) -> Self {
        self.slot = slot;
        self
    }

    /// Gives the call's place to others while its caller thinks; the next step takes one again.
    pub fn set_aside(&self) {
        self.slot.park();
    }

    /// The next event, or the reply once every event before it was heard. Not to be called again
    /// after `Done`.
    pub async fn next(&mut self) -> Step {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if self.done.is_none()
            && let Poll::Ready(outcome) = self.reply.as_mut().poll(cx)
        {
            self.done = Some(outcome);
        }
        // Whatever was said before the reply comes before it; the reply's future may have ended
        // the line just now, so look at the events after polling it.
        match self.events.poll_next(cx) {
            Poll::Ready(event) => Poll::Ready(Step::Event(event)),
            Poll::Pending => match self.done.take() {
                Some(outcome) => Poll::Ready(Step::Done(outcome)),
                None => Poll::Pending,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;
    use sentinel_wire::json::Rules;

    fn log(text: &'static str) -> Notice {
        Notice::Log(
            Payload::parse(Bytes::from_static(text.as_bytes()), Rules::backend()).expect("json"),
        )
    }

    #[tokio::test]
    async fn notices_come_before_the_reply_that_followed_them() {
        let (line, events) = Line::open();
        let reply = Box::pin(async move {
            line.notice(log(r#"{"n":1}"#));
            line.notice(log(r#"{"n":2}"#));
            Err(Fault::new(Kind::Internal, "end"))
        });
        let mut talk = Conversation::new(reply, events, Arc::default());
        assert!(matches!(talk.next().await, Step::Event(Event::Notice(_))));
        assert!(matches!(talk.next().await, Step::Event(Event::Notice(_))));
        assert!(matches!(talk.next().await, Step::Done(Err(_))));
    }

    #[tokio::test]
    async fn an_answer_reaches_the_backend_that_asked() {
        let (line, events) = Line::open();
        let reply = Box::pin(async move {
            let Some(Answer::Result(raw)) =
                line.ask(Method::Elicit, Bytes::from_static(b"{}")).await
            else {
                panic!("no answer")
            };
            Err(Fault::new(
                Kind::Internal,
                String::from_utf8_lossy(&raw).into_owned(),
            ))
        });
        let mut talk = Conversation::new(reply, events, Arc::default());
        let Step::Event(Event::Ask(ask)) = talk.next().await else {
            panic!("expected an ask")
        };
        ask.answer
            .send(Answer::Result(Bytes::from_static(b"yes")))
            .expect("still wanted");
        let Step::Done(Err(fault)) = talk.next().await else {
            panic!("expected the end")
        };
        assert_eq!(fault.public, "yes");
    }

    /// P-R10: what a slow reader leaves unread is bounded in bytes, too.
    #[tokio::test]
    async fn a_caller_who_does_not_listen_holds_so_many_bytes_and_hears_questions_all_the_same() {
        let (line, events) = Line::holding_up_to(20);
        line.notice(log(r#"{"data":"longer than the bound, but alone"}"#));
        line.notice(log(r#"{"n":1}"#));
        drop(line.ask(Method::Elicit, Bytes::from_static(b"{}")));
        let heard = || poll_fn(|cx| events.poll_next(cx));
        assert!(matches!(heard().await, Event::Notice(_)));
        for _ in 0..5 {
            line.notice(log(r#"{"n":2345}"#));
        }
        assert!(matches!(heard().await, Event::Ask(_)));
        assert_eq!(events.0.lock().events.len(), 2);
    }

    #[tokio::test]
    async fn a_caller_who_does_not_listen_holds_a_bounded_queue() {
        let (line, events) = Line::open();
        for _ in 0..10 * QUEUE_LEN_MAX {
            line.notice(log("{}"));
        }
        assert_eq!(events.0.lock().events.len(), QUEUE_LEN_MAX);
    }
}
