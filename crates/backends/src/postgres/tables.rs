//! Tables and views as read-only operations: conditions, order, pages by key.
//!
//! Only what `select` names is offered, and of that only what the login role may read. Not here: the statement of a call (`query`).

use std::fmt::Write;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sentinel_core::catalog::Glob;
use sentinel_core::{Fault, ItemKind, Kind, Reach, Reply, RowSender};
use sentinel_pg::tokio_postgres::Row;
use sentinel_pg::{Params, PgError, RowSink, Session};
use serde_json::Value;

use super::Config;
use super::database::{Answer, Work};
use super::failure::Failure;
use super::functions::answer::tool_result;
use super::functions::execute::{RawJson, give_line};
use super::functions::statement::quoted;
use super::functions::types::{Class, Types, Unsupported, allow, describe};
use super::functions::types_of;
use super::mode::Mode;
use super::operation::{Declared, Execute, Found, Site};
use super::settings::Settings;

mod definition;
mod query;

use definition::definition;
use query::Query;

/// Rows of a page unless the caller says how many.
const PAGE: usize = 100;

/// More tables are not offered: their definitions are in memory.
const TABLES_MAX: i64 = 1000;

/// Relations whose names (`schema.name`) match the expressions `$1`, with the columns that the login role may read, in the order of
/// the table. Of more than `$3`, those that are offered already (the names `$2`) are taken first, and then the oldest.
const RELATIONS: &str = "\
    WITH named AS ( \
        SELECT c.oid, n.nspname::text || '.' || c.relname::text AS name \
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') \
            AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' \
            AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
            AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')), \
    wanted AS ( \
        SELECT oid, pg_catalog.count(*) OVER () AS total, pg_catalog.row_number() OVER (ORDER BY EXISTS ( \
            SELECT 1 FROM pg_catalog.unnest($2::text[]) AS offered(name) WHERE offered.name = named.name) DESC, oid) AS place \
        FROM named WHERE name ~ ANY ($1::text[])) \
    SELECT n.nspname, c.relname, pg_catalog.obj_description(c.oid, 'pg_class'), \
        pg_catalog.array_agg(a.attname::text ORDER BY a.attnum), \
        pg_catalog.array_agg(a.atttypid ORDER BY a.attnum), \
        pg_catalog.array_agg(a.atttypmod ORDER BY a.attnum), \
        pg_catalog.array_agg(a.attnotnull ORDER BY a.attnum), \
        pg_catalog.array_agg(pg_catalog.col_description(c.oid, a.attnum) ORDER BY a.attnum), \
        pg_catalog.array_agg(EXISTS (SELECT FROM pg_catalog.pg_opclass o \
            JOIN pg_catalog.pg_am m ON m.oid = o.opcmethod AND m.amname = 'btree' \
            WHERE o.opcdefault AND ( \
                o.opcintype = b.oid \
                OR (b.typtype = 'e' AND o.opcintype = 'pg_catalog.anyenum'::pg_catalog.regtype) \
                OR (b.typtype = 'r' AND o.opcintype = 'pg_catalog.anyrange'::pg_catalog.regtype) \
                OR (b.typname IN ('varchar', 'bpchar', 'name') AND o.opcintype = 'pg_catalog.text'::pg_catalog.regtype) \
            )) ORDER BY a.attnum), \
        COALESCE((SELECT pg_catalog.array_agg(k.attname::text ORDER BY u.at) \
            FROM pg_catalog.pg_index i, pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS u(attnum, at) \
            JOIN pg_catalog.pg_attribute k ON k.attnum = u.attnum \
            WHERE i.indrelid = c.oid AND k.attrelid = c.oid AND i.indisprimary AND u.at <= i.indnkeyatts), '{}'), \
        w.total \
    FROM wanted w JOIN pg_catalog.pg_class c ON c.oid = w.oid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
    JOIN pg_catalog.pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END \
    WHERE w.place <= $3 AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT') \
    GROUP BY n.nspname, c.relname, c.oid, w.total ORDER BY n.nspname, c.relname";

struct Column {
    name: String,
    /// The schema-qualified, quoted name of its type.
    sql_type: String,
    is_nullable: bool,
    is_bytes: bool,
    /// It has an order.
    is_comparable: bool,
    schema: Value,
}

impl Column {
    /// The column of the relation `alias`.
    fn of(&self, alias: &str) -> String {
        format!("{alias}.{}", quoted(&self.name))
    }

    /// What stands for it in an answer.
    fn shown(&self) -> String {
        let name = quoted(&self.name);
        match self.is_bytes {
            true => format!(
                "pg_catalog.translate(pg_catalog.encode(t.{name}, 'base64'), E'\\n', '') AS {name}"
            ),
            false => format!("t.{name}"),
        }
    }
}

/// A table or view.
struct Table {
    /// Schema and name.
    quoted: String,
    columns: Vec<Column>,
    /// The columns of the primary key, if all of them may be read.
    key: Vec<usize>,
}

impl Table {
    fn is_keyed(&self) -> bool {
        !self.key.is_empty()
    }
}

/// `offered` has the names of tables that are offered already.
pub(super) async fn read(
    session: &mut Session,
    config: &Config,
    offered: &[String],
) -> Result<Found, PgError> {
    let mut found = Found::default();
    if config.select.is_empty() {
        return Ok(found);
    }
    let whole = |pattern: &String| match pattern.contains('.') {
        true => pattern.clone(),
        false => format!("{}.{pattern}", config.schema),
    };
    let patterns: Vec<String> = config.select.iter().map(whole).collect();
    let expressions: Vec<String> = patterns.iter().map(|one| expression(one)).collect();
    let params: Params<'_> = &[&expressions, &offered, &TABLES_MAX];
    let rows = session.client().query(RELATIONS, params).await?;
    let total: i64 = rows.first().map_or(0, |row| row.get(10));
    if total > TABLES_MAX {
        found.notices.push(format!(
            "select: {} of {total} tables and views are left out: at most {TABLES_MAX} are offered, those that are offered already \
             and then the oldest; name fewer",
            total - TABLES_MAX
        ));
    }
    let oids = |row: &Row| row.get::<_, Vec<u32>>(4);
    let known: Vec<u32> = rows.iter().flat_map(oids).collect();
    let types = types_of(session, &known).await?;
    let name = |row: &Row| format!("{}.{}", row.get::<_, &str>(0), row.get::<_, &str>(1));
    for row in &rows {
        match declared(row, &types, config) {
            Ok(one) => {
                found.operations.push(one);
                found.sources.push(name(row));
            }
            Err(notice) => found.notices.push(notice),
        }
    }
    for (pattern, written) in patterns.into_iter().zip(&config.select) {
        let glob = Glob::new(pattern);
        if total <= TABLES_MAX && !rows.iter().any(|row| glob.matches(&name(row))) {
            found.notices.push(format!(
                "select: `{written}` is no table or view that the login role may read"
            ));
        }
    }
    Ok(found)
}

/// A pattern with stars as a regular expression of PostgreSQL.
fn expression(pattern: &str) -> String {
    let mut out = "^".to_owned();
    for c in pattern.chars() {
        match c {
            '*' => out.push_str(".*"),
            c if c.is_alphanumeric() || c == '_' => out.push(c),
            c => out.extend(['\\', c]),
        }
    }
    out.push('$');
    out
}

/// A notice, if it cannot be offered.
fn declared(row: &Row, types: &Types, config: &Config) -> Result<Declared, String> {
    let (schema_name, name): (&str, &str) = (row.get(0), row.get(1));
    let comment: Option<&str> = row.get(2);
    let names: Vec<String> = row.get(3);
    let oids: Vec<u32> = row.get(4);
    let modifiers: Vec<i32> = row.get(5);
    let not_null: Vec<bool> = row.get(6);
    let comments: Vec<Option<String>> = row.get(7);
    let comparable: Vec<bool> = row.get(8);
    let key: Vec<String> = row.get(9);
    let column = |(at, column): (usize, String)| {
        let schema = column_schema(types, oids[at], modifiers[at], comments[at].as_deref());
        let left_out = |why: Unsupported| {
            format!("{schema_name}.{name} is left out: its column {column} {why}")
        };
        Ok(Column {
            schema: schema.map_err(left_out)?,
            sql_type: types.sql(oids[at]).map_err(left_out)?,
            is_nullable: !not_null[at],
            is_bytes: types.class(oids[at]) == Class::Bytes,
            is_comparable: comparable[at],
            name: column,
        })
    };
    let columns: Result<Vec<Column>, String> = names.into_iter().enumerate().map(column).collect();
    let columns = columns?;
    let place = |name: &String| columns.iter().position(|column| column.name == *name);
    let key: Option<Vec<usize>> = key.iter().map(place).collect();
    let table = Table {
        quoted: format!("{}.{}", quoted(schema_name), quoted(name)),
        key: key.unwrap_or_default(),
        columns,
    };
    let key = match schema_name == config.schema {
        true => format!("select_{name}"),
        false => format!("select_{schema_name}_{name}"),
    };
    Ok(Declared {
        kind: ItemKind::Tool,
        definition: definition(&key, name, comment, &table, config.rows_max),
        key,
        reach: Reach::ByName,
        routes: Vec::new(),
        needs_identity: false,
        execute: Box::new(table),
    })
}

/// The schema of a column's values; they may be null.
fn column_schema(
    types: &Types,
    oid: u32,
    modifier: i32,
    comment: Option<&str>,
) -> Result<Value, Unsupported> {
    let mut schema = types.schema(oid, modifier)?;
    if let (Some(comment), Some(members)) = (comment, schema.as_object_mut()) {
        describe(members, comment);
    }
    allow(&mut schema, "null");
    Ok(schema)
}

impl Execute for Table {
    fn run<'a>(&'a self, site: Site<'a>) -> BoxFuture<'a, Result<Reply, Failure>> {
        self.select(site).boxed()
    }
}

impl Table {
    async fn select(&self, site: Site<'_>) -> Result<Reply, Failure> {
        let Site { config, call, .. } = site;
        let query = Query::of(self, site.arguments).map_err(|error| {
            let fault = Fault::new(Kind::InvalidParams, error.to_string());
            Failure::Refused(fault.not_run())
        })?;
        let limit = query.limit.unwrap_or(PAGE).min(config.rows_max);
        let mut page = Page::new(limit, config.reply_bytes_max, call.extra.rows.clone());
        let sql = match (&page.rows_out, query.limit) {
            (Some(_), None) => query.sql,
            (Some(_), Some(limit)) => format!("{} LIMIT {limit}", query.sql),
            // One more than is shown tells that there are more.
            (None, _) => format!("{} LIMIT {}", query.sql, limit + 1),
        };
        let settings = Settings::of(&call.caller, site.fixed);
        let values = RawJson(&query.values);
        let work = Work {
            mode: Mode {
                is_read_only: true,
                ..Mode::default()
            },
            settings: &settings,
            timeout: config.statement_timeout,
            sql: &sql,
            params: match query.has_values {
                true => &[&values],
                false => &[],
            },
        };
        site.database.run(work, &mut page).await?;
        page.finish(query.order.as_deref()).await
    }
}

/// Takes the rows of a page, or passes them on one by one.
struct Page {
    limit: usize,
    bytes_max: usize,
    rows_out: Option<RowSender>,
    /// The rows so far, with commas between them.
    text: String,
    count: usize,
    last_keys: String,
    is_cut: bool,
}

impl Page {
    fn new(limit: usize, bytes_max: usize, rows_out: Option<RowSender>) -> Self {
        Self {
            limit,
            bytes_max,
            rows_out,
            text: String::new(),
            count: 0,
            last_keys: String::new(),
            is_cut: false,
        }
    }

    async fn finish(mut self, order: Option<&str>) -> Result<Reply, Failure> {
        if let Some(rows) = &mut self.rows_out {
            rows.flush().await.map_err(Failure::Refused)?;
        }
        let mut json = format!(r#"{{"rows":[{}],"truncated":{}"#, self.text, self.is_cut);
        if let (true, Some(order)) = (self.is_cut, order) {
            let _ = write!(
                json,
                r#","next":"{}""#,
                Query::cursor(order, &self.last_keys)
            );
        }
        json.push('}');
        Ok(tool_result(&json, None))
    }
}

impl RowSink for Page {
    type Error = Failure;

    async fn row(&mut self, row: Row) -> Result<(), Failure> {
        let text = |at: usize| {
            row.try_get::<_, &str>(at)
                .map_err(|error| Failure::of(error.into()))
        };
        let shown = text(0)?;
        if let Some(rows) = &mut self.rows_out {
            return give_line(rows, shown).await;
        }
        if self.count == self.limit {
            self.is_cut = true;
            return Ok(());
        }
        if self.text.len() + shown.len() > self.bytes_max {
            return Err(Failure::TooLarge(self.bytes_max));
        }
        if self.count > 0 {
            self.text.push(',');
        }
        self.text.push_str(shown);
        self.last_keys = text(1)?.to_owned();
        self.count += 1;
        Ok(())
    }
}

impl Answer for Page {
    fn is_streamed(&self) -> bool {
        self.rows_out.is_some()
    }

    fn restart(&mut self) -> bool {
        if self.rows_out.as_ref().is_some_and(|rows| rows.count() > 0) {
            return false;
        }
        self.text.clear();
        (self.count, self.is_cut) = (0, false);
        true
    }
}
