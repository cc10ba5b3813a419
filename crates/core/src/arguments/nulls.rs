//! `null` for an argument that is left out.
//!
//! Models write it so, and many servers read it so (the header rules of 2026-07-28 say it outright), but a tool's schema
//! seldom allows it. Such an argument is taken out, the rest is checked, and the rest is what the backend gets: what
//! was checked is what is sent. A null that the schema allows says something and stays, a name that the tool does not
//! know is no such argument, and where an argument is required it is missing.

use std::collections::HashSet;

use sentinel_wire::Params;
use sentinel_wire::json::{Kind, Object, Rules};
use serde_json::{Map, Value};

use super::Validator;
use super::meter::Metered;

/// The arguments that the tool knows, are null, and must not be: by name. They are looked at alone, so that the others
/// cost nothing here.
pub(super) fn left_out(
    validator: &Validator,
    arguments: &Value,
    known: &HashSet<String>,
) -> HashSet<String> {
    let nulls = arguments.as_object().into_iter().flatten();
    let nulls = nulls.filter(|(name, value)| value.is_null() && known.contains(*name));
    let nulls: Map<String, Value> = nulls.map(|(name, _)| (name.clone(), Value::Null)).collect();
    if nulls.is_empty() {
        return HashSet::new();
    }
    let alone = Value::Object(nulls);
    let errors = validator.iter_errors(Metered(&alone));
    let wrong: HashSet<String> = errors.map(|e| e.instance_path().to_string()).collect();
    let at = |name: &str| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    let names = alone.as_object().into_iter().flat_map(Map::keys);
    names
        .filter(|name| wrong.contains(&at(name)))
        .cloned()
        .collect()
}

/// The arguments without these.
pub(super) fn without(arguments: &Value, names: &HashSet<String>) -> Value {
    let members = arguments.as_object().into_iter().flatten();
    let given = members.filter(|(name, _)| !names.contains(*name));
    Value::Object(
        given
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

/// The params of a call without these arguments; all else is as it was sent.
pub(super) fn strip(params: &Params, names: &HashSet<String>) -> Option<Params> {
    let text = params.get("arguments")?;
    let object = Object::parse(text, Rules::backend()).ok()?;
    let mut arguments = Vec::with_capacity(text.len());
    for member in &object.members {
        let value = member.value.of(text);
        if Kind::of(value) == Some(Kind::Null) && names.contains(&*member.key.decode(text)) {
            continue;
        }
        arguments.push(if arguments.is_empty() { b'{' } else { b',' });
        arguments.push(b'"');
        arguments.extend_from_slice(member.key.span.of(text));
        arguments.extend_from_slice(b"\":");
        arguments.extend_from_slice(value);
    }
    if arguments.is_empty() {
        arguments.push(b'{');
    }
    arguments.push(b'}');
    let mut out = Vec::with_capacity(params.as_bytes().len());
    let edits = [("arguments", Some(&arguments[..]))];
    params.as_raw().rewrite(&edits, &mut out);
    Params::parse(out.into(), Rules::backend()).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;
    use sentinel_wire::{Method, Outcome, Payload, Revision};

    use super::*;
    use crate::audit::Auditor;
    use crate::backend::{Backend, Call, Health, Status};
    use crate::caller::Caller;
    use crate::catalog::{Listing, Registry};
    use crate::fault::Fault;
    use crate::identity::Identity;
    use crate::line::Step;
    use crate::offer::{Item, ItemKind, Offer, ServerCapabilities};
    use crate::policy::{Policy, Settings};
    use crate::reply::Reply;
    use crate::{Invocation, Round, View, walk};

    /// Keeps what it is sent.
    #[derive(Default)]
    struct Keeps(Arc<Mutex<Vec<String>>>);

    impl Backend for Keeps {
        fn name(&self) -> &str {
            "keeps"
        }

        fn call(&self, call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
            let said = String::from_utf8_lossy(call.params.as_bytes()).into_owned();
            self.0.lock().push(said);
            let result = Payload::parse(Bytes::from_static(b"{}"), Rules::backend());
            Box::pin(std::future::ready(Ok(Reply {
                revision: Revision::V2025_06_18,
                outcome: Outcome::Result(result.expect("json")),
            })))
        }

        fn status(&self) -> Status {
            Status::of(Health::Up)
        }

        fn stop(&self) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    /// C-17: what was checked is what is sent. Each row: arguments, and what the backend gets of them, if anything.
    #[tokio::test]
    async fn c_17_a_null_that_the_schema_refuses_never_reaches_the_backend() {
        let registry = Registry::new(vec![Listing::new("keeps")]);
        let server = Keeps::default();
        let heard = server.0.clone();
        registry.attach(0, Arc::new(server));
        let tool = br#"{"name":"drop","inputSchema":{"type":"object","properties":{
            "table":{"type":"string"},"confirm":{"const":true},"mode":{"enum":["a","b"]},"n":{"type":"integer"},
            "a/b~c":{"type":"string"},"note":{"type":["string","null"]}},"required":["table"],"additionalProperties":false}}"#;
        let tool = Item::parse(ItemKind::Tool, Bytes::from_static(tool)).expect("a tool");
        registry.publisher(0).publish(Offer {
            capabilities: ServerCapabilities {
                tools: true,
                ..Default::default()
            },
            tools: vec![tool],
            ..Offer::empty(Revision::V2025_06_18)
        });
        let policy = Policy::new(registry, Settings::default());
        let walk = walk(policy, Auditor::off());
        for (arguments, sent) in [
            (r#"{ "table" : "t" }"#, Some(r#"{ "table" : "t" }"#)),
            (
                r#"{"table":"t","note":null}"#,
                Some(r#"{"table":"t","note":null}"#),
            ),
            (r#"{"table":"t","confirm":null}"#, Some(r#"{"table":"t"}"#)),
            (
                r#"{"mode": null, "n":null,"table":"t", "confirm": true}"#,
                Some(r#"{"table":"t","confirm":true}"#),
            ),
            // One that says something stays beside one that does not.
            (
                r#"{"note":null,"n":null,"table":"t"}"#,
                Some(r#"{"note":null,"table":"t"}"#),
            ),
            (
                r#"{"table":"t","\u0063onfirm":null,"a/b~c":null}"#,
                Some(r#"{"table":"t"}"#),
            ),
            (r#"{"table":null}"#, None),
            (r#"{"table":"t","other":null}"#, None),
            (r#"{"table":"t","confirm":false,"n":null}"#, None),
        ] {
            let params = format!(r#"{{"name":"drop","arguments":{arguments},"_meta":{{"x":1}}}}"#);
            let params = Params::parse(params.into(), Rules::caller(8)).expect("json");
            let caller = Arc::new(Caller::of(&Identity::local("admin")));
            let view = View::Merged;
            let call = Invocation::mcp(Round::first(), caller, view, Method::ToolsCall, params);
            let mut talk = walk.begin(call, Arc::default());
            let Step::Done(_) = talk.next().await else {
                panic!("an answer")
            };
            let got = heard.lock().pop();
            let wanted = sent
                .map(|sent| format!(r#"{{"name":"drop","arguments":{sent},"_meta":{{"x":1}}}}"#));
            assert_eq!(got, wanted, "{arguments}");
        }
    }
}
