//! One POST to a server: headers for its revision, and the kind of answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
};
use http::{Method as Verb, StatusCode, Uri};
use sentinel_core::{Fault, Kind};
use sentinel_wire::http1::Head;
use sentinel_wire::{Method, Params, Revision, header, sse};

use super::http_sse::{self, HttpSse};
use super::large::{self, ExpectedAnswer, LargeAnswer};
use super::pool::Pool;
use super::wire::{self, Gathered, Request, SendError, Wire};

const SESSION_NAME: &str = "mcp-session-id";
const SESSION: HeaderName = HeaderName::from_static(SESSION_NAME);
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Everything about a server that is the same for every request.
pub(super) struct Post {
    pool: Arc<Pool>,
    /// In use once the server was detected as HTTP+SSE of 2024-11-05.
    pub(super) http_sse: HttpSse,
    path: Uri,
    /// Header fields of every request, already serialized.
    fixed: Vec<u8>,
    authority: HeaderValue,
    reply_bytes_max: usize,
    retries: u32,
}

/// What one request carries besides its body.
#[derive(Clone, Copy)]
pub(super) struct Envelope<'a> {
    pub(super) method: &'a Method,
    /// The target's name, decoded; a modern server wants it in a header too.
    pub(super) name: Option<&'a str>,
    pub(super) revision: Option<Revision>,
    pub(super) session: Option<&'a HeaderValue>,
    /// Further headers, such as `Mcp-Param-*`.
    pub(super) extra: &'a [(HeaderName, HeaderValue)],
}

/// The answer to a POST.
pub(super) enum Answer {
    /// A JSON body, whole.
    Json {
        status: StatusCode,
        session: Option<HeaderValue>,
        body: Bytes,
    },
    /// The beginning of a JSON body that may be passed on while it arrives.
    Large(Box<LargeAnswer>),
    /// A stream of events.
    Stream {
        session: Option<HeaderValue>,
        events: Stream,
    },
    /// Accepted; nothing to read.
    Nothing { session: Option<HeaderValue> },
    /// None of these.
    Refused(Refusal),
}

/// An answer that is no answer to a message.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// Of its `Retry-After`.
    pub(super) retry_after_ms: Option<u64>,
    /// Its `Content-Type`.
    pub(super) content_type: Option<HeaderValue>,
    /// The beginning of its body.
    pub(super) body: Bytes,
}

impl Refusal {
    /// A body that is no answer, whatever else came with it.
    pub(super) fn of(status: StatusCode, body: Bytes) -> Self {
        Self {
            status,
            retry_after_ms: None,
            content_type: None,
            body,
        }
    }
}

impl Answer {
    /// 404, which within a session means that the server does not know the session.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(
            self,
            Self::Json { status, .. } | Self::Refused(Refusal { status, .. }) if *status == StatusCode::NOT_FOUND
        )
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was delivered: trying again is safe.
    Undelivered(Fault),
    /// The request may have been delivered, and may have run.
    Lost(Fault),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Undelivered(fault) => fault.not_run(),
            Failure::Lost(fault) => fault,
        }
    }
}

/// An event stream; returns its connection to the pool when read to the end.
pub(super) struct Stream(Source);

enum Source {
    Wire(Option<Wire>),
    /// A part of the one stream of an HTTP+SSE server.
    HttpSse(http_sse::EventReceiver),
}

impl Stream {
    /// The next chunk, `None` at the end.
    pub(super) async fn chunk(&mut self, post: &Post) -> Result<Option<Bytes>, Failure> {
        let chunk = self.alone().await?;
        if chunk.is_none()
            && let Source::Wire(wire) = &mut self.0
            && let Some(wire) = wire.take()
        {
            post.pool.give(wire);
        }
        Ok(chunk)
    }

    /// Like `chunk`, for a connection that is not reused afterwards.
    pub(super) async fn alone(&mut self) -> Result<Option<Bytes>, Failure> {
        match &mut self.0 {
            Source::Wire(Some(wire)) => wire.chunk().await.map_err(lost),
            Source::Wire(None) => Ok(None),
            Source::HttpSse(heard) => heard.chunk().await,
        }
    }

    pub(super) fn of(heard: http_sse::EventReceiver) -> Self {
        Self(Source::HttpSse(heard))
    }
}

impl Post {
    pub(super) fn new(
        pool: Pool,
        url: &Uri,
        configured: &[(HeaderName, HeaderValue)],
        reply_bytes_max: usize,
        retries: u32,
    ) -> Self {
        let mut fixed = HeaderMap::new();
        let authority = url.authority().expect("checked when the address was read");
        let authority =
            HeaderValue::from_str(authority.as_str()).expect("an authority is visible ASCII");
        fixed.insert(HOST, authority.clone());
        fixed.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        fixed.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        // Without this header any encoding would be acceptable.
        fixed.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in configured {
            fixed.insert(name, value.clone());
        }
        let path = url
            .path_and_query()
            .map_or("/", |p| p.as_str())
            .parse()
            .expect("a path of a URI");
        Self {
            pool: Arc::new(pool),
            http_sse: HttpSse::default(),
            path,
            fixed: wire::written(&fixed),
            authority,
            reply_bytes_max,
            retries,
        }
    }

    /// Sends a body. Retries with backoff, but only while nothing was delivered.
    pub(super) async fn send(
        &self,
        envelope: Envelope<'_>,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        self.send_for(None, envelope, body).await
    }

    /// Like `send`, for a caller that takes a large answer in pieces.
    pub(super) async fn send_for(
        &self,
        wanted: Option<ExpectedAnswer>,
        envelope: Envelope<'_>,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        if self.http_sse.is_on() {
            return Box::pin(self.http_sse.send(self, envelope, body)).await;
        }
        let request = self.request(&Verb::POST, envelope, None);
        self.exchange(request.with(body), wanted).await
    }

    /// Returns a connection whose answer was read to its end.
    pub(super) fn give_back(&self, wire: Wire) {
        self.pool.give(wire);
    }

    /// Opens the session's own stream, resuming after an event id where one is given.
    pub(super) async fn listen(
        &self,
        envelope: Envelope<'_>,
        after: Option<&[u8]>,
    ) -> Result<Answer, Failure> {
        if self.http_sse.is_on() {
            return Ok(self.http_sse.listen(envelope.session));
        }
        let request = self.request(&Verb::GET, envelope, after);
        self.exchange(request.end(), None).await
    }

    /// Ends a session.
    pub(super) async fn delete(&self, envelope: Envelope<'_>) -> Result<Answer, Failure> {
        if self.http_sse.is_on() {
            return Ok(self.http_sse.end(envelope.session));
        }
        let request = self.request(&Verb::DELETE, envelope, None);
        self.exchange(request.end(), None).await
    }

    /// Opens the one stream of an HTTP+SSE server.
    pub(super) async fn open_events(&self) -> Result<Answer, Failure> {
        let mut request = Request::new(&Verb::GET, &self.path);
        request.fields(&self.fixed);
        self.exchange(request.end(), None).await
    }

    /// Posts one message to the endpoint that an HTTP+SSE server named.
    pub(super) async fn deliver(&self, endpoint: &Uri, body: Bytes) -> Result<Answer, Failure> {
        let mut request = Request::new(&Verb::POST, endpoint);
        request.fields(&self.fixed);
        self.exchange(request.with(body), None).await
    }

    /// Like `deliver`, for components that cannot await it.
    pub(super) fn poster(&self, endpoint: Uri) -> http_sse::DetachedPoster {
        http_sse::DetachedPoster {
            pool: self.pool.clone(),
            fixed: self.fixed.clone(),
            endpoint,
        }
    }

    pub(super) async fn is_unbroken(&self) -> bool {
        self.pool.is_unbroken().await
    }

    /// Closes connections that idled too long, for as long as this is polled.
    pub(super) async fn tidy(&self) {
        self.pool.tidy().await;
    }

    pub(super) fn path(&self) -> &Uri {
        &self.path
    }

    pub(super) fn authority(&self) -> &[u8] {
        self.authority.as_bytes()
    }

    pub(super) fn decoder(&self) -> sse::Decoder {
        sse::Decoder::new(self.reply_bytes_max)
    }

    async fn exchange(
        &self,
        request: Request,
        wanted: Option<ExpectedAnswer>,
    ) -> Result<Answer, Failure> {
        let mut attempt = 0;
        loop {
            let failed = match self.pool.take().await {
                Ok(mut wire) => match wire.send(&request).await {
                    Ok(head) => return self.read(wire, head, wanted).await,
                    // The server closed an idle connection; the next one may be open.
                    Err(SendError::Undelivered(_)) if wire.reused => continue,
                    Err(SendError::Undelivered(error)) => error,
                    Err(SendError::Lost(error)) => return Err(lost(error)),
                },
                Err(error) => error,
            };
            if attempt >= self.retries {
                return Err(unreachable(failed));
            }
            tokio::time::sleep(Duration::from_millis(50 << attempt.min(6))).await;
            attempt += 1;
        }
    }

    /// The request up to its own header fields, with the head left open.
    fn request(&self, verb: &Verb, envelope: Envelope<'_>, after: Option<&[u8]>) -> Request {
        let mut request = Request::new(verb, &self.path);
        request.fields(&self.fixed);
        if let Some(session) = envelope.session {
            request.field(&SESSION, session);
        }
        if let Some(revision) = envelope.revision {
            request.field(&VERSION, &HeaderValue::from_static(revision.as_str()));
            if revision.is_modern() {
                if let Ok(method) = HeaderValue::from_str(envelope.method.as_str()) {
                    request.field(&METHOD, &method);
                }
                if let Some(name) = envelope.name
                    && let Ok(name) = HeaderValue::from_str(&header::encode(name))
                {
                    request.field(&NAME, &name);
                }
            }
        }
        for (name, value) in envelope.extra {
            request.field(name, value);
        }
        if let Some(after) = after.and_then(|id| HeaderValue::from_bytes(id).ok()) {
            request.field(&LAST_EVENT, &after);
        }
        request
    }

    async fn read(
        &self,
        mut wire: Wire,
        head: Head,
        wanted: Option<ExpectedAnswer>,
    ) -> Result<Answer, Failure> {
        let status = StatusCode::from_u16(head.status).map_err(lost)?;
        let session = head
            .get(SESSION_NAME)
            .and_then(|id| HeaderValue::from_bytes(id).ok());
        let kind = head.get("content-type").unwrap_or_default();
        let is = |prefix: &[u8]| {
            kind.len() >= prefix.len() && kind[..prefix.len()].eq_ignore_ascii_case(prefix)
        };
        let encoded = encoding(&head);
        if status == StatusCode::OK && is(b"text/event-stream") {
            if let Some(encoded) = encoded {
                return Err(encoded);
            }
            let events = Stream(Source::Wire(Some(wire)));
            return Ok(Answer::Stream { session, events });
        }
        let bytes_max = self.reply_bytes_max;
        let json = is(b"application/json");
        let passes = json && status == StatusCode::OK && encoded.is_none();
        let wanted = wanted.filter(|_| passes);
        let mut begun = None;
        let gathered = wire.whole_or(bytes_max, |beginning| {
            begun = wanted.and_then(|wanted| wanted.judge(beginning));
            begun.is_some()
        });
        let body = match (gathered.await.map_err(lost)?, begun) {
            (Gathered::Beginning(first), Some(begun)) => {
                return Ok(Answer::Large(Box::new(LargeAnswer { wire, first, begun })));
            }
            (Gathered::Whole(body) | Gathered::Beginning(body), _) => body,
            (Gathered::TooLarge, _) => return Err(Failure::Lost(large::too_large(bytes_max))),
        };
        self.pool.give(wire);
        Ok(if status.is_success() && body.is_empty() {
            Answer::Nothing { session }
        } else if let (true, Some(encoded)) = (json, encoded) {
            return Err(encoded);
        } else if json {
            Answer::Json {
                status,
                session,
                body,
            }
        } else {
            Answer::Refused(Refusal {
                status,
                retry_after_ms: retry_after_ms(&head),
                content_type: HeaderValue::from_bytes(kind)
                    .ok()
                    .filter(|kind| !kind.is_empty()),
                body,
            })
        })
    }
}

fn retry_after_ms(head: &Head) -> Option<u64> {
    let seconds = std::str::from_utf8(head.get("retry-after")?).ok()?;
    Some(seconds.trim().parse::<u64>().ok()?.saturating_mul(1000))
}

/// A body in an encoding that was not requested cannot be read.
fn encoding(head: &Head) -> Option<Failure> {
    let encoding = std::str::from_utf8(head.get("content-encoding")?).unwrap_or("?");
    let named = encoding.get(..64).unwrap_or(encoding).trim();
    if named.is_empty() || named.eq_ignore_ascii_case("identity") {
        return None;
    }
    let text = format!("the backend's answer is encoded as `{named}`, which it was not asked for");
    Some(Failure::Lost(Fault::new(Kind::BackendBadReply, text)))
}

/// The header name of a call, from its params.
pub(super) fn header_name<'p>(
    method: &Method,
    params: &'p Params,
) -> Option<std::borrow::Cow<'p, str>> {
    params.string(method.name_member()?)
}

fn unreachable(error: io::Error) -> Failure {
    let fault = Fault::new(Kind::BackendUnavailable, "the backend cannot be reached");
    Failure::Undelivered(fault.because(error).retry_after_ms(1000))
}

fn lost(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    let text = "the connection to the backend was lost; the call may have run";
    Failure::Lost(Fault::new(Kind::BackendUnavailable, text).because(error))
}
