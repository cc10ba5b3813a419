//! HTTP+SSE servers of 2024-11-05: all their messages come by one GET stream, and messages to them are POSTed to an
//! endpoint that the stream names first.
//!
//! The rest of the connector sees an ordinary server: an `SseSession` is one such stream, and its number serves as
//! session id. A request gets a stream of its own with its response and the messages that can be attributed to it;
//! the other messages go to the session's own stream.
//!
//! Nothing links a server's question to a call. So in a session whose client can be asked, calls take turns; in the
//! others no question is expected, and one that comes anyway is refused.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{StatusCode, Uri};
use parking_lot::Mutex;
use sentinel_core::{Fault, Kind};
use sentinel_wire::envelope::{error_object, write_error_object, write_result};
use sentinel_wire::json::Rules;
use sentinel_wire::{Id, Incoming, Message, Method, Revision, meta, sse};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::post::{Answer, Envelope, Failure, Post, Refusal, Stream};
use super::wire::Request as Posted;
use crate::relay;

/// Longest wait for the event that names where to POST.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(10);
/// Sessions with one server; when full, the least recently used one is evicted.
const SESSIONS_MAX: usize = 1024;
/// A session unused for this long is closed; the next call opens another.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// Queued messages for one request; further notices are dropped, never the response.
const UNREAD_MAX: usize = 64;

/// The sessions with one server, once it was detected as HTTP+SSE.
#[derive(Default)]
pub(super) struct HttpSse {
    is_on: AtomicBool,
    next: AtomicU64,
    sessions: Mutex<HashMap<HeaderValue, Arc<SseSession>>>,
}

/// One GET stream and the endpoint that belongs to it.
struct SseSession {
    endpoint: Uri,
    dispatcher: Arc<Dispatcher>,
    reader: AbortHandle,
    /// Held by one call at a time where the client can be asked.
    turn: Option<Arc<Semaphore>>,
    used: Mutex<Instant>,
}

impl Drop for SseSession {
    fn drop(&mut self) {
        self.reader.abort();
        self.dispatcher.end();
    }
}

/// Routes messages of one session to their requests; empty once the stream ended.
#[derive(Default)]
struct Dispatcher(Mutex<Subscribers>);

#[derive(Default)]
struct Subscribers {
    has_ended: bool,
    requests: HashMap<u64, PendingRequest>,
    outside: Option<mpsc::Sender<Bytes>>,
}

struct PendingRequest {
    events: mpsc::Sender<Bytes>,
    /// A reserved slot for the response, however many notices are queued.
    response: mpsc::OwnedPermit<Bytes>,
}

/// The messages for one request, framed like the stream of a newer server.
pub(super) struct EventReceiver {
    events: mpsc::Receiver<Bytes>,
    request: Option<(Arc<Dispatcher>, u64)>,
    _turn: Option<OwnedSemaphorePermit>,
}

impl EventReceiver {
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.events.recv().await {
            Some(event) => Ok(Some(event)),
            None => Err(ended()),
        }
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        if let Some((dispatcher, id)) = &self.request {
            dispatcher.0.lock().requests.remove(id);
        }
    }
}

fn ended() -> Failure {
    let text = "the backend's event stream ended; the call may have run";
    Failure::Lost(Fault::new(Kind::BackendUnavailable, text).retry_after_ms(1000))
}

impl Dispatcher {
    fn end(&self) {
        let mut subscribers = self.0.lock();
        subscribers.has_ended = true;
        subscribers.requests.clear();
        subscribers.outside = None;
    }

    /// Registers request `id`, whose response will arrive here.
    fn expect(self: &Arc<Self>, id: u64) -> Option<EventReceiver> {
        let mut subscribers = self.0.lock();
        if subscribers.has_ended {
            return None;
        }
        let (events, receiver) = mpsc::channel(UNREAD_MAX + 1);
        let response = events.clone().try_reserve_owned();
        let response = response.expect("a new channel has room");
        subscribers
            .requests
            .insert(id, PendingRequest { events, response });
        Some(EventReceiver {
            events: receiver,
            request: Some((self.clone(), id)),
            _turn: None,
        })
    }

    /// Subscribes to messages that belong to no request; an earlier subscriber's stream ends.
    fn listen(&self) -> Option<EventReceiver> {
        let mut subscribers = self.0.lock();
        if subscribers.has_ended {
            return None;
        }
        let (events, receiver) = mpsc::channel(UNREAD_MAX);
        subscribers.outside = Some(events);
        Some(EventReceiver {
            events: receiver,
            request: None,
            _turn: None,
        })
    }

    /// Dispatches a message. Returns an answer that must be sent back at once.
    fn dispatch(&self, data: &Bytes) -> Option<Vec<u8>> {
        let messages = match Incoming::parse(data.clone(), Rules::backend()) {
            Ok(Incoming::One(message)) => vec![message],
            Ok(Incoming::Batch(messages)) => messages.into_iter().flatten().collect(),
            Err(_) => return None,
        };
        let mut framed = Vec::new();
        sse::push_message(&mut framed, data);
        let event = Bytes::from(framed);
        let mut subscribers = self.0.lock();
        let mut answer = None;
        for message in messages {
            answer = subscribers.take(&message, &event).or(answer);
        }
        answer
    }
}

impl Subscribers {
    fn take(&mut self, message: &Message, event: &Bytes) -> Option<Vec<u8>> {
        match message {
            Message::Response(response) => {
                let id = response.id.as_ref().and_then(Id::as_u64)?;
                if let Some(request) = self.requests.remove(&id) {
                    request.response.send(event.clone());
                }
            }
            Message::Notification(notice) if notice.method == Method::Progress => {
                let token = notice.params.get(meta::PROGRESS_TOKEN)?;
                let id: u64 = std::str::from_utf8(token).ok()?.parse().ok()?;
                let _ = self.requests.get(&id)?.events.try_send(event.clone());
            }
            Message::Notification(notice)
                if matches!(notice.method, Method::LogMessage | Method::Cancelled) =>
            {
                // Delivered only if there is a single request in flight.
                let _ = self.only()?.events.try_send(event.clone());
            }
            Message::Notification(_) => {
                let _ = self.outside.as_ref()?.try_send(event.clone());
            }
            Message::Request(asked) if asked.method == Method::Ping => {
                let mut out = Vec::new();
                write_result(&asked.id, b"{}", &mut out);
                return Some(out);
            }
            Message::Request(asked) => {
                let sent = self.only().map(|r| r.events.try_send(event.clone()));
                if !matches!(sent, Some(Ok(()))) {
                    let error = error_object(-32602, "no call that this could be about", None);
                    let mut out = Vec::new();
                    let revision = Revision::NEWEST_LEGACY;
                    write_error_object(Some(&asked.id), revision, &error, &mut out);
                    return Some(out);
                }
            }
        }
        None
    }

    /// The request in flight, if there is just one.
    fn only(&self) -> Option<&PendingRequest> {
        let mut all = self.requests.values();
        all.next().filter(|_| all.next().is_none())
    }
}

impl HttpSse {
    /// Whether the server was detected as HTTP+SSE.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(super) fn switch(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
        if !on {
            let sessions = std::mem::take(&mut *self.sessions.lock());
            drop(sessions);
        }
    }

    /// Sends one message in the session that the envelope names; `initialize` opens a new session.
    pub(super) async fn send(
        &self,
        post: &Post,
        envelope: Envelope<'_>,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let session = match envelope.session {
            Some(session) => session.clone(),
            None => Box::pin(self.open(post, &body)).await?,
        };
        let Some(sse) = self.session_of(&session) else {
            return Ok(unknown());
        };
        let id = match Incoming::parse(body.clone(), Rules::backend()) {
            Ok(Incoming::One(Message::Request(request))) => request.id.as_u64(),
            _ => None,
        };
        let Some(id) = id else {
            let answer = post.deliver(&sse.endpoint, body).await?;
            return Ok(accepted(answer, session));
        };
        let turn = match sse.turn.as_ref().filter(|_| takes_turns(envelope.method)) {
            Some(turn) => turn.clone().acquire_owned().await.ok(),
            None => None,
        };
        let Some(mut receiver) = sse.dispatcher.expect(id) else {
            return Ok(unknown());
        };
        receiver._turn = turn;
        match accepted(post.deliver(&sse.endpoint, body).await?, session) {
            Answer::Nothing { session } => Ok(Answer::Stream {
                session,
                events: Stream::of(receiver),
            }),
            refused => Ok(refused),
        }
    }

    /// The stream of messages outside of any request.
    pub(super) fn listen(&self, session: Option<&HeaderValue>) -> Answer {
        let receiver = session
            .and_then(|session| self.session_of(session))
            .and_then(|sse| sse.dispatcher.listen());
        match receiver {
            Some(receiver) => Answer::Stream {
                session: None,
                events: Stream::of(receiver),
            },
            None => unknown(),
        }
    }

    /// Closes the session.
    pub(super) fn end(&self, session: Option<&HeaderValue>) -> Answer {
        let sse = session.and_then(|session| self.sessions.lock().remove(session));
        drop(sse);
        Answer::Nothing { session: None }
    }

    fn session_of(&self, session: &HeaderValue) -> Option<Arc<SseSession>> {
        let mut sessions = self.sessions.lock();
        let sse = sessions.get(session)?.clone();
        if sse.dispatcher.0.lock().has_ended {
            sessions.remove(session);
            return None;
        }
        *sse.used.lock() = Instant::now();
        Some(sse)
    }

    /// Opens a session for the client that `initialize` introduces.
    async fn open(&self, post: &Post, initialize: &Bytes) -> Result<HeaderValue, Failure> {
        let opened = tokio::time::timeout(ENDPOINT_TIMEOUT, connect(post));
        let (events, decoder, endpoint) = opened.await.map_err(|_| no_endpoint())??;
        let dispatcher = Arc::<Dispatcher>::default();
        let reader = tokio::spawn(read(
            dispatcher.clone(),
            events,
            decoder,
            post.poster(endpoint.clone()),
        ));
        let sse = SseSession {
            endpoint,
            dispatcher,
            reader: reader.abort_handle(),
            turn: can_be_asked(initialize).then(|| Arc::new(Semaphore::new(1))),
            used: Mutex::new(Instant::now()),
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let session = HeaderValue::from(number);
        let mut gone = Vec::new();
        let mut sessions = self.sessions.lock();
        let is_stale = |sse: &SseSession| {
            sse.dispatcher.0.lock().has_ended || sse.used.lock().elapsed() > IDLE_MAX
        };
        let stale: Vec<HeaderValue> = sessions
            .iter()
            .filter(|(_, sse)| is_stale(sse))
            .map(|(session, _)| session.clone())
            .collect();
        gone.extend(stale.iter().filter_map(|session| sessions.remove(session)));
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions
                .iter()
                .min_by_key(|(_, sse)| *sse.used.lock())
                .map(|(session, _)| session.clone());
            gone.extend(oldest.and_then(|session| sessions.remove(&session)));
        }
        sessions.insert(session.clone(), Arc::new(sse));
        Ok(session)
    }
}

/// Calls during which a server may ask a question.
fn takes_turns(method: &Method) -> bool {
    method.may_need_input()
}

/// Whether this `initialize` declares a capability that allows questions.
fn can_be_asked(initialize: &Bytes) -> bool {
    match Incoming::parse(initialize.clone(), Rules::backend()) {
        Ok(Incoming::One(Message::Request(request))) => request
            .params
            .get("capabilities")
            .is_some_and(|c| c != b"{}"),
        _ => false,
    }
}

/// Any success means that the message was taken: the answer comes by the stream.
fn accepted(answer: Answer, session: HeaderValue) -> Answer {
    let is_taken = match &answer {
        Answer::Json { status, .. } | Answer::Refused(Refusal { status, .. }) => {
            status.is_success()
        }
        Answer::Stream { .. } | Answer::Nothing { .. } | Answer::Large(_) => true,
    };
    match is_taken {
        true => Answer::Nothing {
            session: Some(session),
        },
        false => answer,
    }
}

/// The answer to every request in a session that ended.
fn unknown() -> Answer {
    let body = Bytes::from_static(b"the event stream ended");
    Answer::Refused(Refusal::of(StatusCode::NOT_FOUND, body))
}

fn no_endpoint() -> Failure {
    Failure::Undelivered(relay::bad_reply("no `endpoint` event came"))
}

/// Opens the stream and reads the endpoint.
async fn connect(post: &Post) -> Result<(Stream, sse::Decoder, Uri), Failure> {
    let Answer::Stream { mut events, .. } = post.open_events().await? else {
        return Err(no_endpoint());
    };
    let mut decoder = post.decoder();
    while let Some(mut chunk) = events.chunk(post).await? {
        while let Some(event) = decoder.next(&mut chunk) {
            let event = event.map_err(|_| no_endpoint())?;
            if event.event.as_deref() == Some(b"endpoint") {
                let endpoint = resolve(post.path(), post.authority(), &event.data);
                // Events behind it in the same chunk answer no request of ours.
                return Ok((events, decoder, endpoint.ok_or_else(no_endpoint)?));
            }
        }
    }
    Err(no_endpoint())
}

/// The endpoint as a path: it must not lead to another server.
fn resolve(base: &Uri, authority: &[u8], said: &[u8]) -> Option<Uri> {
    let said = std::str::from_utf8(said).ok()?.trim();
    let uri: Uri = match said.starts_with('/') || said.contains("://") {
        // Scheme-relative: names a host.
        true if said.starts_with("//") => format!("http:{said}").parse().ok()?,
        true => said.parse().ok()?,
        false => {
            let folder = base
                .path()
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder);
            format!("{folder}/{said}").parse().ok()?
        }
    };
    let elsewhere =
        |a: &http::uri::Authority| !a.as_str().as_bytes().eq_ignore_ascii_case(authority);
    if uri.authority().is_some_and(elsewhere) {
        return None;
    }
    uri.path_and_query()?.as_str().parse().ok()
}

/// Reads a session's stream to its end.
async fn read(
    dispatcher: Arc<Dispatcher>,
    mut events: Stream,
    mut decoder: sse::Decoder,
    poster: DetachedPoster,
) {
    while let Ok(Some(mut chunk)) = events.alone().await {
        while let Some(event) = decoder.next(&mut chunk) {
            let Ok(event) = event else {
                return dispatcher.end();
            };
            if event.data.is_empty() || !event.is_message() {
                continue;
            }
            if let Some(answer) = dispatcher.dispatch(&event.data) {
                poster.post(answer);
            }
        }
    }
    dispatcher.end();
}

/// Sends POSTs from tasks of their own.
pub(super) struct DetachedPoster {
    pub(super) pool: Arc<super::pool::Pool>,
    /// Header fields of every request, as they are written.
    pub(super) fixed: Vec<u8>,
    pub(super) endpoint: Uri,
}

impl DetachedPoster {
    /// Posts a message without waiting for its answer.
    fn post(&self, body: Vec<u8>) {
        let mut request = Posted::new(&http::Method::POST, &self.endpoint);
        request.fields(&self.fixed);
        let request = request.with(body.into());
        let pool = self.pool.clone();
        tokio::spawn(async move {
            let sent = async {
                let sent = pool.take().await?.send(&request).await;
                sent.map_err(std::io::Error::from)
            };
            let _ = tokio::time::timeout(ENDPOINT_TIMEOUT, sent).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_to_post_to_stays_at_the_server() {
        let base: Uri = "/a/sse".parse().expect("a path");
        let resolved =
            |said: &str| resolve(&base, b"host:1", said.as_bytes()).map(|u| u.to_string());
        assert_eq!(
            resolved("/messages?id=1").as_deref(),
            Some("/messages?id=1")
        );
        assert_eq!(
            resolved("messages?id=1").as_deref(),
            Some("/a/messages?id=1")
        );
        assert_eq!(resolved("http://host:1/m?id=1").as_deref(), Some("/m?id=1"));
        assert_eq!(resolved("http://other:1/m?id=1"), None);
        assert_eq!(resolved("//other/m"), None);
    }

    #[test]
    fn a_question_goes_to_the_only_call_or_is_refused() {
        let dispatcher = Arc::<Dispatcher>::default();
        let ask = Bytes::from_static(br#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
        assert!(
            dispatcher.dispatch(&ask).is_some(),
            "the caller cannot be asked"
        );
        let mut one = dispatcher.expect(1).expect("open");
        assert_eq!(dispatcher.dispatch(&ask), None);
        assert!(one.events.try_recv().is_ok());
        let two = dispatcher.expect(2).expect("open");
        assert!(dispatcher.dispatch(&ask).is_some(), "it could be either's");
        drop(two);
        let answer = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert_eq!(dispatcher.dispatch(&answer), None);
        assert!(one.events.try_recv().is_ok());
        dispatcher.end();
        assert!(dispatcher.expect(3).is_none());
    }
}
