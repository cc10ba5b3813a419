//! `sentinel prompts`: the prompts that callers see, with their arguments.

use std::process::ExitCode;

use sentinel_core::ItemKind;
use serde_json::Value;

use super::lists::{self, Mark, Row, Section};
use crate::cli::{Global, List};

pub(crate) fn run(global: &Global, args: &List) -> anyhow::Result<ExitCode> {
    let prompts = Section {
        kind: ItemKind::Prompt,
        row,
    };
    lists::run(global, args, "prompt", &[prompts])
}

fn row(prompt: &Value) -> Row {
    let arguments: Vec<String> = prompt["arguments"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|argument| {
            let name = super::one_line(argument["name"].as_str()?);
            Some(match argument["required"].as_bool() {
                Some(true) => format!("<{name}>"),
                _ => format!("[{name}]"),
            })
        })
        .collect();
    let text = format!("{}  {}", arguments.join(" "), lists::summary(prompt));
    Row {
        mark: Mark::None,
        text: text.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_arguments_are_told_from_the_others() {
        let prompt = serde_json::json!({"name": "p", "description": "Writes.",
            "arguments": [{"name": "city", "required": true}, {"name": "units"}]});
        assert_eq!(row(&prompt).text, "<city> [units]  Writes");
    }
}
