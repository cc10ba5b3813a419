//! Built-in tools of the gateway: one declaration each, served as a backend like any other.
//!
//! A declaration has the tool's name, description, tags and handler. Both schemas are derived from the handler's
//! types, so the listed schema is the accepted one. The catalog, policy and audit see an ordinary backend; only its
//! work is done in this process.
//!
//! A handler's refusal (`Refused`) becomes a tool result with `isError`, which the model reads; a fault would reach
//! the client program instead. Handlers must not block: waiting is an await.
//!
//! Not here: any particular tool.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Outcome, Payload, Revision};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::admission::PermitSlot;
use crate::backend::{Backend, Call, Health, Status};
use crate::caller::Caller;
use crate::fault::{Fault, Kind};
use crate::offer::{Freshness, Item, ItemKind, Offer, ServerCapabilities};
use crate::reply::Reply;

/// Why a tool refused a request, for the model that sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// A stable identifier for programs, such as `stale_claim`.
    pub kind: &'static str,
    pub message: String,
}

impl Refused {
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// The side effects of a tool, for its annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Reads,
    /// Each call adds something.
    Writes,
    /// The first call adds something; repeating it changes nothing.
    WritesOnce,
}

/// The declaration of a tool without its handler.
#[derive(Clone, Copy, Debug)]
pub struct ToolDeclaration {
    pub name: &'static str,
    pub title: &'static str,
    /// Written for a model that chooses among many tools.
    pub description: &'static str,
    pub tags: &'static [&'static str],
    pub effect: Effect,
}

/// The caller of a tool, and the call's permit.
pub struct ToolContext {
    pub caller: Arc<Caller>,
    slot: PermitSlot,
}

impl ToolContext {
    pub fn new(caller: Arc<Caller>, slot: PermitSlot) -> Self {
        Self { caller, slot }
    }

    /// Releases the call's permit for good: from here on the call only waits, and the component that lets it wait
    /// bounds the number of waiting calls. Writing the answer afterwards takes no permit, so an answer that was
    /// waited for is never refused.
    pub fn release_permit(&self) {
        self.slot.set_aside();
    }
}

type Run<S> = Box<
    dyn Fn(Arc<S>, ToolContext, Bytes) -> BoxFuture<'static, Result<String, Refused>> + Send + Sync,
>;

/// Decodes arguments into their type. JSON Schema, which checked them, accepts `2.0` as an integer; serde does not.
fn decode<In: DeserializeOwned>(arguments: &[u8]) -> serde_json::Result<In> {
    serde_json::from_slice(arguments).or_else(|_| {
        let mut value: Value = serde_json::from_slice(arguments)?;
        make_whole(&mut value);
        serde_json::from_value(value)
    })
}

fn make_whole(value: &mut Value) {
    /// Beyond this, floats no longer distinguish neighbouring integers.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number
                .as_f64()
                .filter(|n| n.fract() == 0.0 && n.abs() < EXACT_MAX);
            if let Some(whole) = whole {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(members) => members.values_mut().for_each(make_whole),
        _ => {}
    }
}

/// A declared tool over shared state `S`.
pub struct Tool<S> {
    about: ToolDeclaration,
    input: Schema,
    output: Schema,
    run: Run<S>,
}

impl<S: Send + Sync + 'static> Tool<S> {
    pub fn name(&self) -> &'static str {
        self.about.name
    }

    /// Declares a tool. `In` must be an object that denies unknown members, so that mistakes of a model are reported;
    /// `Out` must be an object.
    pub fn new<In, Out, F, Fut>(about: ToolDeclaration, handler: F) -> Self
    where
        In: DeserializeOwned + JsonSchema + Send,
        Out: Serialize + JsonSchema,
        F: Fn(Arc<S>, ToolContext, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, Refused>> + Send + 'static,
    {
        let run: Run<S> = Box::new(move |state, context, arguments| {
            let arguments = match decode::<In>(&arguments) {
                Ok(arguments) => arguments,
                Err(error) => {
                    let refused = Refused::new("invalid_arguments", error.to_string());
                    return ready(Err(refused)).boxed();
                }
            };
            let work = handler(state, context, arguments);
            async move {
                let document = work.await?;
                serde_json::to_string(&document)
                    .map_err(|error| Refused::new("internal", error.to_string()))
            }
            .boxed()
        });
        Self {
            about,
            input: schema::<In>(),
            output: schema::<Out>(),
            run,
        }
    }

    fn item(&self) -> Item {
        let ToolDeclaration {
            name,
            title,
            description,
            tags,
            effect,
        } = self.about;
        let declared = json!({
            "name": name,
            "title": title,
            "description": description,
            "inputSchema": self.input,
            "outputSchema": self.output,
            "annotations": {
                "readOnlyHint": effect == Effect::Reads,
                "destructiveHint": false,
                "idempotentHint": effect != Effect::Writes,
                "openWorldHint": false,
            },
            "_meta": { "tags": tags },
        });
        Item::parse(ItemKind::Tool, declared.to_string().into())
            .expect("a declared tool has a name")
    }
}

/// Schemas in a form that every client reads: no references, no Rust number formats.
fn schema<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.transforms.push(Box::new(Plain));
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name and description of a Rust type are useless to a model.
    schema.remove("title");
    schema.remove("description");
    schema
}

#[derive(Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        let is_number = |format: &Value| {
            format
                .as_str()
                .is_some_and(|f| f.starts_with("int") || f.starts_with("uint") || f == "double")
        };
        if schema.get("format").is_some_and(is_number) {
            schema.remove("format");
        }
        transform_subschemas(self, schema);
    }
}

type Read<S> = fn(Arc<S>, String) -> BoxFuture<'static, Result<Option<String>, Refused>>;

/// A family of documents read by URI. The component that stores them reports changes to the `Publisher`; the registry
/// manages listeners.
pub struct Documents<S> {
    pub uri_template: &'static str,
    pub name: &'static str,
    pub description: &'static str,
    pub mime_type: &'static str,
    /// Returns the document at a URI; `None` if there is none.
    pub read: Read<S>,
}

/// A backend made of declared tools.
pub struct Builtin<S> {
    name: &'static str,
    instructions: &'static str,
    server_info: Value,
    state: Arc<S>,
    tools: Arc<HashMap<&'static str, Tool<S>>>,
    /// In the order of declaration.
    listed: Vec<Item>,
    documents: Option<Documents<S>>,
}

impl<S: Send + Sync + 'static> Builtin<S> {
    pub fn new(
        name: &'static str,
        server_info: Value,
        instructions: &'static str,
        state: Arc<S>,
        tools: Vec<Tool<S>>,
    ) -> Self {
        Self {
            name,
            instructions,
            server_info,
            state,
            listed: tools.iter().map(Tool::item).collect(),
            tools: Arc::new(
                tools
                    .into_iter()
                    .map(|tool| (tool.about.name, tool))
                    .collect(),
            ),
            documents: None,
        }
    }

    #[must_use]
    pub fn with_documents(mut self, documents: Documents<S>) -> Self {
        self.documents = Some(documents);
        self
    }

    /// The offer to publish to the registry.
    pub fn offer(&self) -> Offer {
        let templates = self.documents.iter().filter_map(|documents| {
            let declared = json!({
                "uriTemplate": documents.uri_template,
                "name": documents.name,
                "description": documents.description,
                "mimeType": documents.mime_type,
            });
            Item::parse(ItemKind::Template, declared.to_string().into())
        });
        Offer {
            revision: Revision::NEWEST,
            freshness: [Freshness::LASTING; 4],
            cut: Default::default(),
            capabilities: ServerCapabilities {
                tools: true,
                resources: self.documents.is_some(),
                subscribe: self.documents.is_some(),
                ..ServerCapabilities::default()
            },
            extensions: None,
            server_info: Some(self.server_info.to_string().into()),
            instructions: Some(self.instructions.to_owned()),
            tools: self.listed.clone(),
            resources: Vec::new(),
            templates: templates.collect(),
            prompts: Vec::new(),
            routes: Vec::new(),
        }
    }

    fn tool_call(&self, call: &Call) -> BoxFuture<'static, Result<Reply, Fault>> {
        let own = call
            .target
            .as_ref()
            .and_then(|target| target.own_name.clone());
        let name = match own {
            Some(own) => own.to_string(),
            None => call.params.string("name").unwrap_or_default().into_owned(),
        };
        if !self.tools.contains_key(&*name) {
            let fault = Fault::new(Kind::UnknownName, format!("unknown tool: {name}"));
            return ready(Err(fault)).boxed();
        }
        let arguments = call
            .params
            .get_bytes("arguments")
            .unwrap_or_else(|| Bytes::from_static(b"{}"));
        let tools = self.tools.clone();
        let context = ToolContext::new(call.caller.clone(), call.slot.clone());
        let work = (tools[&*name].run)(self.state.clone(), context, arguments);
        async move { Ok(reply(result(work.await))) }.boxed()
    }

    /// Answers a request that names a document; `answer` builds the reply from its text.
    fn document(
        &self,
        call: &Call,
        answer: impl FnOnce(&str, &'static str, String) -> Value + Send + 'static,
    ) -> BoxFuture<'static, Result<Reply, Fault>> {
        let uri = call.params.string("uri").unwrap_or_default().into_owned();
        let Some(documents) = &self.documents else {
            return ready(Err(unknown_resource(&uri))).boxed();
        };
        let mime_type = documents.mime_type;
        let work = (documents.read)(self.state.clone(), uri.clone());
        async move {
            match work.await {
                Ok(Some(text)) => Ok(reply(answer(&uri, mime_type, text).to_string())),
                Ok(None) => Err(unknown_resource(&uri)),
                Err(refused) => Err(Fault::new(Kind::Internal, refused.message)),
            }
        }
        .boxed()
    }
}

impl<S: Send + Sync + 'static> Backend for Builtin<S> {
    fn name(&self) -> &str {
        self.name
    }

    fn call(&self, call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        match call.method {
            Method::ToolsCall => self.tool_call(&call),
            Method::ResourcesRead => self.document(&call, |uri, mime_type, text| {
                json!({
                    "resultType": "complete",
                    "contents": [{ "uri": uri, "mimeType": mime_type, "text": text }],
                    "ttlMs": 0,
                    "cacheScope": "private",
                })
            }),
            // Only existing documents can be followed.
            Method::ResourcesSubscribe => {
                self.document(&call, |_, _, _| json!({ "resultType": "complete" }))
            }
            Method::ResourcesUnsubscribe => {
                ready(Ok(reply(r#"{"resultType":"complete"}"#.to_owned()))).boxed()
            }
            _ => {
                let text = format!("unknown method: {}", call.method.as_str());
                ready(Err(Fault::new(Kind::MethodNotFound, text))).boxed()
            }
        }
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn status(&self) -> Status {
        Status {
            revision: Some(Revision::NEWEST),
            ..Status::of(Health::Up)
        }
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

fn unknown_resource(uri: &str) -> Fault {
    let uri_json = Value::from(uri).to_string();
    Fault::new(Kind::UnknownResource, "no such resource").with_data(format!("\"uri\":{uri_json}"))
}

/// The document twice: as structure for programs, as text for clients that show only text.
fn result(outcome: Result<String, Refused>) -> String {
    match outcome {
        Ok(document) => {
            let text = Value::from(document.as_str()).to_string();
            format!(
                r#"{{"resultType":"complete","content":[{{"type":"text","text":{text}}}],"structuredContent":{document},"isError":false}}"#
            )
        }
        // Without `structuredContent`: clients validate it against the output schema even in errors.
        Err(Refused { kind, message }) => {
            let text = json!({ "error": kind, "message": message }).to_string();
            let content = json!([{ "type": "text", "text": text }]);
            format!(r#"{{"resultType":"complete","content":{content},"isError":true}}"#)
        }
    }
}

fn reply(result: String) -> Reply {
    let payload =
        Payload::parse(result.into(), Rules::backend()).expect("written as JSON just now");
    Reply {
        revision: Revision::NEWEST,
        outcome: Outcome::Result(payload),
    }
}

#[cfg(test)]
mod tests;
