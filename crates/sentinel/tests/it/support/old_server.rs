//! A server of HTTP+SSE (2024-11-05) with one tool, which says of it what it is told to and can cut its streams.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

pub(crate) struct OldServer {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    note: String,
    /// How often the tool ran.
    runs: usize,
    opened: u64,
    streams: HashMap<String, TcpStream>,
}

impl OldServer {
    /// Its threads end with the test's process.
    pub(crate) fn start(note: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let this = Self {
            address,
            state: Arc::default(),
        };
        this.say(note);
        let state = this.state.clone();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let state = state.clone();
                // Whoever hangs up ends the request, nothing else.
                thread::spawn(move || drop(serve(&state, socket)));
            }
        });
        this
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    pub(crate) fn say(&self, note: &str) {
        self.state().note = note.to_owned();
    }

    pub(crate) fn runs(&self) -> usize {
        self.state().runs
    }

    /// Forgets everybody, as after a restart.
    pub(crate) fn forget(&self) {
        for (_, stream) in self.state().streams.drain() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Serves one request; connections are used once.
fn serve(state: &Mutex<State>, mut socket: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(socket.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut state = state.lock().expect("no holder panics");
    if first.starts_with("GET") {
        state.opened += 1;
        let endpoint = format!("/messages?n={}", state.opened);
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        write!(socket, "{head}event: endpoint\ndata: {endpoint}\n\n")?;
        state.streams.insert(endpoint, socket);
        return Ok(());
    }
    let status = match (&*target, state.streams.contains_key(&target)) {
        (_, true) => "202 Accepted",
        ("/mcp", _) => "405 Method Not Allowed",
        _ => "404 Not Found",
    };
    write!(
        socket,
        "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )?;
    let message: Value = serde_json::from_slice(&body)?;
    // What is not accepted is not done either.
    if message["id"].is_null() || !state.streams.contains_key(&target) {
        return Ok(());
    }
    let answer = answer(&mut state, &message);
    match state.streams.get_mut(&target) {
        Some(stream) => write!(stream, "event: message\ndata: {answer}\n\n"),
        None => Ok(()),
    }
}

fn answer(state: &mut State, request: &Value) -> Value {
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "echo", "description": state.note, "inputSchema": {"type": "object"},
        }]}),
        "tools/call" => {
            state.runs += 1;
            let text = &request["params"]["arguments"]["text"];
            json!({"content": [{"type": "text", "text": text}]})
        }
        _ => json!({}),
    };
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}
