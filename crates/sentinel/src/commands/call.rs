//! `sentinel call`: calls one tool and prints what it returns.
//!
//! On a terminal a stranger's text is shown without what the terminal would obey; elsewhere it is
//! written byte for byte, so that a script gets what the tool said.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::Context;
use sentinel_core::{ItemKind, Kind};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{EXIT_UNREACHABLE, lists, one_line, plain, say, warn};
use crate::cli::{Call, Global};
use crate::client::{self, Answer, Client, Wish};
use crate::config::suggest;
use crate::progress::Progress;

/// More than any gateway takes as one request.
const ARGUMENTS_MAX: u64 = 64 << 20;

pub(crate) fn run(global: &Global, args: &Call) -> anyhow::Result<ExitCode> {
    let arguments = arguments(&args.arguments)?;
    let wish = Wish {
        backend: None,
        tool: Some(&args.name),
    };
    client::with_client(global, &args.target, wish, async |client| {
        let mut progress = Progress::begin();
        let answer = client.call(&args.name, &arguments, &mut progress).await?;
        drop(progress);
        match answer {
            Answer::Result(result) if global.json => {
                write(result.get())?;
                Ok(outcome(&result))
            }
            Answer::Result(result) => {
                write(&readable(&result)?)?;
                let code = outcome(&result);
                if code != ExitCode::SUCCESS {
                    warn("the tool reports a failure");
                }
                Ok(code)
            }
            Answer::Error(error) => {
                if global.json {
                    write(&format!("{{\"error\":{}}}", error.get()))?;
                }
                Ok(refused(client, &args.name, &error, global.json))
            }
        }
    })
}

/// The arguments as they were written, if they are a JSON object.
fn arguments(given: &str) -> anyhow::Result<Box<RawValue>> {
    let mut text = given.to_owned();
    if given == "-" {
        text.clear();
        let read = io::stdin().take(ARGUMENTS_MAX).read_to_string(&mut text);
        read.context("reading the arguments from standard input")?;
    }
    let text = text.trim();
    let example = "expected a JSON object such as '{\"city\": \"Bern\"}'";
    let raw: Box<RawValue> = serde_json::from_str(text)
        .with_context(|| format!("the arguments are not JSON; {example}"))?;
    anyhow::ensure!(
        text.starts_with('{'),
        "the arguments are no JSON object; {example}"
    );
    Ok(raw)
}

fn outcome(result: &RawValue) -> ExitCode {
    let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
    match result["isError"].as_bool() {
        Some(true) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// Prints why there is no result.
fn refused(client: &Client, name: &str, error: &RawValue, quiet: bool) -> ExitCode {
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    let kind = error["data"]["kind"].as_str().unwrap_or_default();
    let away = [
        Kind::BackendUnavailable.as_str(),
        Kind::BackendTimeout.as_str(),
    ];
    if !quiet {
        let message = plain(error["message"].as_str().unwrap_or("the call was refused"));
        super::fail(&anyhow::anyhow!("{message} ({})", error["code"]));
        if kind == Kind::UnknownName.as_str() {
            help(client, name);
        }
    }
    if away.contains(&kind) {
        ExitCode::from(EXIT_UNREACHABLE)
    } else {
        ExitCode::FAILURE
    }
}

/// What to try in place of a name that nobody knows.
fn help(client: &Client, name: &str) {
    let listed = client.list(ItemKind::Tool).unwrap_or_default();
    match suggest::nearest(name, listed.iter().map(|tool| tool.key.as_str())) {
        Some(near) => say(&format!("did you mean `{}`?", one_line(near))),
        None => {
            say("`sentinel tools` lists what can be called, `sentinel kill` what is switched off")
        }
    }
    for trouble in &client.troubles {
        warn(&trouble.words());
    }
}

/// A result for people: text as it is, structured content unless the text already said it, a word for
/// everything that is neither.
fn readable(result: &RawValue) -> anyhow::Result<String> {
    let members: BTreeMap<&str, &RawValue> = serde_json::from_str(result.get())?;
    let member = |name: &str| members.get(name).copied();
    let blocks: Vec<Value> = match member("content") {
        Some(content) => serde_json::from_str(content.get())?,
        None => Vec::new(),
    };
    let structured = member("structuredContent").filter(|raw| raw.get() != "null");
    let value: Option<Value> = structured
        .map(|raw| serde_json::from_str(raw.get()))
        .transpose()?;
    let repeats = |text: &str| value.is_some() && serde_json::from_str::<Value>(text).ok() == value;
    let mut parts = Vec::new();
    for block in &blocks {
        match block["text"].as_str() {
            Some(text) if repeats(text) => {}
            _ => parts.push(block_text(block)),
        }
    }
    parts.extend(structured.map(lists::indented_raw));
    if member("resultType").is_some_and(|kind| kind.get() == "\"input_required\"") {
        parts.push("[the tool asks for input, which this command cannot give]".to_owned());
    }
    Ok(parts.join("\n"))
}

fn block_text(block: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let size = |value: &Value| value.as_str().map_or(0, str::len) / 4 * 3;
    match block["type"].as_str() {
        Some("text") => word(&block["text"]),
        Some(kind @ ("image" | "audio")) => {
            format!(
                "[{kind} {}, about {} bytes; --json shows it]",
                word(&block["mimeType"]),
                size(&block["data"])
            )
        }
        Some("resource") => match block["resource"]["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!(
                "[resource {}, about {} bytes; --json shows it]",
                word(&block["resource"]["uri"]),
                size(&block["resource"]["blob"])
            ),
        },
        Some("resource_link") => format!("[resource {}]", word(&block["uri"])),
        _ => format!("[content of an unknown type: {block}]"),
    }
}

/// Writes a result and a line end. Not through the colour filter, which would change it.
fn write(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let shown = if out.is_terminal() {
        plain(text)
    } else {
        text.to_owned()
    };
    let end = if shown.is_empty() || shown.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    match out
        .write_all(shown.as_bytes())
        .and_then(|()| out.write_all(end.as_bytes()))
        .and_then(|()| out.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: &str, shown: &str) {
        let raw = RawValue::from_string(result.to_owned()).expect("JSON");
        assert_eq!(readable(&raw).expect("a result"), shown);
    }

    #[test]
    fn text_is_printed_and_the_rest_is_named() {
        check(
            r#"{"content":[{"type":"text","text":"a\nb"},{"type":"image","mimeType":"image/png","data":"AAAAAAAA"}]}"#,
            "a\nb\n[image image/png, about 6 bytes; --json shows it]",
        );
        check(
            r#"{"content":[{"type":"resource","resource":{"uri":"x:y","text":"inside"}},{"type":"resource_link","uri":"x:z"}]}"#,
            "inside\n[resource x:z]",
        );
        check(r#"{"content":[]}"#, "");
    }

    #[test]
    fn structured_content_is_printed_once_with_its_own_numbers() {
        check(
            r#"{"content":[{"type":"text","text":"{\"n\": 1.0}"}],"structuredContent":{"n":1.0}}"#,
            "{\n  \"n\": 1.0\n}",
        );
        check(
            r#"{"content":[{"type":"text","text":"said"}],"structuredContent":[12345678901234567890123]}"#,
            "said\n[\n  12345678901234567890123\n]",
        );
    }

    #[test]
    fn arguments_must_be_an_object() {
        assert!(arguments("{ \"a\": 1 }").is_ok());
        assert!(arguments("[1]").is_err_and(|e| e.to_string().contains("no JSON object")));
        assert!(arguments("{a: 1}").is_err_and(|e| format!("{e:#}").contains("not JSON")));
    }
}
