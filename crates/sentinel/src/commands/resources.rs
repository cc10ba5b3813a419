//! `sentinel resources`: the resources that callers see, and the templates of further ones.

use std::process::ExitCode;

use sentinel_core::ItemKind;
use serde_json::Value;

use super::lists::{self, Mark, Row, Section};
use crate::cli::{Global, List};

pub(crate) fn run(global: &Global, args: &List) -> anyhow::Result<ExitCode> {
    let resources = Section {
        kind: ItemKind::Resource,
        row: |item| row(item, Mark::None),
    };
    let templates = Section {
        kind: ItemKind::Template,
        row: |item| row(item, Mark::Template),
    };
    lists::run(global, args, "resource", &[resources, templates])
}

fn row(item: &Value, mark: Mark) -> Row {
    let name = item["name"].as_str().map(super::plain).unwrap_or_default();
    let text = match lists::summary(item) {
        summary if summary.is_empty() => name,
        summary => format!("{name}: {summary}"),
    };
    Row { mark, text }
}
