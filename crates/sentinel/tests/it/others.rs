//! A caller that others wrote: rmcp, over HTTP and over stdio, in both eras.

use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::RunningService;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::json;

use crate::house::{Gateway, House, Server, http_backend, stdio_backend};

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
    tokio::time::timeout(crate::house::PATIENCE, work)
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
        let house = House::new(&config.concat());
        let command = tokio::process::Command::from(house.command("stdio"));
        let (transport, _) = TokioChildProcess::builder(command)
            .stderr(house.log_file())
            .spawn()
            .expect("started");
        let client = ().serve_with_lifecycle(transport, mode).await.expect("connected");
        bounded(list_and_call(client, 56)).await;
    }
}
