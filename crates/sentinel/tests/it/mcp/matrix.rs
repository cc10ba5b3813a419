//! The translation table: for each feature and each pairing of a legacy or modern caller with a legacy
//! or modern backend, what the caller (or the backend) gets to see.
//!
//! The expectations of `TABLE` are written by hand from the table of features that the protocol's
//! revisions leave to a gateway; none was recorded from a run.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, request, tool};
use crate::support::http::{Stream, parse};
use crate::support::setup::{Gateway, PATIENCE, Server, http_backend, until};

/// A caller and the path of its backend.
struct Pair<'g> {
    gateway: &'g Gateway,
    path: &'g str,
    legacy: Option<Legacy>,
    modern: Modern,
}

impl Pair<'_> {
    fn caller(&self) -> &dyn Caller {
        match &self.legacy {
            Some(legacy) => legacy,
            None => &self.modern,
        }
    }

    /// Opens the stream on which this caller hears of changes, and says what it wants to hear.
    fn listen(&self) -> Stream {
        let uri = "test://static";
        if let Some(legacy) = &self.legacy {
            let stream = legacy.verb("GET").head();
            legacy.result("resources/subscribe", json!({"uri": uri}));
            return stream;
        }
        let wanted =
            json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": [uri]}});
        let mut stream = self.modern.send("subscriptions/listen", wanted).head();
        let first = stream.json();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        stream
    }

    /// The next notification of this kind on that stream, and whether it names its subscription.
    fn hears(&self, method: &str, trigger: Value) -> String {
        let mut stream = self.listen();
        let changing = || self.modern.ask("tools/call", trigger.clone());
        changing();
        for _ in 0..8 {
            let Some(message) = stream.message_within(PATIENCE) else {
                return "silence".to_owned();
            };
            let message = parse(&message);
            if message["method"] == method {
                let key = "io.modelcontextprotocol/subscriptionId";
                let tagged = !message["params"]["_meta"][key].is_null();
                return if tagged { "heard, tagged" } else { "heard" }.to_owned();
            }
        }
        "other things".to_owned()
    }
}

/// The members that one era adds to a result, in this order.
fn era_members(result: &Value) -> String {
    let shown = |name: &str| match &result[name] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    ["resultType", "ttlMs", "cacheScope"].map(shown).join(" ")
}

fn list_tool(pair: &Pair<'_>, name: &str) -> Value {
    let tools = pair.caller().result("tools/list", json!({}));
    let all = tools["tools"].as_array().expect("tools");
    all.iter()
        .find(|tool| tool["name"] == name)
        .expect("it")
        .clone()
}

fn presence(value: &Value) -> String {
    if value.is_null() { "absent" } else { "present" }.to_owned()
}

fn code(answer: &Value) -> String {
    answer["error"]["code"].to_string()
}

fn whoami(pair: &Pair<'_>, meta: Value) -> Value {
    let params = json!({"name": "whoami", "arguments": {}, "_meta": meta});
    let result = pair.caller().result("tools/call", params);
    parse(result["content"][0]["text"].as_str().expect("a text"))
}

fn notices(pair: &Pair<'_>, meta: Value, method: &str) -> usize {
    let params = json!({"name": "chatty", "arguments": {"n": 3}, "_meta": meta});
    let messages = pair.caller().exchange("tools/call", params);
    let of_kind = |message: &&String| parse(message)["method"] == method;
    messages.iter().filter(of_kind).count()
}

fn progress(pair: &Pair<'_>) -> String {
    let params =
        json!({"name": "chatty", "arguments": {"n": 3}, "_meta": {"progressToken": "mine"}});
    let messages = pair.caller().exchange("tools/call", params);
    let seen = messages
        .iter()
        .map(|message| parse(message)["params"].clone());
    let mine = seen.filter(|params| params["progressToken"] == "mine");
    let values: Vec<String> = mine.map(|params| params["progress"].to_string()).collect();
    values.join(" ")
}

fn logging(pair: &Pair<'_>) -> String {
    let mut meta = json!({});
    if pair.legacy.is_some() {
        pair.caller()
            .result("logging/setLevel", json!({"level": "info"}));
    } else {
        meta["io.modelcontextprotocol/logLevel"] = json!("info");
    }
    let at_info = notices(pair, meta.clone(), "notifications/message");
    if pair.legacy.is_some() {
        pair.caller()
            .result("logging/setLevel", json!({"level": "error"}));
    } else {
        meta["io.modelcontextprotocol/logLevel"] = json!("error");
    }
    let at_error = notices(pair, meta, "notifications/message");
    format!("{at_info}, {at_error} above")
}

fn cancel(pair: &Pair<'_>) -> String {
    let barrier = tool("barrier", json!({"name": "matrix"}));
    let waiting = || pair.modern.said("waiting", json!({"name": "matrix"}));
    let begun = || until("it waits", || (waiting() == "1").then_some(()));
    let gone = || until("it is gone", || (waiting() == "0").then_some(()));
    let Some(legacy) = &pair.legacy else {
        let call = pair.modern.send("tools/call", barrier);
        begun();
        call.hang_up();
        gone();
        return "by closing".to_owned();
    };
    let call = legacy.send(&request(&json!("c"), "tools/call", barrier));
    begun();
    call.hang_up();
    // Long enough for a close to be seen; the closed stream of a modern caller is, in far less.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(
        waiting(),
        "1",
        "a legacy caller that disconnects does not cancel"
    );
    legacy.cancel(&json!("c"));
    gone();
    "by notification".to_owned()
}

fn completion(pair: &Pair<'_>) -> String {
    let params = json!({"ref": {"type": "ref/prompt", "name": "greet"},
                        "argument": {"name": "who", "value": "a"}, "context": {"arguments": {}}});
    let result = pair.caller().result("completion/complete", params);
    format!(
        "{} {}",
        result["completion"]["values"],
        era_members(&result)
    )
}

fn pagination(pair: &Pair<'_>) -> String {
    let tools = pair.caller().result("tools/list", json!({}));
    let resources = pair.caller().result("resources/list", json!({}));
    let count = |list: &Value| list.as_array().map_or(0, Vec::len);
    let more = [&tools, &resources]
        .iter()
        .any(|list| !list["nextCursor"].is_null());
    format!("{} resources, more: {more}", count(&resources["resources"]))
}

/// What the backend sees of the transport: its session, or the headers of 2026-07-28.
fn headers(pair: &Pair<'_>) -> String {
    let who = whoami(pair, json!({}));
    // The fixture lists every value that a header had.
    let header = |name: &str| who["headers"][name][0].to_string();
    let session = presence(&who["headers"]["mcp-session-id"]);
    format!(
        "session {session}, name {}, {}",
        header("mcp-name"),
        header("mcp-protocol-version")
    )
}

/// Trace and vendor keys reach the backend; those of 2026-07-28 only one that knows them.
fn request_meta(pair: &Pair<'_>) -> String {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let meta = whoami(pair, json!({"traceparent": trace, "example.com/x": 1}))["_meta"].clone();
    let kept = meta["traceparent"] == trace && meta["example.com/x"] == 1;
    let introduced = presence(&meta["io.modelcontextprotocol/clientCapabilities"]);
    format!("kept: {kept}, introduction {introduced}")
}

fn batch(pair: &Pair<'_>) -> String {
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let body = json!([ping(1), ping(2)]).to_string();
    if pair.legacy.is_none() {
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "ping"),
        ];
        return pair
            .modern
            .send_raw(&body, &headers)
            .finish()
            .status
            .to_string();
    }
    let of = |revision| Legacy::connect(pair.gateway, pair.path, revision).post(&body);
    let accepted = of("2025-03-26").json();
    let refused = of("2025-11-25").status;
    format!(
        "{} answers, {refused} later",
        accepted.as_array().map_or(0, Vec::len)
    )
}

fn instructions(pair: &Pair<'_>) -> String {
    let said = match &pair.legacy {
        Some(legacy) => legacy.hello["instructions"].clone(),
        None => pair.modern.result("server/discover", json!({}))["instructions"].clone(),
    };
    said.as_str()
        .unwrap_or_default()
        .contains("A server for tests.")
        .to_string()
}

fn session(pair: &Pair<'_>) -> String {
    if let Some(legacy) = &pair.legacy {
        return presence(&json!(legacy.session));
    }
    let call = tool("echo", json!({"text": "x"}));
    let foreign = [("Mcp-Session-Id", "nobody"), ("Last-Event-ID", "7")];
    let answer = pair
        .modern
        .send_with(&json!(1), "tools/call", call, &foreign)
        .finish();
    let given = answer.header("mcp-session-id");
    format!("ignored: {}", answer.status == 200 && given.is_empty())
}

type Look = fn(&Pair<'_>) -> String;

/// Feature, how to look, and what is to be seen by LL, LM, ML and MM: caller first, then backend.
const TABLE: &[(&str, Look, [&str; 4])] = &[
    (
        "tools/list: what 2026-07-28 adds is stripped or made up",
        |p| era_members(&p.caller().result("tools/list", json!({}))),
        ["- - -", "- - -", "complete 0 private", "complete 0 public"],
    ),
    (
        "tools/list: execution",
        |p| presence(&list_tool(p, "late")["execution"]),
        ["present", "absent", "absent", "absent"],
    ),
    (
        "tools/list: an output schema that is no object",
        |p| presence(&list_tool(p, "never")["outputSchema"]),
        ["absent", "absent", "absent", "present"],
    ),
    (
        "tools/list: _meta is untouched",
        |p| list_tool(p, "echo")["_meta"].to_string(),
        [r#"{"example.com/kept":{"b":1,"a":[2,3]}}"#; 4],
    ),
    (
        "tools/call: resultType",
        |p| {
            era_members(
                &p.caller()
                    .result("tools/call", tool("echo", json!({"text": "x"}))),
            )
        },
        ["- - -", "- - -", "complete - -", "complete - -"],
    ),
    (
        "tools/call: structured content that is no object",
        |p| {
            let params = tool("structured", json!({"list": true}));
            let result = p.caller().result("tools/call", params);
            assert!(result["content"][0]["text"].is_string(), "the text stays");
            result["structuredContent"].is_array().to_string()
        },
        ["false", "false", "false", "true"],
    ),
    (
        "tools/call: request _meta",
        request_meta,
        [
            "kept: true, introduction absent",
            "kept: true, introduction present",
            "kept: true, introduction absent",
            "kept: true, introduction present",
        ],
    ),
    (
        "errors: resource not found",
        |p| {
            code(
                &p.caller()
                    .ask("resources/read", json!({"uri": "test://items/a/b"})),
            )
        },
        ["-32002", "-32602", "-32602", "-32602"],
    ),
    (
        "errors: an implementation's own",
        |p| {
            code(
                &p.caller()
                    .call("rpc_error", json!({"code": -32005, "message": "m"})),
            )
        },
        ["-32005", "-32005", "-32603", "-32603"],
    ),
    ("progress", progress, ["1 2 3"; 4]),
    ("logging", logging, ["3, 0 above"; 4]),
    (
        "ping",
        |p| {
            let answer = p.caller().ask("ping", json!({}));
            let result = answer.get("result").map(Value::to_string);
            result.unwrap_or_else(|| code(&answer))
        },
        ["{}", "{}", "-32601", "-32601"],
    ),
    (
        "list_changed",
        |p| p.hears("notifications/tools/list_changed", tool("grow", json!({}))),
        ["heard", "heard", "heard, tagged", "heard, tagged"],
    ),
    (
        "resource updates",
        |p| {
            let touch = tool("touch", json!({"uri": "test://static"}));
            p.hears("notifications/resources/updated", touch)
        },
        ["heard", "heard", "heard, tagged", "heard, tagged"],
    ),
    (
        "cancel",
        cancel,
        [
            "by notification",
            "by notification",
            "by closing",
            "by closing",
        ],
    ),
    (
        "completion",
        completion,
        [
            r#"["ada","alan"] - - -"#,
            r#"["ada","alan"] - - -"#,
            r#"["ada","alan"] complete - -"#,
            r#"["ada","alan"] complete - -"#,
        ],
    ),
    ("pagination", pagination, ["2 resources, more: false"; 4]),
    (
        "cache hints",
        |p| {
            era_members(
                &p.caller()
                    .result("resources/read", json!({"uri": "test://static"})),
            )
        },
        ["- - -", "- - -", "complete 0 private", "complete 0 public"],
    ),
    (
        "headers towards the backend",
        headers,
        [
            r#"session present, name null, "2025-11-25""#,
            r#"session absent, name "whoami", "2026-07-28""#,
            r#"session present, name null, "2025-11-25""#,
            r#"session absent, name "whoami", "2026-07-28""#,
        ],
    ),
    (
        "batch",
        batch,
        ["2 answers, 400 later", "2 answers, 400 later", "400", "400"],
    ),
    (
        "vendor methods",
        |p| {
            let one = p.caller().ask("vendor.example/do", json!({}));
            code(&one)
        },
        ["-32601"; 4],
    ),
    ("instructions", instructions, ["true"; 4]),
    (
        "session",
        session,
        ["present", "present", "ignored: true", "ignored: true"],
    ),
];

#[test]
fn c_39_every_feature_is_translated_as_the_table_says() {
    let legacy = Server::start(&["--era", "legacy", "--page", "2"]);
    let modern = Server::start(&["--era", "modern", "--page", "2"]);
    let config = [
        http_backend("l", &legacy.address, ""),
        http_backend("m", &modern.address, ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    let mut wrong = Vec::new();
    for (quadrant, name) in ["LL", "LM", "ML", "MM"].into_iter().enumerate() {
        let path = if name.ends_with('L') {
            "/mcp/l"
        } else {
            "/mcp/m"
        };
        for (feature, look, want) in TABLE {
            // A caller of its own: what one row changes in a session is no concern of the next.
            let connect = || Legacy::connect(&gateway, path, "2025-11-25");
            let pair = Pair {
                gateway: &gateway,
                path,
                legacy: name.starts_with('L').then(connect),
                modern: Modern::new(&gateway, path),
            };
            let seen = look(&pair);
            if seen != want[quadrant] {
                wrong.push(format!("{name} {feature}: {seen}, not {}", want[quadrant]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    eprintln!("G-24: {} features in four pairings", TABLE.len());
}
