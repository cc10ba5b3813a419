//! Reads one HTTP/1.1 response at a time from a kept connection, with as little work as possible.

use anyhow::{Context, bail, ensure};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Largest response; a gateway that sends more is broken.
const MAX: usize = 64 << 20;

pub(crate) struct Reader {
    buffer: Vec<u8>,
    filled: usize,
    /// The decoded body of a chunked response.
    chunks: Vec<u8>,
}

pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    pub(crate) body: &'a [u8],
}

enum Framing {
    Length(usize),
    Chunked,
}

impl Reader {
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            buffer: vec![0; expected + 4096],
            filled: 0,
            chunks: Vec::new(),
        }
    }

    pub(crate) async fn read(&mut self, socket: &mut TcpStream) -> anyhow::Result<Response<'_>> {
        self.filled = 0;
        let head = loop {
            self.more(socket).await?;
            if let Some(end) = self.buffer[..self.filled]
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
            {
                break end + 4;
            }
        };
        let (status, session, framing) = parse_head(&self.buffer[..head])?;
        let body = match framing {
            Framing::Length(length) => {
                while self.filled < head + length {
                    self.more(socket).await?;
                }
                ensure!(self.filled == head + length, "more bytes than announced");
                &self.buffer[head..head + length]
            }
            Framing::Chunked => {
                self.read_chunks(socket, head).await?;
                &self.chunks
            }
        };
        Ok(Response {
            status,
            session,
            body,
        })
    }

    async fn read_chunks(&mut self, socket: &mut TcpStream, head: usize) -> anyhow::Result<()> {
        self.chunks.clear();
        let mut at = head;
        loop {
            let line = loop {
                if let Some(end) = self.buffer[at..self.filled]
                    .windows(2)
                    .position(|two| two == b"\r\n")
                {
                    break at + end;
                }
                self.more(socket).await?;
            };
            let size = std::str::from_utf8(&self.buffer[at..line])?
                .split(';')
                .next()
                .unwrap_or_default();
            let size = usize::from_str_radix(size.trim(), 16).context("a chunk size")?;
            let (start, end) = (line + 2, line + 2 + size);
            while self.filled < end + 2 {
                self.more(socket).await?;
            }
            self.chunks.extend_from_slice(&self.buffer[start..end]);
            at = end + 2;
            if size == 0 {
                return Ok(());
            }
        }
    }

    async fn more(&mut self, socket: &mut TcpStream) -> anyhow::Result<()> {
        if self.filled == self.buffer.len() {
            ensure!(self.filled < MAX, "the response is too large");
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let read = socket.read(&mut self.buffer[self.filled..]).await?;
        ensure!(read > 0, "the connection was closed");
        self.filled += read;
        Ok(())
    }
}

fn parse_head(head: &[u8]) -> anyhow::Result<(u16, Option<String>, Framing)> {
    let head = std::str::from_utf8(head).context("the head is not text")?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1)?.parse().ok())
        .context("no status")?;
    let (mut session, mut framing) = (None, None);
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            framing = Some(Framing::Length(value.parse().context("content-length")?));
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            framing = Some(Framing::Chunked);
        } else if name.eq_ignore_ascii_case("mcp-session-id") {
            session = Some(value.to_owned());
        }
    }
    match framing {
        Some(framing) => Ok((status, session, framing)),
        None if status == 204 => Ok((status, session, Framing::Length(0))),
        None => bail!("a response of unknown length, status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::Reader;

    /// What a reader makes of `response` when it arrives in pieces of `step` bytes.
    async fn read(response: &'static [u8], step: usize) -> anyhow::Result<(u16, Vec<u8>)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut client = TcpStream::connect(listener.local_addr()?).await?;
        let (mut server, _) = listener.accept().await?;
        server.set_nodelay(true)?;
        let writer = tokio::spawn(async move {
            for piece in response.chunks(step) {
                server.write_all(piece).await?;
                tokio::task::yield_now().await;
            }
            anyhow::Ok(())
        });
        let mut reader = Reader::new(0);
        let read = reader.read(&mut client).await?;
        let read = (read.status, read.body.to_vec());
        writer.await??;
        Ok(read)
    }

    #[tokio::test]
    async fn a_body_is_the_same_however_it_is_framed_and_cut() {
        let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world";
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nhello \r\n5;x=y\r\nworld\r\n0\r\n\r\n";
        for step in [1, 3, 7, 1000] {
            for response in [sized.as_slice(), chunked] {
                let (status, body) = read(response, step).await.expect("a response");
                assert_eq!((status, body.as_slice()), (200, b"hello world".as_slice()));
            }
        }
    }

    #[tokio::test]
    async fn a_cut_off_body_is_an_error() {
        assert!(
            read(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello", 1000)
                .await
                .is_err()
        );
        assert!(
            read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nhello", 1000)
                .await
                .is_err()
        );
    }
}
