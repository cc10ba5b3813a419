//! One POST to a server: headers as its revision wants them, and what kind of answer came.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, RETRY_AFTER,
};
use http::{Method as Verb, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use sentinel_core::{Fault, Kind};
use sentinel_wire::{Method, Params, Revision, header, sse};

use super::old::{self, Old};
use super::pool::{Pool, Wire};

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Everything about a server that does not change from request to request.
pub(super) struct Post {
    pool: Arc<Pool>,
    /// How the server is spoken to if it turns out to be one of 2024-11-05.
    pub(super) old: Old,
    path: Uri,
    fixed: HeaderMap,
    reply_bytes_max: usize,
    retries: u32,
}

/// What one request carries besides its body.
#[derive(Clone, Copy)]
pub(super) struct Envelope<'a> {
    pub(super) method: &'a Method,
    /// The name that a modern server also wants in a header, decoded.
    pub(super) name: Option<&'a str>,
    pub(super) revision: Option<Revision>,
    pub(super) session: Option<&'a HeaderValue>,
    /// Further headers, such as `Mcp-Param-*`.
    pub(super) extra: &'a [(HeaderName, HeaderValue)],
}

/// What came back.
pub(super) enum Answer {
    /// A JSON body, whole.
    Json {
        status: StatusCode,
        session: Option<HeaderValue>,
        body: Bytes,
    },
    /// A stream of events.
    Stream {
        session: Option<HeaderValue>,
        events: Stream,
    },
    /// Accepted; nothing to read.
    Nothing { session: Option<HeaderValue> },
    /// Neither: the status, when to come back, and the beginning of what it said.
    Refused {
        status: StatusCode,
        retry_after_ms: Option<u64>,
        /// What the body says it is.
        kind: Option<HeaderValue>,
        body: Bytes,
    },
}

impl Answer {
    /// 404, which in a session means that the server does not know it (any more).
    pub(super) fn is_unknown(&self) -> bool {
        matches!(
            self,
            Self::Json { status, .. } | Self::Refused { status, .. } if *status == StatusCode::NOT_FOUND
        )
    }
}

/// Why nothing came back.
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
            Failure::Undelivered(fault) | Failure::Lost(fault) => fault,
        }
    }
}

/// An event stream; gives its connection back when it was read to the end.
pub(super) struct Stream(Source);

enum Source {
    Body {
        body: Incoming,
        wire: Option<Wire>,
    },
    /// A part of the one stream of an old server.
    Old(old::Heard),
}

impl Stream {
    /// The next chunk, `None` at the end.
    pub(super) async fn chunk(&mut self, post: &Post) -> Result<Option<Bytes>, Failure> {
        let chunk = self.alone().await?;
        if chunk.is_none()
            && let Source::Body { wire, .. } = &mut self.0
            && let Some(wire) = wire.take()
        {
            post.pool.give(wire);
        }
        Ok(chunk)
    }

    /// The same, for a connection that is of no use afterwards.
    pub(super) async fn alone(&mut self) -> Result<Option<Bytes>, Failure> {
        let (body, wire) = match &mut self.0 {
            Source::Body { body, wire } => (body, wire),
            Source::Old(heard) => return heard.chunk().await,
        };
        let Some(wire) = wire else {
            return Ok(None);
        };
        loop {
            match wire.run(body.frame()).await {
                None => return Ok(None),
                Some(Err(error)) => return Err(lost(error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    pub(super) fn of(heard: old::Heard) -> Self {
        Self(Source::Old(heard))
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
        fixed.insert(
            HOST,
            HeaderValue::from_str(authority.as_str()).expect("an authority is visible ASCII"),
        );
        fixed.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        fixed.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        // Without a word about it any encoding would be welcome.
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
            old: Old::default(),
            path,
            fixed,
            reply_bytes_max,
            retries,
        }
    }

    /// Sends a body. Tries again, with growing pauses, only while nothing was delivered.
    pub(super) async fn send(
        &self,
        envelope: Envelope<'_>,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        if self.old.is_on() {
            return Box::pin(self.old.send(self, envelope, body)).await;
        }
        let headers = self.headers(envelope, None);
        self.exchange(Verb::POST, &self.path, headers, body).await
    }

    /// Opens the server's own stream, resuming after an event where one is named.
    pub(super) async fn listen(
        &self,
        envelope: Envelope<'_>,
        after: Option<&[u8]>,
    ) -> Result<Answer, Failure> {
        if self.old.is_on() {
            return Ok(self.old.listen(envelope.session));
        }
        let headers = self.headers(envelope, after);
        self.exchange(Verb::GET, &self.path, headers, Bytes::new())
            .await
    }

    /// Ends a session.
    pub(super) async fn delete(&self, envelope: Envelope<'_>) -> Result<Answer, Failure> {
        if self.old.is_on() {
            return Ok(self.old.end(envelope.session));
        }
        let headers = self.headers(envelope, None);
        self.exchange(Verb::DELETE, &self.path, headers, Bytes::new())
            .await
    }

    /// Opens the one stream of an old server.
    pub(super) async fn open_events(&self) -> Result<Answer, Failure> {
        let headers = self.fixed.clone();
        self.exchange(Verb::GET, &self.path, headers, Bytes::new())
            .await
    }

    /// Delivers one message to the address that an old server named.
    pub(super) async fn deliver(&self, endpoint: &Uri, body: Bytes) -> Result<Answer, Failure> {
        let headers = self.fixed.clone();
        self.exchange(Verb::POST, endpoint, headers, body).await
    }

    /// The same for whoever cannot wait.
    pub(super) fn mouth(&self, endpoint: Uri) -> old::Mouth {
        old::Mouth {
            pool: self.pool.clone(),
            headers: self.fixed.clone(),
            endpoint,
        }
    }

    /// Closes connections that nobody needs any more, for as long as this is polled.
    pub(super) async fn tidy(&self) {
        self.pool.tidy().await;
    }

    pub(super) fn path(&self) -> &Uri {
        &self.path
    }

    pub(super) fn authority(&self) -> &[u8] {
        self.fixed.get(HOST).map_or(b"", |host| host.as_bytes())
    }

    pub(super) fn decoder(&self) -> sse::Decoder {
        sse::Decoder::new(self.reply_bytes_max)
    }

    async fn exchange(
        &self,
        verb: Verb,
        path: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = verb;
        *request.uri_mut() = path.clone();
        *request.headers_mut() = headers;
        let mut attempt = 0;
        loop {
            let failed = match self.pool.take().await {
                Ok(wire) => match self.try_on(wire, request).await {
                    Ok(answer) => return answer,
                    Err((returned, reused)) => {
                        request = returned;
                        if reused {
                            continue;
                        }
                        io::Error::other("the connection closed before the request was written")
                    }
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

    /// Writes the request on one connection; gives it back if not a byte of it was written.
    async fn try_on(
        &self,
        mut wire: Wire,
        request: Request<Full<Bytes>>,
    ) -> Result<Result<Answer, Failure>, (Request<Full<Bytes>>, bool)> {
        match wire.send(request).await {
            Ok(response) => Ok(self.read(wire, response).await),
            Err(mut error) => match error.take_message() {
                Some(request) => Err((request, wire.reused)),
                None => Ok(Err(lost(error.into_error()))),
            },
        }
    }

    fn headers(&self, envelope: Envelope<'_>, after: Option<&[u8]>) -> HeaderMap {
        let mut headers = self.fixed.clone();
        if let Some(session) = envelope.session {
            headers.insert(SESSION, session.clone());
        }
        if let Some(revision) = envelope.revision {
            headers.insert(VERSION, HeaderValue::from_static(revision.as_str()));
            if revision.is_modern() {
                if let Ok(method) = HeaderValue::from_str(envelope.method.as_str()) {
                    headers.insert(METHOD, method);
                }
                if let Some(name) = envelope.name
                    && let Ok(name) = HeaderValue::from_str(&header::encode(name))
                {
                    headers.insert(NAME, name);
                }
            }
        }
        for (name, value) in envelope.extra {
            headers.append(name, value.clone());
        }
        if let Some(after) = after.and_then(|id| HeaderValue::from_bytes(id).ok()) {
            headers.insert(LAST_EVENT, after);
        }
        headers
    }

    async fn read(
        &self,
        mut wire: Wire,
        response: http::Response<Incoming>,
    ) -> Result<Answer, Failure> {
        let status = response.status();
        let session = response.headers().get(SESSION).cloned();
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .map_or(&b""[..], HeaderValue::as_bytes);
        let is = |prefix: &[u8]| {
            kind.len() >= prefix.len() && kind[..prefix.len()].eq_ignore_ascii_case(prefix)
        };
        let encoded = encoding(response.headers());
        if status == StatusCode::OK && is(b"text/event-stream") {
            if let Some(encoded) = encoded {
                return Err(encoded);
            }
            let events = Stream(Source::Body {
                body: response.into_body(),
                wire: Some(wire),
            });
            return Ok(Answer::Stream { session, events });
        }
        let json = is(b"application/json");
        let kind = response.headers().get(CONTENT_TYPE).cloned();
        let retry_after_ms = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|v| v.to_str().ok()?.parse::<u64>().ok())
            .map(|seconds| seconds.saturating_mul(1000));
        let body = gather(response.into_body(), self.reply_bytes_max);
        let body = wire.run(body).await?;
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
            Answer::Refused {
                status,
                retry_after_ms,
                kind,
                body,
            }
        })
    }
}

/// A body in an encoding that was not asked for cannot be read.
fn encoding(headers: &HeaderMap) -> Option<Failure> {
    let encoding = headers.get(CONTENT_ENCODING)?.to_str().unwrap_or("?");
    let named = encoding.get(..64).unwrap_or(encoding).trim();
    if named.is_empty() || named.eq_ignore_ascii_case("identity") {
        return None;
    }
    let text = format!("the backend's answer is encoded as `{named}`, which it was not asked for");
    Some(Failure::Lost(Fault::new(Kind::BackendBadReply, text)))
}

/// The whole body, within the bound; one frame, the usual case, is taken as it is.
async fn gather(mut body: Incoming, bytes_max: usize) -> Result<Bytes, Failure> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(lost)?.into_data() else {
            continue;
        };
        if first.len() + rest.len() + data.len() > bytes_max {
            let text = format!(
                "the backend's answer is larger than the {bytes_max} bytes allowed (limits.reply_mb)"
            );
            return Err(Failure::Lost(Fault::new(Kind::BackendBadReply, text)));
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.reserve(body.size_hint().lower() as usize + first.len() + data.len());
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
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

fn lost(error: hyper::Error) -> Failure {
    let text = "the connection to the backend was lost; the call may have run";
    Failure::Lost(Fault::new(Kind::BackendUnavailable, text).because(error))
}
