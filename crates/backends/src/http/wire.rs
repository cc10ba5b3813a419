//! One HTTP/1.1 connection to a server, with at most one request on its way.
//!
//! It is polled only by its current user, so a call is one task from its caller's socket to the backend's. hyper's
//! client expects connections that are driven by tasks of their own: it passes every request and every piece of an
//! answer through channels, which cost a small call more than its bytes do. Little is left to do by hand: `httparse`
//! parses heads, and `sentinel_wire::http1` frames answers.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http::{Method as Verb, Uri};
use sentinel_core::pieces::PIECE_BYTES_MAX;
use sentinel_wire::http1::{self, Body, Head, Piece};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// Largest head of an answer.
const HEAD_BYTES_MAX: usize = 512 * 1024;
/// Room for one read: enough for small answers, growing for large ones.
const READ_BYTES_MIN: usize = 8 * 1024;
const READ_BYTES_MAX: usize = 256 * 1024;
/// A body up to this size is buffered completely.
pub(crate) const WHOLE_BYTES_MIN: usize = 256 * 1024;
/// A body up to this size is copied behind its head and sent with it; a larger one is written from where it is.
const COPY_BYTES_MAX: usize = 16 * 1024;

/// A serialized request.
pub(crate) struct Request {
    /// The head, followed by the body if that is small.
    front: Vec<u8>,
    body: Bytes,
}

impl Request {
    pub(crate) fn new(verb: &Verb, path: &Uri) -> Self {
        let mut front = Vec::with_capacity(512);
        front.extend_from_slice(verb.as_str().as_bytes());
        front.push(b' ');
        front.extend_from_slice(
            path.path_and_query()
                .map_or("/", |path| path.as_str())
                .as_bytes(),
        );
        front.extend_from_slice(b" HTTP/1.1\r\n");
        Self {
            front,
            body: Bytes::new(),
        }
    }

    pub(crate) fn field(&mut self, name: &HeaderName, value: &HeaderValue) {
        write_field(name, value, &mut self.front);
    }

    /// Fields that are already serialized.
    pub(crate) fn fields(&mut self, written: &[u8]) {
        self.front.extend_from_slice(written);
    }

    /// The end of the head of a request without a body.
    pub(crate) fn end(mut self) -> Self {
        self.front.extend_from_slice(b"\r\n");
        self
    }

    /// The end of the head, and the body.
    pub(crate) fn with(mut self, body: Bytes) -> Self {
        let mut length = itoa::Buffer::new();
        self.front
            .extend_from_slice(CONTENT_LENGTH.as_str().as_bytes());
        self.front.extend_from_slice(b": ");
        self.front
            .extend_from_slice(length.format(body.len()).as_bytes());
        self.front.extend_from_slice(b"\r\n\r\n");
        if body.len() <= COPY_BYTES_MAX {
            self.front.extend_from_slice(&body);
        } else {
            self.body = body;
        }
        self
    }

    fn len(&self) -> usize {
        self.front.len() + self.body.len()
    }

    /// The bytes that are still to be written.
    fn after(&self, written: usize) -> [IoSlice<'_>; 2] {
        let in_front = written.min(self.front.len());
        [
            IoSlice::new(&self.front[in_front..]),
            IoSlice::new(&self.body[written - in_front..]),
        ]
    }
}

/// Header fields, serialized.
pub(crate) fn written(fields: &HeaderMap) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        write_field(name, value, &mut out);
    }
    out
}

fn write_field(name: &HeaderName, value: &HeaderValue, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// Not a byte was written.
    #[error("the connection closed before the request was written")]
    Undelivered(#[source] io::Error),
    #[error("the connection was lost before the answer")]
    Lost(#[source] io::Error),
}

impl From<SendError> for io::Error {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Undelivered(error) | SendError::Lost(error) => error,
        }
    }
}

/// A connection over any transport.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

pub(crate) struct Wire {
    socket: Socket,
    /// Received and not consumed yet.
    inbound: BytesMut,
    /// The rest of the current answer.
    body: Body,
    /// The server accepts another request after this one.
    keeps_alive: bool,
    /// Whether it was used before.
    pub(crate) reused: bool,
    /// Room for one read of a long answer.
    read_bytes_max: usize,
}

/// The body of an answer, as far as it was read.
pub(crate) enum Gathered {
    Whole(Bytes),
    /// Everything received so far, for a reader that takes the rest as it arrives.
    Beginning(Bytes),
    TooLarge,
}

impl Wire {
    pub(super) fn new(socket: Socket) -> Self {
        Self {
            socket,
            inbound: BytesMut::new(),
            body: Body::Left(0),
            keeps_alive: true,
            reused: false,
            read_bytes_max: READ_BYTES_MAX,
        }
    }

    /// Sends a request and waits for the head of the answer. Dropping this halfway leaves a connection that cannot be
    /// reused.
    pub(crate) async fn send(&mut self, request: &Request) -> Result<Head, SendError> {
        self.keeps_alive = false;
        self.read_bytes_max = READ_BYTES_MAX;
        let mut written = 0;
        poll_fn(|cx| self.poll_send(cx, request, &mut written)).await
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        request: &Request,
        written: &mut usize,
    ) -> Poll<Result<Head, SendError>> {
        let mut refused = match self.poll_write(cx, request, written) {
            Poll::Ready(Err(error)) if *written == 0 => {
                return Poll::Ready(Err(SendError::Undelivered(error)));
            }
            Poll::Ready(Err(error)) => Some(error),
            Poll::Ready(Ok(())) | Poll::Pending => None,
        };
        // A server may answer before it has read the whole request, and stop reading.
        loop {
            let lost = |error: io::Error| Poll::Ready(Err(SendError::Lost(error)));
            match Head::take(&mut self.inbound, HEAD_BYTES_MAX) {
                Ok(Some((head, body))) => {
                    self.body = body;
                    self.keeps_alive = head.keeps_alive && *written == request.len();
                    return Poll::Ready(Ok(head));
                }
                Ok(None) => {}
                Err(problem) => return lost(malformed(problem)),
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => {
                    let gone = || io::ErrorKind::UnexpectedEof.into();
                    return lost(refused.unwrap_or_else(gone));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return lost(refused.unwrap_or(error)),
                Poll::Pending => match refused.take() {
                    Some(error) => return lost(error),
                    None => return Poll::Pending,
                },
            }
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        request: &Request,
        written: &mut usize,
    ) -> Poll<io::Result<()>> {
        while *written < request.len() {
            let [front, body] = request.after(*written);
            let socket = Pin::new(&mut self.socket);
            let n = match body.is_empty() {
                true => ready!(socket.poll_write(cx, &front))?,
                false => ready!(socket.poll_write_vectored(cx, &[front, body]))?,
            };
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *written += n;
        }
        // TLS may buffer data until it is flushed.
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let expected = self
            .body
            .left()
            .map_or(0, |left| left.min(self.read_bytes_max as u64) as usize);
        self.inbound.reserve(expected.max(READ_BYTES_MIN));
        pin!(self.socket.read_buf(&mut self.inbound)).poll(cx)
    }

    /// The next piece of the answer's body, `None` at its end.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            match self.body.next(&mut self.inbound).map_err(malformed)? {
                Piece::Data(data) => return Poll::Ready(Ok(Some(data))),
                Piece::End => return Poll::Ready(Ok(None)),
                Piece::Missing if ready!(self.poll_read(cx))? == 0 => {
                    self.keeps_alive = false;
                    self.body.close().map_err(malformed)?;
                }
                Piece::Missing => {}
            }
        }
    }

    /// The whole of the answer's body; `None` if it is larger than `bytes_max`.
    pub(crate) async fn whole(&mut self, bytes_max: usize) -> io::Result<Option<Bytes>> {
        let gathered = self.whole_or(bytes_max, |_| false).await?;
        Ok(match gathered {
            Gathered::Whole(whole) | Gathered::Beginning(whole) => Some(whole),
            Gathered::TooLarge => None,
        })
    }

    /// Like [`Wire::whole`]. `suffices` is asked once, with the beginning of a long body, whether the caller takes
    /// the rest as it arrives.
    pub(crate) async fn whole_or(
        &mut self,
        bytes_max: usize,
        mut suffices: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<Gathered> {
        let first = match self.body.left() {
            Some(len) if len > bytes_max as u64 => return Ok(Gathered::TooLarge),
            Some(len) => return self.gathered(len as usize, &mut suffices).await,
            None => self.chunk().await?.unwrap_or_default(),
        };
        if first.len() > bytes_max {
            return Ok(Gathered::TooLarge);
        }
        let Some(second) = self.chunk().await? else {
            return Ok(Gathered::Whole(first));
        };
        let mut whole = BytesMut::from(first);
        let mut next = Some(second);
        let mut shown = false;
        while let Some(data) = next {
            if whole.len() + data.len() > bytes_max {
                return Ok(Gathered::TooLarge);
            }
            whole.extend_from_slice(&data);
            if !shown && whole.len() > WHOLE_BYTES_MIN {
                shown = true;
                if suffices(&whole) {
                    self.read_bytes_max = PIECE_BYTES_MAX;
                    return Ok(Gathered::Beginning(whole.freeze()));
                }
            }
            next = self.chunk().await?;
        }
        Ok(Gathered::Whole(whole.freeze()))
    }

    /// A body of known length, in one piece.
    async fn gathered(
        &mut self,
        len: usize,
        suffices: &mut impl FnMut(&[u8]) -> bool,
    ) -> io::Result<Gathered> {
        if len > WHOLE_BYTES_MIN {
            self.fill(WHOLE_BYTES_MIN).await?;
            let shown = len.min(self.inbound.len());
            if suffices(&self.inbound[..shown]) {
                self.read_bytes_max = PIECE_BYTES_MAX;
                let beginning = self.chunk().await?.unwrap_or_default();
                return Ok(Gathered::Beginning(beginning));
            }
        }
        if self.inbound.len() < len {
            self.inbound.reserve(len - self.inbound.len());
        }
        self.fill(len).await?;
        Ok(Gathered::Whole(self.chunk().await?.unwrap_or_default()))
    }

    /// Reads until `len` bytes are buffered.
    async fn fill(&mut self, len: usize) -> io::Result<()> {
        while self.inbound.len() < len {
            if poll_fn(|cx| self.poll_read(cx)).await? == 0 {
                return Err(malformed(http1::Problem::CutShort));
            }
        }
        Ok(())
    }

    /// The answer was read to its end without trailing bytes, and the server accepts another request.
    pub(super) fn is_free(&self) -> bool {
        self.keeps_alive && self.body.is_over() && self.inbound.is_empty()
    }

    /// Whether the idle connection has received nothing, such as end of file.
    pub(super) async fn is_silent(&mut self) -> bool {
        poll_fn(|cx| Poll::Ready(self.poll_read(cx).is_pending())).await
    }
}

fn malformed(problem: http1::Problem) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

macro_rules! with_socket {
    ($self:ident, $socket:ident => $work:expr) => {
        match $self.get_mut() {
            Socket::Tcp($socket) => $work,
            Socket::Unix($socket) => $work,
            Socket::Tls($socket) => $work,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        with_socket!(self, socket => Pin::new(socket).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        with_socket!(self, socket => Pin::new(socket).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with_socket!(self, socket => Pin::new(socket).poll_write_vectored(cx, slices))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_socket!(self, socket => Pin::new(socket).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_socket!(self, socket => Pin::new(socket).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests;
