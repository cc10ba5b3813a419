//! Functions that calls begin with, and those that they call: a caller of either has the rights of its owner, if it is SECURITY
//! DEFINER.
//!
//! What a function calls is known for bodies in the SQL standard's form (`BEGIN ATOMIC`), whose dependencies PostgreSQL keeps, and for
//! the defaults of parameters. Other bodies are texts: a name in one may be a call.

use sentinel_config::Expose;
use sentinel_pg::tokio_postgres::Row;
use sentinel_pg::{Params, PgError, Session};

use super::super::Config;
use super::Finding;
use super::rules::ROWS_MAX;

/// What is read of a function. `p` is the function, and `who` says who calls it.
macro_rules! select {
    ($who:literal, $rest:literal) => {
        concat!(
            "SELECT pg_catalog.format('%I.%I(%s)', n.nspname, p.proname, \
                pg_catalog.pg_get_function_identity_arguments(p.oid)), p.oid, \
            p.prosecdef, p.proowner, o.rolname::text, o.rolsuper OR o.rolbypassrls, \
            EXISTS (SELECT FROM pg_catalog.unnest(p.proconfig) AS c WHERE c ~ '^search_path=(\"\"|.*\\mpg_temp\"?)$'), \
            EXISTS (SELECT FROM pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) AS a \
                WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE'), ",
            $who,
            " FROM pg_catalog.pg_proc p \
            JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
            JOIN pg_catalog.pg_roles o ON o.oid = p.proowner ",
            $rest
        )
    };
}

/// Functions that calls begin with: of the schema, and of the registry.
const OFFERED: &str = select!(
    "NULL::text",
    "WHERE pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE') \
      AND p.prokind = 'f' \
      AND ((n.nspname = $1 AND ($2 OR pg_catalog.obj_description(p.oid, 'pg_proc') ~ '(^|\\n)\\s*@(tool|resource|prompt|route)\\M')) \
           OR ($3 AND n.nspname = 'api' AND p.proname IN ('rest_invoke', 'rpc_resolve', 'rpc_invoke', 'mcp_call_tool', \
               'mcp_read_resource', 'mcp_get_prompt', 'mcp_handle_request'))) \
    ORDER BY 1 LIMIT $4"
);

/// Functions that these (`$1`) depend on, through any number of others.
const DEPENDENCIES: &str = concat!(
    "WITH RECURSIVE depends(oid, on_it) AS ( \
        SELECT d.objid, d.refobjid FROM pg_catalog.pg_depend d \
        WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refclassid = d.classid), \
    called(oid, caller) AS ( \
        SELECT on_it, oid FROM depends WHERE oid = ANY ($1) \
        UNION SELECT d.on_it, c.caller FROM called c JOIN depends d ON d.oid = c.oid) ",
    select!(
        "(SELECT pg_catalog.format('%I.%I', s.nspname, f.proname) FROM pg_catalog.pg_proc f \
            JOIN pg_catalog.pg_namespace s ON s.oid = f.pronamespace WHERE f.oid = c.caller)",
        "JOIN (SELECT oid, pg_catalog.min(caller) AS caller FROM called GROUP BY oid) AS c ON c.oid = p.oid \
        WHERE NOT p.oid = ANY ($1) ORDER BY 1 LIMIT $2"
    )
);

/// SECURITY DEFINER functions whose names stand before a parenthesis in the texts of these (`$1`).
const NAMED: &str = concat!(
    "WITH texts AS ( \
        SELECT s.oid, s.prosrc AS body FROM pg_catalog.pg_proc s JOIN pg_catalog.pg_language l ON l.oid = s.prolang \
        WHERE s.oid = ANY ($1) AND s.prosqlbody IS NULL AND l.lanname NOT IN ('c', 'internal')), \
    called AS ( \
        SELECT f.oid, pg_catalog.min(t.oid) AS caller FROM texts t, ( \
            SELECT oid, proname FROM pg_catalog.pg_proc \
            WHERE prosecdef AND NOT oid = ANY ($1) ORDER BY oid LIMIT $2) AS f \
        WHERE pg_catalog.strpos(pg_catalog.lower(t.body), pg_catalog.lower(f.proname::text)) > 0 \
            AND t.body ~* ('\\m' || pg_catalog.regexp_replace(f.proname::text, '([^[:alnum:]_])', '\\\\\\1', 'g') || '\\M\"?\\s*\\(') \
        GROUP BY f.oid) ",
    select!(
        "(SELECT pg_catalog.format('%I.%I', s.nspname, f.proname) FROM pg_catalog.pg_proc f \
            JOIN pg_catalog.pg_namespace s ON s.oid = f.pronamespace WHERE f.oid = c.caller)",
        "JOIN called AS c ON c.oid = p.oid ORDER BY 1 LIMIT $2"
    )
);

/// What calls may come to.
pub(super) struct Called {
    /// Functions that calls begin with, and those that these are known to call.
    pub(super) functions: Vec<Function>,
    /// SECURITY DEFINER functions that texts of these name.
    pub(super) named: Vec<Function>,
    /// There are more.
    pub(super) is_cut: bool,
}

pub(super) struct Function {
    /// With its schema and its parameters.
    name: String,
    oid: u32,
    is_definer: bool,
    owner: u32,
    owner_name: String,
    /// Row-level security does not hold for the owner.
    is_mighty: bool,
    has_safe_path: bool,
    is_public: bool,
    how: How,
}

/// How a call comes to a function.
enum How {
    Offered,
    CalledBy(String),
    NamedBy(String),
}

pub(super) async fn read(
    session: &mut Session,
    config: &Config,
    has_registry: bool,
) -> Result<Called, PgError> {
    let all = config.expose == Expose::All;
    let params: Params<'_> = &[&config.schema, &all, &has_registry, &ROWS_MAX];
    let rows = session.query(OFFERED, params).await?;
    let mut is_cut = rows.len() as i64 == ROWS_MAX;
    let mut functions: Vec<Function> = rows
        .iter()
        .map(|row| function(row, |_| How::Offered))
        .collect();
    let oids = |functions: &[Function]| functions.iter().map(|one| one.oid).collect::<Vec<u32>>();
    let rows = session
        .query(DEPENDENCIES, &[&oids(&functions), &ROWS_MAX])
        .await?;
    is_cut |= rows.len() as i64 == ROWS_MAX;
    functions.extend(rows.iter().map(|row| function(row, How::CalledBy)));
    let rows = session
        .query(NAMED, &[&oids(&functions), &ROWS_MAX])
        .await?;
    is_cut |= rows.len() as i64 == ROWS_MAX;
    Ok(Called {
        functions,
        named: rows.iter().map(|row| function(row, How::NamedBy)).collect(),
        is_cut,
    })
}

fn function(row: &Row, how: impl FnOnce(String) -> How) -> Function {
    Function {
        name: row.get(0),
        oid: row.get(1),
        is_definer: row.get(2),
        owner: row.get(3),
        owner_name: row.get(4),
        is_mighty: row.get(5),
        has_safe_path: row.get(6),
        is_public: row.get(7),
        how: how(row.get::<_, Option<String>>(8).unwrap_or_default()),
    }
}

/// Whose rights callers have, besides those of the login and of `others`.
pub(super) fn owners(functions: &[Function], others: &[u32]) -> Vec<u32> {
    let definers = functions.iter().filter(|one| one.is_definer);
    let mut owners: Vec<u32> = definers.map(|one| one.owner).collect();
    owners.retain(|owner| !others.contains(owner));
    owners.sort_unstable();
    owners.dedup();
    owners
}

/// What is unsafe about a function.
pub(super) fn findings(function: &Function) -> Vec<Finding> {
    let Function {
        name,
        is_definer,
        owner_name,
        ..
    } = function;
    let whose = match &function.how {
        How::Offered => "it is".to_owned(),
        How::CalledBy(caller) => format!("{caller} calls it, and it is"),
        How::NamedBy(caller) => {
            format!("the text of {caller} names it, and perhaps calls it; it is")
        }
    };
    let finding = |rule, problem: String, advice: String| Finding {
        rule,
        object: format!("function {name}"),
        problem,
        advice,
    };
    let mut findings = Vec::new();
    if *is_definer && function.is_mighty {
        findings.push(finding(
            "definer_bypass",
            format!(
                "{whose} SECURITY DEFINER, and its owner {owner_name} bypasses row-level security: so does every caller"
            ),
            "give it to a role that is neither superuser nor BYPASSRLS: ALTER FUNCTION ... OWNER TO ..."
                .to_owned(),
        ));
    }
    if *is_definer && !function.has_safe_path {
        findings.push(finding(
            "definer_search_path",
            format!(
                "{whose} SECURITY DEFINER without a search_path of its own that is empty or ends with pg_temp: names in it may mean \
                 what its caller's search_path or temporary tables say"
            ),
            format!("ALTER FUNCTION {name} SET search_path = its schemas, pg_temp"),
        ));
    }
    if function.is_public && matches!(function.how, How::Offered) {
        findings.push(finding(
            "public_execute",
            "PUBLIC may execute it: every role of the database, not only the gateway's".to_owned(),
            format!("REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC, then GRANT it to the login"),
        ));
    }
    findings
}
