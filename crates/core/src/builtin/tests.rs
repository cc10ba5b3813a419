//! Declared tools as a backend: lists, refusals, results.

use std::sync::Arc;

use super::*;
use crate::capabilities::ClientCapabilities;
use crate::catalog::{Listing, Registry};
use crate::invocation::{Invocation, Round, View};
use crate::line::Step;
use crate::walk::walk;
use serde::Deserialize;
use serde_json::from_slice;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    /// The first number.
    a: u32,
    b: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: u32,
}

async fn add(offset: Arc<u32>, _: ToolContext, add: Add) -> Result<Sum, Refused> {
    let sum = add.a.checked_add(add.b.unwrap_or(*offset));
    sum.map(|sum| Sum { sum })
        .ok_or_else(|| Refused::new("too_big", "the sum is too big"))
}

fn builtin() -> Builtin<u32> {
    let about = ToolDeclaration {
        name: "add",
        title: "Add",
        description: "Adds.",
        tags: &["arithmetic"],
        effect: Effect::Reads,
    };
    let documents = Documents {
        uri_template: "sum://{n}",
        name: "sum",
        description: "A number.",
        mime_type: "text/plain",
        read: |state, uri| {
            let text = uri.strip_prefix("sum://").map(|n| format!("{n}+{state}"));
            ready(Ok(text.filter(|text| text.starts_with('1')))).boxed()
        },
    };
    Builtin::new(
        "math",
        json!({"name": "math"}),
        "Add.",
        Arc::new(10),
        vec![Tool::new(about, add)],
    )
    .with_documents(documents)
}

async fn call(method: Method, params: &'static str) -> Result<Value, Fault> {
    let registry = Registry::new(vec![Listing::new("math")]);
    let backend = builtin();
    registry.publisher(0).publish(backend.offer());
    registry.attach(0, Arc::new(backend));
    let caller = Caller {
        subject: "local".into(),
        revision: Revision::NEWEST,
        capabilities: ClientCapabilities::default(),
        client_info: None,
        session: None,
        role: "admin".into(),
        scopes: Arc::default(),
        tenant: None,
        log_level: crate::LogLevel::default(),
        addressing: Default::default(),
        account: None,
        tags: None,
    };
    let params = sentinel_wire::Params::parse(params.into(), Rules::caller(64)).unwrap();
    let policy = crate::Policy::new(registry, crate::policy::Settings::default());
    let call = Invocation::mcp(
        Round::first(),
        Arc::new(caller),
        View::Merged,
        method,
        params,
    );
    let mut talk = walk(policy, crate::Auditor::off()).begin(call, Arc::default());
    let Step::Done(outcome) = talk.next().await else {
        panic!("nothing is asked")
    };
    let Outcome::Result(result) = outcome?.outcome else {
        panic!("no protocol error")
    };
    Ok(from_slice(result.as_bytes()).unwrap())
}

#[test]
fn a_declaration_is_listed_with_schemas_of_its_types() {
    let offer = builtin().offer();
    let tool: Value = from_slice(&offer.tools[0].raw).unwrap();
    assert_eq!(
        tool["inputSchema"]["properties"]["a"]["description"],
        "The first number."
    );
    assert_eq!(tool["inputSchema"]["required"], json!(["a"]));
    assert_eq!(tool["inputSchema"]["additionalProperties"], false);
    assert_eq!(tool["outputSchema"]["properties"]["sum"]["type"], "integer");
    assert!(
        tool["outputSchema"]["properties"]["sum"]
            .get("format")
            .is_none()
    );
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
    assert_eq!(tool["_meta"]["tags"], json!(["arithmetic"]));
    assert!(offer.capabilities.resources && offer.templates.len() == 1);
}

#[tokio::test]
async fn a_document_comes_as_structure_and_as_text() {
    let result = call(Method::ToolsCall, r#"{"name":"add","arguments":{"a":1}}"#)
        .await
        .unwrap();
    assert_eq!(result["structuredContent"], json!({"sum": 11}));
    assert_eq!(result["content"][0]["text"], r#"{"sum":11}"#);
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["isError"], false);
}

/// To JSON Schema a number without a fraction is an integer, however it is written.
#[tokio::test]
async fn a_whole_number_is_an_integer_however_it_is_written() {
    for params in [
        r#"{"name":"add","arguments":{"a":1.0}}"#,
        r#"{"name":"add","arguments":{"a":10E-1}}"#,
    ] {
        let result = call(Method::ToolsCall, params).await.unwrap();
        assert_eq!(result["structuredContent"], json!({"sum": 11}), "{params}");
    }
}

#[tokio::test]
async fn refusals_and_bad_arguments_are_results_that_the_model_reads() {
    for (params, kind) in [
        (
            r#"{"name":"add","arguments":{"a":4294967295,"b":1}}"#,
            "too_big",
        ),
        (r#"{"name":"add","arguments":{"b":1}}"#, "invalid_arguments"),
        (
            r#"{"name":"add","arguments":{"a":1,"c":1}}"#,
            "invalid_arguments",
        ),
        (r#"{"name":"add"}"#, "invalid_arguments"),
    ] {
        let result = call(Method::ToolsCall, params).await.unwrap();
        assert_eq!(result["isError"], true, "{params}");
        assert!(result.get("structuredContent").is_none());
        let text = result["content"][0]["text"].as_str().unwrap();
        // Arguments that the schema forbids are refused by policy, in its own words.
        match serde_json::from_str::<Value>(text) {
            Ok(text) => assert_eq!(text["error"], kind),
            Err(_) => assert!(
                kind == "invalid_arguments" && text.starts_with("invalid arguments for add:\n- "),
                "{text}"
            ),
        }
    }
}

#[tokio::test]
async fn documents_are_read_by_uri_and_others_are_unknown() {
    let result = call(Method::ResourcesRead, r#"{"uri":"sum://1"}"#)
        .await
        .unwrap();
    assert_eq!(result["contents"][0]["text"], "1+10");
    let fault = call(Method::ResourcesRead, r#"{"uri":"sum://2"}"#)
        .await
        .unwrap_err();
    assert_eq!(fault.kind, Kind::UnknownResource);
}

#[tokio::test]
async fn only_a_document_that_is_there_can_be_followed() {
    let agreed = call(Method::ResourcesSubscribe, r#"{"uri":"sum://1"}"#).await;
    assert_eq!(agreed.unwrap(), json!({"resultType": "complete"}));
    let fault = call(Method::ResourcesSubscribe, r#"{"uri":"sum://2"}"#).await;
    assert_eq!(fault.unwrap_err().kind, Kind::UnknownResource);
    assert!(builtin().offer().capabilities.subscribe);
}
