//! A connection on which the head and the body of a small answer leave as one piece: `send` is a shorter way than
//! `writev`.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Up to this size, for copying costs, too; and a connection keeps so much room for the next.
const BYTES_MAX: usize = 2048;

pub(super) struct Joined<S> {
    stream: S,
    /// What counts as written, and how much of it was sent.
    piece: Vec<u8>,
    sent: usize,
}

impl<S> Joined<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            piece: Vec::new(),
            sent: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> Joined<S> {
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> Joined<S> {
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(cx))?;
        let len = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if len > BYTES_MAX {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        }
        for slice in slices {
            self.piece.extend_from_slice(slice);
        }
        // What cannot be sent now counts as written all the same: `poll_flush` sends the rest.
        match self.poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(len)),
        }
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.piece.len() {
            let rest = &self.piece[self.sent..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        self.piece.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    use super::*;

    async fn write(joined: &mut Joined<DuplexStream>, texts: &[&str]) -> io::Result<usize> {
        let slices: Vec<_> = texts.iter().map(|t| IoSlice::new(t.as_bytes())).collect();
        poll_fn(|cx| joined.poll_write(cx, &slices)).await
    }

    #[tokio::test]
    async fn what_a_slow_peer_does_not_take_at_once_comes_later_and_nothing_overtakes_it() {
        let (ours, mut theirs) = duplex(4);
        let mut joined = Joined::new(ours);
        let sent = tokio::spawn(async move {
            assert_eq!(write(&mut joined, &["head ", "body "]).await.unwrap(), 10);
            assert_eq!(write(&mut joined, &["next "]).await.unwrap(), 5);
            let long = "x".repeat(BYTES_MAX + 1);
            let mut rest = &long[..];
            while !rest.is_empty() {
                let written = write(&mut joined, &[rest]).await.unwrap();
                rest = &rest[written..];
            }
            poll_fn(|cx| joined.poll_flush(cx)).await.unwrap();
            poll_fn(|cx| joined.poll_shutdown(cx)).await.unwrap();
            long
        });
        let mut heard = String::new();
        theirs.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, format!("head body next {}", sent.await.unwrap()));
    }

    /// Takes everything, and tells what came together.
    struct Pieces(Vec<String>);

    impl AsyncWrite for Pieces {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let piece = String::from_utf8_lossy(bytes).into_owned();
            self.0.push(piece);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn head_and_body_of_a_small_answer_are_one_piece() {
        let mut joined = Joined::new(Pieces(Vec::new()));
        for _ in 0..2 {
            let slices = [IoSlice::new(b"head "), IoSlice::new(b"body")];
            let written = poll_fn(|cx| joined.poll_write(cx, &slices)).await;
            assert_eq!(written.unwrap(), 9);
        }
        assert_eq!(joined.stream.0, ["head body", "head body"]);
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_an_error() {
        let (ours, theirs) = duplex(64);
        let mut joined = Joined::new(ours);
        drop(theirs);
        let written = write(&mut joined, &["to ", "nobody"]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
