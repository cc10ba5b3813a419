//! A caller that others wrote: rmcp, over HTTP and over stdio, in both eras.
#![allow(
    deprecated,
    reason = "sampling, roots and logging are asked for by older revisions"
)]

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, ServiceError,
};
use serde_json::{Value, json};

use crate::support::setup::{Gateway, PATIENCE, Server, Setup, http_backend, stdio_backend};

fn modes() -> [ClientLifecycleMode; 2] {
    [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    ]
}

/// Lists and calls; the tools are those of every backend.
async fn list_and_call(client: RunningService<RoleClient, ()>, want: usize) {
    let tools = loop {
        let tools = client.list_all_tools().await.expect("a list");
        if tools.len() >= want {
            break tools;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(tools.iter().any(|tool| tool.name == "echo"));
    let arguments = json!({"text": "through the gateway"});
    let call = CallToolRequestParams::new("echo")
        .with_arguments(arguments.as_object().expect("an object").clone());
    let result = client.call_tool(call).await.expect("an answer");
    let text = result.content[0].as_text().expect("a text");
    assert_eq!(text.text, "through the gateway");
    let resources = client.list_all_resources().await.expect("a list");
    assert!(
        resources
            .iter()
            .any(|resource| resource.uri == "test://static")
    );
    let unknown = client
        .call_tool(CallToolRequestParams::new("no_such_tool"))
        .await;
    assert!(unknown.is_err());
    client.cancel().await.expect("a clean end");
}

/// Every wait in here is bounded by this.
async fn bounded(work: impl Future<Output = ()>) {
    tokio::time::timeout(crate::support::setup::PATIENCE, work)
        .await
        .expect("in time");
}

#[tokio::test]
async fn g_1_rmcp_lists_and_calls_over_http() {
    let server = Server::start(&["--era", "legacy"]);
    let config = [
        http_backend("a", &server.address, ""),
        stdio_backend("b", &["--era", "modern"], ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    for mode in modes() {
        let transport =
            StreamableHttpClientTransport::from_uri(format!("http://{}/mcp", gateway.address));
        let client = ().serve_with_lifecycle(transport, mode).await.expect("connected");
        bounded(list_and_call(client, 56)).await;
    }
}

#[tokio::test]
async fn g_87_rmcp_lists_and_calls_over_stdio() {
    let server = Server::start(&["--era", "modern"]);
    let config = [
        http_backend("a", &server.address, ""),
        stdio_backend("b", &["--era", "legacy"], ""),
    ];
    for mode in modes() {
        let setup = Setup::new(&config.concat());
        let command = tokio::process::Command::from(setup.command("stdio"));
        let (transport, _) = TokioChildProcess::builder(command)
            .stderr(setup.log_file())
            .spawn()
            .expect("started");
        let client = ().serve_with_lifecycle(transport, mode).await.expect("connected");
        bounded(list_and_call(client, 56)).await;
    }
}

/// A caller that can be asked everything, and notes what it was told.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    asked: Vec<String>,
    progress: usize,
    changed: usize,
}

impl Noting {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().expect("no holder panics")
    }
}

impl ClientHandler for Noting {
    fn get_info(&self) -> ClientConfig {
        let can = json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}});
        let can: ClientCapabilities = serde_json::from_value(can).expect("capabilities");
        ClientConfig::new(can, Implementation::new("rmcp", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let message = json!(request)["message"].as_str().map(str::to_owned);
        self.noted().asked.push(message.unwrap_or_default());
        let answer = ElicitResult::new(ElicitationAction::Accept);
        Ok(answer.with_content(json!({"name": "Ada"})))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let said = SamplingMessage::assistant_text("four");
        Ok(CreateMessageResult::new(said, "m".to_owned()))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///work")]))
    }

    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.noted().progress += 1;
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.noted().changed += 1;
    }
}

type Rmcp = RunningService<RoleClient, Noting>;

async fn said(client: &Rmcp, name: &'static str, arguments: Value) -> String {
    let arguments = arguments.as_object().expect("an object").clone();
    let call = CallToolRequestParams::new(name).with_arguments(arguments);
    match client.call_tool(call).await {
        Ok(result) => {
            let text = result.content.first().and_then(|block| block.as_text());
            text.map(|text| text.text.clone()).unwrap_or_default()
        }
        Err(ServiceError::McpError(error)) => error.code.0.to_string(),
        Err(other) => other.to_string(),
    }
}

/// Waits for what the server says of its own accord.
async fn eventually(done: impl Fn() -> bool) -> bool {
    for _ in 0..500 {
        if done() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

/// What a caller sees of each feature, in the order of the table below.
async fn look(client: &Rmcp, is_modern: bool) -> Vec<(&'static str, String)> {
    let info = client.peer_info().expect("an introduction");
    let noted = client.service().clone();
    let mut seen = vec![
        (
            "revision",
            json!(info.protocol_version)
                .as_str()
                .expect("text")
                .to_owned(),
        ),
        (
            "tools/call",
            said(client, "echo", json!({"text": "x"})).await,
        ),
        (
            "unknown tool",
            said(client, "no_such_tool", json!({})).await,
        ),
        (
            "elicitation",
            said(client, "ask", json!({"message": "Who?"})).await,
        ),
    ];
    let asked = noted.noted().asked.join(" ");
    seen.push(("who asks", asked));
    seen.push((
        "sampling",
        said(client, "ask_sampling", json!({"prompt": "2+2"})).await,
    ));
    seen.push(("roots", said(client, "ask_roots", json!({})).await));
    seen.push(("progress", {
        said(client, "chatty", json!({"n": 3, "ms": 5})).await;
        eventually(|| noted.noted().progress >= 3).await;
        noted.noted().progress.to_string()
    }));
    let read = ReadResourceRequestParams::new("test://nowhere");
    let refused = match client.read_resource(read).await {
        Err(ServiceError::McpError(error)) => error.code.0.to_string(),
        other => format!("{other:?}"),
    };
    seen.push(("resource not found", refused));
    let completed = client.complete_prompt_simple("greet", "who", "al").await;
    seen.push(("completion", completed.expect("completions").join(" ")));
    let prompt = client
        .get_prompt(GetPromptRequestParams::new("plain"))
        .await;
    seen.push((
        "prompts/get",
        prompt.expect("a prompt").messages.len().to_string(),
    ));
    let resources = client.list_all_resources().await.expect("resources");
    seen.push(("pagination", resources.len().to_string()));
    seen.push((
        "list_changed",
        if is_modern {
            let wanted = SubscriptionFilter::builder().tools_list_changed().build();
            let mut heard = client.listen(wanted).await.expect("a subscription");
            said(client, "grow", json!({})).await;
            let next = tokio::time::timeout(PATIENCE, heard.next()).await;
            matches!(
                next,
                Ok(Ok(Some(ServerNotification::ToolListChangedNotification(_))))
            )
            .to_string()
        } else {
            said(client, "grow", json!({})).await;
            eventually(|| noted.noted().changed > 0).await.to_string()
        },
    ));
    seen
}

/// C-39 with the Rust SDK as the caller: each feature for LL, LM, ML and MM. The expectations are written by hand from the
/// table of features that the protocol's revisions leave to a gateway; none was recorded from a run.
#[tokio::test]
async fn c_39_rmcp_sees_what_a_caller_of_its_era_sees() {
    const TABLE: [(&str, [&str; 4]); 13] = [
        (
            "revision",
            ["2025-11-25", "2025-11-25", "2026-07-28", "2026-07-28"],
        ),
        ("tools/call", ["x"; 4]),
        ("unknown tool", ["-32602"; 4]),
        ("elicitation", ["hello Ada"; 4]),
        ("who asks", ["[l] Who?", "[m] Who?", "[l] Who?", "[m] Who?"]),
        ("sampling", ["the model said: four"; 4]),
        ("roots", ["roots: file:///work"; 4]),
        ("progress", ["3"; 4]),
        (
            "resource not found",
            ["-32002", "-32602", "-32602", "-32602"],
        ),
        ("completion", ["alan"; 4]),
        ("prompts/get", ["1"; 4]),
        ("pagination", ["2"; 4]),
        ("list_changed", ["true"; 4]),
    ];
    let legacy = Server::start(&["--era", "legacy", "--page", "1"]);
    let modern = Server::start(&["--era", "modern", "--page", "1"]);
    let config = [
        http_backend("l", &legacy.address, ""),
        http_backend("m", &modern.address, ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    let [old, new] = modes();
    let pairs = [(&old, "l"), (&old, "m"), (&new, "l"), (&new, "m")];
    for (column, (mode, backend)) in pairs.into_iter().enumerate() {
        let url = format!("http://{}/mcp/{backend}", gateway.address);
        let transport = StreamableHttpClientTransport::from_uri(url);
        let client = Noting::default().serve_with_lifecycle(transport, mode.clone());
        let client = client.await.expect("connected");
        let is_modern = column >= 2;
        let seen = tokio::time::timeout(crate::support::setup::PATIENCE, look(&client, is_modern));
        let seen = seen.await.expect("in time");
        assert_eq!(seen.len(), TABLE.len());
        for ((feature, got), (row, want)) in seen.into_iter().zip(TABLE) {
            assert_eq!(
                (feature, got.as_str()),
                (row, want[column]),
                "{mode:?} {backend}"
            );
        }
        client.cancel().await.expect("a clean end");
    }
}
