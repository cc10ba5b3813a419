//! Handlers as operations: their names, definitions and routes.
//!
//! REST handlers are tools named `rest/<name>`, RPC handlers `rpc/<method>`, because each of the three kinds has names of its own
//! and policy needs names that stay when another kind gets the same one. Neither is reached by its name.

use std::sync::Arc;

use sentinel_core::{ItemKind, Reach, Route, RouteKind};
use sentinel_wire::json;

use super::super::operation::{Declared, Execute};
use super::Shared;
use super::catalog::{Handler, Mcp, McpKind, Way};
use super::errors::Form;
use super::http::Whole;
use super::mcp::McpCall;
use super::pattern::{self, Address, ExpressionError};

/// The operation of a handler, or why it is left out.
pub(super) fn declared(handler: Handler, shared: &Arc<Shared>) -> Result<Declared, String> {
    let id = handler.id.clone();
    let left_out = |what: &str, why: ExpressionError| {
        format!("REST handler {id} is left out: its {what} cannot be used: {why}")
    };
    match handler.route {
        Way::Rest {
            ref address,
            ref verbs,
            ref version,
            ref name,
            ref path,
        } => {
            let shown = path.as_deref().unwrap_or(address);
            let pattern = Address::new(address, version, shown);
            let pattern = pattern.map_err(|why| left_out("address", why))?;
            let verbs = pattern::verbs(verbs).map_err(|why| left_out("method", why))?;
            let name = name.as_ref().or(handler.function_name.as_ref());
            let key = format!("rest/{}", name.unwrap_or(&handler.id));
            let kind = RouteKind::Http {
                pattern: Arc::new(pattern),
                verbs: verbs.into(),
            };
            Ok(whole(handler, key, kind, Form::Problem, shared))
        }
        Way::Rpc { ref method } => {
            let key = format!("rpc/{method}");
            let kind = RouteKind::Rpc {
                method: method.as_str().into(),
            };
            Ok(whole(handler, key, kind, Form::JsonRpc, shared))
        }
        Way::Mcp(ref mcp) => named(&handler, mcp, shared),
        Way::None => Err(format!("handler {id} is left out: it has no route")),
    }
}

/// A handler that takes requests as a whole.
fn whole(
    handler: Handler,
    key: String,
    kind: RouteKind,
    form: Form,
    shared: &Arc<Shared>,
) -> Declared {
    let mut definition = Object::new();
    definition.text("name", Some(&key));
    definition.text("title", handler.title.as_deref());
    definition.text("description", handler.description.as_deref());
    let input = handler.input.as_deref();
    definition.raw("inputSchema", input.or(Some(r#"{"type":"object"}"#)));
    definition.raw("outputSchema", handler.output.as_deref());
    definition.hints(handler.needs.is_read_only);
    Declared {
        kind: ItemKind::Tool,
        definition: definition.end(),
        reach: match form {
            Form::Problem => Reach::ByRoute,
            Form::JsonRpc => Reach::ByRpc,
        },
        routes: vec![Route {
            kind,
            tool: key.as_str().into(),
            is_whole: true,
        }],
        key,
        // The database says so itself, in the form of its surface.
        needs_identity: false,
        execute: Box::new(Whole {
            shared: shared.clone(),
            id: handler.id,
            needs: handler.needs,
            form,
        }),
    }
}

/// A handler that is called by its name or URI.
fn named(handler: &Handler, mcp: &Mcp, shared: &Arc<Shared>) -> Result<Declared, String> {
    let mut definition = Object::new();
    let (kind, key) = match mcp.kind {
        McpKind::Tool => (ItemKind::Tool, &mcp.name),
        McpKind::Prompt => (ItemKind::Prompt, &mcp.name),
        McpKind::Resource => {
            let uri = mcp.uri.as_ref();
            let uri =
                uri.ok_or_else(|| format!("resource {} is left out: it has no URI", mcp.name))?;
            match uri.contains('{') {
                true => (ItemKind::Template, uri),
                false => (ItemKind::Resource, uri),
            }
        }
    };
    match kind {
        ItemKind::Template => definition.text("uriTemplate", Some(key)),
        ItemKind::Resource => definition.text("uri", Some(key)),
        ItemKind::Tool | ItemKind::Prompt => {}
    }
    definition.text("name", Some(&mcp.name));
    definition.text("title", handler.title.as_deref());
    definition.text("description", handler.description.as_deref());
    match kind {
        ItemKind::Tool => {
            let input = mcp.input.as_deref().or(handler.input.as_deref());
            definition.raw("inputSchema", input.or(Some(r#"{"type":"object"}"#)));
            definition.raw("outputSchema", handler.output.as_deref());
            definition.hints(handler.needs.is_read_only);
            definition.tags(&mcp.tags);
        }
        ItemKind::Prompt => definition.raw("arguments", mcp.arguments.as_deref()),
        ItemKind::Resource | ItemKind::Template => definition.text("mimeType", mcp.mime.as_deref()),
    }
    let execute: Box<dyn Execute> = Box::new(McpCall {
        shared: shared.clone(),
        id: handler.id.clone(),
        kind: mcp.kind,
        name: mcp.name.clone(),
        needs: handler.needs,
    });
    Ok(Declared {
        kind,
        key: key.clone(),
        definition: definition.end(),
        reach: Reach::ByName,
        routes: Vec::new(),
        needs_identity: false,
        execute,
    })
}

/// A JSON object that is being written. Members without a value are left out.
struct Object(Vec<u8>);

impl Object {
    fn new() -> Self {
        Self(vec![b'{'])
    }

    fn member(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        json::encode_string(name, &mut self.0);
        self.0.push(b':');
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.member(name);
            json::encode_string(value, &mut self.0);
        }
    }

    /// A member whose value is JSON.
    fn raw(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.member(name);
            self.0.extend_from_slice(value.as_bytes());
        }
    }

    fn hints(&mut self, is_read_only: bool) {
        let hint = format!(r#"{{"readOnlyHint":{is_read_only}}}"#);
        self.raw("annotations", Some(&hint));
    }

    fn tags(&mut self, tags: &[String]) {
        if tags.is_empty() {
            return;
        }
        self.member("_meta");
        self.0.extend_from_slice(br#"{"tags":["#);
        for (at, tag) in tags.iter().enumerate() {
            if at > 0 {
                self.0.push(b',');
            }
            json::encode_string(tag, &mut self.0);
        }
        self.0.extend_from_slice(b"]}");
    }

    fn end(mut self) -> String {
        self.0.push(b'}');
        String::from_utf8_lossy(&self.0).into_owned()
    }
}
