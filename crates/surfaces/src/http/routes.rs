//! The table of routes. Dispatch, 404, 405 with `Allow`, HEAD, OPTIONS, the verbs told to browsers and the description of
//! the JSON endpoints all come from it.
//!
//! To add a route: write its handler, or its `Endpoint` in a module of `admin`, and add a row here.

use futures_util::future::BoxFuture;
use http::{Method as Verb, Response};
use hyper::body::Incoming;
use schemars::{JsonSchema, Schema};
use sentinel_core::Fault;

use super::admin::streaming::{EventEndpoint, LineEndpoint};
use super::admin::{self, Endpoint, FromRequest, Json};
use super::body::Body;
use super::console::{self, sign_in};
use super::exchange::Exchange;
use super::mounts::Mounts;
use super::{auth, documents, explorer, health, legacy, metrics, problems, rest, sse2024};

/// One verb of one path.
pub(super) struct Route {
    pub(super) verb: Verb,
    /// A segment in braces stands for one segment; the last one for the rest of the path, but for operations, whose
    /// names are one percent-encoded segment.
    pub(super) path: &'static str,
    pub(super) who: Who,
    pub(super) at: Listeners,
    pub(super) record: OnRecord,
    pub(super) surface: Speaks,
    pub(super) handler: Handler,
    pub(super) summary: &'static str,
    types: Option<Types>,
}

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Everybody, under any host name: orchestrators know no other.
    Probe,
    /// Everybody who names an allowed host and origin.
    Public,
    /// The same, but only callers of this machine where there is no authentication: what follows is trusted there.
    Page,
    /// The holder of the scrape token, or a caller from whom nothing is hidden.
    Scraper,
    Caller,
    Admin,
}

/// The listeners that serve a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listeners {
    /// Those for callers and the operator's socket.
    Callers,
    /// Those, and the one for probes.
    All,
}

/// What of a route has an audit record at the level of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnRecord {
    Nothing,
    /// Refusals; what is accepted is recorded message by message, if at all.
    Refusals,
    Everything,
}

/// The form of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    /// JSON-RPC error objects.
    Mcp,
    /// JSON-RPC error objects without MCP.
    Rpc,
    /// Problem documents (RFC 9457).
    Http,
}

pub(super) type Handled<'a> = BoxFuture<'a, Result<Response<Body>, Fault>>;

#[derive(Clone, Copy)]
pub(super) enum Handler {
    /// Messages of MCP. Awaited in place, for a box would cost an allocation per call.
    McpPost,
    /// Operations over REST and JSON-RPC; likewise.
    RestPost,
    Rpc,
    Boxed(for<'a> fn(&'a Exchange<'a>, Incoming) -> Handled<'a>),
}

/// The types of an endpoint of the admin API.
#[derive(Clone, Copy)]
struct Types {
    input: fn() -> Option<Schema>,
    output: fn() -> Schema,
    answers: Answers,
}

/// The form of an endpoint's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// One JSON value.
    Json,
    /// Server-sent events. The schema is of one event: an object of its name (`event`) and its data, which is JSON.
    Events,
    /// JSON Lines, with the schema of one line.
    Lines,
}

impl Answers {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Events => "text/event-stream",
            Self::Lines => "application/x-ndjson",
        }
    }
}

/// An endpoint of the admin API as documents and generated clients need it.
#[derive(Debug)]
pub struct Described {
    pub verb: Verb,
    pub path: &'static str,
    pub summary: &'static str,
    /// `None`: it takes nothing.
    pub input: Option<Schema>,
    pub output: Schema,
    pub answers: Answers,
}

const fn mcp(verb: Verb, path: &'static str, handler: Handler, summary: &'static str) -> Route {
    Route {
        verb,
        path,
        who: Who::Caller,
        at: Listeners::Callers,
        record: OnRecord::Refusals,
        surface: Speaks::Mcp,
        handler,
        summary,
        types: None,
    }
}

const fn plain(
    who: Who,
    at: Listeners,
    path: &'static str,
    handler: Handler,
    summary: &'static str,
) -> Route {
    Route {
        verb: Verb::GET,
        path,
        who,
        at,
        record: OnRecord::Nothing,
        surface: Speaks::Http,
        handler,
        summary,
        types: None,
    }
}

/// A JSON endpoint with a handler of its own, for what it does besides its answer.
const fn page_json<Output: JsonSchema>(
    verb: Verb,
    path: &'static str,
    record: OnRecord,
    handler: Handler,
    input: fn() -> Option<Schema>,
    summary: &'static str,
) -> Route {
    Route {
        verb,
        path,
        who: Who::Page,
        at: Listeners::Callers,
        record,
        surface: Speaks::Http,
        handler,
        summary,
        types: Some(Types {
            input,
            output: admin::output_schema_of::<Output>,
            answers: Answers::Json,
        }),
    }
}

fn nothing() -> Option<Schema> {
    None
}

/// Operations record themselves once their input was read; what is refused before is recorded here.
const fn operation(
    verb: Verb,
    path: &'static str,
    handler: Handler,
    summary: &'static str,
) -> Route {
    Route {
        verb,
        path,
        who: Who::Caller,
        at: Listeners::Callers,
        record: OnRecord::Refusals,
        surface: match handler {
            Handler::Rpc => Speaks::Rpc,
            _ => Speaks::Http,
        },
        handler,
        summary,
        types: None,
    }
}

/// A document about what the caller sees.
const fn document(who: Who, path: &'static str, handler: Handler, summary: &'static str) -> Route {
    Route {
        verb: Verb::GET,
        path,
        who,
        at: Listeners::Callers,
        record: OnRecord::Everything,
        surface: Speaks::Http,
        handler,
        summary,
        types: None,
    }
}

const fn json<E: Endpoint>(verb: Verb, path: &'static str, summary: &'static str) -> Route {
    let types = Types {
        input: <E::Input as FromRequest>::schema,
        output: admin::output_schema_of::<E::Output>,
        answers: Answers::Json,
    };
    admin(verb, path, Boxed(admin::run::<E>), summary, types)
}

/// A stream has one record, which is made when it begins.
const fn events<E: EventEndpoint>(path: &'static str, summary: &'static str) -> Route {
    let types = Types {
        input: <E::Input as FromRequest>::schema,
        output: admin::output_schema_of::<E::Event>,
        answers: Answers::Events,
    };
    let handler = Boxed(admin::streaming::events::<E>);
    admin(Verb::GET, path, handler, summary, types)
}

const fn lines<E: LineEndpoint>(path: &'static str, summary: &'static str) -> Route {
    let types = Types {
        input: <E::Input as FromRequest>::schema,
        output: admin::output_schema_of::<E::Line>,
        answers: Answers::Lines,
    };
    let handler = Boxed(admin::streaming::lines::<E>);
    admin(Verb::GET, path, handler, summary, types)
}

const fn admin(
    verb: Verb,
    path: &'static str,
    handler: Handler,
    summary: &'static str,
    types: Types,
) -> Route {
    Route {
        verb,
        path,
        who: Who::Admin,
        at: Listeners::Callers,
        record: OnRecord::Everything,
        surface: Speaks::Http,
        handler,
        summary,
        types: Some(types),
    }
}

/// MCP with a server that an operator looks at.
const fn visited(verb: Verb, summary: &'static str) -> Route {
    Route {
        verb,
        path: "/admin/visits/{id}",
        who: Who::Admin,
        at: Listeners::Callers,
        record: OnRecord::Refusals,
        surface: Speaks::Mcp,
        handler: Handler::Boxed(admin::visits::pass),
        summary,
        types: None,
    }
}

use Handler::{Boxed, McpPost, RestPost, Rpc};

#[rustfmt::skip] // a table has columns
pub(super) static ROUTES: &[Route] = &[
    // The first, for nearly every request is one.
    mcp(Verb::POST,   "/mcp",           McpPost,                  "messages to all backends"),
    mcp(Verb::POST,   "/mcp/{backend}", McpPost,                  "messages to one backend"),
    mcp(Verb::GET,    "/mcp",           Boxed(legacy::stream),    "the stream of a session"),
    mcp(Verb::GET,    "/mcp/{backend}", Boxed(legacy::stream),    "the stream of a session with one backend"),
    mcp(Verb::DELETE, "/mcp",           Boxed(legacy::end),       "ends a session"),
    mcp(Verb::DELETE, "/mcp/{backend}", Boxed(legacy::end),       "ends a session with one backend"),
    mcp(Verb::GET,    "/sse",           Boxed(sse2024::open),     "HTTP+SSE of 2024-11-05"),
    mcp(Verb::GET,    "/sse/{backend}", Boxed(sse2024::open),     "HTTP+SSE of 2024-11-05 with one backend"),
    mcp(Verb::POST,   "/messages",      Boxed(sse2024::message),  "messages of HTTP+SSE of 2024-11-05"),
    operation(Verb::POST, "/rpc",                      Rpc,                      "operations by JSON-RPC 2.0"),
    operation(Verb::GET,  "/api/catalog",              Boxed(rest::catalog),     "every operation that the caller sees"),
    operation(Verb::GET,  "/api/resources",            Boxed(rest::resources),   "resources and resource templates"),
    operation(Verb::GET,  "/api/resources/{uri}",      Boxed(rest::resource),    "reads a resource"),
    operation(Verb::POST, "/api/prompts/{name}",       Boxed(rest::prompt),      "renders a prompt"),
    operation(Verb::GET,  "/api/tasks/{id}",           Boxed(rest::status),      "how a call goes that is answered later, or its answer"),
    operation(Verb::DELETE, "/api/tasks/{id}",         Boxed(rest::cancel),      "cancels such a call, or forgets its answer"),
    operation(Verb::POST, "/api/tasks/{id}/continue",  Boxed(rest::continue_later), "answers what such a call asks"),
    operation(Verb::POST, "/api/{operation}/continue", Boxed(rest::resume),      "continues a call that asked for input"),
    operation(Verb::POST, "/api/{operation}",          RestPost,                 "calls an operation"),
    operation(Verb::GET,  "/api/{operation}",          Boxed(rest::get),         "calls a read-only operation"),
    document(Who::Caller, "/openapi.json",       Boxed(documents::openapi_json),  "the catalog as OpenAPI 3.1"),
    document(Who::Caller, "/openapi.yaml",       Boxed(documents::openapi_yaml),  "the same as YAML"),
    document(Who::Caller, "/llms.txt",           Boxed(documents::llms),          "the catalog for models"),
    document(Who::Caller, "/llms-full.txt",      Boxed(documents::llms_full),     "the same with every definition"),
    document(Who::Admin,  "/admin/openapi.json", Boxed(documents::admin_openapi), "the admin API as OpenAPI 3.1"),
    plain(Who::Public, Listeners::Callers, "/problems",        Boxed(problems::all),  "every code of a refusal"),
    plain(Who::Public, Listeners::Callers, "/problems/{code}", Boxed(problems::one),  "what a code means and what to do"),
    plain(Who::Public, Listeners::Callers, "/explorer",        Boxed(explorer::file), "the explorer of the REST surface"),
    plain(Who::Public, Listeners::Callers, "/explorer/{file}", Boxed(explorer::file), "its scripts and styles"),
    page_json::<console::Index>(  Verb::GET,    "/",                    OnRecord::Nothing,    Boxed(console::root),   nothing, "what is where; browsers are sent to the console"),
    page_json::<sign_in::Console>(Verb::GET,    "/console/api/session", OnRecord::Nothing,    Boxed(sign_in::read),   nothing, "who is signed in to the console, and what is where"),
    page_json::<sign_in::Console>(Verb::POST,   "/console/api/session", OnRecord::Everything, Boxed(sign_in::begin),  <Json<sign_in::SignIn> as FromRequest>::schema, "signs in to the console"),
    page_json::<sign_in::Console>(Verb::DELETE, "/console/api/session", OnRecord::Everything, Boxed(sign_in::end),    nothing, "signs out of the console"),
    plain(Who::Page, Listeners::Callers, "/console",        Boxed(console::file),      "the console"),
    plain(Who::Page, Listeners::Callers, "/console/{file}", Boxed(console::file),      "its files"),
    plain(Who::Page, Listeners::Callers, "/mcp-inspector",  Boxed(console::inspector), "the console's catalog, in which operations are called"),
    plain(Who::Probe,   Listeners::All, "/health",  Boxed(health::health),   "whether the process is alive"),
    plain(Who::Probe,   Listeners::All, "/ready",   Boxed(health::readiness), "whether calls can be served"),
    plain(Who::Scraper, Listeners::All, "/metrics", Boxed(metrics::metrics), "the counters, for Prometheus"),
    plain(Who::Public, Listeners::Callers, auth::WELL_KNOWN,         Boxed(auth::metadata), "OAuth protected-resource metadata"),
    plain(Who::Public, Listeners::Callers, auth::WELL_KNOWN_ANYWHERE, Boxed(auth::metadata), "the same for one endpoint"),
    json::<admin::status::Read>(    Verb::GET,  "/admin/api/status",      "version, sessions, admission and what is switched off"),
    json::<admin::backends::List>(  Verb::GET,  "/admin/api/backends",    "backends and their health"),
    json::<admin::catalog::List>(   Verb::GET,  "/admin/api/catalog",     "every operation of every backend"),
    json::<admin::access::Roles>(   Verb::GET,  "/admin/api/roles",       "roles, and how much each of them sees and may call"),
    json::<admin::access::Access>(  Verb::GET,  "/admin/api/access",      "what a role sees and may call, operation by operation"),
    json::<admin::access::Explain>( Verb::GET,  "/admin/api/why",         "what would come of a call, step by step, and which rule decides"),
    json::<admin::limits::Read>(    Verb::GET,  "/admin/api/limits",      "rates, places, circuits, sessions and streams as they stand now"),
    json::<admin::audit::Search>(   Verb::GET,  "/admin/api/audit",       "audit records, newest first"),
    events::<admin::audit::live::Live>(          "/admin/api/audit/live",   "audit records as they reach the store"),
    json::<admin::audit::story::Read>(Verb::GET, "/admin/api/audit/record", "one audit record, and what happened in its call"),
    json::<admin::audit::verify::Verify>(Verb::POST, "/admin/api/audit/verify", "verifies the chains of all audit records"),
    lines::<admin::audit::export::Export>(       "/admin/api/audit/export", "audit records as JSON Lines, oldest first"),
    events::<admin::live::Live>(                 "/admin/api/live",        "how the gateway is doing, each second"),
    json::<admin::history::Read>(   Verb::GET,  "/admin/api/history",     "calls, failures and latencies in steps of time, from the audit store"),
    json::<admin::usage::Read>(     Verb::GET,  "/admin/api/usage",       "calls, failures and latencies by operation, caller, backend, outcome or kind, from the audit store"),
    json::<admin::config::Read>(    Verb::GET,  "/admin/api/config",      "the configuration in force, without secrets"),
    json::<admin::config_file::Read>(   Verb::GET,  "/admin/api/config/file",  "the configuration file, and where each value in force comes from"),
    json::<admin::config_file::Replace>(Verb::POST, "/admin/api/config/file",  "replaces the configuration file and reloads it"),
    json::<admin::config_file::Check>(  Verb::POST, "/admin/api/config/check", "the mistakes of a configuration, and what a reload of it would do"),
    json::<admin::import::Find>(    Verb::GET,  "/admin/api/import",      "servers in the files of this machine's MCP clients"),
    json::<admin::import::Import>(  Verb::POST, "/admin/api/import",      "servers of a pasted client's file, and adds them"),
    json::<admin::reload::Reload>(  Verb::POST, "/admin/api/reload",      "reads the configuration again"),
    json::<admin::restart::Restart>(Verb::POST, "/admin/api/restart",     "starts a backend anew"),
    json::<admin::stop::Stop>(      Verb::POST, "/admin/api/backends/stop",  "ends a backend and keeps it down"),
    json::<admin::stop::Start>(     Verb::POST, "/admin/api/backends/start", "starts a backend that was kept down"),
    events::<admin::stderr::Follow>(             "/admin/api/backends/stderr", "what a backend's children write to standard error"),
    json::<admin::keys::List>(      Verb::GET,  "/admin/api/keys",        "API keys, without secrets"),
    json::<admin::keys::Create>(    Verb::POST, "/admin/api/keys",        "makes an API key; its text is shown once"),
    json::<admin::keys::Revoke>(    Verb::POST, "/admin/api/keys/revoke", "revokes an API key"),
    json::<admin::pins::List>(      Verb::GET,  "/admin/api/pins",        "pinned definitions of tools"),
    json::<admin::pins::Approve>(   Verb::POST, "/admin/api/pins",        "approves what a backend offers now"),
    json::<admin::visits::List>(    Verb::GET,  "/admin/api/visits",      "other MCP servers that are looked at through the gateway"),
    json::<admin::visits::Begin>(   Verb::POST, "/admin/api/visits",      "connects to an MCP server, to look at it"),
    json::<admin::visits::End>(     Verb::POST, "/admin/api/visits/end",  "ends the connection to such a server"),
    visited(Verb::POST,   "messages to a visited server"),
    visited(Verb::GET,    "the stream of a session with a visited server"),
    visited(Verb::DELETE, "ends a session with a visited server"),
    json::<admin::kill::Kill>(      Verb::POST, "/admin/api/kill",        "switches a tool, a backend, a caller or everything off"),
    json::<admin::kill::Revive>(    Verb::POST, "/admin/api/revive",      "switches it on again"),
];

/// Every endpoint of the admin API, with the schemas of its input and output.
pub fn describe() -> impl Iterator<Item = Described> {
    let one = |route: &'static Route| {
        let types = route.types?;
        Some(Described {
            verb: route.verb.clone(),
            path: route.path,
            summary: route.summary,
            input: (types.input)(),
            output: (types.output)(),
            answers: types.answers,
        })
    };
    ROUTES.iter().filter_map(one)
}

/// What the table says of a request.
#[derive(Clone, Copy)]
pub(super) enum Match<'p> {
    /// The route, and the rest of the path where its pattern has one.
    Found(&'static Route, &'p str),
    /// The path is there and the verb is not: a route of that path, and the rest of it.
    OtherVerb(&'static Route, &'p str),
    Unknown,
}

pub(super) fn find<'p>(verb: &Verb, path: &'p str, is_for_probes: bool) -> Match<'p> {
    let mut other = Match::Unknown;
    for route in ROUTES {
        if is_for_probes && route.at != Listeners::All {
            continue;
        }
        let Some(rest) = route.rest_of(path) else {
            continue;
        };
        if route.serves(verb) {
            return Match::Found(route, rest);
        }
        // Of several rows that fit, the first is the most specific.
        if let Match::Unknown = other {
            other = Match::OtherVerb(route, rest);
        }
    }
    other
}

/// Whether a path is the gateway's own at any listener, whatever the verb. Backends have no routes there.
pub(super) fn is_own(mounts: &Mounts, path: &str) -> bool {
    let is_admin = path
        .strip_prefix("/admin")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let resolved = mounts.resolve(path, None);
    let has_row = |path: &str| !matches!(find(&Verb::GET, path, false), Match::Unknown);
    is_admin || resolved.is_some_and(|path| has_row(&path))
}

impl Route {
    /// Whether the pattern fits a path, and what of it its braces stand for. A slash at the end of an MCP endpoint or its
    /// metadata means nothing.
    fn rest_of<'p>(&self, path: &'p str) -> Option<&'p str> {
        match self.path.split_once("/{") {
            None => {
                let rest = path.strip_prefix(self.path)?;
                let may_end_in_slash = matches!(self.who, Who::Caller | Who::Public | Who::Page);
                (rest.is_empty() || (rest == "/" && may_end_in_slash)).then_some("")
            }
            Some((before, pattern)) => {
                let rest = path.strip_prefix(before)?.strip_prefix('/')?;
                let (_, after) = pattern.split_once('}')?;
                let segment = rest.strip_suffix(after)?;
                let is_name = self.surface == Speaks::Http && self.who == Who::Caller;
                let is_deeper = is_name && segment.contains('/');
                (!segment.is_empty() && !is_deeper).then_some(segment)
            }
        }
    }

    /// HEAD is a GET whose body is left out; a stream has nothing else.
    fn serves(&self, verb: &Verb) -> bool {
        self.verb == *verb || (*verb == Verb::HEAD && self.has_head())
    }

    fn has_head(&self) -> bool {
        let goes_on = self
            .types
            .is_some_and(|types| types.answers != Answers::Json);
        self.verb == Verb::GET && self.surface == Speaks::Http && !goes_on
    }

    /// Whether its verbs depend on the operation that the path names.
    pub(super) fn is_of_an_operation(&self) -> bool {
        self.path == "/api/{operation}"
    }

    /// The verbs of this route's path, as `Allow` lists them.
    pub(super) fn allow(&self) -> String {
        let mut verbs: Vec<&str> = Vec::new();
        for route in ROUTES.iter().filter(|route| route.path == self.path) {
            verbs.push(route.verb.as_str());
            if route.has_head() {
                verbs.push(Verb::HEAD.as_str());
            }
        }
        verbs.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(verb: Verb, path: &str) -> String {
        match find(&verb, path, false) {
            Match::Found(route, rest) => format!("{} {} [{rest}]", route.verb, route.path),
            Match::OtherVerb(route, _) => format!("405 {}", route.allow()),
            Match::Unknown => "404".to_owned(),
        }
    }

    #[test]
    fn a_request_finds_its_row_or_the_verbs_of_its_path() {
        for (verb, path, want) in [
            (Verb::POST, "/mcp", "POST /mcp []"),
            (Verb::POST, "/mcp/", "POST /mcp []"),
            (Verb::POST, "/mcp/alpha", "POST /mcp/{backend} [alpha]"),
            (Verb::POST, "/mcpx", "404"),
            (Verb::PATCH, "/mcp", "405 POST, GET, DELETE"),
            (Verb::HEAD, "/mcp", "405 POST, GET, DELETE"),
            (Verb::PUT, "/sse/alpha", "405 GET"),
            (Verb::HEAD, "/health", "GET /health []"),
            (Verb::GET, "/health/", "404"),
            (Verb::POST, "/ready", "405 GET, HEAD"),
            (Verb::GET, "/admin/api/keys", "GET /admin/api/keys []"),
            (Verb::DELETE, "/admin/api/keys", "405 GET, HEAD, POST"),
            (Verb::GET, "/admin/api/nothing", "404"),
            (Verb::GET, "/", "GET / []"),
            (Verb::GET, "/console/a/b", "GET /console/{file} [a/b]"),
            (Verb::GET, "/console/", "GET /console []"),
            (
                Verb::PUT,
                "/console/api/session",
                "405 GET, HEAD, POST, DELETE",
            ),
            (Verb::POST, "/rpc", "POST /rpc []"),
            (Verb::GET, "/rpc", "405 POST"),
            (Verb::POST, "/api/echo", "POST /api/{operation} [echo]"),
            (Verb::HEAD, "/api/echo", "GET /api/{operation} [echo]"),
            (Verb::PUT, "/api/echo", "405 POST, GET, HEAD"),
            (Verb::GET, "/api/catalog", "GET /api/catalog []"),
            (
                Verb::POST,
                "/api/catalog",
                "POST /api/{operation} [catalog]",
            ),
            (
                Verb::POST,
                "/api/a/continue",
                "POST /api/{operation}/continue [a]",
            ),
            (
                Verb::GET,
                "/api/resources/x%3A%2F",
                "GET /api/resources/{uri} [x%3A%2F]",
            ),
            (Verb::GET, "/api/tasks/t", "GET /api/tasks/{id} [t]"),
            (
                Verb::POST,
                "/api/tasks/t/continue",
                "POST /api/tasks/{id}/continue [t]",
            ),
            (
                Verb::POST,
                "/api/tasks/continue",
                "POST /api/{operation}/continue [tasks]",
            ),
            (Verb::POST, "/api/tasks", "POST /api/{operation} [tasks]"),
            (Verb::POST, "/api/tasks/t", "405 GET, HEAD, DELETE"),
            (Verb::POST, "/api/prompts/p", "POST /api/prompts/{name} [p]"),
            (Verb::POST, "/api/a/b", "404"),
            (Verb::POST, "/api/", "404"),
        ] {
            assert_eq!(found(verb, path), want, "{path}");
        }
        let probes_only = find(&Verb::POST, "/mcp", true);
        assert!(matches!(probes_only, Match::Unknown));
    }

    #[test]
    fn a_path_is_the_gateways_own_where_a_row_has_it() {
        let moved = Mounts {
            rest: Some("/tools".to_owned()),
            ..Mounts::default()
        };
        for (path, is_default, is_moved) in [
            ("/mcp/x/y", true, true),
            ("/api/orders", true, false),
            ("/api/orders/5", false, false),
            ("/tools/orders", false, true),
            ("/health", true, true),
            ("/admin", true, true),
            ("/admin/anything", true, true),
            ("/administration", false, false),
            ("/orders", false, false),
        ] {
            assert_eq!(is_own(&Mounts::default(), path), is_default, "{path}");
            assert_eq!(is_own(&moved, path), is_moved, "{path}");
        }
    }

    #[test]
    fn every_json_endpoint_has_schemas_and_a_summary() {
        let all: Vec<Described> = describe().collect();
        assert_eq!(
            all.len(),
            ROUTES.iter().filter(|r| r.types.is_some()).count()
        );
        for endpoint in &all {
            let Described { verb, path, .. } = endpoint;
            assert!(!endpoint.summary.is_empty(), "{verb} {path}");
            assert!(endpoint.output.as_object().is_some(), "{verb} {path}");
            let takes_body =
                verb == Verb::POST && !path.ends_with("reload") && !path.ends_with("verify");
            let has_query = [
                "/catalog",
                "/access",
                "/why",
                "/backends/stderr",
                "/audit/export",
                "/audit",
                "/audit/live",
                "/audit/record",
                "/audit/export",
                "/history",
                "/usage",
            ];
            let takes = takes_body || has_query.iter().any(|end| path.ends_with(end));
            assert_eq!(endpoint.input.is_some(), takes, "{verb} {path}");
        }
        let kill = all
            .iter()
            .find(|e| e.path.ends_with("/kill"))
            .expect("it is there");
        let input = kill.input.as_ref().expect("it takes something").as_value();
        assert_eq!(input["required"], serde_json::json!(["scope"]));
        assert_eq!(input["additionalProperties"], false);
        let output = kill.output.as_value();
        assert!(output["properties"]["killed"].is_object(), "{output}");
    }

    #[test]
    fn no_two_rows_are_of_one_verb_and_path() {
        for (at, route) in ROUTES.iter().enumerate() {
            let same = |other: &Route| (&other.verb, other.path) == (&route.verb, route.path);
            assert!(
                !ROUTES[..at].iter().any(same),
                "{} {}",
                route.verb,
                route.path
            );
        }
    }
}
