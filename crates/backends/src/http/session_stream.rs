//! The own stream of a session whose callers can be asked.
//!
//! Many servers put their questions there and not on the stream of the call that caused them, where
//! nothing says whose they are. So they go to the only call in flight in the session, if there is just
//! one, and are refused otherwise. A question of a task names the task, and goes to whoever waits for its result. The stream is open before the first call is sent, for a server that
//! finds none says nothing.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use sentinel_wire::envelope::{Id, error_object, write_error_object, write_result};
use sentinel_wire::json::Rules;
use sentinel_wire::{Incoming, Message, Method, Revision, meta};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::Inner;
use super::call::post_aside;
use super::post::{Answer, Envelope, Stream};
use super::upstream::Upstream;
use crate::relay;

/// How long the first call waits for the stream to be there.
const OPEN_MAX: Duration = Duration::from_secs(1);
/// Before a stream that ended is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long an answer waits for what was said before it on the session's stream.
const CATCH_UP_MAX: Duration = Duration::from_millis(100);
/// What has arrived by the time it is looked for is seen within this: the runtime asks the kernel in between.
const LOOK: Duration = Duration::from_millis(1);
/// Calls that wait for that at once; further ones do without.
const MARKS_MAX: usize = 64;
/// Messages on their way to one call.
const UNHEARD_MAX: usize = 16;

/// Who is in flight in one session, and who listens for them.
#[derive(Default)]
pub(super) struct Ear {
    calls: Mutex<HashMap<u64, Place>>,
    listening: Mutex<Option<Listening>>,
}

struct Place {
    tell: mpsc::Sender<Message>,
    /// The task whose result it waits for.
    task: Option<Box<str>>,
}

struct Listening {
    task: AbortHandle,
    /// True once the stream is open, or known never to be.
    settled: watch::Receiver<bool>,
    marks: Marks,
}

/// Dropped once everything that had arrived before it was told.
type Mark = oneshot::Sender<()>;
type Marks = mpsc::Sender<Mark>;

impl std::fmt::Debug for Ear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ear")
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        if let Some(listening) = self.listening.lock().take() {
            listening.task.abort();
        }
    }
}

/// A call's place; dropping it gives the place up.
pub(super) struct Heard {
    upstream: Arc<Upstream>,
    id: u64,
    pub(super) messages: mpsc::Receiver<Message>,
    marks: Marks,
}

impl Heard {
    /// Waits until what has arrived on the session's stream by now was told. It is another connection, read by
    /// another task, and nothing orders the two.
    pub(super) async fn catch_up(&self) {
        let (mark, passed) = oneshot::channel();
        if self.marks.try_send(mark).is_ok() {
            let _ = tokio::time::timeout(CATCH_UP_MAX, passed).await;
        }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.upstream.ear.calls.lock().remove(&self.id);
    }
}

/// Hears for one call what is said outside of its stream.
pub(super) async fn hear(
    inner: &Arc<Inner>,
    upstream: &Arc<Upstream>,
    id: u64,
    task: Option<Box<str>>,
) -> Heard {
    let (tell, messages) = mpsc::channel(UNHEARD_MAX);
    let place = Place { tell, task };
    upstream.ear.calls.lock().insert(id, place);
    let (mut settled, marks) = {
        let mut listening = upstream.ear.listening.lock();
        let listening = listening.get_or_insert_with(|| begin(inner, upstream));
        (listening.settled.clone(), listening.marks.clone())
    };
    let heard = Heard {
        upstream: upstream.clone(),
        id,
        messages,
        marks,
    };
    let _ = tokio::time::timeout(OPEN_MAX, settled.wait_for(|settled| *settled)).await;
    heard
}

fn begin(inner: &Arc<Inner>, upstream: &Arc<Upstream>) -> Listening {
    let (settle, settled) = watch::channel(false);
    let (marks, marked) = mpsc::channel(MARKS_MAX);
    let upstream = Arc::downgrade(upstream);
    let task = tokio::spawn(listen(inner.clone(), upstream, settle, marked));
    Listening {
        task: task.abort_handle(),
        settled,
        marks,
    }
}

/// Listens for as long as the session is in use; the session's end aborts it.
async fn listen(
    inner: Arc<Inner>,
    upstream: Weak<Upstream>,
    settle: watch::Sender<bool>,
    mut marks: mpsc::Receiver<Mark>,
) {
    loop {
        let opened = match upstream.upgrade() {
            Some(upstream) => open(&inner, &upstream).await,
            None => return,
        };
        settle.send_replace(true);
        let Some(mut stream) = opened else { return };
        let mut decoder = inner.notices();
        let mut owed: Vec<Mark> = Vec::new();
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = stream.chunk(&inner.post) => chunk,
                Some(mark) = marks.recv() => {
                    owed.push(mark);
                    continue;
                }
                () = tokio::time::sleep(LOOK), if !owed.is_empty() => {
                    owed.clear();
                    continue;
                }
            };
            let Ok(Some(mut chunk)) = chunk else { break };
            while let Some(event) = decoder.next(&mut chunk) {
                let Some(event) = inner.of_fit_size(event) else {
                    continue;
                };
                let Some(upstream) = upstream.upgrade() else {
                    return;
                };
                if event.is_message() && !event.data.is_empty() {
                    take(&inner, &upstream, event.data);
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// `None` where the server has no such stream.
async fn open(inner: &Inner, upstream: &Upstream) -> Option<Stream> {
    let envelope = Envelope {
        method: &Method::Listen,
        name: None,
        revision: Some(upstream.revision),
        session: upstream.session.as_ref(),
        extra: &[],
    };
    match inner.post.listen(envelope, None).await {
        Ok(Answer::Stream { events, .. }) => Some(events),
        _ => None,
    }
}

fn take(inner: &Arc<Inner>, upstream: &Arc<Upstream>, data: Bytes) {
    let messages = match Incoming::parse(data, Rules::backend()) {
        Ok(Incoming::One(message)) => vec![message],
        Ok(Incoming::Batch(messages)) => messages.into_iter().flatten().collect(),
        Err(_) => return,
    };
    for message in messages {
        if let Some(answer) = upstream.ear.tell(message) {
            post_aside(
                inner.clone(),
                upstream.clone(),
                Method::Other("".into()),
                answer,
            );
        }
    }
}

impl Ear {
    /// Tells the call that a message is for. What is to be said back at once is returned.
    fn tell(&self, message: Message) -> Option<Vec<u8>> {
        let calls = self.calls.lock();
        // Whoever waits for a task is not meant, unless nobody else is there.
        let only = || {
            let plain = calls.values().filter(|call| call.task.is_none());
            let mut all: Vec<&Place> = plain.collect();
            if all.is_empty() {
                all = calls.values().collect();
            }
            all.pop().filter(|_| all.is_empty())
        };
        match message {
            // To nothing that we asked.
            Message::Response(_) => None,
            Message::Notification(ref notice) => {
                let call = match notice.method {
                    Method::Progress => {
                        let token = notice.params.get(meta::PROGRESS_TOKEN)?;
                        let id: u64 = std::str::from_utf8(token).ok()?.parse().ok()?;
                        calls.get(&id)
                    }
                    _ => only(),
                };
                let _ = call?.tell.try_send(message);
                None
            }
            Message::Request(request) if request.method == Method::Ping => {
                let mut out = Vec::new();
                write_result(&request.id, b"{}", &mut out);
                Some(out)
            }
            Message::Request(request) => {
                let id = request.id.clone();
                let task = relay::related_task(&request.params);
                let waits = |call: &&Place| task.is_some() && call.task == task;
                let call = calls.values().find(waits).or_else(only);
                let told = call.map(|call| call.tell.try_send(Message::Request(request)).is_ok());
                match told {
                    Some(true) => None,
                    _ => Some(refusal(&id)),
                }
            }
        }
    }
}

fn refusal(id: &Id) -> Vec<u8> {
    let text = "no call of a client goes with this question";
    let error = error_object(-32602, text, None);
    let mut out = Vec::new();
    write_error_object(Some(id), Revision::NEWEST_LEGACY, &error, &mut out);
    out
}
