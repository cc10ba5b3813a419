//! HTTP as bytes on a socket: one connection per request, and every header as the test says.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::support::setup::PATIENCE;

/// A request whose answer has not been looked at.
pub(crate) struct Sent(TcpStream);

/// An answer whose head was read.
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    buffer: Vec<u8>,
    ended: bool,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

/// Sends a request with `Host`, `Content-Length` and what `headers` says; `Host` there wins.
pub(crate) fn send(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
) -> Sent {
    let body = body.as_ref();
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!(
        "Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    let mut socket = TcpStream::connect(address).expect("the gateway listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    socket.write_all(head.as_bytes()).expect("a head is taken");
    // A body that is too large may be refused before it is read.
    let _ = socket.write_all(body);
    Sent(socket)
}

/// The status of a GET; `None` where the connection ended before one came, as it may for those
/// that were accepted but not yet heard when the gateway began to go down.
pub(crate) fn status(address: &str, path: &str) -> Option<u16> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).ok()?;
    line.split(' ').nth(1)?.parse().ok()
}

impl Sent {
    /// Waits for the head of the answer.
    pub(crate) fn head(self) -> Stream {
        let mut reader = BufReader::new(self.0);
        let mut line = String::new();
        reader.read_line(&mut line).expect("a status line");
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("no status in {line:?}"));
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line).expect("a header");
            match line.trim_end().split_once(':') {
                Some((name, value)) => {
                    headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
                }
                None => break,
            }
        }
        Stream {
            reader,
            status,
            headers,
            buffer: Vec::new(),
            ended: false,
        }
    }

    pub(crate) fn finish(self) -> Answer {
        self.head().finish()
    }

    /// Goes away without an answer.
    pub(crate) fn hang_up(self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// Whether nothing at all came within this time.
    pub(crate) fn is_silent(&self, time: Duration) -> bool {
        self.0.set_read_timeout(Some(time)).expect("a time-out");
        let silent = matches!(
            self.0.peek(&mut [0]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        );
        self.0.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        silent
    }
}

fn find<'h>(headers: &'h [(String, String)], name: &str) -> &'h str {
    let found = headers.iter().find(|(known, _)| known == name);
    found.map_or("", |(_, value)| value)
}

impl Stream {
    fn is_events(&self) -> bool {
        find(&self.headers, "content-type").starts_with("text/event-stream")
    }

    /// The next piece of the body, as it came; `false` at its end.
    fn fill(&mut self) -> bool {
        if self.ended {
            return false;
        }
        if find(&self.headers, "transfer-encoding") == "chunked" {
            let mut line = String::new();
            self.reader.read_line(&mut line).expect("a chunk head");
            let len = usize::from_str_radix(line.trim(), 16)
                .unwrap_or_else(|_| panic!("no chunk length in {line:?}"));
            let start = self.buffer.len();
            self.buffer.resize(start + len + 2, 0);
            self.reader
                .read_exact(&mut self.buffer[start..])
                .expect("a chunk");
            self.buffer.truncate(start + len);
            self.ended = len == 0;
        } else {
            self.reader.read_to_end(&mut self.buffer).expect("a body");
            self.ended = true;
        }
        true
    }

    /// The next event as it was written, comments and all; `None` at the end.
    pub(crate) fn event(&mut self) -> Option<String> {
        loop {
            let text = std::str::from_utf8(&self.buffer).expect("events are text");
            if let Some((event, rest)) = text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.as_bytes().to_vec());
                self.buffer = rest;
                return Some(event);
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// The next message: an event's data, or the whole of a JSON body; `None` at the end.
    pub(crate) fn message(&mut self) -> Option<String> {
        if self.is_events() {
            return loop {
                let data = data_of(&self.event()?);
                if !data.is_empty() {
                    break Some(data);
                }
            };
        }
        while self.fill() {}
        let whole = std::mem::take(&mut self.buffer);
        (!whole.is_empty()).then(|| String::from_utf8(whole).expect("text"))
    }

    /// The next message, if one comes in this time; without one the stream is of no more use.
    pub(crate) fn message_within(&mut self, time: Duration) -> Option<String> {
        let socket = self.reader.get_ref().try_clone().expect("a socket");
        let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(1);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                if stopped.recv_timeout(time) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    let _ = socket.shutdown(Shutdown::Both);
                }
            });
            let message = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.message()));
            drop(stop);
            message.ok().flatten()
        })
    }

    pub(crate) fn json(&mut self) -> Value {
        let message = self.message().expect("another message");
        parse(&message)
    }

    pub(crate) fn finish(mut self) -> Answer {
        while self.fill() {}
        Answer {
            status: self.status,
            headers: self.headers,
            // Files of the console are compressed.
            text: String::from_utf8_lossy(&self.buffer).into_owned(),
        }
    }

    pub(crate) fn hang_up(self) {
        let _ = self.reader.into_inner().shutdown(Shutdown::Both);
    }
}

/// The data of an event; empty if it has none.
pub(crate) fn data_of(event: &str) -> String {
    let data: Vec<&str> = event
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(str::trim_start)
        .collect();
    data.join("\n")
}

#[track_caller]
pub(crate) fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        find(&self.headers, name)
    }

    /// The body, or the last message of a stream.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        if !self.header("content-type").starts_with("text/event-stream") {
            return parse(&self.text);
        }
        let last = self
            .text
            .rsplit("\n\n")
            .map(data_of)
            .find(|data| !data.is_empty());
        parse(&last.unwrap_or_else(|| panic!("no message in {self:?}")))
    }

    /// The code of the error in it.
    #[track_caller]
    pub(crate) fn code(&self) -> i64 {
        self.json()["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("no error in {self:?}"))
    }
}
