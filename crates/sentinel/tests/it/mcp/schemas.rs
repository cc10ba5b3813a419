//! C-39: every message that the gateway writes itself is valid for its revision, by the
//! specification's JSON schemas.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::support::callers::{
    Caller, LEGACY, Legacy, MODERN, Modern, initialize_params, request, tool,
};
use crate::support::http::parse;
use crate::support::pipe::Pipe;
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend};

/// The specification's own schemas where they are there, else those that `tests/setup` makes from the types of the Python SDK.
fn folder() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = std::env::var_os("SENTINEL_VECTORS")
        .map_or_else(|| root.join("../shared/vectors"), PathBuf::from);
    let folders = [given, root.join(".build/vectors")].map(|folder| folder.join("mcp-schema"));
    let found = folders.into_iter().find(|folder| folder.is_dir());
    found.expect("schemas of MCP: run tests/setup")
}

/// The schema of one revision.
struct Schema {
    whole: Value,
    revision: &'static str,
    /// Making a validator takes longer than using it many times.
    validators: RefCell<HashMap<String, Rc<Validator>>>,
}

impl Schema {
    fn read(folder: &std::path::Path, revision: &'static str) -> Self {
        let text =
            std::fs::read_to_string(folder.join(format!("{revision}.json"))).expect("a schema");
        Self {
            whole: parse(&text),
            revision,
            validators: RefCell::default(),
        }
    }

    /// The key under which this one keeps its definitions.
    fn key(&self) -> &'static str {
        if self.whole["$defs"].is_object() {
            "$defs"
        } else {
            "definitions"
        }
    }

    fn validator(&self, definition: &str) -> Rc<Validator> {
        if let Some(known) = self.validators.borrow().get(definition) {
            return known.clone();
        }
        let key = self.key();
        assert!(
            self.whole[key][definition].is_object(),
            "{definition} in {}",
            self.revision
        );
        let mut root = json!({"$ref": format!("#/{key}/{definition}")});
        root[key] = self.whole[key].clone();
        root["$schema"] = self.whole["$schema"].clone();
        let made = Rc::new(jsonschema::validator_for(&root).expect("the schema is one"));
        let mut validators = self.validators.borrow_mut();
        validators.insert(definition.to_owned(), made.clone());
        made
    }

    #[track_caller]
    fn check(&self, definition: &str, value: &Value) {
        let errors: Vec<String> = self
            .validator(definition)
            .iter_errors(value)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(
            errors.is_empty(),
            "{} {definition}: {errors:?} in {value}",
            self.revision
        );
    }

    /// A response whose result is of this definition.
    #[track_caller]
    fn check_result(&self, definition: &str, message: &Value) {
        self.check("JSONRPCMessage", message);
        self.check(definition, &message["result"]);
    }

    #[track_caller]
    fn check_error(&self, message: &Value) {
        assert!(message["error"].is_object(), "{message}");
        let has_new_name = self.whole[self.key()]["JSONRPCErrorResponse"].is_object();
        let name = if has_new_name {
            "JSONRPCErrorResponse"
        } else {
            "JSONRPCError"
        };
        self.check(name, message);
        self.check("JSONRPCMessage", message);
    }
}

const LISTS: [(&str, &str); 4] = [
    ("tools/list", "ListToolsResult"),
    ("resources/list", "ListResourcesResult"),
    ("resources/templates/list", "ListResourceTemplatesResult"),
    ("prompts/list", "ListPromptsResult"),
];

/// Requests and the definition of their results, whoever writes them: a translated one is ours, too.
fn answers() -> [(&'static str, Value, &'static str); 4] {
    [
        (
            "tools/call",
            tool("structured", json!({})),
            "CallToolResult",
        ),
        (
            "resources/read",
            json!({"uri": "test://static"}),
            "ReadResourceResult",
        ),
        ("prompts/get", json!({"name": "plain"}), "GetPromptResult"),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": ""}}),
            "CompleteResult",
        ),
    ]
}

#[test]
fn c_39_what_the_gateway_writes_is_valid_for_its_revision() {
    let folder = folder();
    let servers = [
        Server::start(&["--era", "legacy"]),
        Server::start(&["--era", "modern"]),
    ];
    let config = [
        http_backend("hl", &servers[0].address, ""),
        http_backend("hm", &servers[1].address, ""),
        stdio_backend("sm", &["--era", "modern"], ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    for revision in LEGACY {
        legacy(&Schema::read(&folder, revision), &gateway);
    }
    let schema = Schema::read(&folder, MODERN);
    modern(&schema, &gateway);
    on_stdio(&folder);
}

fn legacy(schema: &Schema, gateway: &Gateway) {
    let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let caller = Legacy::with(gateway, "/mcp", schema.revision, capabilities.clone());
    schema.check("InitializeResult", &caller.hello);
    schema.check("EmptyResult", &caller.result("ping", json!({})));
    schema.check(
        "EmptyResult",
        &caller.result("logging/setLevel", json!({"level": "info"})),
    );
    for backend in ["hl", "hm"] {
        let caller = Legacy::with(
            gateway,
            &format!("/mcp/{backend}"),
            schema.revision,
            capabilities.clone(),
        );
        for (method, definition) in LISTS {
            schema.check_result(definition, &caller.ask(method, json!({})));
        }
        for (method, params, definition) in answers() {
            schema.check_result(definition, &caller.ask(method, params));
        }
        let chatty =
            json!({"name": "chatty", "arguments": {"n": 2}, "_meta": {"progressToken": "t"}});
        for message in caller.exchange("tools/call", chatty) {
            let message = parse(&message);
            schema.check("JSONRPCMessage", &message);
            if message["method"] == "notifications/progress" {
                schema.check("ProgressNotification", &message);
            }
        }
        // Questions: sampling in every revision, elicitation from 2025-06-18 on.
        let mut asks = vec![(
            "ask_sampling",
            json!({"prompt": "?"}),
            "CreateMessageRequest",
        )];
        if schema.revision >= "2025-06-18" {
            asks.push(("ask", json!({"message": "?"}), "ElicitRequest"));
        }
        for (name, arguments, definition) in asks {
            let body = request(&json!("q"), "tools/call", tool(name, arguments));
            let mut stream = caller.send(&body).head();
            let question = stream.json();
            schema.check(definition, &question);
            schema.check("JSONRPCMessage", &question);
            caller.cancel(&json!("q"));
        }
    }
    for error in [
        caller.call("no_such_tool", json!({})),
        caller.ask("no/such/method", json!({})),
        caller.ask("resources/read", json!({"uri": "nobody://x"})),
        caller.ask("tools/list", json!({"cursor": "x"})),
        caller.post("{").json(),
        caller
            .post(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#)
            .json(),
        caller
            .post(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#)
            .json(),
        caller.post("[]").json(),
        caller.post(&" ".repeat(5 << 20)).json(),
    ] {
        // Before 2025-11-25 an error without a readable id could not be written validly at all.
        if schema.revision >= "2025-11-25" || !error["id"].is_null() {
            schema.check_error(&error);
        }
    }
}

fn modern(schema: &Schema, gateway: &Gateway) {
    let forms = json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}});
    let caller = Modern::with(gateway, "/mcp", forms.clone());
    schema.check(
        "DiscoverResultResponse",
        &caller.ask("server/discover", json!({})),
    );
    for backend in ["hl", "hm"] {
        let caller = Modern::with(gateway, &format!("/mcp/{backend}"), forms.clone());
        for (method, definition) in LISTS {
            schema.check_result(definition, &caller.ask(method, json!({})));
        }
        for (method, params, definition) in answers() {
            schema.check_result(definition, &caller.ask(method, params));
        }
        for (name, arguments) in [
            ("ask", json!({"message": "?"})),
            ("ask_sampling", json!({"prompt": "?"})),
            ("ask_roots", json!({})),
        ] {
            let round = caller.ask("tools/call", tool(name, arguments));
            schema.check_result("InputRequiredResult", &round);
        }
    }
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = caller.send("subscriptions/listen", filter).head();
    schema.check("SubscriptionsAcknowledgedNotification", &stream.json());
    // Not at the servers over HTTP, to which the gateway may listen only a moment later.
    let grown = caller.tools().into_iter().find(|name| name == "sm__grow");
    assert!(caller.call(&grown.expect("listed"), json!({}))["result"].is_object());
    schema.check("ToolListChangedNotification", &stream.json());

    let refused = |body: &str| {
        let headers = [("MCP-Protocol-Version", MODERN)];
        caller.send_raw(body, &headers).finish().json()
    };
    for error in [
        caller.call("no_such_tool", json!({})),
        caller.ask("no/such/method", json!({})),
        caller.ask("resources/read", json!({"uri": "nobody://x"})),
        refused("{"),
        refused("[]"),
        refused(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#),
        refused(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#),
        refused(&" ".repeat(5 << 20)),
    ] {
        schema.check_error(&error);
    }
    let body = |version: &str| {
        let mut params = crate::support::callers::introduced(json!({}), &json!({}));
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
        request(&json!(1), "tools/list", params)
    };
    let mismatch = caller.send_raw(&body(MODERN), &[]).finish().json();
    schema.check("HeaderMismatchError", &mismatch);
    let headers = [
        ("MCP-Protocol-Version", "2030-01-01"),
        ("Mcp-Method", "tools/list"),
    ];
    let unsupported = caller
        .send_raw(&body("2030-01-01"), &headers)
        .finish()
        .json();
    schema.check("UnsupportedProtocolVersionError", &unsupported);
    let lacking = Modern::new(gateway, "/mcp/hm").call("ask", json!({"message": "?"}));
    schema.check("MissingRequiredClientCapabilityError", &lacking);
}

fn on_stdio(folder: &std::path::Path) {
    let config = stdio_backend("one", &["--era", "legacy"], "");
    let schema = Schema::read(folder, "2025-11-25");
    let pipe = Pipe::silent(&config);
    schema.check_error(&pipe.ask("tools/list", json!({})));
    let hello = pipe.ask("initialize", initialize_params("2025-11-25", &json!({})));
    schema.check_result("InitializeResult", &hello);
    pipe.write(&crate::support::callers::notification(
        "notifications/initialized",
        json!({}),
    ));
    pipe.wait_for_tool("grow");
    assert_eq!(pipe.said("grow", json!({})), "grown_1");
    let note = pipe.line("a tool came", |line| {
        line["method"] == "notifications/tools/list_changed"
    });
    schema.check("ToolListChangedNotification", &parse(&note));
    drop(pipe);

    let schema = Schema::read(folder, MODERN);
    let pipe = Pipe::modern(&config, json!({}));
    schema.check(
        "DiscoverResultResponse",
        &pipe.ask("server/discover", json!({})),
    );
    let id = pipe.start(
        "subscriptions/listen",
        json!({"notifications": {"promptsListChanged": true}}),
    );
    let agreed = pipe.line("agreed", |line| {
        line["method"] == "notifications/subscriptions/acknowledged"
    });
    schema.check("SubscriptionsAcknowledgedNotification", &parse(&agreed));
    crate::support::setup::signal(pipe.pid(), "TERM");
    schema.check("SubscriptionsListenResultResponse", &pipe.answer(&id));
}
