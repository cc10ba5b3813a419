//! Requests to an API and to where its description is: pooled connections per origin, bounded answers, redirects.
//!
//! An origin that the configuration names is trusted. Every other one (a server of a fetched description, a redirect's target, a
//! referenced document) is connected to only if all its addresses are public, unless the operator allows private ones. Each redirect
//! is a new request that is checked like the first, and what was secret goes to the first origin only.
//!
//! Not here: deadlines (its callers), what requests say (`request`), what answers mean (`answer`).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fluent_uri::{Uri as Absolute, UriRef};
use http::header::{ACCEPT_ENCODING, HOST, USER_AGENT};
use http::{HeaderValue, Method, Uri};
use parking_lot::Mutex;
use sentinel_core::{Fault, Kind};
use sentinel_wire::http1::Head;

use crate::http::pool::{Address, IDLE_MAX, Pool};
use crate::http::wire::{Request, SendError, Wire};

const AGENT: &str = concat!("sentinel/", env!("CARGO_PKG_VERSION"));
/// Redirects of one request.
const HOPS_MAX: usize = 5;
/// Origins with a pool of their own; a description names a handful. Beyond it an arbitrary other one loses its idle connections.
const ORIGINS_MAX: usize = 64;

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    secure: bool,
    host: String,
    port: u16,
}

impl Origin {
    pub(super) fn of(url: &Uri) -> Option<Self> {
        let secure = match url.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = url.authority()?;
        // Credentials in a URL would be sent nowhere, and hide which host is meant.
        (!authority.as_str().contains('@')).then_some(())?;
        Some(Self {
            secure,
            host: authority.host().to_ascii_lowercase(),
            port: url.port_u16().unwrap_or(if secure { 443 } else { 80 }),
        })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    fn authority(&self) -> String {
        match (self.secure, self.port) {
            (true, 443) | (false, 80) => self.host.clone(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) origin: Origin,
    /// Path and query.
    pub(super) target: String,
}

impl Place {
    pub(super) fn of(url: &str) -> Option<Self> {
        let uri: Uri = url.split('#').next()?.parse().ok()?;
        Some(Self {
            origin: Origin::of(&uri)?,
            target: uri.path_and_query().map_or("/", |p| p.as_str()).to_owned(),
        })
    }

    /// Without the query, which may contain credentials.
    pub(super) fn shown(&self) -> String {
        let path = self.target.split('?').next().unwrap_or_default();
        format!("{}{path}", self.origin)
    }

    pub(super) fn url(&self) -> String {
        format!("{}{}", self.origin, self.target)
    }

    /// What a reference means that was found here.
    pub(super) fn join(&self, reference: &str) -> Option<Self> {
        Self::of(&join(&self.url(), reference)?)
    }
}

/// A reference against an absolute URL, as RFC 3986 has it.
pub(super) fn join(base: &str, reference: &str) -> Option<String> {
    let base = Absolute::parse(base.split('#').next()?).ok()?;
    let reference = UriRef::parse(reference).ok()?;
    Some(reference.resolve_against(&base).ok()?.into_string())
}

/// A request with all that it says.
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) place: Place,
    /// Fields for the first origin only, as they are written.
    pub(super) fields: Vec<u8>,
    pub(super) accept: HeaderValue,
    pub(super) body: Option<Bytes>,
}

/// An answer, read to its end or to a bound.
pub(super) struct Response {
    pub(super) head: Head,
    pub(super) body: Bytes,
    /// It was a text, and longer.
    pub(super) is_cut: bool,
    /// Where it came from, after redirects.
    pub(super) place: Place,
}

impl Response {
    pub(super) fn field(&self, name: &'static str) -> Option<&str> {
        std::str::from_utf8(self.head.get(name)?).ok()
    }
}

pub(super) struct Client {
    pools: Mutex<HashMap<Origin, Arc<Pool>>>,
    /// Hosts and ports that the configuration names.
    trusted: HashSet<(String, u16)>,
    allow_private: bool,
}

impl Client {
    pub(super) fn new<'a>(
        trusted: impl IntoIterator<Item = &'a Origin>,
        allow_private: bool,
    ) -> Self {
        let trusted = trusted.into_iter();
        Self {
            pools: Mutex::default(),
            trusted: trusted.map(|o| (o.host.clone(), o.port)).collect(),
            allow_private,
        }
    }

    /// Whether an origin is connected to whatever its addresses are.
    pub(super) fn trusts(&self, origin: &Origin) -> bool {
        self.allow_private || self.trusted.contains(&(origin.host.clone(), origin.port))
    }

    fn pool(&self, origin: &Origin) -> Result<Arc<Pool>, Fault> {
        if let Some(pool) = self.pools.lock().get(origin) {
            return Ok(pool.clone());
        }
        // Outside the lock: system certificates are read for it.
        let url: Option<Uri> = origin.to_string().parse().ok();
        let address = url.and_then(|url| Address::of(&url).ok());
        let address = address.ok_or_else(|| unreachable(io::ErrorKind::InvalidInput.into()))?;
        let address = match self.trusts(origin) {
            true => address,
            false => address.public_only(),
        };
        let mut pools = self.pools.lock();
        if pools.len() >= ORIGINS_MAX
            && let Some(other) = pools.keys().next().cloned()
        {
            pools.remove(&other);
        }
        let pool = pools
            .entry(origin.clone())
            .or_insert_with(|| Arc::new(Pool::new(address)));
        Ok(pool.clone())
    }

    /// Closes connections that nobody needs any more, for as long as this is polled.
    pub(super) async fn tidy(&self) {
        let mut every = tokio::time::interval(IDLE_MAX);
        loop {
            every.tick().await;
            let pools: Vec<_> = self.pools.lock().values().cloned().collect();
            pools.iter().for_each(|pool| pool.close_old());
        }
    }

    /// Sends a request and reads its answer. Redirects of requests that change nothing are followed; others are the answer.
    pub(super) async fn send(&self, first: &Outgoing, bytes_max: usize) -> Result<Response, Fault> {
        let mut place = first.place.clone();
        let safe = matches!(first.method, Method::GET | Method::HEAD);
        for _ in 0..=HOPS_MAX {
            let pool = self.pool(&place.origin)?;
            let request = written(first, &place)?;
            let (mut wire, head) = exchange(&pool, &request).await?;
            if safe
                && matches!(head.status, 301 | 302 | 303 | 307 | 308)
                && let Some(next) = location(&head, &place)
            {
                place = next;
                continue;
            }
            if first.method == Method::HEAD {
                // Its length is that of a body which does not come.
                return Ok(Response {
                    head,
                    body: Bytes::new(),
                    is_cut: false,
                    place,
                });
            }
            let (body, is_cut) = body(&mut wire, &head, bytes_max).await?;
            pool.give(wire);
            return Ok(Response {
                head,
                body,
                is_cut,
                place,
            });
        }
        let text = format!("the backend redirects more than {HOPS_MAX} times");
        Err(Fault::new(Kind::BackendBadReply, text))
    }
}

fn location(head: &Head, place: &Place) -> Option<Place> {
    let location = std::str::from_utf8(head.get("location")?).ok()?;
    place.join(location.trim())
}

fn written(outgoing: &Outgoing, place: &Place) -> Result<Request, Fault> {
    let target: Uri = place
        .target
        .parse()
        .map_err(|error: http::uri::InvalidUri| {
            Fault::new(Kind::InvalidArguments, "the arguments make no usable URL").because(error)
        })?;
    let host = HeaderValue::from_str(&place.origin.authority())
        .map_err(|error| unreachable(io::Error::other(error)))?;
    let mut request = Request::new(&outgoing.method, &target);
    request.field(&HOST, &host);
    request.field(&USER_AGENT, &HeaderValue::from_static(AGENT));
    request.field(&http::header::ACCEPT, &outgoing.accept);
    // Without a word about it any encoding would be welcome.
    request.field(&ACCEPT_ENCODING, &HeaderValue::from_static("identity"));
    if place.origin == outgoing.place.origin {
        request.fields(&outgoing.fields);
    }
    Ok(match &outgoing.body {
        Some(body) => request.with(body.clone()),
        // A length of zero is said where a body is usual.
        None if matches!(outgoing.method, Method::POST | Method::PUT | Method::PATCH) => {
            request.with(Bytes::new())
        }
        None => request.end(),
    })
}

/// Sends on a connection of the pool; another one is taken only while nothing was delivered.
async fn exchange(pool: &Pool, request: &Request) -> Result<(Wire, Head), Fault> {
    loop {
        let mut wire = pool.take().await.map_err(unreachable)?;
        match wire.send(request).await {
            Ok(head) => return Ok((wire, head)),
            Err(SendError::Undelivered(_)) if wire.reused => {}
            Err(SendError::Undelivered(error)) => return Err(unreachable(error)),
            Err(SendError::Lost(error)) => return Err(lost(error)),
        }
    }
}

/// The body; a text that is too long is cut, anything else that is too long is refused.
async fn body(wire: &mut Wire, head: &Head, bytes_max: usize) -> Result<(Bytes, bool), Fault> {
    let encoding = head.get("content-encoding").unwrap_or(b"identity");
    if !encoding.trim_ascii().eq_ignore_ascii_case(b"identity") {
        let text = "the backend's answer is in a content encoding that it was not asked for";
        return Err(Fault::new(Kind::BackendBadReply, text));
    }
    let kind = head.get("content-type").unwrap_or_default();
    let may_cut = kind.len() > 5 && kind[..5].eq_ignore_ascii_case(b"text/");
    let mut whole = BytesMut::new();
    while let Some(data) = wire.chunk().await.map_err(lost)? {
        let room = bytes_max - whole.len();
        if data.len() > room {
            if !may_cut {
                return Err(too_large(bytes_max));
            }
            whole.extend_from_slice(&data[..room]);
            return Ok((whole.freeze(), true));
        }
        whole.extend_from_slice(&data);
    }
    Ok((whole.freeze(), false))
}

fn too_large(bytes_max: usize) -> Fault {
    let text = format!(
        "the backend's answer is larger than the {bytes_max} bytes allowed (limits.reply_mb); ask for less, with a filter or a smaller page"
    );
    Fault::new(Kind::BackendBadReply, text)
}

fn unreachable(error: io::Error) -> Fault {
    let text = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "the backend cannot be reached: its description or a redirect names a server whose address is not public"
        }
        _ => "the backend cannot be reached",
    };
    let fault = Fault::new(Kind::BackendUnavailable, text);
    match error.kind() {
        io::ErrorKind::PermissionDenied => fault.because(error),
        _ => fault.because(error).retry_after_ms(1000),
    }
}

fn lost(error: io::Error) -> Fault {
    let text = "the connection to the backend was lost; the call may have run";
    Fault::new(Kind::BackendUnavailable, text).because(error)
}
