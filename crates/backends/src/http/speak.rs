//! The gateway's own requests to the server: probe, handshake, lists and pings.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;
use sentinel_core::{Fault, Kind};
use sentinel_wire::envelope::{write_notification, write_request};
use sentinel_wire::json::Rules;
use sentinel_wire::{Incoming, Message, Method, Outcome, Revision};

use super::eras::OtherEra;
use super::post::{Answer, Envelope, Refusal, Stream};
use super::upstream::{Key, Upstream};
use super::{Inner, Ready};
use crate::discover::{self, Greeting, Peer, PeerError, Probe};
use crate::relay;

/// Longest wait for an answer to one of our own requests.
const OWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends requests for `discover`, at a revision and session that become known on the way.
pub(super) struct Speaker<'a> {
    inner: &'a Inner,
    known: Mutex<Known>,
}

struct Known {
    revision: Option<Revision>,
    session: Option<HeaderValue>,
    /// The server no longer knows the session.
    is_lost: bool,
    /// Why the last request was refused.
    refused: Option<StatusCode>,
}

impl<'a> Speaker<'a> {
    /// For a server whose revision is unknown.
    pub(super) fn fresh(inner: &'a Inner) -> Self {
        Self {
            inner,
            known: Mutex::new(Known {
                revision: None,
                session: None,
                is_lost: false,
                refused: None,
            }),
        }
    }

    /// For an established session.
    pub(super) fn within(inner: &'a Inner, upstream: &Upstream) -> Self {
        let known = Known {
            revision: Some(upstream.revision),
            session: upstream.session.clone(),
            is_lost: false,
            refused: None,
        };
        Self {
            inner,
            known: Mutex::new(known),
        }
    }

    /// Whether the server answered that it does not know our session.
    pub(super) fn has_lost_session(&self) -> bool {
        self.known.lock().is_lost
    }

    /// Whether the server does not take POSTs at this address at all.
    fn is_turned_away(&self) -> bool {
        let refused = self.known.lock().refused;
        refused.is_some_and(|status| matches!(status.as_u16(), 400 | 404 | 405))
    }

    /// Sends a request about a resource; an error is a refusal, or a missing answer.
    pub(super) async fn tell(&self, method: Method, uri: &str) -> Result<(), String> {
        let params = serde_json::json!({ "uri": uri }).to_string().into_bytes();
        match self.request(method, params).await {
            Ok(Outcome::Result(_)) => Ok(()),
            Ok(Outcome::Error(error)) => Err(error.string("message").unwrap_or_default().into()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn post(&self, method: &Method, body: Vec<u8>) -> Result<Answer, PeerError> {
        let (revision, session) = {
            let known = self.known.lock();
            (known.revision, known.session.clone())
        };
        // The probe speaks the newest revision; `initialize` has none yet.
        let revision = if *method == Method::Discover {
            Some(Revision::NEWEST)
        } else {
            revision
        };
        let envelope = Envelope {
            method,
            name: None,
            revision,
            session: session.as_ref(),
            extra: &[],
        };
        let sent = self.inner.post.send(envelope, body.into());
        let answer = tokio::time::timeout(OWN_TIMEOUT, sent)
            .await
            .map_err(|_| PeerError::Failed(self.inner.timed_out()))?
            .map_err(|failure| PeerError::Failed(failure.into()))?;
        let session = match &answer {
            Answer::Json { session, .. }
            | Answer::Stream { session, .. }
            | Answer::Nothing { session } => session.clone(),
            Answer::Refused(_) | Answer::Large(_) => None,
        };
        let mut known = self.known.lock();
        if *method == Method::Initialize {
            known.session = session;
        }
        known.refused = match &answer {
            Answer::Json { status, .. } | Answer::Refused(Refusal { status, .. }) => Some(*status),
            _ => None,
        };
        drop(known);
        Ok(answer)
    }
}

impl Peer for Speaker<'_> {
    async fn request(&self, method: Method, params: Vec<u8>) -> Result<Outcome, PeerError> {
        let id = self.inner.mint_id();
        let mut body = Vec::with_capacity(params.len() + 96);
        write_request(
            id.to_string().as_bytes(),
            method.as_str(),
            &params,
            &mut body,
        );
        let answer = self.post(&method, body).await?;
        if method != Method::Initialize
            && self.known.lock().session.is_some()
            && answer.is_unknown()
        {
            // An error in such an answer is not about the method.
            self.known.lock().is_lost = true;
            let text = format!(
                "backend `{}` has forgotten the session",
                self.inner.config.name
            );
            return Err(PeerError::Failed(Fault::new(
                Kind::BackendUnavailable,
                text,
            )));
        }
        let outcome = match answer {
            Answer::Json { status, body, .. } => read_json(self.inner, status, body, id)?,
            Answer::Stream { events, .. } => {
                let waited =
                    tokio::time::timeout(OWN_TIMEOUT, first_response(self.inner, events, id));
                waited
                    .await
                    .map_err(|_| PeerError::Failed(self.inner.timed_out()))??
            }
            // Not requested here.
            Answer::Nothing { .. } | Answer::Large(_) => return Err(PeerError::NotSpoken(empty())),
            Answer::Refused(refusal) => {
                let fault = self.inner.refused(&refusal);
                return Err(refused(refusal.status, fault));
            }
        };
        if method == Method::Initialize
            && let Outcome::Result(result) = &outcome
        {
            let version = result.string("protocolVersion").unwrap_or_default();
            self.known.lock().revision = Revision::parse(&version);
        }
        Ok(outcome)
    }

    async fn notify(&self, method: Method, params: Vec<u8>) -> Result<(), PeerError> {
        let mut body = Vec::new();
        write_notification(method.as_str(), &params, &mut body);
        self.post(&method, body).await.map(drop)
    }
}

/// Probes or initializes the server, and returns what was found. A server that takes no POST at its address may be
/// one of 2024-11-05, which wants a GET there.
pub(super) async fn greet(inner: &Inner) -> Result<Ready, Fault> {
    let http_sse = &inner.post.http_sse;
    let was_http_sse = http_sse.is_on();
    let speaker = Speaker::fresh(inner);
    let refusal = match shake_hands(&speaker, was_http_sse).await {
        Ok(greeting) => return Ok(ready(speaker, greeting)),
        Err(fault) => fault,
    };
    // An HTTP+SSE server may have been replaced by a newer one; any other failure leaves the detection as it was.
    if !was_http_sse && !speaker.is_turned_away() {
        return Err(refusal);
    }
    http_sse.switch(!was_http_sse);
    let speaker = Speaker::fresh(inner);
    match shake_hands(&speaker, !was_http_sse).await {
        Ok(greeting) => Ok(ready(speaker, greeting)),
        Err(_) => {
            http_sse.switch(was_http_sse);
            Err(refusal)
        }
    }
}

async fn shake_hands(speaker: &Speaker<'_>, is_http_sse: bool) -> Result<Greeting, Fault> {
    let configured = speaker.inner.config.revision;
    let may_be_modern = configured.is_none_or(Revision::is_modern);
    if !is_http_sse && may_be_modern {
        if let Probe::Modern(greeting) = discover::probe(speaker).await? {
            return Ok(greeting);
        }
        if let Some(revision) = configured {
            return Err(discover::does_not_speak(revision));
        }
    }
    let revision = configured.unwrap_or(Revision::NEWEST_LEGACY);
    Ok(discover::initialize_at(speaker, revision, b"{}").await?)
}

fn ready(speaker: Speaker<'_>, greeting: Greeting) -> Ready {
    let is_configured = speaker.inner.config.revision.is_some();
    let session = speaker.known.into_inner().session;
    Ready {
        base: Upstream::new(&greeting, session),
        other_era: Arc::new(OtherEra::of(&greeting, is_configured)),
        greeting: Arc::new(greeting),
    }
}

/// Opens a legacy session for callers with the same capabilities and revision.
pub(super) async fn open_session(inner: &Inner, key: &Key) -> Result<Arc<Upstream>, PeerError> {
    let (upstream, _) = introduce(inner, key.revision(), key.capabilities()).await?;
    Ok(upstream)
}

/// Initializes at a revision, declaring these capabilities.
pub(super) async fn introduce(
    inner: &Inner,
    revision: Revision,
    capabilities: &[u8],
) -> Result<(Arc<Upstream>, Greeting), PeerError> {
    let speaker = Speaker::fresh(inner);
    let greeting = discover::initialize_at(&speaker, revision, capabilities).await?;
    let session = speaker.known.into_inner().session;
    Ok((Upstream::new(&greeting, session), greeting))
}

/// Reads the body of a JSON answer to request `id`.
pub(super) fn read_json(
    inner: &Inner,
    status: StatusCode,
    body: Bytes,
    id: u64,
) -> Result<Outcome, PeerError> {
    if matches!(status.as_u16(), 401 | 403 | 429 | 500..) {
        return Err(refused(status, inner.refused(&Refusal::of(status, body))));
    }
    match Incoming::parse(body.clone(), Rules::backend()) {
        Ok(Incoming::One(Message::Response(response))) => {
            let ours = response
                .id
                .as_ref()
                .is_none_or(|theirs| theirs.as_u64() == Some(id));
            match response.outcome {
                Outcome::Result(_) if !ours || response.id.is_none() => Err(PeerError::NotSpoken(
                    relay::bad_reply("it has the id of another request"),
                )),
                // An error without a readable id can only belong to the request just sent.
                outcome => Ok(outcome),
            }
        }
        Ok(Incoming::Batch(messages)) => messages
            .into_iter()
            .filter_map(Result::ok)
            .find_map(|message| match message {
                Message::Response(r) if r.id.as_ref().and_then(|id| id.as_u64()) == Some(id) => {
                    Some(r.outcome)
                }
                _ => None,
            })
            .ok_or_else(|| {
                PeerError::NotSpoken(relay::bad_reply(
                    "it is a batch without one for the request",
                ))
            }),
        Ok(Incoming::One(_)) => Err(PeerError::NotSpoken(relay::bad_reply("it is no response"))),
        Err(_) if status.is_client_error() => {
            Err(refused(status, inner.refused(&Refusal::of(status, body))))
        }
        Err(refusal) => Err(PeerError::NotSpoken(relay::bad_reply(refusal.message))),
    }
}

/// The server accepted a request without answering it.
pub(super) fn empty() -> Fault {
    relay::bad_reply("the request was accepted, but there is no body")
}

/// Reads a stream up to the response.
async fn first_response(inner: &Inner, mut stream: Stream, id: u64) -> Result<Outcome, PeerError> {
    let mut decoder = sentinel_wire::sse::Decoder::new(inner.config.reply_bytes_max);
    loop {
        let chunk = stream
            .chunk(&inner.post)
            .await
            .map_err(|f| PeerError::Failed(f.into()))?;
        let Some(mut chunk) = chunk else {
            return Err(PeerError::Failed(relay::bad_reply(
                "the stream ended without an answer",
            )));
        };
        while let Some(event) = decoder.next(&mut chunk) {
            let event = event.map_err(|e| PeerError::Failed(relay::bad_reply(e)))?;
            if event.data.is_empty() || !event.is_message() {
                continue;
            }
            if let Ok(Incoming::One(Message::Response(r))) =
                Incoming::parse(event.data, Rules::backend())
                && r.id.as_ref().and_then(|id| id.as_u64()) == Some(id)
            {
                return Ok(r.outcome);
            }
        }
    }
}

/// A status that is no MCP answer. Some mean "method not supported"; the others tell nothing about the server.
fn refused(status: StatusCode, fault: Fault) -> PeerError {
    match status.as_u16() {
        401 | 403 | 429 | 500.. => PeerError::Failed(fault),
        _ => PeerError::NotSpoken(fault),
    }
}

impl Inner {
    pub(super) fn refused(&self, refusal: &Refusal) -> Fault {
        let (name, status, body) = (&self.config.name, refusal.status, &refusal.body);
        let beginning = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        if status.is_success() {
            let public = format!(
                "backend `{name}` answered with {}, where JSON or an event stream was expected",
                content(refusal.content_type.as_ref())
            );
            return Fault::new(Kind::BackendBadReply, public).because(beginning);
        }
        let public = match status.as_u16() {
            401 | 403 => format!("backend `{name}` refused the gateway's credentials"),
            429 | 503 => format!("backend `{name}` is overloaded"),
            _ => format!(
                "backend `{name}` answered with HTTP status {}",
                status.as_u16()
            ),
        };
        let mut fault =
            Fault::new(Kind::BackendUnavailable, public).because(format!("{status}: {beginning}"));
        fault.retry_after_ms = refusal.retry_after_ms;
        fault.is_not_run = matches!(status.as_u16(), 401 | 403 | 429 | 503);
        fault
    }

    pub(super) fn timed_out(&self) -> Fault {
        let text = format!("backend `{}` did not answer in time", self.config.name);
        Fault::new(Kind::BackendTimeout, text)
    }
}

/// The `Content-Type` of a body, for people.
fn content(kind: Option<&HeaderValue>) -> String {
    let kind = kind.and_then(|kind| kind.to_str().ok());
    let word = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    match word {
        Some(word) if !word.is_empty() => format!("`{}`", word.get(..64).unwrap_or(word)),
        _ => "a body without a content type".to_owned(),
    }
}
