//! MCP handlers: tools, resources and prompts. The database answers with a JSON-RPC envelope that holds a result or an error.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use sentinel_core::{Fault, Kind, Reply};
use sentinel_pg::tokio_postgres::Row;
use sentinel_pg::tokio_postgres::types::ToSql;
use sentinel_pg::{PgError, RowSink};
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Outcome, Payload, Revision};

use super::super::database::{Answer, Work};
use super::super::failure::Failure;
use super::super::needs_identity;
use super::super::operation::{Execute, Site};
use super::super::settings::Settings;
use super::catalog::McpKind;
use super::errors::{self, INTERNAL, INTERNAL_TEXT};
use super::headers::Person;
use super::policy::Needs;
use super::{Shared, bad_reply};

/// The revision that the results of the database are written in.
const REVISION: Revision = Revision::V2025_11_25;

/// `$1` is the name, `$2` the arguments, `$3` the context, `$4` the id.
const TOOL: &str = "SELECT (api.mcp_call_tool($1::text, ($2::text)::jsonb, ($3::text)::jsonb, \
    ($4::text)::jsonb)).envelope::text, true";
const PROMPT: &str = "SELECT (api.mcp_get_prompt($1::text, ($2::text)::jsonb, ($3::text)::jsonb, \
    ($4::text)::jsonb)).envelope::text, true";
/// `$1` is the URI, `$2` the context, `$3` the id, `$4` the handler. Several templates may fit a URI: the database must come to
/// the one that policy decided on.
const RESOURCE: &str = "SELECT (CASE WHEN a.is_it THEN api.mcp_read_resource($1::text, \
    ($2::text)::jsonb, ($3::text)::jsonb) END).envelope::text, a.is_it \
    FROM (SELECT coalesce((SELECT m.handler_object_id::text = $4::text \
        FROM api.mcp_route m JOIN api.handler h ON h.object_id = m.handler_object_id \
        WHERE m.mcp_type::text = 'resource' AND h.deleted_at IS NULL AND $1::text ~ m.uri_regexp \
        ORDER BY length(m.uri_template) DESC, m.mcp_name LIMIT 1), false) AS is_it OFFSET 0) a";

/// Carries out the calls of one handler.
pub(super) struct McpCall {
    pub(super) shared: Arc<Shared>,
    pub(super) id: String,
    pub(super) kind: McpKind,
    pub(super) name: String,
    pub(super) needs: Needs,
}

impl Execute for McpCall {
    fn run<'a>(&'a self, site: Site<'a>) -> BoxFuture<'a, Result<Reply, Failure>> {
        Box::pin(self.answer(site))
    }
}

impl McpCall {
    async fn answer(&self, site: Site<'_>) -> Result<Reply, Failure> {
        let context = Person::of(&site.call.caller, site.config).context();
        let mut id = Vec::new();
        json::encode_string(&site.call.round.call.to_string(), &mut id);
        let id = String::from_utf8_lossy(&id).into_owned();
        let uri = site.call.params.string("uri").unwrap_or_default();
        let arguments = std::str::from_utf8(site.arguments)
            .map_err(|_| bad_reply("the arguments are not UTF-8"))?;
        let by_name: [&(dyn ToSql + Sync); 4] = [&self.name, &arguments, &context, &id];
        let by_uri: [&(dyn ToSql + Sync); 4] = [&uri, &context, &id, &self.id];
        let settings = Settings::of(&site.call.caller, site.fixed);
        let work = Work {
            mode: self.needs.mode(self.shared.default_isolation, None),
            settings: &settings,
            timeout: site.config.statement_timeout,
            sql: match self.kind {
                McpKind::Tool => TOOL,
                McpKind::Resource => RESOURCE,
                McpKind::Prompt => PROMPT,
            },
            params: match self.kind {
                McpKind::Resource => &by_uri,
                McpKind::Tool | McpKind::Prompt => &by_name,
            },
        };
        let mut envelope = Envelope::new(site.config.reply_bytes_max);
        match site.database.run(work, &mut envelope).await {
            Ok(()) => {}
            Err(Failure::Conflict { attempts, error }) => {
                return Ok(conflict(error.code().code(), attempts));
            }
            Err(failure) => return Err(failure),
        }
        if !envelope.is_it {
            self.shared.note_stale(site.changed);
            let fault = Fault::new(Kind::UnknownResource, "no resource has this URI");
            return Err(Failure::Refused(fault));
        }
        let text = envelope.text;
        let text = text.ok_or_else(|| bad_reply("the handler gave no answer"))?;
        reply(text.into(), site)
    }
}

/// How the registry says that no user is behind the call.
const UNAUTHORIZED: &[u8] = b"-32001";

/// What is in an envelope.
fn reply(envelope: Bytes, site: Site<'_>) -> Result<Reply, Failure> {
    let parse = |raw: Bytes| Payload::parse(raw, Rules::backend()).ok();
    let no_envelope = || bad_reply("the handler's answer is no JSON-RPC response");
    let envelope = parse(envelope).ok_or_else(no_envelope)?;
    let member = |name: &str| {
        let raw = envelope.get_bytes(name)?;
        (json::Kind::of(&raw) == Some(json::Kind::Object)).then(|| parse(raw))?
    };
    let error = member("error");
    // Callers of each era have a code of their own for this.
    if error.as_ref().and_then(|error| error.get("code")) == Some(UNAUTHORIZED) {
        return Err(Failure::Refused(needs_identity()));
    }
    let outcome = match (member("result"), error) {
        (Some(result), None) => Outcome::Result(result),
        (None, Some(error)) => Outcome::Error(without_details(error, site)),
        _ => return Err(no_envelope()),
    };
    Ok(Reply {
        revision: REVISION,
        outcome,
    })
}

/// The error without what the database says about a failure of its own; that goes to the log.
fn without_details(error: Payload, site: Site<'_>) -> Payload {
    let code = error
        .get("code")
        .and_then(|raw| std::str::from_utf8(raw).ok());
    if code != Some("-32603") || error.string("message").as_deref() == Some(INTERNAL_TEXT) {
        return error;
    }
    let reference = site.call.round.call;
    let said = String::from_utf8_lossy(error.as_bytes());
    let said: String = said.chars().take(2000).collect();
    tracing::warn!(backend = %site.config.name, %reference, "a handler failed: {said}");
    written(INTERNAL_TEXT, &format!(r#""reference":"{reference}""#))
}

fn conflict(sqlstate: &str, attempts: u32) -> Reply {
    let text = "other transactions changed the same data at each attempt; nothing was changed";
    Reply {
        revision: REVISION,
        outcome: Outcome::Error(written(text, &errors::conflict_members(sqlstate, attempts))),
    }
}

/// An error whose `data` has these members.
fn written(text: &str, members: &str) -> Payload {
    let mut out = format!(r#"{{"code":{INTERNAL},"message":"#).into_bytes();
    json::encode_string(text, &mut out);
    out.extend_from_slice(format!(r#","data":{{{members}}}}}"#).as_bytes());
    Payload::parse(out.into(), Rules::backend()).expect("what we wrote is JSON")
}

/// The one row of an answer.
struct Envelope {
    text: Option<String>,
    /// The database came to the handler of the call.
    is_it: bool,
    bytes_max: usize,
}

impl Envelope {
    fn new(bytes_max: usize) -> Self {
        Self {
            text: None,
            is_it: false,
            bytes_max,
        }
    }
}

impl RowSink for Envelope {
    type Error = Failure;

    async fn row(&mut self, row: Row) -> Result<(), Failure> {
        let unreadable = |error| Failure::of(PgError::from(error));
        self.text = row.try_get(0).map_err(unreadable)?;
        self.is_it = row.try_get(1).map_err(unreadable)?;
        match self.text.as_ref().map_or(0, String::len) > self.bytes_max {
            true => Err(Failure::TooLarge(self.bytes_max)),
            false => Ok(()),
        }
    }
}

impl Answer for Envelope {
    fn restart(&mut self) -> bool {
        *self = Self::new(self.bytes_max);
        true
    }
}
