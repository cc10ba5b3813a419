//! A filter as conditions of SQL, in the words that SQLite and PostgreSQL have in common.

use sentinel_core::audit::figures::{By, CALLS, Ended};
use sentinel_core::audit::{Filter, Query, REDACTED};

use super::{COLUMNS, number};

/// A value of a parameter.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Number(i64),
}

/// Where the databases differ.
pub(super) struct Dialect {
    /// The n-th parameter, counted from 1, by its type.
    pub(super) text: fn(usize) -> String,
    pub(super) number: fn(usize) -> String,
    /// Whether a text contains another one, as a format of the two.
    pub(super) contains: fn(&str, &str) -> String,
    /// A column in lower case, as far as it is ASCII.
    pub(super) lower: fn(&str) -> String,
}

/// Conditions, and the values of their parameters.
pub(super) struct Conditions {
    dialect: &'static Dialect,
    all: Vec<String>,
    pub(super) values: Vec<Value>,
}

impl Conditions {
    pub(super) fn of(filter: &Filter, dialect: &'static Dialect) -> Self {
        let mut this = Self {
            dialect,
            all: Vec::new(),
            values: Vec::new(),
        };
        for (column, text) in [
            ("caller", &filter.caller),
            ("operation", &filter.operation),
            ("backend", &filter.backend),
            ("outcome", &filter.outcome),
            ("kind", &filter.kind),
            ("surface", &filter.surface),
            ("method", &filter.method),
            ("role", &filter.role),
            ("tenant", &filter.tenant),
            ("request_id", &filter.request_id),
        ] {
            if let Some(text) = text {
                let value = this.bind(Value::Text(text.clone()));
                this.all.push(format!("{column} = {value}"));
            }
        }
        for (column, least) in [
            ("at_ms", filter.since_ms),
            ("latency_us", filter.latency_us_min),
        ] {
            if let Some(least) = least {
                let value = this.bind(Value::Number(number(least)));
                this.all.push(format!("{column} >= {value}"));
            }
        }
        if let Some(until_ms) = filter.until_ms {
            let value = this.bind(Value::Number(number(until_ms)));
            this.all.push(format!("at_ms < {value}"));
        }
        if filter.failed {
            let refusals = list(&Ended::REFUSALS);
            let failures = list(&Ended::FAILURES);
            this.all.push(format!(
                "(decision = 'deny' OR outcome IN ({refusals}, {failures}))"
            ));
        }
        if let Some(text) = &filter.text {
            this.contain(text);
        }
        this
    }

    /// The conditions of a search, its limit excluded.
    pub(super) fn of_query(query: &Query, dialect: &'static Dialect) -> Self {
        let mut this = Self::of(&query.filter, dialect);
        let runs = query.runs.iter().map(|run| {
            let node = this.bind(Value::Text(run.node.clone()));
            let [lane, after, to] = [run.lane, number(run.after_seq), number(run.to_seq)]
                .map(|number| this.bind(Value::Number(number)));
            format!("(node = {node} AND lane = {lane} AND seq > {after} AND seq <= {to})")
        });
        let runs: Vec<String> = runs.collect();
        if !runs.is_empty() {
            this.all.push(format!("({})", runs.join(" OR ")));
        }
        if let Some((at_ms, key)) = &query.after {
            let place = [
                Value::Number(*at_ms as i64),
                Value::Text(key.node.clone()),
                Value::Number(key.lane),
                Value::Number(key.seq as i64),
            ];
            let place = place.map(|value| this.bind(value)).join(", ");
            let beyond = if query.newest { "<" } else { ">" };
            let places = format!("(at_ms, node, lane, seq) {beyond} ({place})");
            this.all.push(places);
        }
        this
    }

    /// The statement of a search with these conditions.
    pub(super) fn select(&mut self, query: &Query) -> String {
        let limit = self.bind(Value::Number(number(query.limit as u64)));
        let order = if query.newest { "DESC" } else { "ASC" };
        format!(
            "SELECT {COLUMNS} FROM audit WHERE {}
             ORDER BY at_ms {order}, node {order}, lane {order}, seq {order} LIMIT {limit}",
            self.sql()
        )
    }

    /// The number of records that they hold for.
    pub(super) fn count(&self) -> String {
        format!("SELECT count(*) FROM audit WHERE {}", self.sql())
    }

    /// Only requests that take the walk. What is about to run has a second record when it ended.
    pub(super) fn of_calls(&mut self) {
        let calls = list(&CALLS);
        self.all.push(format!("method IN ({calls})"));
        self.all.push("outcome <> 'intent'".to_owned());
    }

    /// Adds a parameter; returns its text.
    pub(super) fn bind(&mut self, value: Value) -> String {
        let parameter = match value {
            Value::Text(_) => self.dialect.text,
            Value::Number(_) => self.dialect.number,
        };
        self.values.push(value);
        parameter(self.values.len())
    }

    /// What stands for redacted text is replaced by a character that no text of JSON has.
    fn contain(&mut self, text: &str) {
        let value = self.bind(Value::Text(text.to_ascii_lowercase()));
        let columns = ["operation", "caller", "request_id", "COALESCE(args, '')"];
        let found = columns.map(|column| {
            let shown = format!("replace({column}, '{REDACTED}', '\u{1}')");
            (self.dialect.contains)(&(self.dialect.lower)(&shown), &value)
        });
        self.all.push(format!("({})", found.join(" OR ")));
    }

    /// The conditions as one.
    pub(super) fn sql(&self) -> String {
        match self.all.is_empty() {
            true => "TRUE".to_owned(),
            false => self.all.join(" AND "),
        }
    }
}

/// Words of ours, as a list of literals.
fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    quoted.join(", ")
}

/// The columns of a group's name and backend; a literal where there is none.
pub(super) fn named(by: By) -> (&'static str, &'static str) {
    match by {
        By::Time(_) => ("''", "''"),
        By::Operation => ("operation", "backend"),
        By::Caller => ("caller", "''"),
        By::Backend => ("backend", "''"),
        By::Outcome => ("outcome", "''"),
        By::Kind => ("kind", "''"),
    }
}

/// The beginning of a group's step of time.
pub(super) fn step(by: By, at_ms: u64) -> u64 {
    match by {
        By::Time(step_ms) => at_ms - at_ms % step_ms.max(1),
        _ => 0,
    }
}
