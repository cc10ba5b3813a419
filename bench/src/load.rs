//! One caller: a kept connection and one prebuilt request, whose id changes from call to call.
//!
//! Every reply is checked for its id and its whole text, by comparing bytes: parsing JSON here would
//! cost more than some of the contenders do.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::options::Era;
use crate::response::Reader;

/// Ids have ten digits, so that a request never changes its length.
const FIRST_ID: u64 = 1_000_000_000;
const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
/// What the backend's `blob` repeats.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text that a call for so many bytes must return; all callers share it.
pub(crate) fn text(size: usize) -> Arc<[u8]> {
    ALPHABET.iter().copied().cycle().take(size).collect()
}

/// How a caller says what it wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    Mcp(Era),
    Rest,
    Rpc,
}

pub(crate) struct Caller {
    socket: TcpStream,
    reader: Reader,
    request: Vec<u8>,
    /// Where the id stands; REST has none.
    id_at: Option<usize>,
    id: u64,
    expected: Arc<[u8]>,
    /// The whole body is expected, not a text in it.
    is_whole: bool,
    /// Ends the session; empty where there is none.
    farewell: Vec<u8>,
}

impl Speech {
    /// The path and the body of a call for so many bytes.
    fn say(self, size: usize) -> (&'static str, String) {
        let arguments = format!(r#"{{"bytes":{size}}}"#);
        match self {
            Self::Mcp(era) => {
                let meta = match era {
                    Era::Modern => format!(r#","_meta":{META}"#),
                    Era::Legacy => String::new(),
                };
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":{FIRST_ID},"method":"tools/call","params":{{"name":"blob","arguments":{arguments}{meta}}}}}"#
                );
                ("/mcp", body)
            }
            Self::Rest => ("/api/blob", arguments),
            Self::Rpc => {
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":{FIRST_ID},"method":"blob","params":{arguments}}}"#
                );
                ("/rpc", body)
            }
        }
    }
}

impl Caller {
    /// Connects, and shakes hands where the era wants it.
    pub(crate) async fn open(
        address: SocketAddr,
        speech: Speech,
        token: Option<&str>,
        expected: Arc<[u8]>,
    ) -> anyhow::Result<Self> {
        let mut socket = TcpStream::connect(address).await.context("connect")?;
        socket.set_nodelay(true)?;
        let size = expected.len();
        let mut reader = Reader::new(size);
        let bearer = token.map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
        let (mut headers, mut farewell) = (bearer.clone(), Vec::new());
        match speech {
            Speech::Mcp(Era::Modern) => headers = modern_headers() + &bearer,
            Speech::Mcp(Era::Legacy) => {
                let session = shake_hands(&mut socket, &mut reader, address, &bearer).await?;
                headers = format!("MCP-Protocol-Version: 2025-11-25\r\n{session}{bearer}");
                if !session.is_empty() {
                    farewell = format!("DELETE /mcp HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n")
                        .into_bytes();
                }
            }
            Speech::Rest | Speech::Rpc => {}
        }
        let (path, body) = speech.say(size);
        let request = post_to(path, address, &headers, &body);
        let id_at = find(&request, FIRST_ID.to_string().as_bytes());
        Ok(Self {
            socket,
            reader,
            request,
            id_at,
            id: FIRST_ID,
            expected,
            is_whole: false,
            farewell,
        })
    }

    /// Connects to send this request again and again; the body of each answer must be these bytes.
    pub(crate) async fn repeat(
        address: SocketAddr,
        request: Vec<u8>,
        expected: Arc<[u8]>,
    ) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await.context("connect")?;
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            reader: Reader::new(expected.len()),
            request,
            id_at: None,
            id: FIRST_ID,
            expected,
            is_whole: true,
            farewell: Vec::new(),
        })
    }

    pub(crate) async fn call(&mut self) -> anyhow::Result<()> {
        self.id += 1;
        let id = self.id.to_string();
        if let Some(at) = self.id_at {
            self.request[at..at + id.len()].copy_from_slice(id.as_bytes());
        }
        self.socket
            .write_all(&self.request)
            .await
            .context("write")?;
        let response = self.reader.read(&mut self.socket).await?;
        let body = response.body;
        if response.status != 200 {
            bail!("status {}: {}", response.status, excerpt(body));
        }
        if self.is_whole {
            ensure!(body == &*self.expected, "another answer: {}", excerpt(body));
            return Ok(());
        }
        let id = self.id_at.map(|_| &*id);
        check(body, id, &self.expected)
            .with_context(|| format!("a wrong reply to {id:?}: {}", excerpt(body)))
    }

    pub(crate) async fn close(mut self) -> anyhow::Result<()> {
        if !self.farewell.is_empty() {
            self.socket.write_all(&self.farewell).await?;
            self.reader.read(&mut self.socket).await?;
        }
        Ok(())
    }
}

/// One page of a gateway, such as its metrics.
pub(crate) async fn get(address: SocketAddr, path: &str, token: &str) -> anyhow::Result<String> {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    let body = ask(address, request.as_bytes())
        .await
        .context(path.to_owned())?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// The body of the answer to one request, on a connection of its own.
pub(crate) async fn ask(address: SocketAddr, request: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut socket = TcpStream::connect(address).await.context("connect")?;
    socket.write_all(request).await?;
    let mut reader = Reader::new(64 << 10);
    let response = reader.read(&mut socket).await?;
    ensure!(
        response.status == 200,
        "status {}: {}",
        response.status,
        excerpt(response.body)
    );
    Ok(response.body.to_vec())
}

fn modern_headers() -> String {
    "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: blob\r\n".to_owned()
}

/// Initializes; returns the session header, or nothing if the server keeps no sessions.
async fn shake_hands(
    socket: &mut TcpStream,
    reader: &mut Reader,
    address: SocketAddr,
    bearer: &str,
) -> anyhow::Result<String> {
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
    socket.write_all(&post(address, bearer, hello)).await?;
    let response = reader.read(socket).await.context("initialize")?;
    ensure!(
        response.status == 200,
        "initialize: status {}: {}",
        response.status,
        excerpt(response.body)
    );
    let session = response
        .session
        .map(|id| format!("Mcp-Session-Id: {id}\r\n"))
        .unwrap_or_default();
    let headers = format!("MCP-Protocol-Version: 2025-11-25\r\n{session}{bearer}");
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    socket.write_all(&post(address, &headers, ready)).await?;
    let response = reader.read(socket).await.context("initialized")?;
    ensure!(
        response.status == 202,
        "initialized: status {}",
        response.status
    );
    Ok(session)
}

fn post(address: SocketAddr, headers: &str, body: &str) -> Vec<u8> {
    post_to("/mcp", address, headers, body)
}

fn post_to(path: &str, address: SocketAddr, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The id, where there is one, may stand before or after the result; the text must be there byte for byte.
fn check(body: &[u8], id: Option<&str>, expected: &[u8]) -> anyhow::Result<()> {
    let marker = br#""text":""#;
    let start = find(body, marker).context("no text")? + marker.len();
    let rest = &body[start..];
    ensure!(
        rest.starts_with(expected) && rest.get(expected.len()) == Some(&b'"'),
        "another text"
    );
    let (head, tail) = (&body[..start], &rest[expected.len()..]);
    let Some(id) = id else {
        return Ok(());
    };
    let wanted = format!(r#""id":{id}"#);
    let has_id = |part: &[u8]| {
        find(part, wanted.as_bytes())
            .is_some_and(|at| !part.get(at + wanted.len()).is_some_and(u8::is_ascii_digit))
    };
    ensure!(has_id(head) || has_id(tail), "another id");
    Ok(())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_reply_is_taken_only_with_its_own_id_and_its_whole_text() {
        let good =
            br#"{"jsonrpc":"2.0","id":12,"result":{"content":[{"type":"text","text":"AB"}]}}"#;
        assert!(check(good, Some("12"), b"AB").is_ok());
        assert!(
            check(
                br#"{"result":{"content":[{"text":"AB"}]},"id":12}"#,
                Some("12"),
                b"AB"
            )
            .is_ok()
        );
        for (id, text) in [
            ("1", "AB"),
            ("13", "AB"),
            ("12", "A"),
            ("12", "ABC"),
            ("12", "AC"),
        ] {
            assert!(
                check(good, Some(id), text.as_bytes()).is_err(),
                "{id} {text}"
            );
        }
    }
}
