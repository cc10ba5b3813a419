//! The rules of `pg check`: a query for each, and what its rows mean.
//!
//! A caller reaches what the login may do, and through a function that is SECURITY DEFINER what the owner of that function may do.
//! So tables are looked at with the eyes of all these roles.

use sentinel_config::Registry;
use sentinel_pg::{PgError, Session};

use super::super::Config;
use super::Finding;
use super::functions::{self, Called};

/// Rows of one rule that are told.
pub(super) const ROWS_MAX: i64 = 1000;

const REGISTRY: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = 'api' AND c.relname = 'handler' AND c.relkind IN ('r', 'p'))";

/// Roles that the login is or may become, and what they can do.
const MIGHT: &str = "SELECT r.rolname::text, r.rolname IN (session_user, current_user), r.rolsuper, r.rolbypassrls, \
    r.rolcreaterole, r.rolreplication \
    FROM pg_catalog.pg_roles r, pg_catalog.pg_roles me \
    WHERE me.rolname = session_user \
      AND (r.rolname IN (session_user, current_user) \
           OR (NOT me.rolsuper AND pg_catalog.pg_has_role(me.oid, r.oid, 'MEMBER'))) \
      AND (r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolreplication OR r.rolname IN ( \
        'pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files', 'pg_read_all_data', 'pg_write_all_data')) \
    ORDER BY 1";

/// Tables and views that the login, or the owner of such a function ($1), may read or write, and whether row-level security holds
/// there for that role. A view may read others, each with the rights of its owner.
const TABLES: &str = "WITH eyes AS ( \
        SELECT oid, rolname::text AS name FROM pg_catalog.pg_roles \
        WHERE (rolname = current_user OR oid = ANY ($1)) AND NOT rolsuper AND NOT rolbypassrls) \
    SELECT pg_catalog.format('%I.%I', n.nspname, c.relname), c.relkind::text, eyes.name, c.relrowsecurity, \
        c.relrowsecurity AND NOT c.relforcerowsecurity AND pg_catalog.pg_has_role(eyes.oid, c.relowner, 'USAGE'), \
        o.rolname::text, \
        c.relkind = 'v' AND coalesce((SELECT option_value::bool FROM pg_catalog.pg_options_to_table(c.reloptions) \
            WHERE option_name = 'security_invoker'), false), \
        EXISTS (WITH RECURSIVE reads(oid, reader) AS ( \
                SELECT d.refobjid, c.relowner FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_depend d \
                    ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = w.oid \
                    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass \
                WHERE w.ev_class = c.oid \
                UNION SELECT d.refobjid, CASE WHEN coalesce((SELECT option_value::bool \
                        FROM pg_catalog.pg_options_to_table(v.reloptions) WHERE option_name = 'security_invoker'), false) \
                    THEN r.reader ELSE v.relowner END \
                FROM reads r JOIN pg_catalog.pg_class v ON v.oid = r.oid AND v.relkind = 'v' \
                JOIN pg_catalog.pg_rewrite w ON w.ev_class = v.oid JOIN pg_catalog.pg_depend d \
                    ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = w.oid \
                    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass) \
            SELECT FROM reads r JOIN pg_catalog.pg_class t ON t.oid = r.oid JOIN pg_catalog.pg_roles x ON x.oid = r.reader \
            WHERE t.relrowsecurity AND (x.rolsuper OR x.rolbypassrls \
                OR NOT t.relforcerowsecurity AND pg_catalog.pg_has_role(x.oid, t.relowner, 'USAGE'))) \
    FROM eyes, pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    JOIN pg_catalog.pg_roles o ON o.oid = c.relowner \
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') \
      AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)' \
      AND pg_catalog.has_schema_privilege(eyes.oid, n.oid, 'USAGE') \
      AND (pg_catalog.has_table_privilege(eyes.oid, c.oid, 'SELECT, INSERT, UPDATE, DELETE') \
           OR pg_catalog.has_any_column_privilege(eyes.oid, c.oid, 'SELECT, INSERT, UPDATE')) \
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass \
          AND d.objid = c.oid AND d.deptype = 'e') \
      AND NOT ($2 AND n.nspname = 'api' AND c.relname IN ('handler', 'rest_route', 'rpc_route', 'mcp_route', 'inbound_queue', \
          'rest_exchange', 'rpc_exchange', 'mcp_exchange', 'inbound_queue_with_protocol')) \
    ORDER BY 1, 3 LIMIT $3";

/// Schemas of the search_path, and that of the functions, in which the login may create.
const CREATES: &str = "SELECT nspname::text FROM pg_catalog.pg_namespace \
    WHERE (nspname = ANY (pg_catalog.current_schemas(false)) OR nspname = $1) \
      AND (pg_catalog.has_schema_privilege(oid, 'CREATE') OR pg_catalog.has_schema_privilege(session_user, oid, 'CREATE')) \
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolsuper AND rolname IN (session_user, current_user)) \
    ORDER BY 1";

/// What the rules come to.
#[derive(Default)]
pub(super) struct Judged {
    pub(super) findings: Vec<Finding>,
    /// What is unsafe if functions call what their texts only name.
    pub(super) hints: Vec<Finding>,
    /// What was not looked at.
    pub(super) unseen: Vec<String>,
}

pub(super) async fn apply(session: &mut Session, config: &Config) -> Result<Judged, PgError> {
    let schema = &config.schema;
    let row = session.client().query_one(REGISTRY, &[]).await?;
    let has_registry = row.get::<_, bool>(0) && config.registry != Registry::Off;
    let mut judged = Judged {
        findings: might(session).await?,
        ..Judged::default()
    };
    let Called {
        functions,
        named,
        is_cut,
    } = functions::read(session, config, has_registry).await?;
    let owners = functions::owners(&functions, &[]);
    judged
        .findings
        .extend(functions.iter().flat_map(functions::findings));
    let (unsafe_tables, tables_cut) = tables(session, &owners, has_registry).await?;
    judged.findings.extend(unsafe_tables);
    // Tables are looked at with the eyes of the login in any case, so these are found already.
    let (perhaps, perhaps_cut) = match functions::owners(&named, &owners) {
        owners if owners.is_empty() => (Vec::new(), false),
        owners => tables(session, &owners, has_registry).await?,
    };
    let hints = named.iter().flat_map(functions::findings).chain(perhaps);
    judged.hints = hints
        .filter(|hint| !judged.findings.contains(hint))
        .collect();
    for (what, is_cut) in [("functions", is_cut), ("tables", tables_cut || perhaps_cut)] {
        if is_cut {
            judged.unseen.push(format!(
                "only the first {ROWS_MAX} {what} were looked at for what is unsafe"
            ));
        }
    }
    for row in session.query(CREATES, &[schema]).await? {
        let name: String = row.get(0);
        judged.findings.push(Finding {
            rule: "schema_create",
            problem: "the login may create objects here, so a call could put a table or function under the name of another"
                .to_owned(),
            advice: format!("REVOKE CREATE ON SCHEMA {name} FROM the login and PUBLIC"),
            object: format!("schema {name}"),
        });
    }
    Ok(judged)
}

/// What is unsafe about tables in the eyes of the login and these owners, and whether there are more.
async fn tables(
    session: &mut Session,
    owners: &[u32],
    has_registry: bool,
) -> Result<(Vec<Finding>, bool), PgError> {
    let rows = session
        .query(TABLES, &[&owners, &has_registry, &ROWS_MAX])
        .await?;
    let found = rows.iter().filter_map(table).collect();
    Ok((found, rows.len() as i64 == ROWS_MAX))
}

async fn might(session: &mut Session) -> Result<Vec<Finding>, PgError> {
    let mut findings = Vec::new();
    for row in session.query(MIGHT, &[]).await? {
        let (name, is_self): (String, bool) = (row.get(0), row.get(1));
        let (rule, can) = match (row.get(2), row.get(3), row.get(4), row.get(5)) {
            (true, _, _, _) => (
                "superuser",
                "is a superuser: no rule of the database holds for it",
            ),
            (_, true, _, _) => (
                "bypass_rls",
                "has BYPASSRLS: row-level security does not hold for it",
            ),
            (_, _, true, _) => (
                "create_role",
                "has CREATEROLE: it may give itself the rights of others",
            ),
            (_, _, _, true) => (
                "replication",
                "has REPLICATION: it may copy the whole database",
            ),
            _ => (
                "predefined_role",
                "reaches every table, or files and programs of the server",
            ),
        };
        let (problem, advice) = match is_self {
            true => (
                format!("the login {can}"),
                "log in with a role of its own that may run the functions and nothing else: `sentinel pg init` prints an example"
                    .to_owned(),
            ),
            false => (
                format!("the login is a member of this role, which {can}"),
                format!("REVOKE {name} FROM the login"),
            ),
        };
        findings.push(Finding {
            rule,
            object: format!("role {name}"),
            problem,
            advice,
        });
    }
    Ok(findings)
}

fn table(row: &sentinel_pg::tokio_postgres::Row) -> Option<Finding> {
    let (object, kind, who): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    let (is_secured, is_bypassed): (bool, bool) = (row.get(3), row.get(4));
    let (owner, is_invoker): (String, bool) = (row.get(5), row.get(6));
    let evades: bool = row.get(7);
    let (rule, problem, advice) = match kind.as_str() {
        "v" if !is_invoker && evades => (
            "view_bypass",
            format!(
                "{who} may read this view, which reads its tables with the rights of {owner}, past their row-level security"
            ),
            format!(
                "ALTER VIEW {object} SET (security_invoker = true), or give it to another owner"
            ),
        ),
        "v" => return None,
        "m" | "f" => (
            "no_row_security",
            format!("{who} may use it, and tables of this kind cannot have row-level security"),
            format!(
                "REVOKE ALL ON {object} FROM {who}, and read it in functions that choose the rows"
            ),
        ),
        _ if !is_secured => (
            "no_row_security",
            format!(
                "{who} may use it, and it has no row-level security: every caller reaches every row"
            ),
            format!("ALTER TABLE {object} ENABLE ROW LEVEL SECURITY, with a policy"),
        ),
        _ if is_bypassed => (
            "owner_bypass",
            format!("{who} owns it, and its row-level security does not hold for its owner"),
            format!("ALTER TABLE {object} FORCE ROW LEVEL SECURITY"),
        ),
        _ => return None,
    };
    Some(Finding {
        rule,
        object,
        problem,
        advice,
    })
}
