//! The tables of a registry: whether the database has them, and the handlers that they hold.

use sentinel_pg::tokio_postgres::Row;
use sentinel_pg::{PgError, Session};

use super::super::mode::Isolation;
use super::policy::{self, Needs};

/// More handlers are not offered: their definitions are in memory.
const HANDLERS_MAX: i64 = 10_000;

/// The parts of the contract, whether the login may use them, and the schema of hstore. Types are compared by name, because the
/// extension may be in any schema.
const PARTS: &str = r"
WITH wanted (name, arguments) AS (VALUES
    ('rest_invoke', '{text,text,hstore,bytea}'::text[]),
    ('rpc_invoke', '{uuid,hstore,bytea}'),
    ('mcp_call_tool', '{text,jsonb,jsonb,jsonb}'),
    ('mcp_read_resource', '{text,jsonb,jsonb}'),
    ('mcp_get_prompt', '{text,jsonb,jsonb,jsonb}')),
functions AS (
    SELECT p.oid, p.proname::text AS name, ARRAY(
            SELECT t.typname::text
            FROM pg_catalog.unnest(p.proargtypes) WITH ORDINALITY a (type, place)
            JOIN pg_catalog.pg_type t ON t.oid = a.type ORDER BY a.place) AS arguments
    FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'api'),
hstore AS (
    SELECT n.oid, n.nspname
    FROM functions f JOIN pg_catalog.pg_proc p ON p.oid = f.oid
    JOIN pg_catalog.pg_type t ON t.oid = p.proargtypes[2]
    JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
    WHERE f.name = 'rest_invoke' AND f.arguments = '{text,text,hstore,bytea}'),
present AS (
    SELECT 'function api.' || w.name AS part, f.oid IS NOT NULL AS exists,
        pg_catalog.has_function_privilege(f.oid, 'EXECUTE') AS usable
    FROM wanted w LEFT JOIN functions f ON f.name = w.name AND f.arguments = w.arguments
    UNION ALL
    SELECT 'table api.' || w.name, c.oid IS NOT NULL, pg_catalog.has_table_privilege(c.oid, 'SELECT')
    FROM pg_catalog.unnest('{handler,rest_route,rpc_route,mcp_route}'::text[]) w (name)
    LEFT JOIN (pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'api')
        ON c.relname = w.name AND c.relkind IN ('r', 'p', 'v')
    UNION ALL
    SELECT 'schema api', true, pg_catalog.has_schema_privilege(oid, 'USAGE')
    FROM pg_catalog.pg_namespace WHERE nspname = 'api'
    UNION ALL
    SELECT 'schema ' || nspname, true, pg_catalog.has_schema_privilege(oid, 'USAGE') FROM hstore)
SELECT ARRAY(SELECT part FROM present WHERE exists) AS present,
    ARRAY(SELECT part FROM present WHERE NOT exists) AS missing,
    ARRAY(SELECT part FROM present WHERE exists AND NOT usable) AS refused,
    (SELECT pg_catalog.quote_ident(nspname) FROM hstore) AS hstore,
    EXISTS (SELECT FROM functions f WHERE f.name = 'catalog_version' AND f.arguments = '{}'
        AND pg_catalog.has_function_privilege(f.oid, 'EXECUTE')) AS has_version,
    pg_catalog.current_setting('default_transaction_isolation') AS isolation";

/// Handlers with their routes, in the order in which the database tries routes. Of more than `$2`, those that are offered already
/// (the ids `$1`) are taken first.
const HANDLERS: &str = r"
SELECT h.object_id::text, h.handler_function_name::text,
    h.handler_type::text, h.min_transaction_isolation::text, h.read_only,
    h.title::text, h.description::text, h.input_json_schema::pg_catalog.jsonb::text,
    h.output_json_schema::pg_catalog.jsonb::text,
    r.address_regexp::text, r.method_regexp::text, r.version_regexp::text, r.route_name::text,
    r.canonical_path::text, c.method_name::text, m.mcp_name::text, m.input_schema::text,
    m.uri_template::text, m.mime_type::text, m.arguments::text, m.tags::text[], h.total
FROM (SELECT a.*, pg_catalog.count(*) OVER () AS total, pg_catalog.row_number() OVER (ORDER BY EXISTS (
        SELECT 1 FROM pg_catalog.unnest($1::text[]) AS offered(id) WHERE offered.id = a.object_id::text) DESC, a.object_id) AS place
    FROM api.handler a WHERE a.deleted_at IS NULL) h
LEFT JOIN api.rest_route r ON r.handler_object_id = h.object_id
LEFT JOIN api.rpc_route c ON c.handler_object_id = h.object_id
LEFT JOIN api.mcp_route m ON m.handler_object_id = h.object_id
WHERE h.place <= $2
ORDER BY r.sequence_number DESC NULLS LAST, r.route_name, c.method_name, m.mcp_name";

/// What the database has of a registry.
pub(super) enum Presence {
    None,
    /// Why it cannot be used.
    Unusable(String),
    Complete(Place),
}

/// Where its parts are.
pub(super) struct Place {
    /// The schema of hstore, quoted.
    pub(super) hstore: String,
    pub(super) default_isolation: Isolation,
    has_version: bool,
}

/// A handler with its route.
pub(super) struct Handler {
    pub(super) id: String,
    pub(super) function_name: Option<String>,
    pub(super) needs: Needs,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) input: Option<String>,
    pub(super) output: Option<String>,
    pub(super) route: Way,
}

/// How a handler is reached.
pub(super) enum Way {
    Rest {
        address: String,
        verbs: String,
        version: String,
        name: Option<String>,
        path: Option<String>,
    },
    Rpc {
        method: String,
    },
    Mcp(Mcp),
    /// It has no route.
    None,
}

pub(super) struct Mcp {
    pub(super) kind: McpKind,
    pub(super) name: String,
    pub(super) input: Option<String>,
    pub(super) uri: Option<String>,
    pub(super) mime: Option<String>,
    pub(super) arguments: Option<String>,
    pub(super) tags: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum McpKind {
    Tool,
    Resource,
    Prompt,
}

pub(super) async fn presence(session: &mut Session) -> Result<Presence, PgError> {
    let row = session.client().query_one(PARTS, &[]).await?;
    let list = |name: &str| row.try_get::<_, Vec<String>>(name);
    let (present, missing, refused) = (list("present")?, list("missing")?, list("refused")?);
    let has = |kind: &str| present.iter().any(|part| part.starts_with(kind));
    if !present.iter().any(|part| part == "table api.handler") || !has("function") {
        return Ok(Presence::None);
    }
    if !missing.is_empty() {
        let why = format!("{} is missing", missing.join(", "));
        return Ok(Presence::Unusable(why));
    }
    if !refused.is_empty() {
        let why = format!("the login has no rights on {}", refused.join(", "));
        return Ok(Presence::Unusable(why));
    }
    let isolation: String = row.try_get("isolation")?;
    Ok(Presence::Complete(Place {
        hstore: row.try_get("hstore")?,
        default_isolation: policy::isolation(&isolation).unwrap_or(Isolation::ReadCommitted),
        has_version: row.try_get("has_version")?,
    }))
}

impl Place {
    /// Changes with the routes of REST handlers; answers name it.
    pub(super) async fn version(&self, session: &mut Session) -> Result<Option<String>, PgError> {
        if !self.has_version {
            return Ok(None);
        }
        let sql = "SELECT api.catalog_version()::text";
        let row = session.client().query_one(sql, &[]).await?;
        Ok(row.try_get(0)?)
    }
}

/// The handlers; notices say which are left out.
pub(super) async fn handlers(
    session: &mut Session,
    offered: &[String],
    notices: &mut Vec<String>,
) -> Result<Vec<Handler>, PgError> {
    let params: sentinel_pg::Params<'_> = &[&offered, &HANDLERS_MAX];
    let rows = session.client().query(HANDLERS, params).await?;
    let total: i64 = match rows.first() {
        Some(row) => row.try_get("total")?,
        None => 0,
    };
    if total > HANDLERS_MAX {
        notices.push(format!(
            "{} of {total} handlers are left out: at most {HANDLERS_MAX} are offered, those that are offered already first",
            total - HANDLERS_MAX
        ));
    }
    let mut handlers = Vec::with_capacity(rows.len());
    for row in &rows {
        let handler = handler(row)?;
        match handler {
            Ok(handler) => handlers.push(handler),
            Err(notice) => notices.push(notice),
        }
    }
    Ok(handlers)
}

fn handler(row: &Row) -> Result<Result<Handler, String>, PgError> {
    let text = |at: usize| row.try_get::<_, Option<String>>(at);
    let id: String = row.try_get(0)?;
    let needed = text(3)?;
    let isolation = match needed.as_deref().map(policy::isolation) {
        None => None,
        Some(Some(level)) => Some(level),
        Some(None) => {
            let unknown = needed.unwrap_or_default();
            let notice = format!("handler {id} is left out: it needs the isolation `{unknown}`");
            return Ok(Err(notice));
        }
    };
    Ok(Ok(Handler {
        id,
        function_name: text(1)?,
        needs: Needs {
            isolation,
            is_read_only: row.try_get::<_, Option<bool>>(4)?.unwrap_or_default(),
        },
        title: text(5)?,
        description: text(6)?,
        input: text(7)?,
        output: text(8)?,
        route: way(row)?,
    }))
}

/// The route of the handler's own type.
fn way(row: &Row) -> Result<Way, PgError> {
    let text = |at: usize| row.try_get::<_, Option<String>>(at);
    let kind: String = row.try_get(2)?;
    let mcp = |kind: McpKind, name: String| -> Result<Way, PgError> {
        Ok(Way::Mcp(Mcp {
            kind,
            name,
            input: text(16)?,
            uri: text(17)?,
            mime: text(18)?,
            arguments: text(19)?,
            tags: row
                .try_get::<_, Option<Vec<String>>>(20)?
                .unwrap_or_default(),
        }))
    };
    match (kind.as_str(), text(9)?, text(14)?, text(15)?) {
        ("rest", Some(address), ..) => Ok(Way::Rest {
            address,
            verbs: text(10)?.unwrap_or_default(),
            version: text(11)?.unwrap_or_default(),
            name: text(12)?,
            path: text(13)?,
        }),
        ("rpc", _, Some(method), _) => Ok(Way::Rpc { method }),
        ("mcp_tool", _, _, Some(name)) => mcp(McpKind::Tool, name),
        ("mcp_resource", _, _, Some(name)) => mcp(McpKind::Resource, name),
        ("mcp_prompt", _, _, Some(name)) => mcp(McpKind::Prompt, name),
        _ => Ok(Way::None),
    }
}
