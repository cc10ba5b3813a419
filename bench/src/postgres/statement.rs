//! The statements that the gateway sends for a call, as the server logs them, and scripts of pgbench that send the same.

use std::collections::HashMap;

use anyhow::Context;

/// A statement with the values of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    sql: String,
    /// `None`: null.
    values: Vec<Option<String>>,
}

/// What pgbench is to send, again and again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) text: String,
    /// Variables and their values.
    pub(super) variables: Vec<(String, String)>,
}

/// The transaction of the last call of this function, from BEGIN to COMMIT. Lines of the log begin with the process and `|`.
pub(super) fn logged(log: &str, function: &str) -> anyhow::Result<Vec<Statement>> {
    let mut open: HashMap<&str, Vec<Statement>> = HashMap::new();
    let mut found = None;
    let called = format!("{}(", function.replace('"', ""));
    let entries = entries(log);
    for entry in &entries {
        let Some((pid, text)) = entry.split_once('|') else {
            continue;
        };
        let statements = open.entry(pid).or_default();
        if let Some(sql) = text.strip_prefix("LOG:  execute ") {
            let sql = sql.split_once(": ").map_or("", |(_, sql)| sql);
            if sql.starts_with("BEGIN") {
                statements.clear();
            }
            statements.push(Statement {
                sql: sql.to_owned(),
                values: Vec::new(),
            });
            let is_it = |one: &Statement| one.sql.replace('"', "").contains(&called);
            if sql == "COMMIT" && statements.iter().any(is_it) {
                found = Some(std::mem::take(statements));
            }
        } else if let Some(list) = text.strip_prefix("DETAIL:  parameters: ")
            && let Some(last) = statements.last_mut()
        {
            last.values = values(list).context("the log has other parameters than expected")?;
        }
    }
    found.with_context(|| format!("the log of PostgreSQL has no call of {function}"))
}

/// Lines that begin with a tab belong to the one before.
fn entries(log: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in log.lines() {
        match (line.strip_prefix('\t'), entries.last_mut()) {
            (Some(more), Some(last)) => {
                last.push(' ');
                last.push_str(more);
            }
            _ => entries.push(line.to_owned()),
        }
    }
    entries
}

/// Reads `$1 = 'text', $2 = NULL`.
fn values(mut rest: &str) -> Option<Vec<Option<String>>> {
    let mut values = Vec::new();
    loop {
        rest = rest.split_once(" = ")?.1;
        if let Some(after) = rest.strip_prefix("NULL") {
            values.push(None);
            rest = after;
        } else {
            let mut value = String::new();
            rest = rest.strip_prefix('\'')?;
            loop {
                let (text, after) = rest.split_once('\'')?;
                value.push_str(text);
                match after.strip_prefix('\'') {
                    Some(after) => {
                        value.push('\'');
                        rest = after;
                    }
                    None => {
                        rest = after;
                        break;
                    }
                }
            }
            values.push(Some(value));
        }
        match rest.strip_prefix(", ") {
            Some(after) => rest = after,
            None => return rest.is_empty().then_some(values),
        }
    }
}

impl Script {
    /// The statement that calls the function, without its transaction.
    pub(super) fn alone(transaction: &[Statement], function: &str) -> anyhow::Result<Self> {
        let called = format!("{}(", function.replace('"', ""));
        let mut statements = transaction.iter();
        let it = statements.find(|one| one.sql.replace('"', "").contains(&called));
        let it = it.with_context(|| format!("no call of {function}"))?;
        Ok(Self::of(std::slice::from_ref(it)))
    }

    /// All statements in one round trip.
    pub(super) fn pipeline(transaction: &[Statement]) -> Self {
        let inner = Self::of(transaction);
        Self {
            text: format!("\\startpipeline\n{}\\endpipeline\n", inner.text),
            ..inner
        }
    }

    fn of(statements: &[Statement]) -> Self {
        let (mut text, mut variables) = (String::new(), Vec::new());
        for (at, statement) in statements.iter().enumerate() {
            let mut pieces = statement.sql.split('$');
            text.push_str(pieces.next().unwrap_or_default());
            for piece in pieces {
                let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
                let (number, rest) = piece.split_at(digits);
                let number: usize = number.parse().unwrap_or_default();
                match number.checked_sub(1).and_then(|n| statement.values.get(n)) {
                    None => text.push_str(&format!("${}", &piece[..digits])),
                    Some(None) => text.push_str("NULL"),
                    // pgbench takes no empty value.
                    Some(Some(value)) if value.is_empty() => text.push_str("''"),
                    Some(Some(value)) => {
                        let name = format!("s{at}_{number}");
                        text.push_str(&format!(":{name}"));
                        if !variables.iter().any(|(known, _)| *known == name) {
                            variables.push((name, value.clone()));
                        }
                    }
                }
                text.push_str(rest);
            }
            text.push_str(";\n");
        }
        Self { text, variables }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "7|LOG:  execute s0: SELECT oid\n\tFROM pg_proc\n\
        7|LOG:  execute s1: BEGIN READ ONLY\n\
        8|LOG:  execute s9: BEGIN\n\
        7|LOG:  execute s2: SELECT set_config('a', $1, true), set_config('b', $2, true)\n\
        7|DETAIL:  parameters: $1 = '', $2 = 'it''s, $1'\n\
        7|LOG:  execute s3: SELECT \"api\".\"f\"(a => $1,\n\tb => $2)::text\n\
        7|DETAIL:  parameters: $1 = '{\"a\":1}', $2 = NULL\n\
        8|LOG:  execute s8: SELECT \"api\".\"ff\"()\n\
        7|LOG:  execute s4: COMMIT\n\
        8|LOG:  execute s4: COMMIT\n";

    #[test]
    fn scripts_send_what_the_log_has() {
        let transaction = logged(LOG, "api.f").expect("it is there");
        let alone = Script::alone(&transaction, "api.f").expect("it is there");
        assert_eq!(
            alone.text,
            "SELECT \"api\".\"f\"(a => :s0_1, b => NULL)::text;\n"
        );
        let json = ("s0_1".to_owned(), r#"{"a":1}"#.to_owned());
        assert_eq!(alone.variables, [json]);
        let all = Script::pipeline(&transaction);
        assert_eq!(
            all.text,
            "\\startpipeline\nBEGIN READ ONLY;\n\
             SELECT set_config('a', '', true), set_config('b', :s1_2, true);\n\
             SELECT \"api\".\"f\"(a => :s2_1, b => NULL)::text;\nCOMMIT;\n\\endpipeline\n"
        );
        assert_eq!(all.variables[0].1, "it's, $1");
        assert!(logged(LOG, "api.g").is_err());
    }

    #[test]
    fn a_list_of_parameters_that_is_cut_off_is_refused() {
        for list in ["$1 = 'a", "$1 = 'a' ...", "$1", "$1 = 'a', "] {
            assert_eq!(values(list), None, "{list}");
        }
    }
}
