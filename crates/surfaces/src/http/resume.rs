//! Event streams of legacy callers that outlive their connection: events are kept for a while, and a GET with
//! `Last-Event-ID` resumes the stream after one of them.
//!
//! Each session has one `Streams`, so no caller can ask for the events of another. A stream is fed by a task of its own
//! (`Streams::open`), which ends with the calls it belongs to; a connection listens by a bounded channel and may end, or
//! be replaced, at any time.
//!
//! An event's id is `<stream>-<number>`, so it names its stream. A priming event bears the number of the last one before
//! it, 0 at first. Stream 0 is the session's own: messages outside of any call, by GET.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, stream};
use parking_lot::Mutex;
use sentinel_core::queue::Receiver as Inbox;
use sentinel_wire::sse;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::mcp::{SILENCE_MAX, StreamItem};

/// Events kept per session: every stream of a busy client for a few seconds. The oldest are evicted, whichever stream
/// they belong to.
const KEPT_MAX: usize = 256;
/// The bound in bytes: several ordinary answers. The newest event is kept at any size, or a large answer could never
/// be fetched again.
const KEPT_BYTES_MAX: usize = 1024 * 1024;
/// Bound on the bytes of all sessions. Beyond it, a session that sends keeps only its newest event.
const ALL_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A client that lost its connection normally reconnects within seconds.
const KEPT_FOR: Duration = Duration::from_secs(120);
/// Queued events for one listener; a caller that does not read misses notices, but never the answer.
const UNREAD_MAX: usize = 64;
/// The bound on the session's own stream, where a slow caller is cut off and may resume.
const OWN_UNREAD_MAX: usize = 256;
/// The session's own stream.
const OWN_STREAM: u64 = 0;
/// Reconnection delay for callers, short because the call is still running.
const RETRY_MS: u64 = 1000;

/// The answers that a stream ends with; none if its calls were cancelled.
pub(super) type Answers = BoxFuture<'static, Vec<Vec<u8>>>;

/// The framed events of one stream, for one connection.
pub(super) struct EventReceiver {
    events: mpsc::Receiver<Bytes>,
    unread: Arc<AtomicUsize>,
}

impl EventReceiver {
    /// `None` at the end.
    pub(super) async fn recv(&mut self) -> Option<Bytes> {
        let event = self.events.recv().await?;
        self.unread.fetch_sub(event.len(), Ordering::Relaxed);
        Some(event)
    }
}

/// The event id is unknown in this session, or too many events followed it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expired;

/// Bytes kept by all sessions.
pub(super) type Total = Arc<AtomicUsize>;

/// The streams of one session.
pub(super) struct Streams(Mutex<Table>);

#[derive(Default)]
struct Table {
    begun: u64,
    /// Unanswered streams, at most as many as the session's calls in flight.
    open: HashMap<u64, Open>,
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    total: Total,
    /// Bytes that one listener may leave unread.
    unread_bytes_max: usize,
}

#[derive(Default)]
struct Open {
    /// The number of the last event.
    last: u64,
    listener: Option<Listener>,
}

struct Listener {
    events: mpsc::Sender<Bytes>,
    /// Bytes in its queue.
    unread: Arc<AtomicUsize>,
    /// Reserved slots for the answers, however many events are queued.
    end: mpsc::OwnedPermit<Bytes>,
}

struct Kept {
    stream: u64,
    number: u64,
    event: Bytes,
    at: Instant,
}

impl Streams {
    /// `unread_bytes_max` is `limits.stream_buffer_kb`.
    pub(super) fn new(total: Total, unread_bytes_max: usize) -> Arc<Self> {
        let mut table = Table::default();
        table.total = total;
        table.unread_bytes_max = unread_bytes_max;
        Arc::new(Self(Mutex::new(table)))
    }

    /// Drops events older than `KEPT_FOR`.
    pub(super) fn sweep(&self) {
        let mut table = self.0.lock();
        while table
            .kept
            .front()
            .is_some_and(|k| k.at.elapsed() > KEPT_FOR)
        {
            table.forget_oldest();
        }
    }

    /// Starts a stream and listens to it. `first` is sent before the items of `inbox`.
    pub(super) fn open(
        self: &Arc<Self>,
        primed: bool,
        first: Option<StreamItem>,
        mut inbox: Inbox<StreamItem>,
        mut answers: Answers,
    ) -> EventReceiver {
        let (stream, receiver) = self.0.lock().begin(primed);
        if let Some(first) = first {
            self.0.lock().push(stream, first, primed);
        }
        let streams = self.clone();
        tokio::spawn(async move {
            let answers = loop {
                tokio::select! {
                    biased;
                    item = inbox.next() => streams.0.lock().push(stream, item, primed),
                    answers = &mut answers => break answers,
                }
            };
            // The answer is the last event: items that came with it are sent before.
            while let Some(item) = inbox.try_next() {
                streams.0.lock().push(stream, item, false);
            }
            streams.0.lock().finish(stream, &answers);
        });
        receiver
    }

    /// Listens on after the event of this id; an older listener's stream ends. True if it is the
    /// session's own stream.
    pub(super) fn resume(&self, after: &str) -> Result<(EventReceiver, bool), Expired> {
        let (stream, number) = parse_id(after).ok_or(Expired)?;
        let receiver = self.0.lock().resume(stream, number)?;
        Ok((receiver, stream == OWN_STREAM))
    }

    /// Listens to the session's own stream from now on; an older listener's stream ends.
    pub(super) fn listen(&self, primed: bool) -> EventReceiver {
        self.0.lock().listen(primed)
    }

    /// Sends a message outside of any call; dropped if the caller never listened.
    pub(super) fn tell(&self, message: &[u8]) {
        self.0.lock().say(OWN_STREAM, message);
    }

    /// Whether the session's own stream is being read.
    pub(super) fn has_own_listener(&self) -> bool {
        let table = self.0.lock();
        let listener = table
            .open
            .get(&OWN_STREAM)
            .and_then(|open| open.listener.as_ref());
        listener.is_some_and(|listener| !listener.events.is_closed())
    }

    /// Ends the session's own stream.
    pub(super) fn close_own_stream(&self) {
        self.0.lock().open.remove(&OWN_STREAM);
    }
}

impl Table {
    fn begin(&mut self, primed: bool) -> (u64, EventReceiver) {
        self.begun += 1;
        let receiver = self.attach(self.begun, UNREAD_MAX, primed);
        (self.begun, receiver)
    }

    fn listen(&mut self, primed: bool) -> EventReceiver {
        self.attach(OWN_STREAM, OWN_UNREAD_MAX, primed)
    }

    /// A listener for new events of a stream that may be new.
    fn attach(&mut self, stream: u64, unread_max: usize, primed: bool) -> EventReceiver {
        let (listener, receiver) = Listener::hearing([], unread_max);
        let open = self.open.entry(stream).or_default();
        if primed {
            let mut out = Vec::new();
            sse::push_priming(&mut out, &event_id(stream, open.last), Some(RETRY_MS));
            // Not kept, since it has no content.
            listener.say(out.into(), usize::MAX);
        }
        open.listener = Some(listener);
        receiver
    }

    /// A pause ends the connection of a primed stream; the caller resumes it.
    fn push(&mut self, stream: u64, item: StreamItem, primed: bool) {
        match item {
            StreamItem::Message(message) => self.say(stream, &message),
            StreamItem::Pause if primed => {
                if let Some(open) = self.open.get_mut(&stream) {
                    open.listener = None;
                }
            }
            // A stream is primed when it begins.
            StreamItem::Primed | StreamItem::Pause => {}
        }
    }

    fn say(&mut self, stream: u64, message: &[u8]) {
        let Some(open) = self.open.get_mut(&stream) else {
            return;
        };
        open.last += 1;
        let number = open.last;
        let event = framed(stream, number, message);
        if let Some(listener) = &open.listener {
            // A call's stream continues with its answer; on the own stream a slow listener is cut off.
            let sent = listener.say(event.clone(), self.unread_bytes_max);
            if listener.events.is_closed() || (!sent && stream == OWN_STREAM) {
                open.listener = None;
            }
        }
        self.keep(stream, number, event);
    }

    /// Ends a stream with its answers, for which room is reserved.
    fn finish(&mut self, stream: u64, answers: &[Vec<u8>]) {
        let Some(Open { last, listener }) = self.open.remove(&stream) else {
            return;
        };
        let mut all = Vec::new();
        for (number, answer) in (last + 1..).zip(answers) {
            let event = framed(stream, number, answer);
            all.push(event.clone());
            self.keep(stream, number, event);
        }
        let whole = match &all[..] {
            [] => return,
            [one] => one.clone(),
            many => many.concat().into(),
        };
        if let Some(listener) = listener {
            listener.unread.fetch_add(whole.len(), Ordering::Relaxed);
            listener.end.send(whole);
        }
    }

    fn keep(&mut self, stream: u64, number: u64, event: Bytes) {
        self.kept_bytes += event.len();
        self.total.fetch_add(event.len(), Ordering::Relaxed);
        self.kept.push_back(Kept {
            stream,
            number,
            event,
            at: Instant::now(),
        });
        while self.kept.len() > 1 && self.is_too_much() {
            self.forget_oldest();
        }
    }

    fn is_too_much(&self) -> bool {
        self.kept.len() > KEPT_MAX
            || self.kept_bytes > KEPT_BYTES_MAX
            || self.total.load(Ordering::Relaxed) > ALL_BYTES_MAX
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.kept_bytes -= oldest.event.len();
            self.total.fetch_sub(oldest.event.len(), Ordering::Relaxed);
        }
    }

    fn resume(&mut self, stream: u64, after: u64) -> Result<EventReceiver, Expired> {
        let of_stream = || self.kept.iter().filter(|kept| kept.stream == stream);
        let last = match self.open.get(&stream) {
            Some(open) => Some(open.last),
            None => of_stream().next_back().map(|kept| kept.number),
        };
        if last.is_none_or(|last| after > last) {
            return Err(Expired);
        }
        let later = of_stream().filter(|kept| kept.number > after);
        let unread_max = if stream == OWN_STREAM {
            OWN_UNREAD_MAX
        } else {
            UNREAD_MAX
        };
        let (listener, receiver) =
            Listener::hearing(later.map(|kept| kept.event.clone()), unread_max);
        // A finished stream ends here: without an open entry, the listener is dropped.
        if let Some(open) = self.open.get_mut(&stream) {
            open.listener = Some(listener);
        }
        Ok(receiver)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.total.fetch_sub(self.kept_bytes, Ordering::Relaxed);
    }
}

impl Listener {
    /// A listener that starts with these events.
    fn hearing(
        before: impl IntoIterator<Item = Bytes>,
        unread_max: usize,
    ) -> (Self, EventReceiver) {
        let before: Vec<Bytes> = before.into_iter().collect();
        let (events, receiver) = mpsc::channel(before.len() + unread_max + 1);
        let end = events.clone().try_reserve_owned();
        let end = end.expect("a new channel has room");
        let unread = Arc::<AtomicUsize>::default();
        let receiver = EventReceiver {
            events: receiver,
            unread: unread.clone(),
        };
        let this = Self {
            events,
            unread,
            end,
        };
        for event in before {
            this.say(event, usize::MAX);
        }
        (this, receiver)
    }

    /// Whether there was room. A lone event is accepted at any size.
    fn say(&self, event: Bytes, unread_max: usize) -> bool {
        let len = event.len();
        let unread = self.unread.load(Ordering::Relaxed);
        if unread > 0 && unread.saturating_add(len) > unread_max {
            return false;
        }
        // Counted first, since the reader may run concurrently.
        self.unread.fetch_add(len, Ordering::Relaxed);
        let said = self.events.try_send(event).is_ok();
        if !said {
            self.unread.fetch_sub(len, Ordering::Relaxed);
        }
        said
    }
}

/// The events as the body of a response, with keep-alive comments while there are none.
pub(super) fn events(receiver: EventReceiver) -> impl Stream<Item = Bytes> + Send {
    stream::unfold(receiver, |mut receiver| async move {
        match tokio::time::timeout(SILENCE_MAX, receiver.recv()).await {
            Ok(event) => Some((event?, receiver)),
            Err(_) => {
                let mut out = Vec::new();
                sse::push_keep_alive(&mut out);
                Some((out.into(), receiver))
            }
        }
    })
}

fn framed(stream: u64, number: u64, message: &[u8]) -> Bytes {
    let mut out = Vec::new();
    sse::push_event(&mut out, Some(&event_id(stream, number)), None, message);
    out.into()
}

pub(crate) fn event_id(stream: u64, number: u64) -> String {
    format!("{stream}-{number}")
}

pub(crate) fn parse_id(id: &str) -> Option<(u64, u64)> {
    let (stream, number) = id.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests;
