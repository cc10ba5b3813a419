//! The body of a response: ready bytes, or a stream polled by its connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Frame, SizeHint};

use crate::mcp::Unfinished;

pub(crate) enum Body {
    Ready(Option<Bytes>),
    /// Dropped with the connection, which cancels what it waits for.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    /// A stream for one message; if it fails, the connection is cut, so that its reader does not take the part for
    /// the whole.
    Message(Pin<Box<dyn Stream<Item = Result<Bytes, Unfinished>> + Send>>),
}

impl Body {
    pub(super) fn empty() -> Self {
        Self::Ready(None)
    }

    /// All of it, where it is no stream.
    pub(super) fn ready(&self) -> Option<Bytes> {
        match self {
            Self::Ready(bytes) => Some(bytes.clone().unwrap_or_default()),
            Self::Stream(_) | Self::Message(_) => None,
        }
    }

    pub(super) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::Stream(Box::pin(stream))
    }

    pub(super) fn message(
        pieces: impl Stream<Item = Result<Bytes, Unfinished>> + Send + 'static,
    ) -> Self {
        Self::Message(Box::pin(pieces))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Ready(Some(bytes))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Ready(Some(bytes.into()))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Unfinished;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Unfinished>>> {
        match &mut *self {
            Self::Ready(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Stream(stream) => stream
                .as_mut()
                .poll_next(cx)
                .map(|chunk| chunk.map(|b| Ok(Frame::data(b)))),
            Self::Message(pieces) => pieces
                .as_mut()
                .poll_next(cx)
                .map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Ready(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ready(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::Stream(_) | Self::Message(_) => SizeHint::default(),
        }
    }
}
