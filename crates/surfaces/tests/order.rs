//! P-A03: the record of a request is kept before its answer leaves, on every surface. The sink looks at what was said
//! to the caller until then.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sentinel_core::audit::{AuditSettings, Draft, NotKept, Sink};
use sentinel_core::catalog::Listing;
use sentinel_core::identity::{self, Authenticator, KeyRecord, KeyStore, StoreProblem};
use sentinel_core::policy::Settings;
use sentinel_core::{
    Auditor, Backend, Call, Fault, Health, Identity, Item, ItemKind, Notice, Offer, Policy,
    Registry, Reply, ServerCapabilities, Status,
};
use sentinel_surfaces::http::{Access, Allowed, HttpServer, Mounts, OAuth, Scrape};
use sentinel_surfaces::{Gateway, Limits, stdio};
use sentinel_wire::json::Rules;
use sentinel_wire::{Outcome, Payload, Revision};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::sync::Notify;

/// A server with three tools: `echo` answers at once, `tell` a moment after it said something, `hang` never.
#[derive(Default)]
struct Server {
    hanging: Arc<Notify>,
}

impl Backend for Server {
    fn name(&self) -> &str {
        "server"
    }

    fn call(&self, call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        let payload =
            |json| Payload::parse(Bytes::from_static(json), Rules::backend()).expect("JSON");
        let hanging = self.hanging.clone();
        Box::pin(async move {
            match call.params.string("name").as_deref() {
                Some("tell") => {
                    let said = payload(br#"{"progressToken":"p","progress":1}"#);
                    call.line.notice(Notice::Progress(said));
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Some("hang") => {
                    hanging.notify_one();
                    std::future::pending().await
                }
                _ => {}
            }
            Ok(Reply {
                revision: Revision::NEWEST,
                outcome: Outcome::Result(payload(br#"{"content":[],"resultType":"complete"}"#)),
            })
        })
    }

    fn status(&self) -> Status {
        Status::of(Health::Up)
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What was said to the caller, and the ids of the requests whose records were kept; one that was answered before has a
/// mark.
#[derive(Default)]
struct Seen {
    said: Mutex<Vec<u8>>,
    kept: Mutex<Vec<String>>,
}

impl Seen {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.said.lock()).into_owned()
    }

    fn has_answer(&self, id: &str) -> bool {
        let said = self.text();
        match id {
            // The admin API has no ids.
            "" => said.contains("200 OK"),
            id => said.contains(&format!(r#""id":{id},"#)),
        }
    }
}

impl Sink for Seen {
    fn append(&self, draft: &Draft<'_>) {
        let id = draft.request_id;
        let mark = match self.has_answer(id) {
            true => " was answered before",
            false => "",
        };
        self.kept.lock().push(format!("{id}{mark}"));
    }

    fn intend(&self, _: &Draft<'_>) -> BoxFuture<'static, Result<u64, NotKept>> {
        Box::pin(std::future::ready(Ok(1)))
    }
}

/// Shows everything that is written.
struct Shown {
    stream: DuplexStream,
    seen: Arc<Seen>,
}

impl AsyncRead for Shown {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Shown {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(len)) = written {
            self.seen.said.lock().extend_from_slice(&bytes[..len]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

struct Setup {
    gateway: Arc<Gateway>,
    seen: Arc<Seen>,
    /// A call of `hang` has begun.
    hanging: Arc<Notify>,
}

fn setup() -> Setup {
    let registry = Registry::new(vec![Listing::new("server")]);
    let server = Server::default();
    let hanging = server.hanging.clone();
    registry.attach(0, Arc::new(server));
    let tool = |name: &str| {
        let tool = format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
        Item::parse(ItemKind::Tool, tool.into()).expect("a tool")
    };
    registry.publisher(0).publish(Offer {
        capabilities: ServerCapabilities {
            tools: true,
            ..Default::default()
        },
        tools: vec![tool("echo"), tool("tell"), tool("hang")],
        ..Offer::empty(Revision::NEWEST)
    });
    let seen = Arc::new(Seen::default());
    let auditor = Auditor::new(Arc::default(), Some(seen.clone()), AuditSettings::default());
    let policy = Policy::new(registry, Settings::default());
    let gateway = Gateway::new(policy, Limits::default(), auditor);
    Setup {
        gateway,
        seen,
        hanging,
    }
}

impl Setup {
    fn shows(&self, stream: DuplexStream) -> Shown {
        let seen = self.seen.clone();
        Shown { stream, seen }
    }

    /// A connection with the HTTP server.
    fn connect(&self) -> DuplexStream {
        self.connect_by(Access::Trusted(Identity::local("admin")))
    }

    fn connect_by(&self, access: Access) -> DuplexStream {
        let (ours, stream) = duplex(1 << 20);
        let (gateway, allowed) = (self.gateway.clone(), Allowed::default());
        let server = HttpServer::new(gateway, allowed, Mounts::default(), access, Scrape::Off);
        tokio::spawn(server.serve(self.shows(stream), IpAddr::V4(Ipv4Addr::LOCALHOST), None));
        ours
    }

    /// Begins a session; gives the headers of its requests.
    async fn initialize(&self, connection: &mut DuplexStream, headers: &str) -> String {
        let hello = r#"{"jsonrpc":"2.0","id":200,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        connection
            .write_all(&post(headers, hello))
            .await
            .expect("it is written");
        self.has_records_first(connection, &["200"]).await;
        let said = self.seen.text();
        let mut lines = said.lines();
        let session = lines.find_map(|line| line.strip_prefix("mcp-session-id: "));
        let headers = format!(
            "{headers}Mcp-Session-Id: {}\r\n",
            session.expect("a session")
        );
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        connection
            .write_all(&post(&headers, ready))
            .await
            .expect("it is written");
        headers
    }

    /// Each of these is answered, has one record, and had it before.
    async fn has_records_first(&self, answers: &mut DuplexStream, ids: &[&str]) {
        let mut buffer = vec![0; 1 << 16];
        let all = async {
            while !ids.iter().all(|id| self.seen.has_answer(id)) {
                let _ = answers.read(&mut buffer).await.expect("an answer");
            }
            while self.seen.kept.lock().len() < ids.len() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let came = tokio::time::timeout(Duration::from_secs(10), all).await;
        assert!(came.is_ok(), "{}", self.seen.text());
        let mut kept = std::mem::take(&mut *self.seen.kept.lock());
        kept.sort();
        assert_eq!(kept, ids);
    }
}

fn post(headers: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\nContent-Length: {len}\r\n{headers}\r\n{body}"
    );
    request.into_bytes()
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}"#;

/// Methods, names, and params besides the meta data.
const REQUESTS: [(&str, &str, &str); 5] = [
    ("tools/call", "echo", r#""name":"echo","arguments":{},"#),
    ("tools/call", "tell", r#""name":"tell","arguments":{},"#),
    ("tools/call", "gone", r#""name":"gone","arguments":{},"#),
    ("tools/list", "", ""),
    ("server/discover", "", ""),
];

fn modern(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{META}}}}}"#)
}

/// A call in a session.
fn legacy(id: u32, name: &str) -> String {
    let params = format!(r#"{{"name":"{name}","arguments":{{}},"_meta":{{"progressToken":"p"}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

#[tokio::test]
async fn p_a03_over_http() {
    let setup = setup();
    let mut connection = setup.connect();
    for (at, (method, name, params)) in REQUESTS.into_iter().enumerate() {
        let id = (100 + at).to_string();
        let mut headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
        if !name.is_empty() {
            headers += &format!("Mcp-Name: {name}\r\n");
        }
        let request = post(&headers, &modern(&id, method, params));
        connection.write_all(&request).await.unwrap();
        setup.has_records_first(&mut connection, &[&id]).await;
    }
    assert!(setup.seen.text().contains("text/event-stream"));
}

#[tokio::test]
async fn p_a03_over_http_in_a_session_with_streams_and_batches() {
    let setup = setup();
    let mut connection = setup.connect();
    let headers = setup.initialize(&mut connection, "").await;
    let call = legacy;
    let batch = |calls: [String; 2]| format!("[{}]", calls.join(","));
    let ping = r#"{"jsonrpc":"2.0","id":204,"method":"ping"}"#.to_owned();
    for (ids, body) in [
        (&["201"][..], call(201, "echo")),
        (&["202"], call(202, "tell")),
        (&["203"], call(203, "gone")),
        (&["204"], ping),
        (
            &["205", "206"],
            batch([call(205, "echo"), call(206, "gone")]),
        ),
        (
            &["207", "208"],
            batch([call(207, "echo"), call(208, "tell")]),
        ),
    ] {
        let request = post(&headers, &body);
        connection.write_all(&request).await.unwrap();
        setup.has_records_first(&mut connection, ids).await;
    }
    assert!(setup.seen.text().contains("text/event-stream"));
}

/// A key store that knows one key, until it is revoked.
struct OneKey(Mutex<KeyRecord>);

impl KeyStore for OneKey {
    fn find(&self, id: &str) -> Option<KeyRecord> {
        Some(self.0.lock().clone()).filter(|key| key.id == id)
    }

    fn list(&self) -> Result<Vec<KeyRecord>, StoreProblem> {
        Ok(vec![self.0.lock().clone()])
    }

    fn add(&self, record: KeyRecord) -> Result<(), StoreProblem> {
        *self.0.lock() = record;
        Ok(())
    }

    fn revoke(&self, _: &str, now: u64) -> Result<bool, StoreProblem> {
        Ok(self.0.lock().revoked_at.replace(now).is_none())
    }
}

#[tokio::test]
async fn p_a03_to_a_caller_whose_key_is_taken_back() {
    let setup = setup();
    let (record, key) = KeyRecord::create("k", "admin", identity::now(), None);
    let keys = Arc::new(OneKey(Mutex::new(record)));
    // For tokens, of which there are none.
    let rules = identity::Rules {
        issuer: String::new(),
        audiences: Vec::new(),
        role_claim: String::new(),
        default_role: String::new(),
        tenant_claim: String::new(),
        leeway: 0,
    };
    let authenticator = Authenticator::new(identity::Config {
        secret: None,
        rules,
        api_keys: Some(keys.clone()),
        anonymous_role: String::new(),
        has_key_source: false,
    });
    let mut connection = setup.connect_by(Access::Guarded {
        authenticator: authenticator.clone(),
        oauth: OAuth::default(),
    });
    let credential = format!("Authorization: Bearer {key}\r\n");
    let headers = setup.initialize(&mut connection, &credential).await;
    let request = post(&headers, &legacy(400, "hang"));
    connection.write_all(&request).await.unwrap();
    setup.hanging.notified().await;
    keys.revoke("", identity::now()).expect("it is kept");
    authenticator.look_again();
    setup.has_records_first(&mut connection, &["400"]).await;
    assert!(setup.seen.text().contains("401 Unauthorized"));
}

#[tokio::test]
async fn p_a03_over_stdio() {
    let setup = setup();
    let (mut ours, input) = duplex(1 << 16);
    let (mut answers, output) = duplex(1 << 20);
    let (gateway, identity) = (setup.gateway.clone(), Identity::local("admin"));
    tokio::spawn(stdio::serve(gateway, identity, input, setup.shows(output)));
    for (at, (method, _, params)) in REQUESTS.into_iter().enumerate() {
        let id = (300 + at).to_string();
        let line = modern(&id, method, params) + "\n";
        ours.write_all(line.as_bytes()).await.unwrap();
        setup.has_records_first(&mut answers, &[&id]).await;
    }
    // An id that is in use.
    let hangs = modern("310", "tools/call", r#""name":"hang","arguments":{},"#) + "\n";
    ours.write_all(hangs.repeat(2).as_bytes()).await.unwrap();
    setup.has_records_first(&mut answers, &["310"]).await;
}

#[tokio::test]
async fn p_a03_at_the_admin_api() {
    let setup = setup();
    let mut connection = setup.connect();
    let request = b"GET /admin/api/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    connection.write_all(request).await.unwrap();
    setup.has_records_first(&mut connection, &[""]).await;
}
