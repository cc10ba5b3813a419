//! What a connection says to its caller, held until the records of what it says are kept.
//!
//! While the turn of this thread is open (`core::turn`), a piece is put aside in place of being sent, and counts as
//! written; the end of the turn sends it. What the peer does not take then is left to the connection's own task, as it
//! would have been without. Whatever is large, or comes while something is put aside, ends the turn first: nothing
//! overtakes, and a connection never holds more than one piece.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use parking_lot::{Mutex, MutexGuard};
use sentinel_core::turn::{self, Release};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Up to this size an answer, head and body, is put aside: copying it costs less than ending the turn for it.
const HELD_BYTES_MAX: usize = 16 * 1024;
/// Up to this size it is made one piece even when it may leave at once, for `send` is a shorter way than `writev`; and
/// a connection keeps so much room for the next.
const SMALL_BYTES_MAX: usize = 2048;

pub(super) struct Held<S>(Mutex<Line<S>>);

struct Line<S> {
    stream: S,
    /// What was put aside, and how much of it was sent.
    piece: Vec<u8>,
    sent: usize,
    /// The end of the turn sends it; otherwise the connection's task must.
    waits: bool,
    failed: Option<io::Error>,
    /// The connection's task.
    task: Option<Waker>,
}

impl<S> Held<S> {
    pub(super) fn new(stream: S) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Line {
            stream,
            piece: Vec::new(),
            sent: 0,
            waits: false,
            failed: None,
            task: None,
        })))
    }
}

impl<S: AsyncRead + Unpin> Held<S> {
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Send + Unpin + 'static> Held<S> {
    pub(super) fn poll_write(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut line = ready!(self.poll_empty(cx))?;
        let len = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let mut waits = turn::is_open();
        if waits && len > HELD_BYTES_MAX {
            drop(line);
            turn::end();
            line = self.0.lock();
            waits = false;
        }
        if !waits && len > SMALL_BYTES_MAX {
            return Pin::new(&mut line.stream).poll_write_vectored(cx, slices);
        }
        for slice in slices {
            line.piece.extend_from_slice(slice);
        }
        if waits {
            line.waits = true;
            line.remember(cx.waker());
            drop(line);
            turn::hold(self.clone());
            return Poll::Ready(Ok(len));
        }
        // What cannot be sent now counts as written all the same: `poll_flush` sends the rest.
        match line.poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(len)),
        }
    }

    /// What waits for the end of the turn needs nobody.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = self.0.lock();
        match line.waits {
            true => Poll::Ready(Ok(())),
            false => line.poll_send(cx),
        }
    }

    pub(super) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = ready!(self.poll_empty(cx))?;
        Pin::new(&mut line.stream).poll_shutdown(cx)
    }

    /// The line, with nothing put aside.
    fn poll_empty(&self, cx: &mut Context<'_>) -> Poll<io::Result<MutexGuard<'_, Line<S>>>> {
        let mut line = self.0.lock();
        if line.waits {
            drop(line);
            turn::end();
            line = self.0.lock();
        }
        ready!(line.poll_send(cx))?;
        Poll::Ready(Ok(line))
    }
}

impl<S> Line<S> {
    fn remember(&mut self, task: &Waker) {
        match &mut self.task {
            Some(known) => known.clone_from(task),
            None => self.task = Some(task.clone()),
        }
    }
}

impl<S: AsyncWrite + Unpin> Line<S> {
    /// Sends what was put aside.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        while self.sent < self.piece.len() {
            let rest = &self.piece[self.sent..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        match self.piece.capacity() > SMALL_BYTES_MAX {
            true => self.piece = Vec::new(),
            false => self.piece.clear(),
        }
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Send + Unpin> Release for Held<S> {
    fn release(&self) {
        let mut line = self.0.lock();
        line.waits = false;
        let mut nobody = Context::from_waker(Waker::noop());
        match line.poll_send(&mut nobody) {
            Poll::Ready(Ok(())) => return,
            Poll::Ready(Err(error)) => line.failed = Some(error),
            // The connection's task asks again, and hears when there is room.
            Poll::Pending => {}
        }
        if let Some(task) = &line.task {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use sentinel_core::turn::Keep;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    use super::*;

    struct Record;

    impl Keep for Record {
        fn keep(&self) {}
    }

    /// A thread with turns, a connection with room for so much, and its peer.
    async fn connected(room: usize) -> (Arc<Held<DuplexStream>>, DuplexStream) {
        tokio::spawn(turn::run());
        tokio::task::yield_now().await;
        let (ours, theirs) = duplex(room);
        (Held::new(ours), theirs)
    }

    async fn say(held: &Arc<Held<DuplexStream>>, text: &str) -> usize {
        let slices = [IoSlice::new(text.as_bytes())];
        let said = poll_fn(|cx| held.poll_write(cx, &slices)).await.unwrap();
        poll_fn(|cx| held.poll_flush(cx)).await.unwrap();
        said
    }

    async fn hear(peer: &mut DuplexStream, len: usize) -> String {
        let mut heard = vec![0; len];
        peer.read_exact(&mut heard).await.unwrap();
        String::from_utf8(heard).unwrap()
    }

    async fn hears_nothing(peer: &mut DuplexStream) {
        let mut byte = [0];
        let read = poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut byte);
            Poll::Ready(Pin::new(&mut *peer).poll_read(cx, &mut buffer).is_ready())
        });
        assert!(!read.await, "something left before its record was kept");
    }

    #[tokio::test]
    async fn p_a03_an_answer_leaves_after_the_records_of_its_turn() {
        let (held, mut peer) = connected(64 * 1024).await;
        assert!(turn::gather(&Arc::new(Record)));
        assert_eq!(say(&held, "answer").await, 6);
        hears_nothing(&mut peer).await;
        turn::end();
        assert_eq!(hear(&mut peer, 6).await, "answer");
        say(&held, "at once").await;
        assert_eq!(hear(&mut peer, 7).await, "at once");
        let long = "x".repeat(HELD_BYTES_MAX);
        turn::gather(&Arc::new(Record));
        assert_eq!(say(&held, &long).await, long.len());
        hears_nothing(&mut peer).await;
        turn::end();
        assert_eq!(hear(&mut peer, long.len()).await, long);
    }

    #[tokio::test]
    async fn nothing_overtakes_what_was_put_aside() {
        let (held, mut peer) = connected(64 * 1024).await;
        let long = "x".repeat(HELD_BYTES_MAX + 1);
        turn::gather(&Arc::new(Record));
        say(&held, "first ").await;
        say(&held, "second ").await;
        assert!(!turn::is_open(), "the second had to end the turn");
        turn::gather(&Arc::new(Record));
        say(&held, "third ").await;
        assert_eq!(say(&held, &long).await, long.len());
        let all = hear(&mut peer, 19 + long.len()).await;
        assert_eq!(all, format!("first second third {long}"));
    }

    #[tokio::test]
    async fn what_a_slow_peer_does_not_take_is_sent_by_the_connection() {
        let (held, mut peer) = connected(4).await;
        turn::gather(&Arc::new(Record));
        say(&held, "longer than four").await;
        turn::end();
        let rest = tokio::spawn(async move {
            poll_fn(|cx| held.poll_flush(cx)).await.unwrap();
            poll_fn(|cx| held.poll_shutdown(cx)).await.unwrap();
        });
        let mut heard = String::new();
        peer.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "longer than four");
        rest.await.unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_told_of_at_the_next_word() {
        let (held, peer) = connected(64).await;
        drop(peer);
        turn::gather(&Arc::new(Record));
        say(&held, "to nobody").await;
        turn::end();
        let slices = [IoSlice::new(b"more")];
        let said = poll_fn(|cx| held.poll_write(cx, &slices)).await;
        assert_eq!(said.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
