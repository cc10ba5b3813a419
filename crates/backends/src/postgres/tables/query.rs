//! A `SELECT` made of a call's arguments.
//!
//! Names come from the database's own catalog and are quoted; values travel in one JSON parameter, and PostgreSQL converts each
//! to the type of its column. Not here: reading answers (`super`).

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use sentinel_wire::Payload;
use sentinel_wire::json::{self, Object, Rules};

use super::{Column, Table};

/// Bound on the conditions of one call.
const CONDITIONS_MAX: usize = 64;
/// Longest cursor that is read.
const CURSOR_BYTES_MAX: usize = 64 * 1024;

/// Why the arguments make no statement. The text is for the caller.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    #[error("the table has no column `{0}`")]
    UnknownColumn(String),
    #[error("`{0}` is no condition: eq, ne, lt, lte, gt, gte, in, like, ilike or is_null")]
    UnknownOperator(String),
    #[error("column `{0}` cannot be compared, only tested with is_null")]
    NotComparable(String),
    #[error("there are more than {CONDITIONS_MAX} conditions")]
    TooMany,
    #[error(
        "`after` is no cursor of this order; repeat the call that gave it with the same `order`"
    )]
    Cursor,
    #[error("`{0}` does not have the form that the schema says")]
    Form(&'static str),
}

/// A statement and its only parameter.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// Without its LIMIT. The first column is the row as JSON, the second the values that the order compares.
    pub(super) sql: String,
    /// A JSON object.
    pub(super) values: Bytes,
    /// The statement has the parameter: it takes values.
    pub(super) has_values: bool,
    /// Written into cursors: of which order they are. `None`: the order is not total, so there are none.
    pub(super) order: Option<String>,
    pub(super) limit: Option<usize>,
}

/// A column of the order, and its direction.
#[derive(Clone, Copy)]
struct Ordered<'a> {
    column: &'a Column,
    is_descending: bool,
}

/// Collects values for the parameter.
#[derive(Default)]
struct Values {
    object: Vec<u8>,
    count: usize,
}

impl Values {
    /// An expression of the value as a type.
    fn expression(&mut self, raw: &[u8], sql_type: &str) -> String {
        let name = format!("v{}", self.count);
        self.count += 1;
        self.object
            .push(if self.object.is_empty() { b'{' } else { b',' });
        let _ = write!(Text(&mut self.object), "\"{name}\":");
        self.object.extend_from_slice(raw);
        // A subquery without references is evaluated once, so an index serves the comparison.
        format!("(SELECT v.{name} FROM pg_catalog.json_to_record($1) AS v({name} {sql_type}))")
    }

    /// An expression of a value for a column, which callers write as answers show it.
    fn of_column(&mut self, raw: &[u8], column: &Column) -> String {
        match column.is_bytes {
            true => {
                let text = self.expression(raw, "pg_catalog.text");
                format!("pg_catalog.decode({text}, 'base64')")
            }
            false => self.expression(raw, &column.sql_type),
        }
    }

    /// An expression of the array of such values.
    fn of_columns(&mut self, raw: &[u8], column: &Column) -> String {
        match column.is_bytes {
            true => {
                let texts = self.expression(raw, "pg_catalog.text[]");
                format!(
                    "ARRAY(SELECT pg_catalog.decode(u.v, 'base64') FROM pg_catalog.unnest({texts}::pg_catalog.text[]) AS u(v))"
                )
            }
            // Without the cast, ANY would compare with the rows of the subquery.
            false => {
                let kind = format!("{}[]", column.sql_type);
                format!("{}::{kind}", self.expression(raw, &kind))
            }
        }
    }

    fn finish(mut self) -> Bytes {
        if self.object.is_empty() {
            self.object.push(b'{');
        }
        self.object.push(b'}');
        self.object.into()
    }
}

struct Text<'a>(&'a mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Query {
    /// `arguments` is a JSON object.
    pub(super) fn of(table: &Table, arguments: &Bytes) -> Result<Self, QueryError> {
        let arguments = Payload::parse(arguments.clone(), Rules::backend())
            .map_err(|_| QueryError::Form("arguments"))?;
        let mut values = Values::default();
        let mut conditions = Vec::new();
        if let Some(wanted) = present(&arguments, "where") {
            add_conditions(table, wanted, &mut values, &mut conditions)?;
        }
        let order = order_of(table, present(&arguments, "order"))?;
        let spelled = table.is_keyed().then(|| spelled(&order));
        if let Some(after) = present(&arguments, "after") {
            let spelled = spelled.as_deref().ok_or(QueryError::Cursor)?;
            let known = cursor_values(after, spelled).ok_or(QueryError::Cursor)?;
            let from = position(&order, &known, &mut values).ok_or(QueryError::Cursor)?;
            conditions.push(from);
        }
        let columns = columns_of(table, present(&arguments, "columns"))?;
        let limit = match present(&arguments, "limit") {
            Some(raw) => Some(number(raw).ok_or(QueryError::Form("limit"))?),
            None => None,
        };
        Ok(Self {
            sql: sql_of(table, &columns, &conditions, &order),
            has_values: values.count > 0,
            values: values.finish(),
            order: spelled,
            limit,
        })
    }

    /// The cursor of the row after which the next page begins; `keys` is a JSON array.
    pub(super) fn cursor(order: &str, keys: &str) -> String {
        let mut out = b"[".to_vec();
        json::encode_string(order, &mut out);
        out.push(b',');
        out.extend_from_slice(keys.as_bytes());
        out.push(b']');
        URL_SAFE_NO_PAD.encode(out)
    }
}

/// A member that is there and not null.
fn present<'a>(arguments: &'a Payload, name: &str) -> Option<&'a [u8]> {
    arguments.get(name).filter(|raw| *raw != b"null")
}

fn number(raw: &[u8]) -> Option<usize> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}

fn sql_of(
    table: &Table,
    columns: &[&Column],
    conditions: &[String],
    order: &[Ordered<'_>],
) -> String {
    let shown: Vec<String> = columns.iter().map(|column| column.shown()).collect();
    let keys: Vec<String> = order.iter().map(|by| by.column.of("t")).collect();
    let mut sql = format!(
        "SELECT pg_catalog.to_json(r)::text, pg_catalog.json_build_array({})::text FROM {} AS t \
         CROSS JOIN LATERAL (SELECT {}) AS r",
        keys.join(", "),
        table.quoted,
        shown.join(", "),
    );
    if !conditions.is_empty() {
        let _ = write!(sql, " WHERE {}", conditions.join(" AND "));
    }
    if !order.is_empty() {
        let by: Vec<String> = order.iter().map(Ordered::sql).collect();
        let _ = write!(sql, " ORDER BY {}", by.join(", "));
    }
    sql
}

impl Ordered<'_> {
    fn sql(&self) -> String {
        let direction = if self.is_descending { " DESC" } else { "" };
        format!("{}{direction}", self.column.of("t"))
    }
}

fn columns_of<'a>(table: &'a Table, raw: Option<&[u8]>) -> Result<Vec<&'a Column>, QueryError> {
    let Some(raw) = raw else {
        return Ok(table.columns.iter().collect());
    };
    let names = names_of(raw).ok_or(QueryError::Form("columns"))?;
    names.iter().map(|name| column(table, name)).collect()
}

fn names_of(raw: &[u8]) -> Option<Vec<String>> {
    let elements = json::elements(raw, Rules::backend()).ok()?;
    let text = |span: &json::Span| Some(json::decode_string(span.of(raw))?.into_owned());
    elements.iter().map(text).collect()
}

fn column<'a>(table: &'a Table, name: &str) -> Result<&'a Column, QueryError> {
    let found = table.columns.iter().find(|column| column.name == name);
    found.ok_or_else(|| QueryError::UnknownColumn(name.to_owned()))
}

fn comparable<'a>(table: &'a Table, name: &str) -> Result<&'a Column, QueryError> {
    let found = column(table, name)?;
    match found.is_comparable {
        true => Ok(found),
        false => Err(QueryError::NotComparable(name.to_owned())),
    }
}

/// The asked order, and behind it the columns of the key that make it total.
fn order_of<'a>(table: &'a Table, raw: Option<&[u8]>) -> Result<Vec<Ordered<'a>>, QueryError> {
    let names = match raw {
        Some(raw) => names_of(raw).ok_or(QueryError::Form("order"))?,
        None => Vec::new(),
    };
    let mut order: Vec<Ordered<'_>> = Vec::with_capacity(names.len() + table.key.len());
    for name in &names {
        let (name, is_descending) = match name.strip_prefix('-') {
            Some(name) => (name, true),
            None => (name.as_str(), false),
        };
        let column = comparable(table, name)?;
        if !order.iter().any(|by| by.column.name == column.name) {
            order.push(Ordered {
                column,
                is_descending,
            });
        }
    }
    for at in &table.key {
        let column = &table.columns[*at];
        if !order.iter().any(|by| by.column.name == column.name) {
            order.push(Ordered {
                column,
                is_descending: false,
            });
        }
    }
    Ok(order)
}

fn spelled(order: &[Ordered<'_>]) -> String {
    let mut text = String::new();
    for by in order {
        text.push(if by.is_descending { '-' } else { '+' });
        text.push_str(&by.column.name);
        text.push('\0');
    }
    text
}

fn add_conditions(
    table: &Table,
    raw: &[u8],
    values: &mut Values,
    conditions: &mut Vec<String>,
) -> Result<(), QueryError> {
    let object = Object::parse(raw, Rules::backend()).map_err(|_| QueryError::Form("where"))?;
    for member in &object.members {
        let (name, value) = (member.key.decode(raw), member.value.of(raw));
        let of_value = Object::parse(value, Rules::backend());
        let Ok(operators) = of_value else {
            let operator = if value == b"null" { "is_null" } else { "eq" };
            let value = if value == b"null" { b"true" } else { value };
            conditions.push(condition(table, &name, operator, value, values)?);
            continue;
        };
        for operator in &operators.members {
            let word = operator.key.decode(value);
            let operand = operator.value.of(value);
            conditions.push(condition(table, &name, &word, operand, values)?);
        }
        if conditions.len() > CONDITIONS_MAX {
            return Err(QueryError::TooMany);
        }
    }
    match conditions.len() > CONDITIONS_MAX {
        true => Err(QueryError::TooMany),
        false => Ok(()),
    }
}

fn condition(
    table: &Table,
    name: &str,
    operator: &str,
    value: &[u8],
    values: &mut Values,
) -> Result<String, QueryError> {
    if operator == "is_null" {
        let column = column(table, name)?.of("t");
        let not = match value {
            b"true" => "",
            b"false" => "NOT ",
            _ => return Err(QueryError::Form("is_null")),
        };
        return Ok(format!("{column} IS {not}NULL"));
    }
    let known = comparable(table, name)?;
    let column = known.of("t");
    let mut compared = |sign: &str| format!("{column} {sign} {}", values.of_column(value, known));
    Ok(match operator {
        "eq" => compared("="),
        "ne" => compared("IS DISTINCT FROM"),
        "lt" => compared("<"),
        "lte" => compared("<="),
        "gt" => compared(">"),
        "gte" => compared(">="),
        "in" => format!("{column} = ANY ({})", values.of_columns(value, known)),
        "like" => format!("{column}::text LIKE {}", values.expression(value, "text")),
        "ilike" => format!("{column}::text ILIKE {}", values.expression(value, "text")),
        other => return Err(QueryError::UnknownOperator(other.to_owned())),
    })
}

/// The values of a cursor, if it is one of this order.
fn cursor_values(raw: &[u8], order: &str) -> Option<Vec<Vec<u8>>> {
    let text = json::decode_string(raw)?;
    if text.len() > CURSOR_BYTES_MAX {
        return None;
    }
    let inner = URL_SAFE_NO_PAD.decode(text.as_bytes()).ok()?;
    let parts = json::elements(&inner, Rules::caller(64)).ok()?;
    let [of_order, keys] = parts.as_slice() else {
        return None;
    };
    if json::decode_string(of_order.of(&inner))? != order {
        return None;
    }
    let keys = keys.of(&inner);
    let keys_of = json::elements(keys, Rules::caller(64)).ok()?;
    Some(keys_of.iter().map(|key| key.of(keys).to_vec()).collect())
}

/// The comparison of whole rows, which one index over all columns serves, where that means the same as the order.
fn row_position(order: &[Ordered<'_>], keys: &[Vec<u8>], values: &mut Values) -> Option<String> {
    let is_descending = order.first()?.is_descending;
    let alike = |by: &Ordered<'_>| by.is_descending == is_descending && !by.column.is_nullable;
    if !order.iter().all(alike) || keys.iter().any(|key| key == b"null") {
        return None;
    }
    let columns: Vec<String> = order.iter().map(|by| by.column.of("t")).collect();
    let known = order.iter().zip(keys);
    let known: Vec<String> = known
        .map(|(by, key)| values.expression(key, &by.column.sql_type))
        .collect();
    let sign = if is_descending { "<" } else { ">" };
    Some(format!(
        "({}) {sign} ({})",
        columns.join(", "),
        known.join(", ")
    ))
}

/// The rows behind a position. NULL is the greatest value, as PostgreSQL orders by default.
fn position(order: &[Ordered<'_>], keys: &[Vec<u8>], values: &mut Values) -> Option<String> {
    if order.len() != keys.len() || order.is_empty() {
        return None;
    }
    if let Some(position) = row_position(order, keys, values) {
        return Some(position);
    }
    let mut behind = String::new();
    for (by, key) in order.iter().zip(keys).rev() {
        let column = by.column.of("t");
        let is_null = key == b"null";
        let beyond = match (is_null, by.is_descending) {
            (true, false) => None,
            (true, true) => Some(format!("{column} IS NOT NULL")),
            (false, _) => {
                let value = values.expression(key, &by.column.sql_type);
                let sign = if by.is_descending { "<" } else { ">" };
                let nulls = by.column.is_nullable && !by.is_descending;
                let nulls = if nulls {
                    format!(" OR {column} IS NULL")
                } else {
                    String::new()
                };
                Some(format!("{column} {sign} {value}{nulls}"))
            }
        };
        let same = match is_null {
            true => format!("{column} IS NULL"),
            false => {
                let value = values.expression(key, &by.column.sql_type);
                format!("{column} = {value}")
            }
        };
        let equal = (!behind.is_empty()).then(|| format!("({same} AND {behind})"));
        let either: Vec<String> = beyond.into_iter().chain(equal).collect();
        behind = match either.is_empty() {
            true => "false".to_owned(),
            false => format!("({})", either.join(" OR ")),
        };
    }
    Some(behind)
}
