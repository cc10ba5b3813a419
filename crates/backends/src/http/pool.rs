//! Connections to one HTTP server, kept per thread.
//!
//! Each worker thread has its own shelf of idle connections, so sending a request wakes no other thread. It wakes no
//! other task either: a connection (`Wire`) is polled by its current user only, and an idle one not at all. A
//! connection idles at most `IDLE_MAX`: servers close theirs after five seconds or more, and a request written into a
//! closing connection may or may not have been delivered.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::wire::{Socket, Wire};
use crate::reach;

pub(crate) const IDLE_MAX: Duration = Duration::from_secs(4);
/// Idle connections kept per thread; beyond that, connections are opened and closed per request.
const IDLE_LEN_MAX: usize = 256;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Threads beyond this many share shelves; there are as many workers as cores.
const SHELVES: usize = 32;

static NEXT_SHELF: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static SHELF: usize = NEXT_SHELF.fetch_add(1, Ordering::Relaxed) % SHELVES;
}

/// Host, port and transport of a server.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Option<TlsConnector>,
    /// A Unix socket of this machine, in place of host and port.
    socket: Option<PathBuf>,
    /// The address comes from a document or a redirect, not from the configuration: only public addresses are connected to.
    public_only: bool,
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
            public_only: false,
        })
    }

    /// The same place, connected to only if its addresses are public.
    pub(crate) fn public_only(self) -> Self {
        Self {
            public_only: true,
            ..self
        }
    }

    /// The same address, reached through a Unix socket.
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
            if wire.is_silent().await {
                return Ok(wire);
            }
        }
        Box::pin(self.connect()).await
    }

    fn take_idle(&self) -> Option<Wire> {
        let mut shelf = self.shelves[SHELF.with(|s| *s)].lock();
        let idle = shelf.pop_back()?;
        if idle.since.elapsed() > IDLE_MAX {
            // The connections below it have been idle for longer.
            shelf.clear();
            return None;
        }
        Some(idle.wire)
    }

    /// Whether a connection of this thread is still open, so that the server behind it has not been replaced.
    pub(super) async fn is_unbroken(&self) -> bool {
        let Some(mut wire) = self.take_idle() else {
            return false;
        };
        let unbroken = wire.is_silent().await;
        if unbroken {
            self.give(wire);
        }
        unbroken
    }

    /// Returns a connection; one that cannot be reused is closed.
    pub(crate) fn give(&self, mut wire: Wire) {
        if !wire.is_free() {
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

    /// Closes connections that idled too long, for as long as this is polled.
    pub(super) async fn tidy(&self) {
        let mut every = tokio::time::interval(IDLE_MAX);
        loop {
            every.tick().await;
            self.close_old();
        }
    }

    /// Closes connections that were idle for too long.
    pub(crate) fn close_old(&self) {
        for shelf in &self.shelves {
            let mut shelf = shelf.lock();
            let old = shelf
                .iter()
                .take_while(|idle| idle.since.elapsed() > IDLE_MAX);
            let old = old.count();
            shelf.drain(..old);
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
            return Ok(Wire::new(Socket::Unix(UnixStream::connect(socket).await?)));
        }
        let (host, port) = (self.address.host.as_str(), self.address.port);
        let stream = match self.address.public_only {
            true => reach::connect_public(host, port).await?,
            false => TcpStream::connect((host, port)).await?,
        };
        stream.set_nodelay(true)?;
        Ok(Wire::new(match &self.address.tls {
            None => Socket::Tcp(stream),
            Some(tls) => {
                let name =
                    ServerName::try_from(self.address.host.clone()).map_err(io::Error::other)?;
                Socket::Tls(Box::new(tls.connect(name, stream).await?))
            }
        }))
    }
}
