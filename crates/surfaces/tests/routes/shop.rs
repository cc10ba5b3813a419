//! A backend with routes of every kind.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use sentinel_core::{
    Backend, Call, Fault, Health, HttpAnswer, HttpCall, Item, ItemKind, Kind, Offer, Reach, Reply,
    Route, RouteKind, RoutePattern, ServerCapabilities, Status,
};
use sentinel_wire::json::Rules;
use sentinel_wire::{Outcome, Payload, Revision};
use serde_json::{Value, json};
use tokio::sync::RwLock;

/// `/orders/{id}`: at most one parameter, the last part of the path; `*` stands for anything.
#[derive(Debug)]
struct Path(&'static str);

impl RoutePattern for Path {
    fn matches(&self, path: &str) -> Option<Vec<(String, String)>> {
        if let Some(before) = self.0.strip_suffix('*') {
            return path.starts_with(before).then(Vec::new);
        }
        let Some((before, name)) = self.0.split_once('{') else {
            return (path == self.0).then(Vec::new);
        };
        let value = path.strip_prefix(before)?;
        let is_one = !value.is_empty() && !value.contains('/');
        is_one.then(|| vec![(name.trim_end_matches('}').to_owned(), value.to_owned())])
    }

    fn shown(&self) -> &str {
        self.0
    }
}

fn path(tool: &str, path: &'static str, verbs: &[&str], is_whole: bool) -> Route {
    Route {
        kind: RouteKind::Http {
            pattern: Arc::new(Path(path)),
            verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
        },
        tool: tool.into(),
        is_whole,
    }
}

fn method(tool: &str, method: &str, is_whole: bool) -> Route {
    Route {
        kind: RouteKind::Rpc {
            method: method.into(),
        },
        tool: tool.into(),
        is_whole,
    }
}

fn tool(name: &str, reach: Reach, is_read_only: bool, properties: &Value) -> Item {
    let required: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flat_map(|all| all.keys())
        .filter(|name| *name == "id")
        .collect();
    let tool = json!({
        "name": name, "description": format!("{name} of the shop"),
        "inputSchema": { "type": "object", "properties": properties, "required": required, "additionalProperties": false },
        "annotations": { "readOnlyHint": is_read_only },
    });
    let item = Item::parse(ItemKind::Tool, tool.to_string().into()).expect("a tool");
    Item { reach, ..item }
}

pub(crate) fn offer() -> Offer {
    let id = json!({ "id": { "type": "integer" }, "verbose": { "type": "boolean" } });
    let change = json!({ "id": { "type": "integer" }, "name": { "type": "string" } });
    let none = json!({});
    Offer {
        capabilities: ServerCapabilities {
            tools: true,
            ..Default::default()
        },
        tools: vec![
            tool("get_order", Reach::ByName, true, &id),
            tool("change_order", Reach::ByRoute, false, &change),
            tool("page", Reach::ByRoute, false, &none),
            tool("secret", Reach::ByRoute, true, &none),
            tool("sum", Reach::ByRpc, true, &none),
            tool("list", Reach::ByName, true, &none),
            tool("whoami", Reach::ByName, true, &none),
            tool("hidden_by_table", Reach::ByRoute, true, &none),
        ],
        routes: vec![
            path("get_order", "/orders/{id}", &["GET"], false),
            path("change_order", "/orders/{order}", &["PUT", "PATCH"], false),
            path("change_order", "/changes/{id}", &["POST", "DELETE"], false),
            path("page", "/page/*", &[], true),
            path("secret", "/secret", &["GET"], false),
            path("list", "/list", &["GET"], false),
            path("whoami", "/whoami", &["GET"], false),
            path("hidden_by_table", "/api/{operation}", &["GET"], false),
            method("sum", "math.sum", true),
            method("get_order", "orders.get", false),
            method("sum", "list", true),
        ],
        ..Offer::empty(Revision::NEWEST)
    }
}

pub(crate) struct Shop {
    /// Calls wait while a test holds it.
    pub(crate) gate: Arc<RwLock<()>>,
}

impl Backend for Shop {
    fn name(&self) -> &str {
        "shop"
    }

    fn call(&self, mut call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        let gate = self.gate.clone();
        Box::pin(async move {
            let _open = gate.read().await;
            let name = call
                .params
                .string("name")
                .map(|name| name.into_owned())
                .unwrap_or_default();
            let arguments = call.params.get("arguments").unwrap_or(b"{}").to_vec();
            if let Some(http) = call.extra.http.clone() {
                return match &*name {
                    "page" => page(&call, &http),
                    _ => sum(&http),
                };
            }
            match &*name {
                "list" => list(&mut call).await,
                "whoami" => Ok(structured(&whoami(&call))),
                _ => {
                    let arguments: Value = serde_json::from_slice(&arguments).expect("JSON");
                    Ok(structured(&json!({ "tool": name, "got": arguments })))
                }
            }
        })
    }

    fn status(&self) -> Status {
        Status::of(Health::Up)
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn reply(result: &Value) -> Reply {
    let result = Payload::parse(result.to_string().into(), Rules::backend()).expect("JSON");
    Reply {
        revision: Revision::NEWEST,
        outcome: Outcome::Result(result),
    }
}

fn structured(content: &Value) -> Reply {
    reply(&json!({ "content": [], "structuredContent": content, "resultType": "complete" }))
}

fn whoami(call: &Call) -> Value {
    let caller = &call.caller;
    let account = caller.account.as_ref();
    json!({
        "subject": &*caller.subject,
        "provider": account.map(|account| &*account.provider),
        "email": account.and_then(|account| account.email.as_deref()),
        "credential": account.map(|account| account.credential.expose()),
    })
}

/// Three rows, one by one where they are wanted so.
async fn list(call: &mut Call) -> Result<Reply, Fault> {
    let rows = [r#"{"n":1}"#, r#"{"type":"error"}"#, r#"[3]"#];
    let Some(sender) = &mut call.extra.rows else {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| serde_json::from_str(row).expect("JSON"))
            .collect();
        return Ok(structured(&json!({ "rows": rows })));
    };
    for row in rows {
        sender.give(row).await?;
    }
    sender.flush().await?;
    Ok(structured(&json!({ "rows": sender.count() })))
}

/// Answers by the last part of its path.
fn page(call: &Call, http: &HttpCall) -> Result<Reply, Fault> {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let seen = json!({
        "method": &*http.verb, "url": &*http.url, "body": String::from_utf8_lossy(&http.body),
        "headers": http.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>(),
        "subject": &*call.caller.subject,
    });
    let last = http.url.rsplit('/').next().unwrap_or_default();
    let (status, headers, body) = match last.split('?').next().unwrap_or_default() {
        "echo" => (
            201,
            vec![
                header("content-type", "application/json"),
                header("x-execution-time-ms", "3"),
                header("set-cookie", "a=b"),
                header("content-length", "7"),
            ],
            seen.to_string(),
        ),
        "html" => (
            200,
            vec![header("content-type", "text/html")],
            "<script>1</script>".to_owned(),
        ),
        "head" => (200, vec![header("content-length", "12")], String::new()),
        "gone" => (
            410,
            vec![header("content-type", "application/problem+json")],
            r#"{"status":410}"#.to_owned(),
        ),
        "failed" => return Err(Fault::new(Kind::BackendUnavailable, "the shop is closed")),
        // No answer.
        _ => return Ok(structured(&json!({}))),
    };
    http.answer(HttpAnswer {
        status,
        headers,
        body: body.into(),
    });
    Ok(structured(&json!({})))
}

/// The sum of params by position. Notifications have no answer.
fn sum(http: &HttpCall) -> Result<Reply, Fault> {
    let request: Value = serde_json::from_slice(&http.body).expect("JSON");
    let numbers = request["params"].as_array().cloned().unwrap_or_default();
    let sum: i64 = numbers.iter().filter_map(Value::as_i64).sum();
    let id = &request["id"];
    let (status, body) = match (id.is_null(), numbers.is_empty()) {
        (true, _) => (204, String::new()),
        (_, true) => {
            let error = json!({ "code": -32602, "message": "nothing to add" });
            (
                400,
                json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string(),
            )
        }
        _ => (
            200,
            json!({ "jsonrpc": "2.0", "id": id, "result": sum }).to_string(),
        ),
    };
    http.answer(HttpAnswer {
        status,
        headers: vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("x-rpc-method".to_owned(), "math.sum".to_owned()),
        ],
        body: Bytes::from(body),
    });
    Ok(structured(&json!({})))
}
