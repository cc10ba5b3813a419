//! The server that the official conformance suite wants to meet, on the Rust SDK: `tests/suites/conformance` starts it.
//!
//! Prints its URL as the first line and serves Streamable HTTP in both eras until it is killed. Names and texts are those
//! the suite asks for. What the SDK cannot do (closing a stream so that its client polls) is left out.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a server for tests; the bans keep promises of the product"
)]
#![allow(
    deprecated,
    reason = "the suite drives features that newer revisions deprecate"
)]

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::model::*;
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";
const TTL_MS: u64 = 60_000;

/// Tools without arguments, and what they do.
const PLAIN: [(&str, &str); 24] = [
    ("test_simple_text", "Answers with one text"),
    ("test_image_content", "Answers with a picture"),
    ("test_audio_content", "Answers with a sound"),
    ("test_embedded_resource", "Answers with a resource"),
    ("test_multiple_content_types", "Answers with three kinds"),
    ("test_error_handling", "Always fails"),
    ("test_tool_with_progress", "Reports progress 0, 50, 100"),
    ("test_tool_with_logging", "Logs three lines"),
    ("test_logging_tool", "Logs where it is asked to"),
    (
        "test_reconnection",
        "Answers on a stream that could be taken up again",
    ),
    ("test_elicitation_sep1034_defaults", "Asks, with defaults"),
    ("test_elicitation_sep1330_enums", "Asks to choose"),
    ("test_trigger_tool_change", "Tells that tools changed"),
    ("test_trigger_prompt_change", "Tells that prompts changed"),
    ("test_missing_capability", "Needs sampling"),
    ("test_streaming_elicitation", "Asks while it streams"),
    ("test_input_required_result_elicitation", "Asks for a name"),
    ("test_input_required_result_sampling", "Asks a model"),
    ("test_input_required_result_list_roots", "Asks for roots"),
    (
        "test_input_required_result_request_state",
        "Hands out state",
    ),
    ("test_input_required_result_multiple_inputs", "Asks three"),
    ("test_input_required_result_multi_round", "Asks twice"),
    (
        "test_input_required_result_tampered_state",
        "Guards its state",
    ),
    (
        "test_input_required_result_capabilities",
        "Asks what it can",
    ),
];

#[derive(Clone, Default)]
struct Fixture {
    listeners: Arc<Mutex<HashMap<u64, SubscriptionSink>>>,
    next: Arc<AtomicU64>,
}

type Answer = Result<CallToolResponse, ErrorData>;

fn object(value: Value) -> JsonObject {
    value.as_object().cloned().expect("an object")
}

fn tool(name: &'static str, about: &'static str, properties: Value, required: Value) -> Tool {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    Tool::new(name, about, object(schema))
}

fn header_tool() -> Tool {
    let region = json!({"region": {"type": "string", "x-mcp-header": "Region"}});
    tool("test_custom_header", "Repeats a region", region, json!([]))
}

fn tools() -> Vec<Tool> {
    let plain = PLAIN.map(|(name, about)| tool(name, about, json!({}), json!([])));
    let mut all = Vec::from(plain);
    let text = |name: &str| json!({name: {"type": "string"}});
    all.push(tool(
        "test_sampling",
        "Asks the model",
        text("prompt"),
        json!(["prompt"]),
    ));
    all.push(tool(
        "test_elicitation",
        "Asks the user",
        text("message"),
        json!(["message"]),
    ));
    all.push(header_tool());
    all.push(Tool::new(
        "json_schema_2020_12_tool",
        "Carries keywords of JSON Schema 2020-12",
        object(json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"city": {"type": "string"}}}},
            "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
            "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
            "if": {"required": ["address"]}, "then": {"required": ["address"]}, "else": {"required": ["name"]},
            "additionalProperties": false
        })),
    ));
    all
}

fn text(words: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(words)])
}

fn resource(uri: &str, kind: &str, words: &str) -> ResourceContents {
    ResourceContents::TextResourceContents {
        uri: uri.into(),
        mime_type: Some(kind.into()),
        text: words.into(),
        meta: None,
    }
}

fn form(message: &str, schema: Value) -> ElicitRequestParams {
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.into(),
        requested_schema: serde_json::from_value(schema).expect("a schema"),
    }
}

fn question(message: &str, name: &str) -> InputRequest {
    let schema =
        json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    InputRequest::Elicitation(ElicitRequest::new(form(message, schema)))
}

fn sampling(prompt: &str) -> InputRequest {
    let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    InputRequest::CreateMessage(CreateMessageRequest::new(params))
}

fn roots() -> InputRequest {
    InputRequest::ListRoots(ListRootsRequest::default())
}

fn ask(requests: Vec<(&str, InputRequest)>, state: Option<&str>) -> InputRequiredResult {
    let requests = requests
        .into_iter()
        .map(|(key, request)| (key.to_owned(), request));
    InputRequiredResult::new(Some(requests.collect()), state.map(str::to_owned))
}

fn answered(responses: Option<&InputResponses>, keys: &[&str]) -> bool {
    let is_there =
        |key: &&str| responses.is_some_and(|all| all.get(*key).is_some_and(Value::is_object));
    keys.iter().all(is_there)
}

/// The tools of several rounds.
fn rounds(request: &CallToolRequestParams, can: &ClientCapabilities) -> Answer {
    let there = |keys: &[&str]| answered(request.input_responses.as_ref(), keys);
    let state = request.request_state.as_deref();
    let known = [None, Some("sealed"), Some("second")];
    if !known.contains(&state) {
        return Err(ErrorData::invalid_params("this state is not ours", None));
    }
    let name = || question("What is your name?", "name");
    Ok(
        match request
            .name
            .trim_start_matches("test_input_required_result_")
        {
            "elicitation" | "test_streaming_elicitation" if there(&["user_name"]) => {
                text("Hello").into()
            }
            "elicitation" | "test_streaming_elicitation" => {
                ask(vec![("user_name", name())], None).into()
            }
            "sampling" if there(&["capital_question"]) => text("Thank you").into(),
            "sampling" => ask(
                vec![("capital_question", sampling("The capital of France?"))],
                None,
            )
            .into(),
            "list_roots" if there(&["client_roots"]) => text("Roots").into(),
            "list_roots" => ask(vec![("client_roots", roots())], None).into(),
            "multiple_inputs" if there(&["user_name", "greeting", "client_roots"]) => {
                text("All").into()
            }
            "multiple_inputs" => {
                let all = vec![
                    ("user_name", name()),
                    ("greeting", sampling("Say hello")),
                    ("client_roots", roots()),
                ];
                ask(all, Some("sealed")).into()
            }
            "multi_round" if there(&["step2"]) && state == Some("second") => text("Both").into(),
            "multi_round" if there(&["step1"]) => ask(
                vec![("step2", question("Colour?", "colour"))],
                Some("second"),
            )
            .into(),
            "multi_round" => ask(vec![("step1", question("Name?", "name"))], Some("sealed")).into(),
            "capabilities" => {
                let mut all = Vec::new();
                if can.elicitation.is_some() {
                    all.push(("user_name", name()));
                }
                if can.sampling.is_some() {
                    all.push(("greeting", sampling("Say hello")));
                }
                if can.roots.is_some() {
                    all.push(("client_roots", roots()));
                }
                let keys: Vec<&str> = all.iter().map(|(key, _)| *key).collect();
                match all.is_empty() || there(&keys) {
                    true => text("Nothing more to ask").into(),
                    false => ask(all, None).into(),
                }
            }
            _ if there(&["confirm"]) && state.is_some() => text("state-ok").into(),
            _ => ask(vec![("confirm", question("Go on?", "ok"))], Some("sealed")).into(),
        },
    )
}

impl Fixture {
    /// Tells everybody who listens for it that a list changed.
    async fn announce(&self, tools: bool) {
        let sinks: Vec<SubscriptionSink> = {
            let listeners = self.listeners.lock().expect("no holder panics");
            listeners.values().cloned().collect()
        };
        for sink in sinks {
            let _ = match tools {
                true => sink.notify_tool_list_changed().await,
                false => sink.notify_prompt_list_changed().await,
            };
        }
    }

    /// Asks in the way of the caller's era: on the stream of the call, or by an answer that asks for a retry. The
    /// error is what the call ends with instead.
    async fn put(
        &self,
        cx: &RequestContext<RoleServer>,
        question: InputRequest,
        responses: Option<&InputResponses>,
    ) -> Result<Value, CallToolResponse> {
        if cx.meta.protocol_version().is_some() {
            let given = responses.and_then(|all| all.get("answer")).cloned();
            return given.ok_or_else(|| ask(vec![("answer", question)], None).into());
        }
        let answer = match question {
            InputRequest::Elicitation(asked) => {
                let answer = cx.peer.create_elicitation(asked.params).await;
                answer.map(|answer| json!(answer))
            }
            InputRequest::CreateMessage(asked) => {
                let answer = cx.peer.create_message(asked.params).await;
                answer.map(|answer| json!(answer))
            }
            _ => unreachable!("nothing else is asked here"),
        };
        answer.map_err(|error| {
            CallToolResult::error(vec![ContentBlock::text(error.to_string())]).into()
        })
    }

    async fn elicit(
        &self,
        cx: &RequestContext<RoleServer>,
        question: ElicitRequestParams,
        responses: Option<&InputResponses>,
    ) -> CallToolResponse {
        let question = InputRequest::Elicitation(ElicitRequest::new(question));
        match self.put(cx, question, responses).await {
            Ok(answer) => text(format!(
                "User response: {} {}",
                answer["action"], answer["content"]
            ))
            .into(),
            Err(instead) => instead,
        }
    }
}

impl ServerHandler for Fixture {
    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().into_iter().find(|tool| tool.name == name)
    }

    fn get_info(&self) -> ServerInfo {
        let all = ServerCapabilities::builder()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_logging()
            .enable_completions()
            .build();
        ServerInfo::new(all).with_server_info(Implementation::new("conformance-fixture", "1.0.0"))
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let listeners = || self.listeners.lock().expect("no holder panics");
        listeners().insert(key, context.sink().clone());
        context.cancelled().await;
        listeners().remove(&key);
        Ok(())
    }

    async fn ping(&self, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = ListToolsResult {
            tools: tools(),
            ..Default::default()
        };
        Ok(list
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Answer {
        let name = request.name.to_string();
        let can = || cx.meta.client_capabilities().unwrap_or_default();
        if name.starts_with("test_input_required_result_") || name == "test_streaming_elicitation" {
            return rounds(&request, &can());
        }
        let responses = request.input_responses.as_ref();
        let args = request.arguments.unwrap_or_default();
        let said = |key: &str| {
            args.get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let result = match name.as_str() {
            "test_simple_text" => text("This is a simple text response for testing."),
            "test_image_content" => {
                CallToolResult::success(vec![ContentBlock::image(PNG, "image/png")])
            }
            "test_audio_content" => {
                let sound = AudioContent::new(WAV, "audio/wav");
                CallToolResult::success(vec![ContentBlock::Audio(sound)])
            }
            "test_embedded_resource" => {
                let inside = resource(
                    "test://embedded-resource",
                    "text/plain",
                    "An embedded resource.",
                );
                CallToolResult::success(vec![ContentBlock::resource(inside)])
            }
            "test_multiple_content_types" => CallToolResult::success(vec![
                ContentBlock::text("Multiple content types test:"),
                ContentBlock::image(PNG, "image/png"),
                ContentBlock::resource(resource(
                    "test://mixed-content-resource",
                    "application/json",
                    "{}",
                )),
            ]),
            "test_error_handling" => {
                let words = "This tool intentionally returns an error for testing";
                CallToolResult::error(vec![ContentBlock::text(words)])
            }
            "test_tool_with_progress" => {
                for value in [0.0, 50.0, 100.0] {
                    if let Some(token) = cx.meta.get_progress_token() {
                        let step = ProgressNotificationParam::new(token, value).with_total(100.0);
                        let _ = cx.peer.notify_progress(step).await;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                text("Progress completed")
            }
            "test_tool_with_logging" => {
                for line in [
                    "Tool execution started",
                    "Tool processing data",
                    "Tool execution completed",
                ] {
                    let line =
                        LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
                    let _ = cx.peer.notify_logging_message(line).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                text("Logged")
            }
            // rmcp begins every stream of 2025-11-25 like one that can be taken up again, and lets none go.
            "test_reconnection" => text("Reconnection test completed"),
            "test_logging_tool" => {
                if let Some(level) = cx.meta.log_level() {
                    let line =
                        LoggingMessageNotificationParam::new(level, json!("only where asked for"));
                    let _ = cx.peer.notify_logging_message(line).await;
                }
                text("Done")
            }
            "test_sampling" => {
                return Ok(
                    match self.put(&cx, sampling(&said("prompt")), responses).await {
                        Ok(answer) => {
                            let words = ["/content/text", "/content/0/text"];
                            let words = words.iter().find_map(|at| answer.pointer(at)?.as_str());
                            text(format!("LLM response: {}", words.unwrap_or_default())).into()
                        }
                        Err(instead) => instead,
                    },
                );
            }
            "test_elicitation" => {
                let word = json!({"type": "string"});
                let schema = json!({"type": "object", "properties": {"username": word, "email": word}, "required": ["username", "email"]});
                return Ok(self
                    .elicit(&cx, form(&said("message"), schema), responses)
                    .await);
            }
            "test_elicitation_sep1034_defaults" => {
                let question = form("Please review the defaults", defaults());
                return Ok(self.elicit(&cx, question, responses).await);
            }
            "test_elicitation_sep1330_enums" => {
                let question = form("Please choose", enums());
                return Ok(self.elicit(&cx, question, responses).await);
            }
            "test_trigger_tool_change" | "test_trigger_prompt_change" => {
                self.announce(name == "test_trigger_tool_change").await;
                text("Published")
            }
            "test_missing_capability" if can().sampling.is_none() => {
                let needed = ClientCapabilities::builder().enable_sampling().build();
                return Err(ErrorData::missing_required_client_capability(needed));
            }
            "test_missing_capability" => text("Sampling is there"),
            "test_custom_header" => text(format!("region {}", said("region"))),
            _ => {
                return Err(ErrorData::invalid_params(
                    format!("Unknown tool: {name}"),
                    None,
                ));
            }
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let list = ListResourcesResult {
            resources: vec![
                Resource::new("test://static-text", "Static text").with_mime_type("text/plain"),
                Resource::new("test://static-binary", "Static binary").with_mime_type("image/png"),
            ],
            ..Default::default()
        };
        Ok(list
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let one = ResourceTemplate::new("test://template/{id}/data", "Template")
            .with_mime_type("application/json");
        let list = ListResourceTemplatesResult {
            resource_templates: vec![one],
            ..Default::default()
        };
        Ok(list
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let id = uri
            .strip_prefix("test://template/")
            .and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (uri, id) {
            ("test://static-text", _) => resource(
                uri,
                "text/plain",
                "This is the content of the static text resource.",
            ),
            ("test://static-binary", _) => ResourceContents::BlobResourceContents {
                uri: uri.into(),
                mime_type: Some("image/png".into()),
                blob: PNG.into(),
                meta: None,
            },
            (_, Some(id)) => resource(uri, "application/json", &json!({"id": id}).to_string()),
            _ => {
                return Err(ErrorData::resource_not_found(
                    "Resource not found",
                    Some(json!({"uri": uri})),
                ));
            }
        };
        let read = ReadResourceResult::new(vec![contents]);
        Ok(read
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Public)
            .into())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let named = |name: &str, arguments: &[&str]| {
            let arguments = arguments
                .iter()
                .map(|a| PromptArgument::new(*a).with_required(true));
            let arguments: Vec<PromptArgument> = arguments.collect();
            let arguments = (!arguments.is_empty()).then_some(arguments);
            Prompt::new(name, Some("A prompt for tests"), arguments)
        };
        let list = ListPromptsResult {
            prompts: vec![
                named("test_simple_prompt", &[]),
                named("test_prompt_with_arguments", &["arg1", "arg2"]),
                named("test_prompt_with_embedded_resource", &["resourceUri"]),
                named("test_prompt_with_image", &[]),
                named("test_input_required_result_prompt", &[]),
            ],
            ..Default::default()
        };
        Ok(list
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let args = request.arguments.clone().unwrap_or_default();
        let said = |key: &str| {
            args.get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let user = |words: String| PromptMessage::new_text(Role::User, words);
        let messages = match request.name.as_str() {
            "test_simple_prompt" => vec![user("This is a simple prompt for testing.".into())],
            "test_prompt_with_arguments" => {
                vec![user(format!(
                    "arg1='{}', arg2='{}'",
                    said("arg1"),
                    said("arg2")
                ))]
            }
            "test_prompt_with_embedded_resource" => {
                let inside = resource(&said("resourceUri"), "text/plain", "Embedded");
                let inside = ContentBlock::resource(inside);
                vec![
                    PromptMessage::new(Role::User, inside),
                    user("Please process it.".into()),
                ]
            }
            "test_prompt_with_image" => {
                vec![PromptMessage::new(
                    Role::User,
                    ContentBlock::image(PNG, "image/png"),
                )]
            }
            "test_input_required_result_prompt" => {
                if !answered(request.input_responses.as_ref(), &["user_context"]) {
                    return Ok(ask(
                        vec![("user_context", question("Context?", "context"))],
                        None,
                    )
                    .into());
                }
                vec![user("With the context you gave".into())]
            }
            name => {
                return Err(ErrorData::invalid_params(
                    format!("Unknown prompt: {name}"),
                    None,
                ));
            }
        };
        Ok(GetPromptResult::new(messages).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let known = ["test-one", "test-two"].map(str::to_owned);
        let begun = |value: &String| value.starts_with(&request.argument.value);
        let values = known.into_iter().filter(begun).collect();
        let values =
            CompletionInfo::new(values).map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(CompleteResult::new(values))
    }
}

fn defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {"type": "string", "description": "User status", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "description": "Verification status", "default": true},
    }})
}

fn enums() -> Value {
    let titled = |word: &str| -> Vec<Value> {
        let one = |n: u8| json!({"const": format!("value{n}"), "title": format!("{word} {n}")});
        (1..=3).map(one).collect()
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    }})
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let fixture = Fixture::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let own = format!("http://{address}");
    let config = StreamableHttpServerConfig::default()
        .with_allowed_origins([own.clone(), format!("http://localhost:{}", address.port())]);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(fixture.clone()), sessions, config);
    println!("{own}/mcp");
    loop {
        let (socket, _) = listener.accept().await?;
        let service = service.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let service = service.clone();
                async move { Ok::<_, Infallible>(service.handle(request).await) }
            });
            // Callers that leave are no error of ours.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(socket), answer)
                .await;
        });
    }
}
