//! `sentinel cost`: what the definitions of the catalog cost a model that is given them, dearest first.

use std::process::ExitCode;

use sentinel_core::{ItemKind, cost};
use serde_json::json;

use super::lists::{complain, indented};
use super::{EXIT_UNREACHABLE, one_line, print, say, warn};
use crate::cli::{Cost, Global};
use crate::client::{self, Client, Wish};

/// One definition.
struct Row {
    kind: ItemKind,
    name: String,
    backend: Option<String>,
    tokens: usize,
}

pub(crate) fn run(global: &Global, args: &Cost) -> anyhow::Result<ExitCode> {
    let wish = Wish {
        backend: args.list.backend.as_deref(),
        tool: None,
    };
    client::with_client(global, &args.list.target, wish, async |client| {
        let rows = rows(client)?;
        complain(client, wish, "definition");
        let text = match global.json {
            true => as_json(&rows, args.warn_above),
            false => table(&rows),
        };
        if rows.is_empty() {
            say("no definitions");
        }
        let printed = print(&text)?;
        for row in rows.iter().filter(|row| is_dear(row, args.warn_above)) {
            let (name, tokens) = (&row.name, row.tokens);
            warn(&format!(
                "the tool `{name}` costs {tokens} tokens, more than {}",
                args.warn_above
            ));
        }
        Ok(match client.unreachable(wish) {
            Some(_) => ExitCode::from(EXIT_UNREACHABLE),
            None => printed,
        })
    })
}

/// Every definition, the dearest first; of equals in the order of the lists.
fn rows(client: &Client) -> anyhow::Result<Vec<Row>> {
    let mut all = Vec::new();
    for kind in ItemKind::ALL {
        for item in client.list(kind)? {
            all.push(Row {
                kind,
                name: one_line(&item.key),
                tokens: cost::tokens(&item.fields),
                backend: item.backend,
            });
        }
    }
    all.sort_by_key(|row| std::cmp::Reverse(row.tokens));
    Ok(all)
}

fn is_dear(row: &Row, bound: usize) -> bool {
    row.kind == ItemKind::Tool && row.tokens > bound
}

fn noun(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "tool",
        ItemKind::Resource => "resource",
        ItemKind::Template => "template",
        ItemKind::Prompt => "prompt",
    }
}

fn total(rows: &[Row]) -> usize {
    rows.iter().map(|row| row.tokens).sum()
}

fn table(rows: &[Row]) -> String {
    let width = rows
        .iter()
        .map(|row| row.name.chars().count())
        .max()
        .unwrap_or_default();
    let digits = total(rows).to_string().len();
    let line = |row: &Row| {
        let (tokens, kind, name) = (row.tokens, noun(row.kind), &row.name);
        let backend = row.backend.as_deref().unwrap_or_default();
        format!(
            "{}\n",
            format!("{tokens:>digits$}  {kind:8}  {name:width$}  {backend}").trim_end()
        )
    };
    let lines: String = rows.iter().map(line).collect();
    match rows.is_empty() {
        true => lines,
        false => format!("{lines}{}  total\n", total(rows)),
    }
}

fn as_json(rows: &[Row], bound: usize) -> String {
    let one = |row: &Row| {
        json!({
            "kind": noun(row.kind), "name": row.name, "backend": row.backend, "tokens": row.tokens,
            "isAboveBound": is_dear(row, bound),
        })
    };
    let all: Vec<serde_json::Value> = rows.iter().map(one).collect();
    let all = json!({ "total": total(rows), "warnAbove": bound, "definitions": all });
    format!("{}\n", indented(&all.to_string()))
}
