//! Connections to one HTTP server, kept per thread.
//!
//! Each worker thread has its own shelf of idle connections, so a call never wakes another thread
//! to be written. Nor does it wake another task: a connection is driven by whoever holds it (`Wire`),
//! and an idle one by nobody. A connection idles at most `IDLE_MAX`: servers close theirs after five
//! seconds or more, and a request written into a closing connection may or may not have been
//! delivered.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, Fuse, FutureExt};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const IDLE_MAX: Duration = Duration::from_secs(4);
/// Idle connections kept per thread; more callers than that at once open and close extra ones.
const IDLE_LEN_MAX: usize = 256;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Threads beyond this many share shelves; there are as many workers as cores.
const SHELVES: usize = 32;
/// Largest head of a response.
const READ_BUF_MAX: usize = 512 * 1024;

static NEXT_SHELF: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static SHELF: usize = NEXT_SHELF.fetch_add(1, Ordering::Relaxed) % SHELVES;
}

/// Where a server is and how to get there.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Option<TlsConnector>,
    /// A socket of this machine, in place of host and port.
    socket: Option<PathBuf>,
}

impl Address {
    /// Takes the place out of an `http` or `https` URL.
    pub(crate) fn of(url: &http::Uri) -> Result<Self, String> {
        let host = url.host().ok_or("the URL has no host")?;
        let secure = url.scheme_str() == Some("https");
        Ok(Self {
            host: host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned(),
            port: url.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            tls: secure.then(tls_connector),
            socket: None,
        })
    }

    /// The same place, reached by a socket of this machine.
    pub(crate) fn by(self, socket: Option<&Path>) -> Self {
        Self {
            socket: socket.map(Path::to_owned),
            ..self
        }
    }
}

fn tls_connector() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!("a system certificate could not be read: {error}");
    }
    roots.add_parsable_certificates(found.certs);
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// A connection, and all that makes it go: it moves only while somebody waits for it here.
pub(crate) struct Wire {
    sender: SendRequest<Full<Bytes>>,
    machine: Fuse<BoxFuture<'static, ()>>,
    /// Whether it was used before.
    pub(super) reused: bool,
}

impl Wire {
    /// Sends a request and waits for the head of the response; the request comes back if not a byte
    /// of it was written.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        let sent = self.sender.try_send_request(request);
        drive(&mut self.machine, sent).await
    }

    /// Waits for something that comes by this connection, such as the body of a response.
    pub(crate) async fn run<T>(&mut self, work: impl Future<Output = T>) -> T {
        drive(&mut self.machine, work).await
    }

    /// Whether a request can be written: hears what the server said meanwhile, such as good-bye.
    async fn is_usable(&mut self) -> bool {
        poll_fn(|cx| Poll::Ready(self.machine.poll_unpin(cx)))
            .await
            .is_pending()
            && self.sender.is_ready()
    }
}

/// Polls `work`, and what it waits for, in one task. Whatever the machine does for `work` is seen at
/// once; what `work` then wants of the machine wakes this same task again.
async fn drive<T>(machine: &mut Fuse<BoxFuture<'static, ()>>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(done);
        }
        let _ = machine.poll_unpin(cx);
        work.as_mut().poll(cx)
    })
    .await
}

struct Idle {
    wire: Wire,
    since: Instant,
}

pub(crate) struct Pool {
    address: Address,
    shelves: Box<[Mutex<VecDeque<Idle>>]>,
}

impl Pool {
    pub(crate) fn new(address: Address) -> Self {
        Self {
            address,
            shelves: (0..SHELVES).map(|_| Mutex::default()).collect(),
        }
    }

    /// An idle connection of this thread, or a new one.
    pub(crate) async fn take(&self) -> io::Result<Wire> {
        while let Some(mut wire) = self.take_idle() {
            if wire.is_usable().await {
                return Ok(wire);
            }
        }
        Box::pin(self.connect()).await
    }

    fn take_idle(&self) -> Option<Wire> {
        let mut shelf = self.shelves[SHELF.with(|s| *s)].lock();
        let idle = shelf.pop_back()?;
        if idle.since.elapsed() > IDLE_MAX {
            // The older ones below are no fresher.
            shelf.clear();
            return None;
        }
        Some(idle.wire)
    }

    /// Gives a connection back once its response was read to the end.
    pub(super) fn give(&self, mut wire: Wire) {
        if wire.sender.is_closed() {
            return;
        }
        wire.reused = true;
        let mut shelf = self.shelves[SHELF.with(|s| *s)].lock();
        if shelf.len() >= IDLE_LEN_MAX {
            shelf.pop_front();
        }
        shelf.push_back(Idle {
            wire,
            since: Instant::now(),
        });
    }

    /// Closes connections that nobody needs any more, for as long as this is polled.
    pub(super) async fn tidy(&self) {
        let mut every = tokio::time::interval(IDLE_MAX);
        loop {
            every.tick().await;
            for shelf in &self.shelves {
                let mut shelf = shelf.lock();
                let old = shelf
                    .iter()
                    .take_while(|idle| idle.since.elapsed() > IDLE_MAX);
                let old = old.count();
                shelf.drain(..old);
            }
        }
    }

    async fn connect(&self) -> io::Result<Wire> {
        let timed = tokio::time::timeout(CONNECT_TIMEOUT, self.open());
        timed.await.unwrap_or_else(|_| {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "connecting took too long",
            ))
        })
    }

    async fn open(&self) -> io::Result<Wire> {
        if let Some(socket) = &self.address.socket {
            return shake_hands(TokioIo::new(UnixStream::connect(socket).await?)).await;
        }
        let stream = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
        stream.set_nodelay(true)?;
        match &self.address.tls {
            None => shake_hands(TokioIo::new(stream)).await,
            Some(tls) => {
                let name =
                    ServerName::try_from(self.address.host.clone()).map_err(io::Error::other)?;
                shake_hands(TokioIo::new(tls.connect(name, stream).await?)).await
            }
        }
    }
}

/// Starts HTTP/1.1 on a connection.
async fn shake_hands<T>(io: T) -> io::Result<Wire>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BUF_MAX);
    let (sender, connection) = builder.handshake(io).await.map_err(io::Error::other)?;
    let machine = connection.map(|ended| {
        if let Err(error) = ended {
            tracing::debug!("a backend connection ended: {error}");
        }
    });
    Ok(Wire {
        sender,
        machine: machine.boxed().fuse(),
        reused: false,
    })
}
