//! C-39, quadrant ML: a task of 2025-11-25 as a caller of the extension sees it.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sentinel_wire::{Params, Revision};
use serde_json::{Value, json};

use super::*;
use crate::audit::Auditor;
use crate::backend::{Health, Status};
use crate::caller::LogLevel;
use crate::catalog::{Listing, Registry};
use crate::line::{Answer, Step};
use crate::offer::{Item, ItemKind, Offer, ServerCapabilities};
use crate::policy::{Policy, Settings};
use crate::{Invocation, Round, TaskAction, TaskOf, View, Walk, walk};

/// A server with one task, in whatever state a test puts it.
#[derive(Default)]
struct Server {
    status: Mutex<String>,
    /// What `tasks/result` answers; an error if it has a code.
    result: Mutex<Value>,
    /// Messages to ask the one who waits for the result.
    questions: Vec<&'static str>,
    /// Methods, and answers to questions.
    heard: Mutex<Vec<String>>,
    /// What the caller could be asked for, in each request.
    sessions: Mutex<Vec<u8>>,
}

struct Connector(Arc<Server>);

impl Server {
    fn state(&self) -> Value {
        json!({"taskId": "t", "status": *self.status.lock(), "createdAt": "c", "lastUpdatedAt": "u",
            "ttl": 60000.0, "pollInterval": 500})
    }

    async fn result(self: Arc<Self>, call: Box<Call>) -> Value {
        if *self.status.lock() == "input_required" {
            let asks: Vec<_> = (self.questions.iter())
                .map(|text| {
                    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t"}});
                    let params = json!({"message": text, "requestedSchema": {}, "_meta": related});
                    call.line.ask(Method::Elicit, params.to_string().into())
                })
                .collect();
            for ask in asks {
                let answer = match ask.await {
                    Some(Answer::Result(raw)) => String::from_utf8_lossy(&raw).into_owned(),
                    _ => "nobody".to_owned(),
                };
                self.heard.lock().push(answer);
            }
            *self.status.lock() = "completed".to_owned();
        }
        self.result.lock().clone()
    }
}

impl Backend for Connector {
    fn name(&self) -> &str {
        "old"
    }

    fn call(&self, call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        let server = self.0.clone();
        server.heard.lock().push(call.method.as_str().to_owned());
        let can = call.caller.capabilities.questions();
        server.sessions.lock().push(can);
        Box::pin(async move {
            let over = ["completed", "failed", "cancelled"];
            let answer = match call.method.as_str() {
                "tools/call" if call.task_ttl_ms.is_some() => json!({"task": server.state()}),
                _ if call.params.string("taskId").as_deref() != Some("t") => {
                    json!({"code": -32602, "message": "unknown task"})
                }
                "tasks/get" => server.state(),
                "tasks/cancel" if over.contains(&&**server.status.lock()) => {
                    json!({"code": -32602, "message": "it is over"})
                }
                "tasks/cancel" => {
                    *server.status.lock() = "cancelled".to_owned();
                    server.state()
                }
                "tasks/result" => server.result(call).await,
                other => panic!("{other}"),
            };
            let is_error = answer.get("code").is_some();
            let answer = Payload::parse(answer.to_string().into(), Rules::backend()).expect("json");
            Ok(Reply {
                revision: Revision::V2025_11_25,
                outcome: match is_error {
                    true => Outcome::Error(answer),
                    false => Outcome::Result(answer),
                },
            })
        })
    }

    fn status(&self) -> Status {
        Status {
            revision: Some(Revision::V2025_11_25),
            ..Status::of(Health::Up)
        }
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

struct World {
    server: Arc<Server>,
    walk: Walk,
}

const CAN: &str = r#"{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

fn world(server: Server) -> World {
    let server = Arc::new(server);
    let registry = Registry::new(vec![Listing::new("old")]);
    registry.attach(0, Arc::new(Connector(server.clone())));
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
    let catalog = registry.catalog();
    let offered = |revision| catalog.extensions(View::Merged, revision).len();
    assert_eq!(offered(Revision::NEWEST), 1, "the extension is offered");
    assert_eq!(offered(Revision::V2025_11_25), 0, "and to nobody else");
    let policy = Policy::new(registry, Settings::default());
    World {
        server,
        walk: walk(policy, Auditor::off()).patient(Duration::from_secs(60)),
    }
}

impl World {
    async fn call_as(&self, can: &'static str, method: Method, params: Value) -> Value {
        let capabilities = ClientCapabilities::parse(Bytes::from_static(can.as_bytes()));
        let caller = Arc::new(Caller {
            subject: "local".into(),
            role: "admin".into(),
            scopes: Arc::default(),
            tenant: None,
            revision: Revision::NEWEST,
            capabilities: capabilities.expect("an object"),
            client_info: None,
            session: None,
            log_level: LogLevel::default(),
            addressing: Default::default(),
            account: None,
            tags: None,
        });
        let params = Params::parse(params.to_string().into(), Rules::backend()).expect("json");
        let of = Arc::new(TaskOf {
            tool: "dig".into(),
            questions: 1,
            call: Round::first().call,
        });
        let about =
            |action| Invocation::about_task(caller.clone(), 0, action, of.clone(), params.clone());
        let invocation = match method {
            Method::TasksGet => about(TaskAction::Get),
            Method::TasksUpdate => about(TaskAction::Update),
            Method::TasksCancel => about(TaskAction::Cancel),
            method => Invocation::mcp(Round::first(), caller, View::Only(0), method, params),
        };
        let mut talk = self.walk.begin(invocation, Arc::default());
        let Step::Done(Ok(reply)) = talk.next().await else {
            panic!("a reply")
        };
        let (Outcome::Result(said) | Outcome::Error(said)) = &reply.outcome;
        serde_json::from_slice(said.as_bytes()).expect("json")
    }

    async fn call(&self, method: Method, more: Value) -> Value {
        let mut params = json!({"taskId": "t"});
        for (name, value) in more.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        self.call_as(CAN, method, params).await
    }
}

fn in_state(status: &str, result: Value) -> Server {
    Server {
        status: Mutex::new(status.to_owned()),
        result: Mutex::new(result),
        ..Server::default()
    }
}

#[tokio::test]
async fn c_39_a_created_task_has_the_members_of_the_extension() {
    let world = world(in_state("working", json!({})));
    let call = json!({"name": "dig", "arguments": {}, "task": {"ttl": 1}});
    let made = world.call_as(CAN, Method::ToolsCall, call).await;
    let want = json!({"resultType": "task", "taskId": "t", "status": "working", "createdAt": "c",
        "lastUpdatedAt": "u", "ttlMs": 60000, "pollIntervalMs": 500});
    assert_eq!(made, want);
    let seen = world.call(Method::TasksGet, json!({})).await;
    assert_eq!(seen["status"], "working");
    assert_eq!(seen["resultType"], "complete");
    assert_eq!(*world.server.heard.lock(), ["tools/call", "tasks/get"]);
}

#[tokio::test]
async fn c_39_a_look_at_a_task_that_ended_brings_its_result() {
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t"}});
    let fine = json!({"content": [], "_meta": related});
    let wrong = json!({"content": [], "isError": true, "_meta": {"a/b": 1}});
    let broken = json!({"code": -32002, "message": "gone"});
    // Legacy: what a tool calls an error has failed. Extension: only an error of the protocol has.
    let rows = [
        (
            "completed",
            fine,
            "completed",
            json!({"content": [], "resultType": "complete"}),
        ),
        (
            "failed",
            wrong,
            "completed",
            json!({"content": [], "isError": true, "_meta": {"a/b": 1}, "resultType": "complete"}),
        ),
        (
            "failed",
            broken,
            "failed",
            json!({"code": -32602, "message": "gone"}),
        ),
        ("cancelled", json!({}), "cancelled", Value::Null),
    ];
    for (status, result, want, outcome) in rows {
        let world = world(in_state(status, result));
        let seen = world.call(Method::TasksGet, json!({})).await;
        assert_eq!(seen["status"], want, "{seen}");
        let member = if want == "failed" { "error" } else { "result" };
        assert_eq!(seen[member], outcome, "{seen}");
        assert_eq!(seen["taskId"], "t");
    }
}

#[tokio::test]
async fn c_39_what_a_task_asks_is_answered_by_updates() {
    let world = world(Server {
        questions: vec!["first?", "second?"],
        ..in_state("input_required", json!({"content": []}))
    });
    let seen = world.call(Method::TasksGet, json!({})).await;
    assert_eq!(seen["status"], "input_required");
    let asked = seen["inputRequests"]
        .as_object()
        .expect("questions")
        .clone();
    let keys: Vec<&String> = asked.keys().collect();
    assert_eq!(keys.len(), 2);
    let first = &asked[keys[0]];
    assert_eq!(first["method"], "elicitation/create");
    assert_eq!(
        first["params"],
        json!({"message": "[old] first?", "requestedSchema": {}})
    );
    // Somebody else's look, and one that cannot be asked, change nothing.
    let mute = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let told = world
        .call_as(mute, Method::TasksGet, json!({"taskId": "t"}))
        .await;
    assert_eq!(
        (&told["status"], told.get("inputRequests")),
        (&json!("working"), None)
    );

    let yes = json!({"action": "accept", "content": {"a": 1}});
    let some = json!({"inputResponses": {keys[0]: yes, "nobody's": {}}});
    let ack = world.call(Method::TasksUpdate, some).await;
    assert_eq!(ack, json!({"resultType": "complete"}));
    let seen = world.call(Method::TasksGet, json!({})).await;
    let left: Vec<&String> = seen["inputRequests"]
        .as_object()
        .expect("questions")
        .keys()
        .collect();
    assert_eq!(
        left,
        [keys[1]],
        "answered questions are gone, open ones keep their key"
    );

    let rest = json!({"inputResponses": {keys[1]: {"action": "decline"}}});
    world.call(Method::TasksUpdate, rest).await;
    let seen = world.call(Method::TasksGet, json!({})).await;
    assert_eq!(seen["status"], "completed", "{seen}");
    let heard = world.server.heard.lock().clone();
    let answers: Vec<&String> = heard.iter().filter(|said| said.starts_with('{')).collect();
    let related = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}"#;
    assert_eq!(
        answers[0],
        &format!(r#"{{"action":"accept","content":{{"a":1}},{related}}}"#)
    );
    assert_eq!(answers[1], &format!(r#"{{"action":"decline",{related}}}"#));
    let waited = heard.iter().filter(|said| *said == "tasks/result").count();
    assert_eq!(waited, 2, "one hearing and one result: {heard:?}");
    assert!(
        world.server.sessions.lock().iter().all(|can| *can == 1),
        "one session"
    );
}

#[tokio::test(start_paused = true)]
async fn p_r08_a_question_that_nobody_answers_is_given_up_and_holds_nothing() {
    let world = world(Server {
        questions: vec!["still there?"],
        ..in_state("input_required", json!({"content": []}))
    });
    let seen = world.call(Method::TasksGet, json!({})).await;
    assert_eq!(seen["status"], "input_required");
    tokio::time::sleep(Duration::from_secs(59)).await;
    // A look in is a sign of life.
    let seen = world.call(Method::TasksGet, json!({})).await;
    assert_eq!(seen["status"], "input_required");
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(*world.server.status.lock(), "input_required");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let heard = world.server.heard.lock().last().cloned();
    assert_eq!(heard.as_deref(), Some("nobody"));
    let seen = world.call(Method::TasksGet, json!({})).await;
    assert_eq!(seen["status"], "completed");
}

#[tokio::test]
async fn c_39_to_cancel_is_acknowledged_unless_nobody_knows_the_task() {
    for status in ["working", "completed"] {
        let world = world(in_state(status, json!({})));
        let ack = world.call(Method::TasksCancel, json!({})).await;
        assert_eq!(ack, json!({"resultType": "complete"}), "{status}");
    }
    let world = world(in_state("working", json!({})));
    for method in [Method::TasksGet, Method::TasksCancel, Method::TasksUpdate] {
        let refused = world.call(method, json!({"taskId": "other"})).await;
        assert_eq!(refused["code"], -32602);
    }
}
