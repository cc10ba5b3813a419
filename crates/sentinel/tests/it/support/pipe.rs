//! A caller on the standard input and output of `sentinel stdio`, of either era.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::callers::{Caller, initialize_params, introduced, notification, request};
use crate::support::http::parse;
use crate::support::setup::{PATIENCE, Setup, until};

/// Lines that a test has not looked at yet; a test reads fewer.
const LINES_MAX: usize = 4096;

pub(crate) struct Pipe {
    process: Mutex<Child>,
    input: Mutex<Option<ChildStdin>>,
    lines: Mutex<Receiver<String>>,
    /// Lines that came while another one was waited for.
    aside: Mutex<Vec<String>>,
    /// The capabilities of a modern caller; `None` for a legacy one.
    modern: Option<Value>,
    next: AtomicU64,
    pub(crate) setup: Setup,
}

impl Pipe {
    /// Starts `sentinel stdio` without saying anything to it.
    pub(crate) fn silent(config: &str) -> Self {
        Self::silent_in(Setup::new(config))
    }

    fn silent_in(setup: Setup) -> Self {
        let mut process = setup.spawn_stdio();
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let (say, lines) = sync_channel(LINES_MAX);
        // Ends with the process, or with this caller.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            input: Mutex::new(process.stdin.take()),
            process: Mutex::new(process),
            lines: Mutex::new(lines),
            aside: Mutex::default(),
            modern: None,
            next: AtomicU64::new(1),
            setup,
        }
    }

    pub(crate) fn legacy(config: &str, revision: &str, capabilities: Value) -> Self {
        Self::legacy_in(Setup::new(config), revision, capabilities)
    }

    pub(crate) fn legacy_in(setup: Setup, revision: &str, capabilities: Value) -> Self {
        let this = Self::silent_in(setup);
        let answer = this.ask("initialize", initialize_params(revision, &capabilities));
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        this.write(&notification("notifications/initialized", json!({})));
        this
    }

    pub(crate) fn modern(config: &str, capabilities: Value) -> Self {
        let mut this = Self::silent(config);
        this.modern = Some(capabilities);
        this
    }

    /// Where another gateway was before.
    pub(crate) fn modern_in(setup: Setup) -> Self {
        let mut this = Self::silent_in(setup);
        this.modern = Some(json!({}));
        this
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.lock().expect("no holder panics").id()
    }

    pub(crate) fn write(&self, line: &str) {
        self.write_bytes(format!("{line}\n").as_bytes());
    }

    pub(crate) fn write_bytes(&self, bytes: &[u8]) {
        let mut input = self.input.lock().expect("no holder panics");
        let input = input.as_mut().expect("still open");
        input.write_all(bytes).expect("the gateway reads");
        input.flush().expect("the gateway reads");
    }

    pub(crate) fn close(&self) {
        self.input.lock().expect("no holder panics").take();
    }

    pub(crate) fn wait(&self) -> ExitStatus {
        until("the gateway ends", || {
            let mut process = self.process.lock().expect("no holder panics");
            process.try_wait().expect("our child")
        })
    }

    /// Writes a request and returns its id.
    pub(crate) fn start(&self, method: &str, params: Value) -> Value {
        let id = json!(self.next.fetch_add(1, Ordering::Relaxed));
        let params = match &self.modern {
            Some(capabilities) => introduced(params, capabilities),
            None => params,
        };
        self.write(&request(&id, method, params));
        id
    }

    /// The next line that `wanted` says yes to; others wait for their turn.
    #[track_caller]
    pub(crate) fn line(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> String {
        let mut aside = self.aside.lock().expect("no holder panics");
        if let Some(at) = aside.iter().position(|line| wanted(&loosely(line))) {
            return aside.remove(at);
        }
        let lines = self.lines.lock().expect("no holder panics");
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if wanted(&loosely(&line)) => return line,
                Ok(line) => aside.push(line),
                Err(why) => panic!("{what}: {why}; aside: {aside:?}"),
            }
        }
    }

    #[track_caller]
    pub(crate) fn answer(&self, id: &Value) -> Value {
        parse(&self.line(&format!("the answer to {id}"), |line| {
            line["id"] == *id && line["method"].is_null()
        }))
    }

    /// Whether nothing that `wanted` says yes to comes within this time.
    pub(crate) fn is_silent(&self, time: Duration, wanted: impl Fn(&Value) -> bool) -> bool {
        let mut aside = self.aside.lock().expect("no holder panics");
        if aside.iter().any(|line| wanted(&loosely(line))) {
            return false;
        }
        let lines = self.lines.lock().expect("no holder panics");
        let end = std::time::Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) if wanted(&loosely(&line)) => return false,
                Ok(line) => aside.push(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    /// Waits until the merged list has a tool of this name.
    #[track_caller]
    pub(crate) fn wait_for_tool(&self, name: &str) {
        until(&format!("the tool {name}"), || {
            self.tools().iter().any(|tool| tool == name).then_some(())
        });
    }
}

/// Lines with numbers beyond a float are still lines.
fn loosely(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|_| parse(&line.replace("1e400", "0")))
}

impl Caller for Pipe {
    fn is_modern(&self) -> bool {
        self.modern.is_some()
    }

    fn exchange(&self, method: &str, params: Value) -> Vec<String> {
        let id = self.start(method, params);
        let mine = |line: &Value| line["id"] == id && line["method"].is_null();
        let last = self.line(&format!("the answer to {method}"), mine);
        // What was said about the call before; anything else stays for whoever waits for it.
        let mut aside = self.aside.lock().expect("no holder panics");
        let (mut all, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *aside).into_iter().partition(|line| {
                let line = loosely(line);
                line["method"] == "notifications/progress"
                    || line["method"] == "notifications/message"
            });
        *aside = rest;
        all.push(last);
        all
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let mut process = self.process.lock().expect("no holder panics");
        let _ = process.kill();
        let _ = process.wait();
    }
}
