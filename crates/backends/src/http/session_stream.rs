//! The session's own stream, for callers who can be asked.
//!
//! Many servers send their questions there and not on the stream of the call that caused them, where nothing names
//! the call. Such a question goes to the only call in flight in the session, and is refused if there are several or
//! none. A question of a task names the task, and goes to the call that waits for its result. The stream is opened
//! before the first call is sent, since a server without an open stream sends nothing.

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
use super::post::{Answer, Stream};
use super::upstream::Upstream;
use crate::relay;

/// How long the first call waits until the stream is open.
const OPEN_MAX: Duration = Duration::from_secs(1);
/// Pause before a stream that ended is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long an answer waits for messages that the server sent before it on the session's stream.
const CATCH_UP_MAX: Duration = Duration::from_millis(100);
/// Bytes that have arrived are read within this time, since the runtime polls the kernel in between.
const READ_GRACE: Duration = Duration::from_millis(1);
/// Calls that wait for a flush at once; further ones skip it.
const FLUSHES_MAX: usize = 64;
/// Queued messages for one call.
const QUEUE_LEN_MAX: usize = 16;

/// Dispatches messages of the session's stream to the calls in flight.
#[derive(Default)]
pub(super) struct SessionStream {
    calls: Mutex<HashMap<u64, PendingCall>>,
    reader: Mutex<Option<Reader>>,
}

struct PendingCall {
    sender: mpsc::Sender<Message>,
    /// The task whose result it waits for.
    task: Option<Box<str>>,
}

struct Reader {
    task: AbortHandle,
    /// True once the stream is open, or known not to exist.
    settled: watch::Receiver<bool>,
    flushes: FlushRequests,
}

/// Dropped once everything that had arrived before it was dispatched.
type Flush = oneshot::Sender<()>;
type FlushRequests = mpsc::Sender<Flush>;

impl std::fmt::Debug for SessionStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionStream")
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.lock().take() {
            reader.task.abort();
        }
    }
}

/// The messages for one call; dropping it ends the subscription.
pub(super) struct CallMessages {
    upstream: Arc<Upstream>,
    id: u64,
    pub(super) messages: mpsc::Receiver<Message>,
    flushes: FlushRequests,
}

impl CallMessages {
    /// Waits until everything that has arrived on the session's stream by now was dispatched. The stream is another
    /// connection read by another task, so there is no order between the two.
    pub(super) async fn catch_up(&self) {
        let (flush, flushed) = oneshot::channel();
        if self.flushes.try_send(flush).is_ok() {
            let _ = tokio::time::timeout(CATCH_UP_MAX, flushed).await;
        }
    }
}

impl Drop for CallMessages {
    fn drop(&mut self) {
        self.upstream.session_stream.calls.lock().remove(&self.id);
    }
}

/// Subscribes a call to the messages outside of its own stream, opening the session's stream if needed.
pub(super) async fn subscribe(
    inner: &Arc<Inner>,
    upstream: &Arc<Upstream>,
    id: u64,
    task: Option<Box<str>>,
) -> CallMessages {
    let (sender, messages) = mpsc::channel(QUEUE_LEN_MAX);
    let place = PendingCall { sender, task };
    upstream.session_stream.calls.lock().insert(id, place);
    let (mut settled, flushes) = {
        let mut reader = upstream.session_stream.reader.lock();
        let reader = reader.get_or_insert_with(|| begin(inner, upstream));
        (reader.settled.clone(), reader.flushes.clone())
    };
    let messages_of_call = CallMessages {
        upstream: upstream.clone(),
        id,
        messages,
        flushes,
    };
    let _ = tokio::time::timeout(OPEN_MAX, settled.wait_for(|settled| *settled)).await;
    messages_of_call
}

fn begin(inner: &Arc<Inner>, upstream: &Arc<Upstream>) -> Reader {
    let (settle, settled) = watch::channel(false);
    let (flushes, requested) = mpsc::channel(FLUSHES_MAX);
    let upstream = Arc::downgrade(upstream);
    let task = tokio::spawn(read(inner.clone(), upstream, settle, requested));
    Reader {
        task: task.abort_handle(),
        settled,
        flushes,
    }
}

/// Reads the stream for as long as the session is in use; the session's end aborts it.
async fn read(
    inner: Arc<Inner>,
    upstream: Weak<Upstream>,
    settle: watch::Sender<bool>,
    mut flushes: mpsc::Receiver<Flush>,
) {
    loop {
        let opened = match upstream.upgrade() {
            Some(upstream) => open(&inner, &upstream).await,
            None => return,
        };
        settle.send_replace(true);
        let Some(mut stream) = opened else { return };
        let mut decoder = inner.notices();
        let mut owed: Vec<Flush> = Vec::new();
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = stream.chunk(&inner.post) => chunk,
                Some(flush) = flushes.recv() => {
                    owed.push(flush);
                    continue;
                }
                () = tokio::time::sleep(READ_GRACE), if !owed.is_empty() => {
                    owed.clear();
                    continue;
                }
            };
            let Ok(Some(mut chunk)) = chunk else { break };
            while let Some(event) = decoder.next(&mut chunk) {
                let Some(event) = inner.within_limit(event) else {
                    continue;
                };
                let Some(upstream) = upstream.upgrade() else {
                    return;
                };
                if event.is_message() && !event.data.is_empty() {
                    dispatch_all(&inner, &upstream, event.data);
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// `None` where the server has no such stream.
async fn open(inner: &Inner, upstream: &Upstream) -> Option<Stream> {
    let envelope = upstream.envelope(&Method::Listen);
    match inner.post.listen(envelope, None).await {
        Ok(Answer::Stream { events, .. }) => Some(events),
        _ => None,
    }
}

fn dispatch_all(inner: &Arc<Inner>, upstream: &Arc<Upstream>, data: Bytes) {
    let messages = match Incoming::parse(data, Rules::backend()) {
        Ok(Incoming::One(message)) => vec![message],
        Ok(Incoming::Batch(messages)) => messages.into_iter().flatten().collect(),
        Err(_) => return,
    };
    for message in messages {
        if let Some(answer) = upstream.session_stream.sender(message) {
            post_aside(
                inner.clone(),
                upstream.clone(),
                Method::Other("".into()),
                answer,
            );
        }
    }
}

impl SessionStream {
    /// Dispatches a message to its call. Returns an answer that must be sent back at once.
    fn sender(&self, message: Message) -> Option<Vec<u8>> {
        let calls = self.calls.lock();
        // Calls that wait for a task are considered only if there is no other call.
        let only = || {
            let plain = calls.values().filter(|call| call.task.is_none());
            let mut all: Vec<&PendingCall> = plain.collect();
            if all.is_empty() {
                all = calls.values().collect();
            }
            all.pop().filter(|_| all.is_empty())
        };
        match message {
            // A response: no request of ours is answered on this stream.
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
                let _ = call?.sender.try_send(message);
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
                let waits = |call: &&PendingCall| task.is_some() && call.task == task;
                let call = calls.values().find(waits).or_else(only);
                let told = call.map(|call| call.sender.try_send(Message::Request(request)).is_ok());
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
