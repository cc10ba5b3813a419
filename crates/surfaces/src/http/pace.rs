//! How long a peer may take: for its first byte, for a whole head, for its body, and for reading what it
//! asked for. Peers that are slower than that are hung up on, for each holds a connection and what is
//! buffered for it.
//!
//! hyper starts its timer for heads when it begins to wait for one, so the same timer would also end
//! connections that are merely idle. `HeadTimer` takes its place: it looks at what `Paced` heard since the
//! wait began, and gives an idle connection more time than one in the middle of a head.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use sentinel_core::pieces::PIECE_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::joined::Joined;

/// A connection without a request is closed after this long.
const IDLE_MAX: Duration = Duration::from_secs(75);
/// For connections that come while we go down: long enough for a probe.
const LATE_MAX: Duration = Duration::from_secs(1);
/// A peer that takes nothing of what waits for it is given up after this long.
const STALL_MAX: Duration = Duration::from_secs(15);
/// A body's rate counts from here on: the first packets may be lost and sent again.
const BODY_GRACE: Duration = Duration::from_secs(5);

/// What a peer is waited for; each has its key in the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// For the first byte of a new connection.
    pub first_byte: Duration,
    /// For a head, from its first byte on.
    pub head: Duration,
    /// Slowest body, in bytes a second; 0 waits for any.
    pub body_bytes_per_s_min: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(5),
            head: Duration::from_secs(5),
            body_bytes_per_s_min: 1024,
        }
    }
}

impl Pace {
    /// For how many seconds one piece of an answer may wait until the caller took the one before it. A caller
    /// who takes nothing at all is given up by the kernel before.
    pub(super) fn piece_patience_s(&self) -> u32 {
        let Some(slowest) = (PIECE_BYTES_MAX as u64).checked_div(self.body_bytes_per_s_min) else {
            return u32::MAX;
        };
        u32::try_from(BODY_GRACE.as_secs() + slowest).unwrap_or(u32::MAX)
    }

    /// Until when the next part of a body is waited for, if so much came since `began`.
    pub(super) fn body_deadline(&self, began: Instant, bytes: usize) -> Option<Instant> {
        let rate = self.body_bytes_per_s_min;
        (rate > 0).then(|| began + BODY_GRACE + Duration::from_secs_f64(bytes as f64 / rate as f64))
    }
}

/// What a connection and the timer of its heads tell each other.
#[derive(Default)]
struct Heard {
    /// Bytes came since the present wait for a head began.
    bytes: AtomicBool,
    /// It is not the connection's first head.
    before: AtomicBool,
}

/// A connection with a sense of time.
pub(super) struct Paced<S> {
    stream: Joined<S>,
    heard: Arc<Heard>,
}

/// The clock that hyper reads heads by.
pub(super) struct HeadTimer {
    heard: Arc<Heard>,
    first_byte: Duration,
    head: Duration,
    idle: Duration,
}

pub(super) fn paced<S>(stream: S, pace: &Pace, late: bool) -> (Paced<S>, HeadTimer) {
    let heard = Arc::new(Heard::default());
    let at_most = |limit: Duration| if late { limit.min(LATE_MAX) } else { limit };
    let timer = HeadTimer {
        heard: heard.clone(),
        first_byte: at_most(pace.first_byte),
        head: at_most(pace.head),
        idle: at_most(IDLE_MAX),
    };
    let stream = Joined::new(stream);
    (Paced { stream, heard }, timer)
}

/// Prepares a connection from the network: what is said goes out at once, and somebody who does not
/// listen is not waited for.
pub fn greet(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    give_up_after(STALL_MAX, stream);
}

/// Has the kernel end the connection once the peer took nothing of what waits for it for so long. Only
/// the kernel sees a slow peer's progress: a full buffer becomes writable again in large steps.
fn give_up_after(limit: Duration, stream: &TcpStream) {
    let millis = limit.as_millis().try_into().unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, millis) {
        tracing::debug!("a connection cannot be timed: {error}");
    }
}

impl HeadTimer {
    /// hyper wants one number; the timer knows better.
    pub(super) fn longest(&self) -> Duration {
        self.idle
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until((Instant::now() + duration).into())
    }

    /// hyper asks for this when it begins to wait for a head, and at no other time.
    fn sleep_until(&self, _: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        self.heard.bytes.store(false, Ordering::Relaxed);
        let limit = match self.heard.before.swap(true, Ordering::Relaxed) {
            true => self.idle,
            false => self.first_byte,
        };
        Box::pin(HeadWait {
            heard: self.heard.clone(),
            began: false,
            limit,
            head: self.head,
            sleep: None,
        })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into()
    }
}

/// Ends when a head has been waited for long enough. Mostly it has come already, and no timer is set.
struct HeadWait {
    heard: Arc<Heard>,
    /// Some of it came.
    began: bool,
    limit: Duration,
    head: Duration,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Future for HeadWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let wait = self.get_mut();
        if !wait.began && wait.heard.bytes.load(Ordering::Relaxed) {
            wait.began = true;
            wait.sleep = None;
        }
        let limit = if wait.began { wait.head } else { wait.limit };
        wait.sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)))
            .as_mut()
            .poll(cx)
    }
}

impl Sleep for HeadWait {}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.heard.bytes.store(true, Ordering::Relaxed);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn p_r10_a_peer_that_does_not_read_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let _peer = TcpStream::connect(address).await.expect("it listens");
        let (mut stream, _) = listener.accept().await.expect("a connection");
        give_up_after(Duration::from_secs(1), &stream);
        let stalled = async {
            loop {
                if let Err(error) = stream.write_all(&[0; 64 * 1024]).await {
                    return error;
                }
            }
        };
        let error = tokio::time::timeout(Duration::from_secs(20), stalled).await;
        assert_eq!(error.expect("in time").kind(), io::ErrorKind::TimedOut);
    }
}
