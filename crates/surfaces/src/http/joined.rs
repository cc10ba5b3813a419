//! Joins the head and body of a small response into one write: `send` is a shorter path in the kernel than `writev`.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Largest joined response, since copying costs too; also the size of the buffer kept per connection.
const BYTES_MAX: usize = 2048;

pub(super) struct Joined<S> {
    stream: S,
    piece: Vec<u8>,
}

impl<S> Joined<S> {
    pub(super) fn new(stream: S) -> Self {
        let piece = Vec::new();
        Self { stream, piece }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Joined<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Joined<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, piece } = self.get_mut();
        let len = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if len > BYTES_MAX {
            return Pin::new(stream).poll_write_vectored(cx, slices);
        }
        piece.clear();
        for slice in slices {
            piece.extend_from_slice(slice);
        }
        Pin::new(stream).poll_write(cx, piece)
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

    use super::*;

    /// Accepts a limited number of bytes at a time, and records which arrived together.
    struct Peer {
        takes: usize,
        pieces: Vec<String>,
    }

    impl AsyncWrite for Peer {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = &bytes[..bytes.len().min(self.takes)];
            self.pieces
                .push(String::from_utf8_lossy(taken).into_owned());
            Poll::Ready(Ok(taken.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Writes the slices one after the other, like hyper does.
    async fn heard(takes: usize, texts: &[&str]) -> Vec<String> {
        let pieces = Vec::new();
        let mut joined = Joined::new(Peer { takes, pieces });
        let mut slices: Vec<_> = texts.iter().map(|t| IoSlice::new(t.as_bytes())).collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let written = joined.write_vectored(rest).await.unwrap();
            IoSlice::advance_slices(&mut rest, written);
        }
        joined.stream.pieces
    }

    #[tokio::test]
    async fn head_and_body_of_a_small_answer_are_one_piece() {
        assert_eq!(heard(9, &["head ", "body"]).await, ["head body"]);
    }

    #[tokio::test]
    async fn what_is_not_taken_at_once_follows_and_nothing_is_said_twice() {
        assert_eq!(heard(6, &["head ", "body"]).await, ["head b", "ody"]);
        let long = "x".repeat(BYTES_MAX);
        let all = heard(700, &["head ", &long, " end"]).await;
        assert_eq!(all.concat(), format!("head {long} end"));
    }
}
