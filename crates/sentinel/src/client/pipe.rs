//! One call to the gateway in this process over the stdio surface: MCP 2026-07-28, one line each way.

use std::sync::Arc;

use anyhow::Context;
use sentinel_core::{Identity, View};
use sentinel_surfaces::{Gateway, stdio};
use sentinel_wire::{Revision, meta};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::progress::Progress;

const PIPE_BYTES: usize = 64 * 1024;

/// The outcome of a call, unchanged.
#[derive(Debug)]
pub(crate) enum Answer {
    Result(Box<RawValue>),
    Error(Box<RawValue>),
}

#[derive(Deserialize)]
struct Line {
    method: Option<String>,
    params: Option<Value>,
    result: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

pub(super) async fn call(
    gateway: &Arc<Gateway>,
    view: View,
    name: &str,
    arguments: &RawValue,
    progress: &mut Progress,
) -> anyhow::Result<Answer> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (input, output) = tokio::io::split(theirs);
    let server = tokio::spawn(stdio::serve_view(
        gateway.clone(),
        // A user who can read the configuration has all its rights.
        Identity::local("admin"),
        view,
        input,
        output,
    ));
    let (answers, mut requests) = tokio::io::split(ours);
    requests
        .write_all(&request(name, arguments, progress.is_seen()))
        .await?;
    let mut answers = BufReader::new(answers);
    let mut line = Vec::new();
    let answer = loop {
        line.clear();
        // The gateway bounds the answers of backends.
        answers.read_until(b'\n', &mut line).await?;
        let line: Line =
            serde_json::from_slice(&line).context("the gateway's answer ended early")?;
        match line {
            Line {
                result: Some(result),
                ..
            } => break Answer::Result(result),
            Line {
                error: Some(error), ..
            } => break Answer::Error(error),
            Line {
                method: Some(_),
                params: Some(params),
                ..
            } => progress.show(&words(&params)),
            _ => {}
        }
    };
    server.abort();
    Ok(answer)
}

/// No client capabilities: nobody can answer questions in a shell script.
fn request(name: &str, arguments: &RawValue, wants_progress: bool) -> Vec<u8> {
    let mut introduction = json!({
        meta::PROTOCOL_VERSION: Revision::NEWEST.as_str(),
        meta::CLIENT_CAPABILITIES: {},
        meta::CLIENT_INFO: { "name": "sentinel", "version": env!("CARGO_PKG_VERSION") },
    });
    if wants_progress {
        introduction[meta::PROGRESS_TOKEN] = 1.into();
    }
    // Line ends can only occur between the values of a JSON text.
    let arguments = arguments.get().replace(['\n', '\r'], " ");
    let name = Value::from(name);
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":{name},\"arguments\":{arguments},\"_meta\":{introduction}}}}}\n"
    )
    .into_bytes()
}

/// A progress notification as text.
fn words(params: &Value) -> String {
    let number = |member: &str| params[member].as_f64();
    let mut text = match (number("progress"), number("total")) {
        (Some(done), Some(total)) => format!("{done} of {total}"),
        (Some(done), None) => format!("{done}"),
        _ => String::new(),
    };
    if let Some(message) = params["message"].as_str() {
        text = format!("{text} {}", crate::commands::plain(message));
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_travel_as_they_are_on_one_line() {
        let arguments = RawValue::from_string(
            "{\n \"big\": 12345678901234567890123,\r\n \"s\": \"a\\nb\" }".into(),
        );
        let line =
            String::from_utf8(request("x\"y", &arguments.expect("JSON"), false)).expect("text");
        assert!(
            line.ends_with("}\n") && line.matches('\n').count() == 1,
            "{line}"
        );
        assert!(line.contains("12345678901234567890123"));
        assert!(line.contains(r#""s": "a\nb""#));
        let sent: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(sent["params"]["name"], "x\"y");
    }

    #[test]
    fn progress_is_told_in_words() {
        assert_eq!(
            words(&json!({"progress": 3, "total": 10, "message": "half\u{1b}[2J"})),
            "3 of 10 half\u{fffd}[2J"
        );
        assert_eq!(words(&json!({"progress": 0.5})), "0.5");
    }
}
