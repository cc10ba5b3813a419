use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sentinel_wire::Revision;
use tokio::time::timeout;

use super::*;
use crate::audit::Auditor;
use crate::backend::{Health, Status};
use crate::caller::Caller;
use crate::catalog::{Listing, Registry};
use crate::identity::Identity;
use crate::line::Step;
use crate::offer::{Item, ItemKind, Offer, ServerCapabilities};
use crate::policy::{Policy, Settings};
use crate::{Invocation, Round, View, walk};

/// A server whose one tool runs as a task that ends after some looks.
#[derive(Default)]
struct Slow {
    looks: usize,
    seen: AtomicUsize,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Backend for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn call(&self, call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        let said = String::from_utf8_lossy(call.params.as_bytes()).into_owned();
        let task = call.task_ttl_ms.map(|ttl| format!(" as a task for {ttl}"));
        let heard = format!(
            "{} {said}{}",
            call.method.as_str(),
            task.unwrap_or_default()
        );
        self.heard.lock().push(heard);
        let answer = match call.method.as_str() {
            "tools/call" => r#"{"task":{"taskId":"t","status":"working","pollInterval":30}}"#,
            "tasks/get" if self.seen.fetch_add(1, Ordering::Relaxed) < self.looks => {
                r#"{"taskId":"t","status":"working","pollInterval":30}"#
            }
            "tasks/get" => r#"{"taskId":"t","status":"completed"}"#,
            "tasks/result" => {
                r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"example.com/x":1}}"#
            }
            _ => "{}",
        };
        let result = Payload::parse(Bytes::from_static(answer.as_bytes()), Rules::backend());
        Box::pin(std::future::ready(Ok(Reply {
            revision: Revision::V2025_11_25,
            outcome: Outcome::Result(result.expect("json")),
        })))
    }

    fn status(&self) -> Status {
        Status::of(Health::Up)
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn begin(server: Slow) -> crate::Conversation {
    let registry = Registry::new(vec![Listing::new("slow")]);
    registry.attach(0, Arc::new(server));
    let tool =
        br#"{"name":"dig","execution":{"taskSupport":"required"},"inputSchema":{"type":"object"}}"#;
    let tool = Item::parse(ItemKind::Tool, Bytes::from_static(tool)).expect("a tool");
    registry.publisher(0).publish(Offer {
        capabilities: ServerCapabilities {
            tools: true,
            tasks: true,
            ..Default::default()
        },
        tools: vec![tool],
        ..Offer::empty(Revision::V2025_11_25)
    });
    let caller = Arc::new(Caller::of(&Identity::local("admin")));
    let params = Params::parse(
        Bytes::from_static(br#"{"name":"dig","arguments":{"n":1.0}}"#),
        Rules::backend(),
    );
    let policy = Policy::new(registry, Settings::default());
    let params = params.expect("json");
    let method = Method::ToolsCall;
    let invocation = Invocation::mcp(Round::first(), caller, View::Merged, method, params);
    walk(policy, Auditor::off()).begin(invocation, Arc::default())
}

#[tokio::test(start_paused = true)]
async fn c_39_a_tool_that_runs_as_a_task_only_looks_like_a_slow_one() {
    let server = Slow {
        looks: 2,
        ..Slow::default()
    };
    let heard = server.heard.clone();
    let mut talk = begin(server);
    let Step::Done(Ok(reply)) = talk.next().await else {
        panic!("the tool's result")
    };
    let Outcome::Result(result) = &reply.outcome else {
        panic!("a result")
    };
    assert_eq!(
        String::from_utf8_lossy(result.as_bytes()),
        r#"{"content":[],"_meta":{"example.com/x":1}}"#
    );
    let call = r#"tools/call {"name":"dig","arguments":{"n":1.0}} as a task for 86400000"#;
    let task = |method: &str| format!(r#"{method} {{"taskId":"t"}}"#);
    let get = task("tasks/get");
    let want = [
        call.to_owned(),
        get.clone(),
        get.clone(),
        get,
        task("tasks/result"),
    ];
    assert_eq!(*heard.lock(), want);
}

#[tokio::test(start_paused = true)]
async fn p_r08_a_dropped_call_cancels_its_task() {
    let server = Slow {
        looks: usize::MAX,
        ..Slow::default()
    };
    let heard = server.heard.clone();
    let mut talk = begin(server);
    assert!(timeout(Duration::from_secs(1), talk.next()).await.is_err());
    drop(talk);
    tokio::task::yield_now().await;
    assert_eq!(
        heard.lock().last().map(String::as_str),
        Some(r#"tasks/cancel {"taskId":"t"}"#)
    );
}
