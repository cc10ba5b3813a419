//! Answers of the gateway itself: introductions and lists.

use bytes::Bytes;
use sentinel_core::catalog::Registry;
use sentinel_core::{Caller, Fault, ItemKind, Policy, ServerCapabilities, View};
use sentinel_wire::{Method, Params, Revision, json, meta};

/// The gateway's name and version for callers.
fn server_info(registry: &Registry) -> &str {
    let own = registry.introduction();
    own.and_then(|info| std::str::from_utf8(info).ok())
        .unwrap_or(concat!(
            r#"{"name":"sentinel-gateway","title":"Sentinel Gateway","version":""#,
            env!("CARGO_PKG_VERSION"),
            r#""}"#
        ))
}

/// The result of `initialize`.
pub(crate) fn initialize(policy: &Policy, caller: &Caller, view: View) -> Vec<u8> {
    let revision = caller.revision;
    let catalog = policy.registry().catalog();
    let extensions = catalog.extensions(view, revision);
    let capabilities = capabilities(catalog.capabilities(view), &extensions, revision);
    let mut out = format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{capabilities},"serverInfo":{}"#,
        server_info(policy.registry())
    );
    push_instructions(policy.instructions(caller, view).as_deref(), &mut out);
    out.push('}');
    out.into_bytes()
}

/// The result of `server/discover`.
pub(crate) fn discover(policy: &Policy, caller: &Caller, view: View) -> Vec<u8> {
    let catalog = policy.registry().catalog();
    let versions: Vec<String> = Revision::ALL
        .iter()
        .rev()
        .map(|r| format!("\"{r}\""))
        .collect();
    let extensions = catalog.extensions(view, Revision::NEWEST);
    let capabilities = capabilities(catalog.capabilities(view), &extensions, Revision::NEWEST);
    let mut out = format!(
        r#"{{"resultType":"complete","supportedVersions":[{}],"capabilities":{capabilities},"ttlMs":0,"cacheScope":"private""#,
        versions.join(",")
    );
    push_instructions(policy.instructions(caller, view).as_deref(), &mut out);
    out.push_str(&format!(
        r#","_meta":{{"{}":{}}}}}"#,
        meta::SERVER_INFO,
        server_info(policy.registry())
    ));
    out.into_bytes()
}

fn push_instructions(instructions: Option<&str>, out: &mut String) {
    if let Some(text) = instructions {
        let mut quoted = Vec::new();
        json::encode_string(text, &mut quoted);
        out.push_str(r#","instructions":"#);
        out.push_str(&String::from_utf8(quoted).expect("JSON is UTF-8"));
    }
}

/// Capabilities that a backend has and the gateway can deliver.
fn capabilities(
    c: ServerCapabilities,
    extensions: &[(String, Bytes)],
    revision: Revision,
) -> String {
    let mut parts: Vec<&str> = Vec::new();
    if c.tools {
        parts.push(r#""tools":{"listChanged":true}"#);
    }
    match (c.resources, c.subscribe) {
        (true, true) => parts.push(r#""resources":{"subscribe":true,"listChanged":true}"#),
        (true, false) => parts.push(r#""resources":{"listChanged":true}"#),
        (false, _) => {}
    }
    if c.prompts {
        parts.push(r#""prompts":{"listChanged":true}"#);
    }
    if c.completions && revision >= Revision::V2025_03_26 {
        parts.push(r#""completions":{}"#);
    }
    if c.logging {
        parts.push(r#""logging":{}"#);
    }
    let extensions: Vec<String> = extensions
        .iter()
        .map(|(name, settings)| {
            format!(
                "{}:{}",
                serde_json::json!(name),
                String::from_utf8_lossy(settings)
            )
        })
        .collect();
    let extensions = format!(r#""extensions":{{{}}}"#, extensions.join(","));
    if extensions != r#""extensions":{}"# {
        parts.push(&extensions);
    }
    format!("{{{}}}", parts.join(","))
}

/// The kind of item that a list method lists.
pub(super) fn listed_kind(method: &Method) -> Option<ItemKind> {
    let mut kinds = ItemKind::ALL.into_iter();
    kinds.find(|kind| kind.list_method() == *method)
}

/// Whether the answer to a list method has to wait for backends.
pub(super) fn waits_for_lists(
    policy: &Policy,
    caller: &Caller,
    view: View,
    method: &Method,
) -> bool {
    let set = || caller.capability_set();
    listed_kind(method).is_some() && policy.registry().awaits_lists(view, set())
}

/// The result of a list method, if `method` is one. Waits, within a bound, for backends that were not yet asked for
/// this caller's capability set.
pub(crate) async fn answer_list(
    policy: &Policy,
    caller: &Caller,
    view: View,
    method: &Method,
    params: &Params,
) -> Option<Result<Bytes, Fault>> {
    listed_kind(method)?;
    let set = caller.capability_set();
    policy.registry().lists_ready(view, set).await;
    list_now(policy, caller, view, method, params)
}

/// The result from the current catalog.
pub(super) fn list_now(
    policy: &Policy,
    caller: &Caller,
    view: View,
    method: &Method,
    params: &Params,
) -> Option<Result<Bytes, Fault>> {
    let kind = listed_kind(method)?;
    // Some clients write absent members as `null`.
    let given = params.get("cursor").filter(|cursor| *cursor != b"null");
    let cursor = given.map(|given| json::decode_string(given).unwrap_or_default());
    Some(policy.list(caller, view, kind, cursor.as_deref()))
}
