//! Servers of 2024-11-05: everything they say comes by one GET stream, everything they hear by POSTs to
//! an address that the stream names first.
//!
//! To the rest of the connector they look like any other: a `Line` is one such stream, and its number
//! stands for the session id. A request opens a stream of its own, on which it hears its response and
//! whatever else can be told to be about it; the session's own stream hears the rest.
//!
//! Nothing links a server's question to a call. So on a line whose client can be asked, calls take
//! turns; on the others no question is expected, and one that comes all the same is refused.

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

use super::post::{Answer, Envelope, Failure, Post, Stream};
use super::wire::Request as Posted;
use crate::relay;

/// Longest wait for the event that names where to POST.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines to one server; like sessions, the one used least recently goes first.
const LINES_MAX: usize = 1024;
/// A line that nobody used for this long is closed; the next call opens another.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// Messages on their way to one request; further notices are dropped, never the response.
const UNREAD_MAX: usize = 64;

/// The lines to one server, once it was found to be that old.
#[derive(Default)]
pub(super) struct Old {
    is_on: AtomicBool,
    next: AtomicU64,
    lines: Mutex<HashMap<HeaderValue, Arc<Line>>>,
}

/// One GET stream and the address that belongs to it.
struct Line {
    endpoint: Uri,
    hearing: Arc<Hearing>,
    reader: AbortHandle,
    /// Held by one call at a time where the client can be asked.
    turn: Option<Arc<Semaphore>>,
    used: Mutex<Instant>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.reader.abort();
        self.hearing.end();
    }
}

/// Who waits for what on a line; nobody any more once it ended.
#[derive(Default)]
struct Hearing(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    has_ended: bool,
    requests: HashMap<u64, Request>,
    outside: Option<mpsc::Sender<Bytes>>,
}

struct Request {
    events: mpsc::Sender<Bytes>,
    /// Room for the response, whatever else is unread.
    response: mpsc::OwnedPermit<Bytes>,
}

/// What one request hears, framed like the stream of a newer server.
pub(super) struct Heard {
    events: mpsc::Receiver<Bytes>,
    request: Option<(Arc<Hearing>, u64)>,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Heard {
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.events.recv().await {
            Some(event) => Ok(Some(event)),
            None => Err(ended()),
        }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        if let Some((hearing, id)) = &self.request {
            hearing.0.lock().requests.remove(id);
        }
    }
}

fn ended() -> Failure {
    let text = "the backend's event stream ended; the call may have run";
    Failure::Lost(Fault::new(Kind::BackendUnavailable, text).retry_after_ms(1000))
}

impl Hearing {
    fn end(&self) {
        let mut waiting = self.0.lock();
        waiting.has_ended = true;
        waiting.requests.clear();
        waiting.outside = None;
    }

    /// A place for the response to request `id`.
    fn expect(self: &Arc<Self>, id: u64) -> Option<Heard> {
        let mut waiting = self.0.lock();
        if waiting.has_ended {
            return None;
        }
        let (events, heard) = mpsc::channel(UNREAD_MAX + 1);
        let response = events.clone().try_reserve_owned();
        let response = response.expect("a new channel has room");
        waiting.requests.insert(id, Request { events, response });
        Some(Heard {
            events: heard,
            request: Some((self.clone(), id)),
            _turn: None,
        })
    }

    /// What is about no request; an older listener's stream ends.
    fn listen(&self) -> Option<Heard> {
        let mut waiting = self.0.lock();
        if waiting.has_ended {
            return None;
        }
        let (events, heard) = mpsc::channel(UNREAD_MAX);
        waiting.outside = Some(events);
        Some(Heard {
            events: heard,
            request: None,
            _turn: None,
        })
    }

    /// Takes a message to whoever waits for it. What is to be said back at once is returned.
    fn hear(&self, data: &Bytes) -> Option<Vec<u8>> {
        let messages = match Incoming::parse(data.clone(), Rules::backend()) {
            Ok(Incoming::One(message)) => vec![message],
            Ok(Incoming::Batch(messages)) => messages.into_iter().flatten().collect(),
            Err(_) => return None,
        };
        let mut framed = Vec::new();
        sse::push_message(&mut framed, data);
        let event = Bytes::from(framed);
        let mut waiting = self.0.lock();
        let mut answer = None;
        for message in messages {
            answer = waiting.take(&message, &event).or(answer);
        }
        answer
    }
}

impl Waiting {
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
                // Only where it can be nobody else's.
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
    fn only(&self) -> Option<&Request> {
        let mut all = self.requests.values();
        all.next().filter(|_| all.next().is_none())
    }
}

impl Old {
    /// Whether the server is spoken to in this way.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(super) fn switch(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
        if !on {
            let lines = std::mem::take(&mut *self.lines.lock());
            drop(lines);
        }
    }

    /// Sends one message by the line that its session names; `initialize` opens a new one.
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
        let Some(line) = self.line(&session) else {
            return Ok(unknown());
        };
        let id = match Incoming::parse(body.clone(), Rules::backend()) {
            Ok(Incoming::One(Message::Request(request))) => request.id.as_u64(),
            _ => None,
        };
        let Some(id) = id else {
            let answer = post.deliver(&line.endpoint, body).await?;
            return Ok(accepted(answer, session));
        };
        let turn = match line.turn.as_ref().filter(|_| takes_turns(envelope.method)) {
            Some(turn) => turn.clone().acquire_owned().await.ok(),
            None => None,
        };
        let Some(mut heard) = line.hearing.expect(id) else {
            return Ok(unknown());
        };
        heard._turn = turn;
        match accepted(post.deliver(&line.endpoint, body).await?, session) {
            Answer::Nothing { session } => Ok(Answer::Stream {
                session,
                events: Stream::of(heard),
            }),
            refused => Ok(refused),
        }
    }

    /// The stream of what is said outside of any request.
    pub(super) fn listen(&self, session: Option<&HeaderValue>) -> Answer {
        let heard = session
            .and_then(|session| self.line(session))
            .and_then(|line| line.hearing.listen());
        match heard {
            Some(heard) => Answer::Stream {
                session: None,
                events: Stream::of(heard),
            },
            None => unknown(),
        }
    }

    /// Hangs up.
    pub(super) fn end(&self, session: Option<&HeaderValue>) -> Answer {
        let line = session.and_then(|session| self.lines.lock().remove(session));
        drop(line);
        Answer::Nothing { session: None }
    }

    fn line(&self, session: &HeaderValue) -> Option<Arc<Line>> {
        let mut lines = self.lines.lock();
        let line = lines.get(session)?.clone();
        if line.hearing.0.lock().has_ended {
            lines.remove(session);
            return None;
        }
        *line.used.lock() = Instant::now();
        Some(line)
    }

    /// Opens a line for the client that `initialize` introduces.
    async fn open(&self, post: &Post, initialize: &Bytes) -> Result<HeaderValue, Failure> {
        let opened = tokio::time::timeout(ENDPOINT_TIMEOUT, connect(post));
        let (events, decoder, endpoint) = opened.await.map_err(|_| no_endpoint())??;
        let hearing = Arc::<Hearing>::default();
        let reader = tokio::spawn(read(
            hearing.clone(),
            events,
            decoder,
            post.mouth(endpoint.clone()),
        ));
        let line = Line {
            endpoint,
            hearing,
            reader: reader.abort_handle(),
            turn: can_be_asked(initialize).then(|| Arc::new(Semaphore::new(1))),
            used: Mutex::new(Instant::now()),
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let session = HeaderValue::from(number);
        let mut gone = Vec::new();
        let mut lines = self.lines.lock();
        let is_stale =
            |line: &Line| line.hearing.0.lock().has_ended || line.used.lock().elapsed() > IDLE_MAX;
        let stale: Vec<HeaderValue> = lines
            .iter()
            .filter(|(_, line)| is_stale(line))
            .map(|(session, _)| session.clone())
            .collect();
        gone.extend(stale.iter().filter_map(|session| lines.remove(session)));
        if lines.len() >= LINES_MAX {
            let oldest = lines
                .iter()
                .min_by_key(|(_, line)| *line.used.lock())
                .map(|(session, _)| session.clone());
            gone.extend(oldest.and_then(|session| lines.remove(&session)));
        }
        lines.insert(session.clone(), Arc::new(line));
        Ok(session)
    }
}

/// Calls that a server may ask something in the middle of.
fn takes_turns(method: &Method) -> bool {
    method.may_need_input()
}

/// Whether the client introduced by this request declared anything that it could be asked for.
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
        Answer::Json { status, .. } | Answer::Refused { status, .. } => status.is_success(),
        Answer::Stream { .. } | Answer::Nothing { .. } | Answer::Large(_) => true,
    };
    match is_taken {
        true => Answer::Nothing {
            session: Some(session),
        },
        false => answer,
    }
}

/// What a session that ended is answered with everywhere.
fn unknown() -> Answer {
    Answer::Refused {
        status: StatusCode::NOT_FOUND,
        retry_after_ms: None,
        kind: None,
        body: Bytes::from_static(b"the event stream ended"),
    }
}

fn no_endpoint() -> Failure {
    Failure::Undelivered(relay::bad_reply("no `endpoint` event came"))
}

/// Opens the stream and reads where to POST.
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
                // Whatever came with it in one chunk is about nothing that was asked yet.
                return Ok((events, decoder, endpoint.ok_or_else(no_endpoint)?));
            }
        }
    }
    Err(no_endpoint())
}

/// The address to POST to, as a path: it must not lead to another server.
fn resolve(base: &Uri, authority: &[u8], said: &[u8]) -> Option<Uri> {
    let said = std::str::from_utf8(said).ok()?.trim();
    let uri: Uri = match said.starts_with('/') || said.contains("://") {
        // Another host in the scheme at hand.
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

/// Reads a line to its end.
async fn read(hearing: Arc<Hearing>, mut events: Stream, mut decoder: sse::Decoder, mouth: Mouth) {
    while let Ok(Some(mut chunk)) = events.alone().await {
        while let Some(event) = decoder.next(&mut chunk) {
            let Ok(event) = event else {
                return hearing.end();
            };
            if event.data.is_empty() || !event.is_message() {
                continue;
            }
            if let Some(answer) = hearing.hear(&event.data) {
                mouth.say(answer);
            }
        }
    }
    hearing.end();
}

/// The way to POST beside everything else.
pub(super) struct Mouth {
    pub(super) pool: Arc<super::pool::Pool>,
    /// Header fields of every request, as they are written.
    pub(super) fixed: Vec<u8>,
    pub(super) endpoint: Uri,
}

impl Mouth {
    /// Says something that nobody waits for.
    fn say(&self, body: Vec<u8>) {
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
        let hearing = Arc::<Hearing>::default();
        let ask = Bytes::from_static(br#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
        assert!(hearing.hear(&ask).is_some(), "nobody is there to be asked");
        let mut one = hearing.expect(1).expect("open");
        assert_eq!(hearing.hear(&ask), None);
        assert!(one.events.try_recv().is_ok());
        let two = hearing.expect(2).expect("open");
        assert!(hearing.hear(&ask).is_some(), "it could be either's");
        drop(two);
        let answer = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert_eq!(hearing.hear(&answer), None);
        assert!(one.events.try_recv().is_ok());
        hearing.end();
        assert!(hearing.expect(3).is_none());
    }
}
