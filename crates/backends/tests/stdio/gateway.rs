//! A gateway's core around one stdio backend whose server is `server.py`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sentinel_backends::child::StopTimeouts;
use sentinel_backends::stdio::supervisor::Policy;
use sentinel_backends::stdio::{Config, Interactive, Isolation, Stdio};
use sentinel_core::catalog::Listing;
use sentinel_core::{
    Auditor, Backend, Caller, ClientCapabilities, Conversation, Event, Fault, Health, Invocation,
    Kind, LogLevel, Registry, Round, Step, View, Walk, walk,
};
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Outcome, Params, Revision};
use serde_json::{Value, json};

use crate::processes::{command, mark, marked, soon};

pub(crate) struct TestGateway {
    pub(crate) registry: Arc<Registry>,
    pub(crate) backend: Arc<Stdio>,
    pub(crate) walk: Walk,
    pub(crate) mark: String,
    dir: tempfile::TempDir,
}

/// The gateway with a server of this era, changed a little.
pub(crate) fn gateway(era: &str, change: impl FnOnce(&mut Config)) -> TestGateway {
    gateway_with(era, change, |_| {})
}

pub(crate) fn gateway_with(
    era: &str,
    change: impl FnOnce(&mut Config),
    before: impl FnOnce(&Arc<Registry>),
) -> TestGateway {
    let dir = tempfile::tempdir().unwrap();
    let mark = mark(&format!("gateway-{}", dir.path().display()));
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stdio/server.py");
    let state = dir.path().join("state");
    let args = [server.to_str().unwrap(), era, state.to_str().unwrap()];
    let mut config = Config {
        name: "odd".into(),
        target: "server.py".into(),
        command: command("python3", &args, &mark),
        policy: Policy {
            restart_on_exit: true,
            max_restarts: None,
            lazy: false,
            idle_stop: None,
            ping_interval: None,
            unhealthy_after: 3,
        },
        timeout: Duration::from_secs(20),
        line_max: 1024 * 1024,
        isolation: Isolation::Shared,
        interactive: Interactive::Off,
        max_children: 4,
        revision: None,
        timeouts: StopTimeouts::default(),
    };
    change(&mut config);
    let registry = Registry::new(vec![Listing::new("odd")]);
    before(&registry);
    let backend = config.build(registry.publisher(0));
    registry.attach(0, backend.clone());
    TestGateway {
        walk: walk(
            sentinel_core::Policy::new(
                registry.clone(),
                sentinel_core::policy::Settings::default(),
            ),
            Auditor::off(),
        ),
        registry,
        backend,
        mark,
        dir,
    }
}

pub(crate) fn caller(session: &str, capabilities: Value) -> Arc<Caller> {
    let capabilities = Bytes::from(capabilities.to_string());
    Arc::new(Caller {
        subject: "local".into(),
        role: "admin".into(),
        scopes: Arc::default(),
        tenant: None,
        revision: Revision::V2025_11_25,
        capabilities: ClientCapabilities::parse(capabilities).unwrap(),
        client_info: None,
        session: Some(session.into()),
        log_level: LogLevel::default(),
        tags: None,
        addressing: Default::default(),
        account: None,
    })
}

pub(crate) fn anybody() -> Arc<Caller> {
    caller("s", json!({}))
}

impl TestGateway {
    /// Begins a call and does not wait for it. The name is the server's own.
    pub(crate) fn begin(&self, caller: Arc<Caller>, tool: &str, args: Value) -> Conversation {
        let params = json!({"name": tool, "arguments": args, "_meta": {"progressToken": "mine"}});
        let params = Params::parse(params.to_string().into(), Rules::caller(64)).unwrap();
        let call = Invocation::mcp(
            Round::first(),
            caller,
            View::Only(0),
            Method::ToolsCall,
            params,
        );
        self.walk.begin(call, Arc::default())
    }

    pub(crate) async fn call_as(
        &self,
        caller: Arc<Caller>,
        tool: &str,
        args: Value,
    ) -> Result<String, Fault> {
        let mut talk = self.begin(caller, tool, args);
        loop {
            match talk.next().await {
                Step::Done(reply) => return reply.map(|reply| text(&reply.outcome)),
                Step::Event(Event::Notice(_)) => {}
                Step::Event(event) => panic!("nobody expected {event:?}"),
            }
        }
    }

    pub(crate) async fn call(&self, tool: &str, args: Value) -> Result<String, Fault> {
        self.call_as(anybody(), tool, args).await
    }

    pub(crate) async fn echo(&self, text: &str) -> Result<String, Fault> {
        self.call("echo", json!({"text": text})).await
    }

    /// Waits until calls succeed; how long that took.
    pub(crate) async fn up(&self) -> Duration {
        let start = Instant::now();
        while self.echo("up?").await.is_err() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{:?}",
                self.backend.status()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        start.elapsed()
    }

    pub(crate) async fn until(&self, health: Health) {
        let start = Instant::now();
        while self.backend.status().health != health {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{:?}",
                self.backend.status()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn until_listed(&self, tool: &str, listed: bool) {
        let start = Instant::now();
        while matches!(self.call(tool, json!({})).await, Err(f) if f.kind == Kind::UnknownName)
            == listed
        {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "{tool} listed: {}",
                !listed
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the servers wrote down: `start <pid>`, then every method they heard.
    pub(crate) fn heard(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("state")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How often they heard this method.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.heard().iter().filter(|line| *line == method).count()
    }

    /// Waits until they heard it so often.
    pub(crate) async fn until_heard(&self, method: &str, times: usize) {
        let start = Instant::now();
        loop {
            let looked = start.elapsed();
            let heard = self.count(method);
            if heard >= times {
                return;
            }
            assert!(
                looked < Duration::from_secs(20),
                "{method} heard {heard} times, not {times}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn starts(&self) -> usize {
        self.heard()
            .iter()
            .filter(|line| line.starts_with("start "))
            .count()
    }

    pub(crate) async fn stop(self) {
        self.backend.stop().await;
        soon("the servers", || marked(&self.mark));
    }
}

/// The text of a tool's result, or its error object.
pub(crate) fn text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Result(result) => {
            let value: Value = serde_json::from_slice(result.as_bytes()).unwrap();
            value["content"][0]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        }
        Outcome::Error(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

pub(crate) fn kill(pid: &str) {
    assert!(
        std::process::Command::new("kill")
            .args(["-9", pid])
            .status()
            .unwrap()
            .success()
    );
}
