//! What the catalog of PostgreSQL says about functions and their types.
//!
//! One query for each class of objects. Every name is qualified, so the search path has no part in it.

use std::collections::HashMap;

use sentinel_pg::{PgError, Session};

/// More functions of one schema are not offered: their definitions are in memory, and every list of tools has them.
pub(super) const FUNCTIONS_MAX: i64 = 5000;
/// Names of functions beyond the bound that a notice tells.
const EXAMPLES: i64 = 5;

/// The schema `$1`: the rights of the login, whether it has a table of handlers, as a registry has, and how many of its functions are
/// of extensions and have no annotations.
const SCHEMA: &str = "SELECT COALESCE(pg_catalog.has_schema_privilege(s.oid, 'USAGE'), false) AS may_use,
    EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.relnamespace = s.oid AND c.relname = 'handler') AS has_handlers,
    (SELECT pg_catalog.count(*) FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_depend d
        ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e'
        WHERE p.pronamespace = s.oid
        AND pg_catalog.strpos(COALESCE(pg_catalog.obj_description(p.oid, 'pg_proc'), ''), '@') = 0) AS of_extensions
    FROM pg_catalog.pg_namespace s WHERE s.nspname = $1";

/// Functions of the schema `$1`: those whose comment may have annotations, and with `$2` the others that the login may execute. Of
/// more than `$4`, first those that are offered already (the names `$3`) and then the oldest are taken, so a new function takes the
/// place of no other; `$5` more are read for their names. The privilege of a function that is just being dropped is null.
const FUNCTIONS: &str = "WITH known AS (
        SELECT p.oid, p.proname, COALESCE(pg_catalog.obj_description(p.oid, 'pg_proc'), '') AS comment,
            pg_catalog.has_function_privilege(p.oid, 'EXECUTE') AS may_execute,
            EXISTS (SELECT 1 FROM pg_catalog.pg_depend d
                WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e') AS is_of_extension,
            pg_catalog.count(*) OVER same > 1
                AND pg_catalog.bool_or(p.pronargdefaults > 0 OR p.provariadic <> 0) OVER same AS is_ambiguous
        FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace s ON s.oid = p.pronamespace
        WHERE s.nspname = $1 WINDOW same AS (PARTITION BY p.proname)),
    wanted AS (
        SELECT k.*, pg_catalog.count(*) OVER () AS total, pg_catalog.row_number() OVER (ORDER BY EXISTS (
            SELECT 1 FROM pg_catalog.unnest($3::text[]) AS offered(name) WHERE offered.name = k.proname::text) DESC, k.oid) AS place
        FROM known k
        WHERE k.may_execute IS NOT NULL AND (pg_catalog.strpos(k.comment, '@') > 0 OR $2 AND k.may_execute AND NOT k.is_of_extension)
        AND NOT (k.comment ~ '(?n)^\\s*@ignore\\s*$' AND k.comment !~ '(?n)^[ \\t]*@(?!ignore\\s*$)'))
    SELECT p.oid, p.proname::text, p.prokind::text, p.provolatile::text, p.proisstrict, p.proretset,
    p.prorettype, p.provariadic, COALESCE(p.proallargtypes, p.proargtypes::oid[]) AS argument_types,
    p.proargmodes::text[] AS modes, p.proargnames AS names,
    ARRAY(SELECT pg_catalog.pg_get_function_arg_default(p.oid, n)
        FROM pg_catalog.generate_series(1, pg_catalog.cardinality(COALESCE(p.proallargtypes, p.proargtypes::oid[]))) AS n
        ORDER BY n) AS defaults,
    w.comment, w.may_execute, w.is_ambiguous, w.is_of_extension, w.total, w.place > $4 AS is_beyond
    FROM wanted w JOIN pg_catalog.pg_proc p ON p.oid = w.oid WHERE w.place <= $4 + $5 ORDER BY p.proname, p.oid";

/// Types (`$1`) with all that they consist of. PostgreSQL's own (their OIDs are below 16384) need no comments.
const TYPES: &str = "WITH RECURSIVE needed(oid) AS (
        SELECT pg_catalog.unnest($1::oid[])
        UNION
        SELECT part.oid FROM needed n JOIN pg_catalog.pg_type t ON t.oid = n.oid CROSS JOIN LATERAL (
            SELECT t.typelem AS oid WHERE t.typcategory = 'A' AND t.typelem <> 0
            UNION ALL SELECT t.typbasetype WHERE t.typtype = 'd'
            UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
                WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) AS part)
    SELECT t.oid, s.nspname::text, t.typname::text, t.typtype::text, t.typcategory::text, t.typelem, t.typbasetype, t.typtypmod,
    t.typnotnull, CASE WHEN t.oid >= 16384
        THEN COALESCE(pg_catalog.obj_description(t.oid, 'pg_type'), pg_catalog.obj_description(t.typrelid, 'pg_class')) END AS comment,
    ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder) AS labels,
    pg_catalog.array_remove(ARRAY(SELECT pg_catalog.pg_get_constraintdef(c.oid) FROM pg_catalog.pg_constraint c
        WHERE c.contypid = t.oid AND c.contype = 'c' ORDER BY c.conname), NULL) AS checks,
    a.names, a.types, a.modifiers, a.comments,
    EXISTS (SELECT 1 FROM pg_catalog.pg_cast c WHERE t.oid >= 16384 AND c.castsource = t.oid
        AND c.casttarget = 'pg_catalog.json'::pg_catalog.regtype AND c.castmethod = 'f') AS is_cast_to_json
    FROM needed n JOIN pg_catalog.pg_type t ON t.oid = n.oid JOIN pg_catalog.pg_namespace s ON s.oid = t.typnamespace
    CROSS JOIN LATERAL (
        SELECT pg_catalog.array_agg(a.attname::text ORDER BY a.attnum) AS names,
            pg_catalog.array_agg(a.atttypid ORDER BY a.attnum) AS types,
            pg_catalog.array_agg(a.atttypmod ORDER BY a.attnum) AS modifiers,
            pg_catalog.array_agg(pg_catalog.col_description(a.attrelid, a.attnum) ORDER BY a.attnum) AS comments
        FROM pg_catalog.pg_attribute a
        WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) AS a";

/// What happens to an argument: its mode in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    In,
    Out,
    InOut,
    Variadic,
    Table,
}

impl Mode {
    pub(super) fn is_input(self) -> bool {
        matches!(self, Self::In | Self::InOut | Self::Variadic)
    }

    pub(super) fn is_output(self) -> bool {
        matches!(self, Self::Out | Self::InOut | Self::Table)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Argument {
    pub(super) mode: Mode,
    /// Empty: it has none.
    pub(super) name: String,
    pub(super) kind: u32,
    /// The expression of its DEFAULT.
    pub(super) default: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Routine {
    Function,
    Procedure,
    Aggregate,
    Window,
}

#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) routine: Routine,
    /// It may write: neither STABLE nor IMMUTABLE.
    pub(super) is_volatile: bool,
    pub(super) is_strict: bool,
    pub(super) returns_set: bool,
    pub(super) returns: u32,
    pub(super) arguments: Vec<Argument>,
    pub(super) comment: String,
    pub(super) may_execute: bool,
    /// Others of the schema have its name, and optional parameters make that a call may mean either.
    pub(super) is_ambiguous: bool,
    pub(super) is_of_extension: bool,
}

#[derive(Debug)]
pub(super) struct Schema {
    pub(super) may_use: bool,
    /// It has a table of handlers, as a registry has.
    pub(super) has_handlers: bool,
    /// Functions of extensions, without annotations.
    pub(super) of_extensions: i64,
}

/// Functions of a schema, and what is beyond the bound.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) functions: Vec<Function>,
    pub(super) beyond: i64,
    /// Some of their names.
    pub(super) beyond_names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) kind: u32,
    pub(super) modifier: i32,
    pub(super) comment: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TypeKind {
    Base,
    Enum(Vec<String>),
    Domain {
        base: u32,
        modifier: i32,
        is_not_null: bool,
        /// As `pg_get_constraintdef` writes them.
        checks: Vec<String>,
    },
    Composite(Vec<Attribute>),
    Array(u32),
    Range,
    Pseudo,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypeRow {
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) kind: TypeKind,
    pub(super) comment: Option<String>,
    /// PostgreSQL writes it as JSON by a function of its own.
    pub(super) is_cast_to_json: bool,
}

/// `None`: there is no such schema.
pub(super) async fn schema(session: &mut Session, name: &str) -> Result<Option<Schema>, PgError> {
    let rows = session.query(SCHEMA, &[&name]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Schema {
        may_use: row.try_get("may_use")?,
        has_handlers: row.try_get("has_handlers")?,
        of_extensions: row.try_get("of_extensions")?,
    }))
}

/// The functions of a schema that may be wanted: with annotations, or `all` that the login may execute. `offered` names those that are
/// offered already.
pub(super) async fn functions(
    session: &mut Session,
    schema: &str,
    all: bool,
    offered: &[String],
) -> Result<Listed, PgError> {
    let params: sentinel_pg::Params<'_> = &[&schema, &all, &offered, &FUNCTIONS_MAX, &EXAMPLES];
    let rows = session.query(FUNCTIONS, params).await?;
    let mut read = Listed::default();
    for row in &rows {
        let name: String = row.try_get("proname")?;
        if row.try_get("is_beyond")? {
            let total: i64 = row.try_get("total")?;
            read.beyond = total - FUNCTIONS_MAX;
            read.beyond_names.push(name);
            continue;
        }
        let kinds: Vec<u32> = row.try_get("argument_types")?;
        let modes: Option<Vec<String>> = row.try_get("modes")?;
        let names: Option<Vec<String>> = row.try_get("names")?;
        let defaults: Vec<Option<String>> = row.try_get("defaults")?;
        let argument = |(at, kind): (usize, u32)| Argument {
            mode: modes.as_ref().map_or(Mode::In, |modes| mode(&modes[at])),
            name: names
                .as_ref()
                .map_or_else(String::new, |names| names[at].clone()),
            kind,
            default: defaults.get(at).cloned().flatten(),
        };
        let volatility: String = row.try_get("provolatile")?;
        read.functions.push(Function {
            name,
            routine: match row.try_get::<_, String>("prokind")?.as_str() {
                "p" => Routine::Procedure,
                "a" => Routine::Aggregate,
                "w" => Routine::Window,
                _ => Routine::Function,
            },
            is_volatile: volatility == "v",
            is_strict: row.try_get("proisstrict")?,
            returns_set: row.try_get("proretset")?,
            returns: row.try_get("prorettype")?,
            arguments: kinds.into_iter().enumerate().map(argument).collect(),
            comment: row.try_get("comment")?,
            may_execute: row.try_get("may_execute")?,
            is_ambiguous: row.try_get("is_ambiguous")?,
            is_of_extension: row.try_get("is_of_extension")?,
        });
    }
    Ok(read)
}

fn mode(letter: &str) -> Mode {
    match letter {
        "o" => Mode::Out,
        "b" => Mode::InOut,
        "v" => Mode::Variadic,
        "t" => Mode::Table,
        _ => Mode::In,
    }
}

/// These types and all that they consist of.
pub(super) async fn types(
    session: &mut Session,
    wanted: &[u32],
) -> Result<HashMap<u32, TypeRow>, PgError> {
    let mut types = HashMap::new();
    for row in session.query(TYPES, &[&wanted]).await? {
        let category: String = row.try_get("typcategory")?;
        let kind = match row.try_get::<_, String>("typtype")?.as_str() {
            "e" => TypeKind::Enum(row.try_get("labels")?),
            "d" => TypeKind::Domain {
                base: row.try_get("typbasetype")?,
                modifier: row.try_get("typtypmod")?,
                is_not_null: row.try_get("typnotnull")?,
                checks: row.try_get("checks")?,
            },
            "c" => TypeKind::Composite(attributes(&row)?),
            "r" | "m" => TypeKind::Range,
            "p" => TypeKind::Pseudo,
            _ if category == "A" => TypeKind::Array(row.try_get("typelem")?),
            _ => TypeKind::Base,
        };
        let read = TypeRow {
            schema: row.try_get("nspname")?,
            name: row.try_get("typname")?,
            kind,
            comment: row.try_get("comment")?,
            is_cast_to_json: row.try_get("is_cast_to_json")?,
        };
        types.insert(row.try_get("oid")?, read);
    }
    Ok(types)
}

fn attributes(
    row: &sentinel_pg::tokio_postgres::Row,
) -> Result<Vec<Attribute>, sentinel_pg::tokio_postgres::Error> {
    // A composite type may have no attributes at all.
    let names: Vec<String> = row.try_get::<_, Option<_>>("names")?.unwrap_or_default();
    let kinds: Vec<u32> = row.try_get::<_, Option<_>>("types")?.unwrap_or_default();
    let modifiers: Vec<i32> = row
        .try_get::<_, Option<_>>("modifiers")?
        .unwrap_or_default();
    let comments: Vec<Option<String>> =
        row.try_get::<_, Option<_>>("comments")?.unwrap_or_default();
    let together = names.into_iter().zip(kinds).zip(modifiers).zip(comments);
    let attribute = |(((name, kind), modifier), comment)| Attribute {
        name,
        kind,
        modifier,
        comment,
    };
    Ok(together.map(attribute).collect())
}
