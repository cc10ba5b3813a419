//! Callers of either era over HTTP or stdio, behind one trait, so that one scenario serves all.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::support::http::{self, Answer, Sent, parse};
use crate::support::setup::{Gateway, PATIENCE};

pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
pub(crate) const MODERN: &str = "2026-07-28";

const JSON_BODY: (&str, &str) = ("Content-Type", "application/json");
const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");

pub(crate) trait Caller {
    fn is_modern(&self) -> bool;

    /// Sends a request; every message that comes for it, the answer last.
    fn exchange(&self, method: &str, params: Value) -> Vec<String>;

    /// The answer to a request.
    #[track_caller]
    fn ask(&self, method: &str, params: Value) -> Value {
        parse(self.exchange(method, params).last().expect("an answer"))
    }

    #[track_caller]
    fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["result"].is_object(), "no result: {answer}");
        answer["result"].clone()
    }

    #[track_caller]
    fn call(&self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The text that a tool answered with.
    #[track_caller]
    fn said(&self, tool: &str, arguments: Value) -> String {
        text_of(&self.call(tool, arguments))
    }

    #[track_caller]
    fn names(&self, method: &str, list: &str, key: &str) -> Vec<String> {
        let result = self.result(method, json!({}));
        let items = result[list].as_array().expect("a list");
        let name = |item: &Value| item[key].as_str().expect("a name").to_owned();
        items.iter().map(name).collect()
    }

    #[track_caller]
    fn tools(&self) -> Vec<String> {
        self.names("tools/list", "tools", "name")
    }
}

/// The text of a tool's answer.
#[track_caller]
pub(crate) fn text_of(answer: &Value) -> String {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {answer}"))
        .to_owned()
}

/// The kind of an error of ours.
pub(crate) fn kind_of(answer: &Value) -> &str {
    answer["error"]["data"]["kind"].as_str().unwrap_or_default()
}

pub(crate) fn request(id: &Value, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

pub(crate) fn notification(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

pub(crate) fn tool(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

pub(crate) fn initialize_params(revision: &str, capabilities: &Value) -> Value {
    json!({"protocolVersion": revision, "capabilities": capabilities,
           "clientInfo": {"name": "it", "version": "1"}})
}

/// `params` with what every request of 2026-07-28 says of itself.
pub(crate) fn introduced(mut params: Value, capabilities: &Value) -> Value {
    let mut meta = params["_meta"].take();
    if meta.is_null() {
        meta = json!({});
    }
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "it", "version": "1"});
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    params["_meta"] = meta;
    params
}

/// A session over HTTP.
pub(crate) struct Legacy {
    pub(crate) address: String,
    pub(crate) path: String,
    pub(crate) session: String,
    pub(crate) revision: &'static str,
    pub(crate) hello: Value,
    /// `Authorization`, where it is asked for.
    authorization: Option<String>,
    next: AtomicU64,
}

impl Legacy {
    pub(crate) fn connect(gateway: &Gateway, path: &str, revision: &'static str) -> Self {
        Self::with(gateway, path, revision, json!({}))
    }

    pub(crate) fn newest(gateway: &Gateway) -> Self {
        Self::connect(gateway, "/mcp", "2025-11-25")
    }

    #[track_caller]
    pub(crate) fn with(
        gateway: &Gateway,
        path: &str,
        revision: &'static str,
        capabilities: Value,
    ) -> Self {
        Self::begin(gateway, path, revision, capabilities, None)
    }

    /// Somebody with this credential.
    #[track_caller]
    pub(crate) fn bearing(gateway: &Gateway, credential: &str) -> Self {
        let (path, revision) = ("/mcp", "2025-11-25");
        Self::begin(gateway, path, revision, json!({}), Some(credential))
    }

    #[track_caller]
    fn begin(
        gateway: &Gateway,
        path: &str,
        revision: &'static str,
        capabilities: Value,
        credential: Option<&str>,
    ) -> Self {
        let mut this = Self {
            address: gateway.address.clone(),
            path: path.to_owned(),
            session: String::new(),
            revision,
            hello: Value::Null,
            authorization: credential.map(|text| format!("Bearer {text}")),
            next: AtomicU64::new(1),
        };
        let params = initialize_params(revision, &capabilities);
        let answer = this.post(&request(&json!(0), "initialize", params));
        assert_eq!(answer.status, 200, "{answer:?}");
        this.session = answer.header("mcp-session-id").to_owned();
        assert!(!this.session.is_empty(), "{answer:?}");
        this.hello = answer.json()["result"].clone();
        let done = this.post(&notification("notifications/initialized", json!({})));
        assert_eq!(done.status, 202);
        this
    }

    pub(crate) fn id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = vec![JSON_BODY, ACCEPT];
        if !self.session.is_empty() {
            headers.push(("Mcp-Session-Id", &self.session));
            headers.push(("MCP-Protocol-Version", self.revision));
        }
        let authorization = self.authorization.as_deref();
        headers.extend(authorization.map(|value| ("Authorization", value)));
        headers
    }

    pub(crate) fn send(&self, body: &str) -> Sent {
        http::send(&self.address, "POST", &self.path, &self.headers(), body)
    }

    pub(crate) fn post(&self, body: &str) -> Answer {
        self.send(body).finish()
    }

    /// Another HTTP method with this session.
    pub(crate) fn verb(&self, method: &str) -> Sent {
        http::send(&self.address, method, &self.path, &self.headers(), "")
    }

    /// Takes up a stream after the event of this id.
    pub(crate) fn resume(&self, after: &str) -> Sent {
        let mut headers = self.headers();
        headers.push(("Last-Event-ID", after));
        http::send(&self.address, "GET", &self.path, &headers, "")
    }

    pub(crate) fn cancel(&self, id: &Value) {
        let note = notification("notifications/cancelled", json!({"requestId": id}));
        assert_eq!(self.post(&note).status, 202);
    }
}

impl Caller for Legacy {
    fn is_modern(&self) -> bool {
        false
    }

    fn exchange(&self, method: &str, params: Value) -> Vec<String> {
        let body = request(&json!(self.id()), method, params);
        let mut stream = self.send(&body).head();
        std::iter::from_fn(|| stream.message()).collect()
    }
}

/// A caller of 2026-07-28 over HTTP.
pub(crate) struct Modern {
    address: String,
    path: String,
    capabilities: Value,
    authorization: Option<String>,
    next: AtomicU64,
}

impl Modern {
    pub(crate) fn new(gateway: &Gateway, path: &str) -> Self {
        Self::with(gateway, path, json!({}))
    }

    pub(crate) fn with(gateway: &Gateway, path: &str, capabilities: Value) -> Self {
        Self::at(&gateway.address, path, capabilities)
    }

    /// Of any server.
    pub(crate) fn at(address: &str, path: &str, capabilities: Value) -> Self {
        Self {
            address: address.to_owned(),
            path: path.to_owned(),
            capabilities,
            authorization: None,
            next: AtomicU64::new(1),
        }
    }

    /// The same with this credential.
    pub(crate) fn bearing(self, credential: &str) -> Self {
        Self {
            authorization: Some(format!("Bearer {credential}")),
            ..self
        }
    }

    pub(crate) fn send(&self, method: &str, params: Value) -> Sent {
        let id = json!(self.next.fetch_add(1, Ordering::Relaxed));
        self.send_as(&id, method, params)
    }

    pub(crate) fn send_as(&self, id: &Value, method: &str, params: Value) -> Sent {
        self.send_with(id, method, params, &[])
    }

    /// A request with headers beyond those that every one has.
    pub(crate) fn send_with(
        &self,
        id: &Value,
        method: &str,
        params: Value,
        more: &[(&str, &str)],
    ) -> Sent {
        let params = introduced(params, &self.capabilities);
        let name = match method {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
            _ => None,
        };
        let mut headers = vec![("MCP-Protocol-Version", MODERN), ("Mcp-Method", method)];
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        headers.extend(more);
        self.send_raw(&request(id, method, params.clone()), &headers)
    }

    /// A body as it is, with these headers and the two that every POST has.
    pub(crate) fn send_raw(&self, body: &str, headers: &[(&str, &str)]) -> Sent {
        let mut headers: Vec<_> = [JSON_BODY, ACCEPT].iter().chain(headers).copied().collect();
        let authorization = self.authorization.as_deref();
        headers.extend(authorization.map(|value| ("Authorization", value)));
        http::send(&self.address, "POST", &self.path, &headers, body)
    }
}

impl Caller for Modern {
    fn is_modern(&self) -> bool {
        true
    }

    fn exchange(&self, method: &str, params: Value) -> Vec<String> {
        let mut stream = self.send(method, params).head();
        std::iter::from_fn(|| stream.message()).collect()
    }
}

/// A caller of 2026-07-28 on one connection that it keeps.
pub(crate) struct Steady {
    socket: BufReader<TcpStream>,
    authorization: String,
}

impl Steady {
    pub(crate) fn connect(address: &str, credential: Option<&str>) -> Self {
        let socket = TcpStream::connect(address).expect("the gateway listens");
        socket.set_nodelay(true).expect("an option");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Self {
            socket: BufReader::new(socket),
            authorization: credential.map_or_else(String::new, |credential| {
                format!("Authorization: Bearer {credential}\r\n")
            }),
        }
    }

    /// Calls a tool; an error is what happened to the connection.
    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> std::io::Result<Value> {
        let params = introduced(tool(name, arguments), &json!({}));
        let body = request(&json!(1), "tools/call", params);
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {MODERN}\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: {name}\r\n{}Content-Length: {}\r\n\r\n",
            self.authorization,
            body.len()
        );
        let socket = self.socket.get_mut();
        socket.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        let mut len = 0;
        loop {
            let mut line = String::new();
            if self.socket.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                len = value.trim().parse().map_err(std::io::Error::other)?;
            }
        }
        let mut body = vec![0; len];
        self.socket.read_exact(&mut body)?;
        serde_json::from_slice(&body).map_err(std::io::Error::other)
    }
}

/// A POST with nothing but the headers every one has.
pub(crate) fn bare_post(gateway: &Gateway, path: &str, body: impl AsRef<[u8]>) -> Answer {
    http::send(&gateway.address, "POST", path, &[JSON_BODY, ACCEPT], body).finish()
}
