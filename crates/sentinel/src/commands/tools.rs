//! `sentinel tools`: the tools that callers see.

use std::process::ExitCode;

use sentinel_core::ItemKind;
use serde_json::Value;

use super::lists::{self, Mark, Row, Section};
use crate::cli::{Global, List};

pub(crate) fn run(global: &Global, args: &List) -> anyhow::Result<ExitCode> {
    let tools = Section {
        kind: ItemKind::Tool,
        row,
    };
    lists::run(global, args, "tool", &[tools])
}

/// Only what a server says of its tool is marked: silence is no promise either way.
fn row(tool: &Value) -> Row {
    let hint = |name: &str| tool["annotations"][name].as_bool();
    let mark = match (hint("readOnlyHint"), hint("destructiveHint")) {
        (Some(true), _) => Mark::ReadOnly,
        (_, Some(true)) => Mark::Destructive,
        _ => Mark::None,
    };
    Row {
        mark,
        text: lists::summary(tool),
    }
}
