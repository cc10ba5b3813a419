//! The line between a call and its caller while the call runs.
//!
//! A backend holds the `Line`: it sends notices and asks. The surface holds the `Conversation`: it
//! hears them and, last, the reply. Dropping the conversation is cancellation: the backend's future
//! goes with it and frees whatever it held. A conversation can be set aside (parked) and taken up
//! again later, on another thread; nothing runs in between but what the backend does by itself.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Payload};
use tokio::sync::oneshot;

use crate::admission::Slot;
use crate::attribution;
use crate::audit::Trail;
use crate::fault::Fault;
use crate::pieces::{Beginning, Feed, feed};
use crate::queue::{Listener, Teller, Weigh, queue};
use crate::reply::Reply;
use relation::{related, unrelated};

pub(crate) mod relation;

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
    /// The backend began a stream that it may let go of, to be taken up again.
    Primed,
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

impl Weigh for Event {
    /// Questions weigh nothing, for somebody waits for their answers. A reply has bounds of its own.
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

/// Boxed, so that a queue of them is small.
#[derive(Debug)]
pub enum Event {
    Notice(Box<Notice>),
    Ask(Box<Ask>),
    /// The reply begins; the rest of it comes beside the line, and the outcome last.
    Begins(Box<Beginning>),
}

/// The backend's end.
#[derive(Clone)]
pub struct Line {
    said: Teller<Event>,
    /// Whose questions these are; known once the call was routed.
    asker: Option<Arc<str>>,
    /// The call's place, which is given up while somebody is asked.
    slot: Slot,
    /// The call is a task at its server only: to the caller nothing may speak of it.
    hides_task: bool,
}

/// The surface's end of a line.
pub type Events = Listener<Event>;

impl Line {
    /// A line of the call that has this place among those that run; its caller may lag behind by so many
    /// bytes.
    pub fn open(slot: Slot, unread_bytes_max: usize) -> (Self, Events) {
        let (said, events) = queue(QUEUE_LEN_MAX, unread_bytes_max);
        let line = Self {
            said,
            asker: None,
            slot,
            hides_task: false,
        };
        (line, events)
    }

    /// The same line, for a call that runs as a task of which its caller knows nothing, or that it knows by another name:
    /// the server's name for it stays here. Answers name the task again, as such a server wants it.
    pub(crate) fn hiding_task(&self) -> Self {
        Self {
            hides_task: true,
            ..self.clone()
        }
    }

    /// Names the backend in everything that is asked from now on.
    pub(crate) fn sign(&mut self, asker: &Arc<str>) {
        self.asker = Some(asker.clone());
    }

    /// Tells the caller something; dropped when the caller does not keep up.
    pub fn notice(&self, mut notice: Notice) {
        if self.hides_task
            && let Notice::Progress(said) | Notice::Log(said) | Notice::Elicited(said) = &mut notice
            && let Some((plain, _)) = unrelated(said)
        {
            *said = plain;
        }
        self.said.tell(Event::Notice(Box::new(notice)));
    }

    /// Begins the reply of a call whose caller takes it in pieces, and waits for each that long.
    pub fn begin(&self, first: Bytes, patience: Duration) -> Feed {
        let (feed, beginning) = feed(first, patience);
        self.said.tell(Event::Begins(Box::new(beginning)));
        feed
    }

    /// Asks the caller, now; ends without a value when the caller is gone. The call gives its place
    /// up meanwhile and has it again when this ends.
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
        self.said.tell(Event::Ask(Box::new(Ask {
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

/// What happens next in a conversation.
#[derive(Debug)]
pub enum Step {
    Event(Event),
    Done(Result<Reply, Fault>),
}

/// The surface's end: the running call and what it says on the way.
pub struct Conversation {
    /// The last progress that was passed on.
    progress: f64,
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
        slot: Slot,
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

    /// What the walk noted about the call.
    pub fn trail(&self) -> &Trail {
        &self.trail
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
        loop {
            match self.events.poll_next(cx) {
                Poll::Ready(event) if !self.is_progress(&event) => {}
                Poll::Ready(event) => return Poll::Ready(Step::Event(event)),
                Poll::Pending => {
                    return match self.done.take() {
                        Some(outcome) => Poll::Ready(Step::Done(outcome)),
                        None => Poll::Pending,
                    };
                }
            }
        }
    }

    /// Progress must go up, which not every server sees to; whatever is no progress is of no use to a
    /// caller. Other events pass.
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
mod tests {
    use super::*;
    use crate::fault::Kind;

    fn log(text: &'static str) -> Notice {
        Notice::Log(
            Payload::parse(Bytes::from_static(text.as_bytes()), Rules::backend()).expect("json"),
        )
    }

    #[tokio::test]
    async fn notices_come_before_the_reply_that_followed_them() {
        let (line, events) = Line::open(Slot::default(), UNREAD_BYTES_MAX);
        let reply = Box::pin(async move {
            line.notice(log(r#"{"n":1}"#));
            line.notice(log(r#"{"n":2}"#));
            Err(Fault::new(Kind::Internal, "end"))
        });
        let mut talk = Conversation::new(reply, events, Arc::default(), Slot::default());
        assert!(matches!(talk.next().await, Step::Event(Event::Notice(_))));
        assert!(matches!(talk.next().await, Step::Event(Event::Notice(_))));
        assert!(matches!(talk.next().await, Step::Done(Err(_))));
    }

    /// G-24: progress is strictly increasing, whatever the server says.
    #[tokio::test]
    async fn only_progress_that_rises_is_passed_on() {
        let (line, events) = Line::open(Slot::default(), UNREAD_BYTES_MAX);
        let reply = Box::pin(async move {
            for n in ["5", "3", "5", "\"x\"", "null", "7", "7.5"] {
                let said = format!(r#"{{"progressToken":1,"progress":{n}}}"#);
                let said = Payload::parse(said.into(), Rules::backend()).expect("json");
                line.notice(Notice::Progress(said));
            }
            Err(Fault::new(Kind::Internal, "end"))
        });
        let mut talk = Conversation::new(reply, events, Arc::default(), Slot::default());
        let mut heard = Vec::new();
        while let Step::Event(Event::Notice(notice)) = talk.next().await {
            let Notice::Progress(said) = *notice else {
                panic!("expected progress")
            };
            heard.push(said.string("progress").is_none().then(|| {
                String::from_utf8_lossy(said.get("progress").unwrap_or_default()).into_owned()
            }));
        }
        let heard: Vec<_> = heard.into_iter().flatten().collect();
        assert_eq!(heard, ["5", "7", "7.5"]);
    }

    #[tokio::test]
    async fn an_answer_reaches_the_backend_that_asked() {
        let (line, events) = Line::open(Slot::default(), UNREAD_BYTES_MAX);
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
        let mut talk = Conversation::new(reply, events, Arc::default(), Slot::default());
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

    /// G-24: a caller does not hear of a task that it knows nothing of.
    #[tokio::test]
    async fn what_is_said_of_a_hidden_task_does_not_name_it_and_answers_do() {
        let relation = r#""io.modelcontextprotocol/related-task":{"taskId":"t-1"}"#;
        let (line, mut events) = Line::open(Slot::default(), UNREAD_BYTES_MAX);
        let line = line.hiding_task();
        let said = format!(r#"{{"level":"info","_meta":{{{relation},"v":1}}}}"#);
        let said = Payload::parse(said.into(), Rules::backend()).expect("json");
        line.notice(Notice::Log(said));
        let question = format!(r#"{{"message":"?","_meta":{{{relation}}}}}"#);
        let answered = line.ask(Method::Elicit, question.into());
        let Some(Event::Notice(heard)) = events.try_next() else {
            panic!("a notice")
        };
        let Notice::Log(heard) = *heard else {
            panic!("a log line")
        };
        assert_eq!(heard.to_bytes(), r#"{"level":"info","_meta":{"v":1}}"#);
        let Some(Event::Ask(ask)) = events.try_next() else {
            panic!("a question")
        };
        assert_eq!(ask.params, r#"{"message":"?"}"#);
        let decline = Bytes::from_static(br#"{"action":"decline"}"#);
        ask.answer.send(Answer::Result(decline)).expect("wanted");
        let Some(Answer::Result(answer)) = answered.await else {
            panic!("an answer")
        };
        let want = format!(r#"{{"action":"decline","_meta":{{{relation}}}}}"#);
        assert_eq!(answer, want);
    }

    /// P-R10: what a slow reader leaves unread is bounded in bytes, too.
    #[tokio::test]
    async fn a_caller_who_does_not_listen_holds_so_many_bytes_and_hears_questions_all_the_same() {
        let (line, mut events) = Line::open(Slot::default(), 20);
        line.notice(log(r#"{"data":"longer than the bound, but alone"}"#));
        line.notice(log(r#"{"n":1}"#));
        drop(line.ask(Method::Elicit, Bytes::from_static(b"{}")));
        assert!(matches!(events.try_next(), Some(Event::Notice(_))));
        for _ in 0..5 {
            line.notice(log(r#"{"n":2345}"#));
        }
        assert!(matches!(events.try_next(), Some(Event::Ask(_))));
        let unread = std::iter::from_fn(|| events.try_next()).count();
        assert_eq!(unread, 2);
    }
}
