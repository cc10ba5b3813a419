//! The statement of a call.
//!
//! All arguments are one parameter, the JSON object as it was sent, and PostgreSQL itself makes values of it:
//!
//! ```sql
//! SELECT pg_catalog.to_json("api"."f"("a" => a."a"))::pg_catalog.text
//! FROM pg_catalog.json_to_record($1) AS a("a" "pg_catalog"."int4")
//! ```
//!
//! Arguments that were not given are not in the call, so their DEFAULT holds. Nothing of a caller is ever part of the text.

use super::comment::Source;

/// How the value of a parameter is taken out of the JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// A whole number, which JSON may write as 5.0.
    Whole,
    /// Base64.
    Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: String,
    /// The type, as SQL takes it.
    pub(super) sql: String,
    pub(super) form: Form,
    pub(super) has_default: bool,
    pub(super) is_variadic: bool,
    /// Filled by the gateway.
    pub(super) bound: Option<Source>,
}

impl Parameter {
    /// Whether callers must give it.
    pub(super) fn is_required(&self) -> bool {
        !self.has_default && !self.is_variadic && self.bound.is_none()
    }
}

/// A column of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) is_bytes: bool,
}

/// What a function returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Returns {
    Nothing,
    Value {
        is_bytes: bool,
    },
    /// One named column: SQL gives its value alone.
    Single(Column),
    Columns(Vec<Column>),
}

/// A function as its calls are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Callable {
    /// The qualified name, as SQL takes it.
    pub(super) function: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) returns: Returns,
    pub(super) is_set: bool,
}

impl Callable {
    /// The statement for these arguments: one flag for each parameter. Its rows have one column, a JSON text.
    pub(super) fn sql(&self, given: &[bool], limit: Option<usize>) -> String {
        let (call, fields) = self.call(given);
        let arguments = match fields.is_empty() {
            true => None,
            false => Some(format!("pg_catalog.json_to_record($1) AS a({fields})")),
        };
        let mut sql = match (&self.returns, self.is_set) {
            (Returns::Nothing, _) | (_, true) => {
                let source = match arguments {
                    Some(arguments) => format!("{arguments} CROSS JOIN LATERAL {call}"),
                    None => call,
                };
                self.rows(&source)
            }
            (Returns::Columns(columns), false) if columns.iter().any(|column| column.is_bytes) => {
                let source = match arguments {
                    Some(arguments) => format!("{arguments} CROSS JOIN LATERAL {call}"),
                    None => call,
                };
                self.rows(&source)
            }
            (returns, false) => {
                let json = match returns {
                    Returns::Value { is_bytes: true } => to_json(&base64(&call)),
                    Returns::Single(column) => self.object([(column, call.as_str())]),
                    _ => to_json(&call),
                };
                let from = arguments.map_or_else(String::new, |from| format!(" FROM {from}"));
                format!("SELECT {json}{from}")
            }
        };
        if let Some(limit) = limit.filter(|_| self.is_set) {
            sql.push_str(&format!(" LIMIT {limit}"));
        }
        sql
    }

    /// Whether a call with these arguments needs the JSON object.
    pub(super) fn takes_arguments(&self, given: &[bool]) -> bool {
        let parameters = self.parameters.iter().zip(given);
        parameters
            .into_iter()
            .any(|(one, given)| *given && one.bound.is_none())
    }

    /// The call, and the fields of the JSON object.
    fn call(&self, given: &[bool]) -> (String, String) {
        let (mut call, mut fields) = (format!("{}(", self.function), String::new());
        let mut is_first = true;
        for (parameter, given) in self.parameters.iter().zip(given) {
            let (name, kind) = (quoted(&parameter.name), &parameter.sql);
            let field = format!("a.{name}");
            let value = match (parameter.bound, given) {
                (Some(source), _) => setting(source, kind),
                (None, false) if parameter.has_default => continue,
                // Named notation asks for the array of a VARIADIC parameter.
                (None, false) if parameter.is_variadic => format!("CAST('{{}}' AS {kind})"),
                (None, false) => format!("CAST(NULL AS {kind})"),
                (None, true) => match parameter.form {
                    Form::Plain => field,
                    Form::Whole => format!("CAST({field} AS {kind})"),
                    Form::Bytes => {
                        format!("CAST(pg_catalog.decode({field}, 'base64') AS {kind})")
                    }
                },
            };
            if *given && parameter.bound.is_none() {
                let kind = match parameter.form {
                    Form::Plain => kind,
                    Form::Whole => "\"pg_catalog\".\"numeric\"",
                    Form::Bytes => "\"pg_catalog\".\"text\"",
                };
                let comma = if fields.is_empty() { "" } else { ", " };
                fields.push_str(&format!("{comma}{name} {kind}"));
            }
            let comma = if is_first { "" } else { ", " };
            let variadic = if parameter.is_variadic {
                "VARIADIC "
            } else {
                ""
            };
            call.push_str(&format!("{comma}{variadic}{name} => {value}"));
            is_first = false;
        }
        call.push(')');
        (call, fields)
    }

    /// Selects from the function as a table.
    fn rows(&self, source: &str) -> String {
        match &self.returns {
            Returns::Nothing => format!("SELECT CAST(NULL AS pg_catalog.text) FROM {source}"),
            // With an alias for the column, it is the value alone.
            Returns::Value { is_bytes } => {
                let value = if *is_bytes {
                    base64("f.v")
                } else {
                    "f.v".to_owned()
                };
                format!("SELECT {} FROM {source} AS f(v)", to_json(&value))
            }
            Returns::Single(column) => {
                let json = self.object([(column, "f.v")]);
                format!("SELECT {json} FROM {source} AS f(v)")
            }
            Returns::Columns(columns) if columns.iter().any(|column| column.is_bytes) => {
                let alias = self.alias();
                let fields = columns
                    .iter()
                    .map(|column| format!("{alias}.{}", quoted(&column.name)));
                let fields: Vec<String> = fields.collect();
                let json = self.object(columns.iter().zip(fields.iter().map(String::as_str)));
                format!("SELECT {json} FROM {source} AS {alias}")
            }
            Returns::Columns(_) => {
                let alias = self.alias();
                format!("SELECT {} FROM {source} AS {alias}", to_json(&alias))
            }
        }
    }

    /// The JSON object of these columns.
    fn object<'c>(&self, columns: impl IntoIterator<Item = (&'c Column, &'c str)>) -> String {
        let member = |(column, value): (&Column, &str)| {
            let value = if column.is_bytes {
                base64(value)
            } else {
                value.to_owned()
            };
            format!("{value} AS {}", quoted(&column.name))
        };
        let members: Vec<String> = columns.into_iter().map(member).collect();
        let alias = format!("{}_", self.alias());
        to_json(&format!(
            "(SELECT {alias} FROM (SELECT {}) AS {alias})",
            members.join(", ")
        ))
    }

    /// A name for rows. SQL takes a name for that of a column if there is one, so it is, with any number of underscores, the
    /// name of no column and no parameter.
    fn alias(&self) -> String {
        let columns: &[Column] = match &self.returns {
            Returns::Single(column) => std::slice::from_ref(column),
            Returns::Columns(columns) => columns,
            Returns::Nothing | Returns::Value { .. } => &[],
        };
        let names = columns.iter().map(|column| &column.name);
        let names = names.chain(self.parameters.iter().map(|parameter| &parameter.name));
        let names: Vec<&str> = names.map(|name| name.trim_end_matches('_')).collect();
        let mut alias = "f".to_owned();
        while names.contains(&alias.as_str()) {
            alias.push('f');
        }
        alias
    }
}

fn to_json(value: &str) -> String {
    format!("pg_catalog.to_json({value})::pg_catalog.text")
}

/// Without the line breaks that PostgreSQL writes.
fn base64(value: &str) -> String {
    format!("pg_catalog.translate(pg_catalog.encode({value}, 'base64'), pg_catalog.chr(10), '')")
}

/// The value of a setting of the transaction; null where it is empty.
fn setting(source: Source, kind: &str) -> String {
    let value = format!("pg_catalog.current_setting('{}', true)", source.setting());
    format!("CAST(CASE WHEN {value} OPERATOR(pg_catalog.<>) '' THEN {value} END AS {kind})")
}

/// A name as an identifier of SQL, whatever it consists of.
pub(in super::super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests;
