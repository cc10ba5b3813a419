//! Time limits for peers: the first byte, a whole head, the body, and reading the response. Slower peers are
//! disconnected, since each holds a connection and buffers.
//!
//! hyper starts its timer for heads when it begins to wait for one, so that timer would also end connections that are
//! merely idle. `HeadTimer` replaces it: it checks which bytes `Paced` received since the wait began, and gives an
//! idle connection more time than one in the middle of a head.

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

/// A connection without a request is closed after this time.
const IDLE_MAX: Duration = Duration::from_secs(75);
/// The limit for connections opened while draining: enough for a probe.
const LATE_MAX: Duration = Duration::from_secs(1);
/// A peer that reads nothing for this long is disconnected.
const STALL_MAX: Duration = Duration::from_secs(15);
/// Time before a body's rate is checked, since the first packets may be lost and resent.
const BODY_GRACE: Duration = Duration::from_secs(5);

/// Time limits of peers; each has its key in the configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Until the first byte of a new connection.
    pub first_byte: Duration,
    /// For a head, from its first byte.
    pub head: Duration,
    /// Lowest rate of a body in bytes per second; 0 is no limit.
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
    /// Seconds that a piece of an answer may wait until the previous one was sent. The kernel disconnects earlier a
    /// caller that reads nothing at all.
    pub(super) fn piece_patience_s(&self) -> u32 {
        let Some(slowest) = (PIECE_BYTES_MAX as u64).checked_div(self.body_bytes_per_s_min) else {
            return u32::MAX;
        };
        u32::try_from(BODY_GRACE.as_secs() + slowest).unwrap_or(u32::MAX)
    }

    /// The time until which the next part of a body must arrive, given the bytes since `began`.
    pub(super) fn body_deadline(&self, began: Instant, bytes: usize) -> Option<Instant> {
        let rate = self.body_bytes_per_s_min;
        (rate > 0).then(|| began + BODY_GRACE + Duration::from_secs_f64(bytes as f64 / rate as f64))
    }
}

/// State shared by a connection and the timer for its heads.
#[derive(Default)]
struct HeadState {
    /// Bytes arrived since the current wait for a head began.
    bytes: AtomicBool,
    /// It is not the connection's first head.
    before: AtomicBool,
}

/// A connection with time limits.
pub(super) struct Paced<S> {
    stream: Joined<S>,
    state: Arc<HeadState>,
}

/// The timer that hyper uses for heads.
pub(super) struct HeadTimer {
    state: Arc<HeadState>,
    first_byte: Duration,
    head: Duration,
    idle: Duration,
}

pub(super) fn paced<S>(stream: S, pace: &Pace, late: bool) -> (Paced<S>, HeadTimer) {
    let state = Arc::new(HeadState::default());
    let at_most = |limit: Duration| if late { limit.min(LATE_MAX) } else { limit };
    let timer = HeadTimer {
        state: state.clone(),
        first_byte: at_most(pace.first_byte),
        head: at_most(pace.head),
        idle: at_most(IDLE_MAX),
    };
    let stream = Joined::new(stream);
    (Paced { stream, state }, timer)
}

/// Configures a connection from the network: no delay, and a time limit for peers that do not read.
pub fn greet(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    give_up_after(STALL_MAX, stream);
}

/// Has the kernel end the connection once the peer read nothing for the limit. Only the kernel sees a slow peer's
/// progress: a full buffer becomes writable again in large steps.
fn give_up_after(limit: Duration, stream: &TcpStream) {
    let millis = limit.as_millis().try_into().unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, millis) {
        tracing::debug!("a connection cannot be timed: {error}");
    }
}

impl HeadTimer {
    /// hyper requires a fixed number; the actual limit is determined by the timer.
    pub(super) fn longest(&self) -> Duration {
        self.idle
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until((Instant::now() + duration).into())
    }

    /// hyper calls this only when it begins to wait for a head.
    fn sleep_until(&self, _: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        self.state.bytes.store(false, Ordering::Relaxed);
        let limit = match self.state.before.swap(true, Ordering::Relaxed) {
            true => self.idle,
            false => self.first_byte,
        };
        Box::pin(HeadWait {
            state: self.state.clone(),
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

/// Completes when the wait for a head has exceeded its limit. Usually the head has arrived already, and no timer is
/// set.
struct HeadWait {
    state: Arc<HeadState>,
    /// A part of it arrived.
    began: bool,
    limit: Duration,
    head: Duration,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Future for HeadWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let wait = self.get_mut();
        if !wait.began && wait.state.bytes.load(Ordering::Relaxed) {
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
            self.state.bytes.store(true, Ordering::Relaxed);
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
