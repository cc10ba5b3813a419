//! What a function returned, as the answer to its caller. JSON passes as PostgreSQL wrote it.
//!
//! | returns | structured content |
//! | --- | --- |
//! | a scalar, an array, json | `{"result": …}` |
//! | nothing (`void`) | `{"result": null}` |
//! | a composite type, `OUT` or `TABLE` columns | the object of its columns |
//! | a set of any of these | `{"rows": […], "truncated": …}` |
//! | a set whose rows went to the caller one by one | `{"rows": [], "truncated": false, "count": …}` |
//!
//! Not here: the statement that wrote it (`statement`), errors (`failure`).

use sentinel_core::{Fault, Kind, Reply};
use sentinel_wire::json::{self, Kind as JsonKind, Object, Rules};
use sentinel_wire::{Outcome, Payload, Revision};

use super::super::failure::Failure;
use super::statement::Returns;
use super::types::Class;

/// Messages of one prompt.
const MESSAGES_MAX: usize = 1000;

/// How a function's result becomes an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) returns: Returns,
    pub(super) is_set: bool,
    /// Of a single value.
    pub(super) class: Class,
    /// The media type that its comment gives.
    pub(super) mime: Option<String>,
}

/// The result of a tool: a JSON object, and the text beside it if that is not the same.
pub(in crate::postgres) fn tool_result(structured: &str, plain: Option<&str>) -> Reply {
    let mut out = Vec::with_capacity(structured.len() * 2 + 128);
    out.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    json::encode_string(plain.unwrap_or(structured), &mut out);
    out.extend_from_slice(br#"}],"structuredContent":"#);
    out.extend_from_slice(structured.as_bytes());
    out.extend_from_slice(br#","isError":false,"resultType":"complete"}"#);
    reply(out)
}

/// The rows of an answer: JSON texts.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<String>,
    pub(super) is_cut: bool,
    /// How many went to the caller one by one.
    pub(super) sent: Option<u64>,
}

impl Answer {
    /// The result as one JSON object.
    pub(super) fn structured(&self, found: &Rows) -> String {
        if let Some(sent) = found.sent {
            return format!(r#"{{"rows":[],"truncated":false,"count":{sent}}}"#);
        }
        if self.is_set {
            return rows(found);
        }
        let value = value(found);
        match &self.returns {
            Returns::Columns(columns) if value == "null" => {
                let mut out = Vec::new();
                for column in columns {
                    out.push(if out.is_empty() { b'{' } else { b',' });
                    json::encode_string(&column.name, &mut out);
                    out.extend_from_slice(b":null");
                }
                match out.is_empty() {
                    true => "{}".to_owned(),
                    false => String::from_utf8_lossy(&out).into_owned() + "}",
                }
            }
            Returns::Columns(_) | Returns::Single(_) => value.to_owned(),
            Returns::Value { .. } | Returns::Nothing => format!(r#"{{"result":{value}}}"#),
        }
    }

    /// Of a tool.
    pub(super) fn tool(&self, found: &Rows) -> Reply {
        tool_result(&self.structured(found), self.plain(found).as_deref())
    }

    /// Of a resource. A function that returns null knows no such resource.
    pub(super) fn resource(&self, uri: &str, found: &Rows) -> Result<Reply, Failure> {
        let is_value = matches!(self.returns, Returns::Value { .. }) && !self.is_set;
        if !self.is_set && value(found) == "null" && self.returns != Returns::Nothing {
            let fault = Fault::new(Kind::UnknownResource, "no resource has this URI");
            return Err(Failure::Refused(fault));
        }
        let mut out = br#"{"contents":[{"uri":"#.to_vec();
        json::encode_string(uri, &mut out);
        out.extend_from_slice(br#","mimeType":"#);
        json::encode_string(self.media_type(), &mut out);
        match (is_value, self.class) {
            (true, Class::Bytes) => {
                out.extend_from_slice(br#","blob":"#);
                out.extend_from_slice(value(found).as_bytes());
            }
            (true, Class::Text | Class::Xml) => {
                out.extend_from_slice(br#","text":"#);
                out.extend_from_slice(value(found).as_bytes());
            }
            (true, _) => {
                out.extend_from_slice(br#","text":"#);
                json::encode_string(value(found), &mut out);
            }
            (false, _) => {
                out.extend_from_slice(br#","text":"#);
                json::encode_string(&self.structured(found), &mut out);
            }
        }
        out.extend_from_slice(br#"}],"resultType":"complete"}"#);
        Ok(reply(out))
    }

    /// Of a prompt: the messages that json holds, a message for each row of a role and a content, or one of the user.
    pub(super) fn prompt(&self, description: &str, found: &Rows) -> Result<Reply, Failure> {
        let mut messages = Vec::new();
        let is_value = matches!(self.returns, Returns::Value { .. });
        match (self.is_set, is_value, self.class) {
            (false, true, Class::Json) => {
                let text = value(found).as_bytes();
                let spans = json::elements(text, Rules::backend()).map_err(|_| malformed())?;
                for span in spans {
                    push_message(span.of(text), &mut messages)?;
                }
            }
            (false, true, Class::Text | Class::Xml) => {
                push_text(br#""user""#, value(found).as_bytes(), &mut messages)?;
            }
            (true, true, Class::Json) | (true, false, _) => {
                for row in &found.rows {
                    push_message(row.as_bytes(), &mut messages)?;
                }
            }
            (true, true, Class::Text | Class::Xml) => {
                for row in &found.rows {
                    push_text(br#""user""#, row.as_bytes(), &mut messages)?;
                }
            }
            _ => {
                let mut text = Vec::new();
                json::encode_string(&self.structured(found), &mut text);
                push_text(br#""user""#, &text, &mut messages)?;
            }
        }
        if messages.len() > MESSAGES_MAX {
            return Err(malformed());
        }
        let mut out = b"{".to_vec();
        if !description.is_empty() {
            out.extend_from_slice(br#""description":"#);
            json::encode_string(description, &mut out);
            out.push(b',');
        }
        out.extend_from_slice(br#""messages":["#);
        out.extend_from_slice(&messages.join(&b','));
        out.extend_from_slice(br#"],"resultType":"complete"}"#);
        Ok(reply(out))
    }

    /// The media type of a resource, if the answer is one.
    pub(super) fn media_type(&self) -> &str {
        let is_value = matches!(self.returns, Returns::Value { .. }) && !self.is_set;
        match (&self.mime, is_value, self.class) {
            (Some(mime), ..) => mime,
            (None, true, Class::Text) => "text/plain",
            (None, true, Class::Bytes) => "application/octet-stream",
            (None, true, Class::Xml) => "application/xml",
            _ => "application/json",
        }
    }

    /// The text itself, if the comment says that it is meant to be read as it is.
    fn plain(&self, found: &Rows) -> Option<String> {
        let is_text = self
            .mime
            .as_ref()
            .is_some_and(|mime| mime.starts_with("text/"));
        let is_value = matches!(self.returns, Returns::Value { .. }) && !self.is_set;
        let text = json::decode_string(value(found).as_bytes());
        text.filter(|_| is_text && is_value)
            .map(|text| text.into_owned())
    }
}

/// The only row.
fn value(found: &Rows) -> &str {
    found.rows.first().map_or("null", String::as_str)
}

fn rows(found: &Rows) -> String {
    let bytes: usize = found.rows.iter().map(|row| row.len() + 1).sum();
    let mut out = String::with_capacity(bytes + 32);
    out.push_str(r#"{"rows":["#);
    for (at, row) in found.rows.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(row);
    }
    out.push_str(r#"],"truncated":"#);
    out.push_str(if found.is_cut { "true}" } else { "false}" });
    out
}

/// A message given as an object: its role, and its content as an object or as a text.
fn push_message(message: &[u8], messages: &mut Vec<Vec<u8>>) -> Result<(), Failure> {
    let object = Object::parse(message, Rules::backend()).map_err(|_| malformed())?;
    let member = |name: &str| object.get(message, name).map(|span| span.of(message));
    let (role, content) = (member("role"), member("content"));
    let (Some(role @ (br#""user""# | br#""assistant""#)), Some(content)) = (role, content) else {
        return Err(malformed());
    };
    match JsonKind::of(content) {
        Some(JsonKind::String) => push_text(role, content, messages),
        Some(JsonKind::Object) => {
            let inner = Object::parse(content, Rules::backend()).map_err(|_| malformed())?;
            if inner.get(content, "type").is_none() {
                return Err(malformed());
            }
            push(role, content, messages);
            Ok(())
        }
        _ => Err(malformed()),
    }
}

/// A message with one text; `text` is JSON.
fn push_text(role: &[u8], text: &[u8], messages: &mut Vec<Vec<u8>>) -> Result<(), Failure> {
    if JsonKind::of(text) != Some(JsonKind::String) {
        return Err(malformed());
    }
    let content = [br#"{"type":"text","text":"#, text, b"}"].concat();
    push(role, &content, messages);
    Ok(())
}

fn push(role: &[u8], content: &[u8], messages: &mut Vec<Vec<u8>>) {
    messages.push([br#"{"role":"#, role, br#","content":"#, content, b"}"].concat());
}

fn malformed() -> Failure {
    let text = "the function did not return messages of a prompt";
    Failure::Refused(Fault::new(Kind::BackendBadReply, text))
}

fn reply(result: Vec<u8>) -> Reply {
    let payload = Payload::parse(result.into(), Rules::backend());
    Reply {
        revision: Revision::NEWEST,
        outcome: Outcome::Result(payload.expect("written as JSON just now")),
    }
}

#[cfg(test)]
mod tests;
