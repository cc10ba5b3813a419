//! Translates questions for callers of older revisions, into forms that their clients can show.
//!
//! A question from an older server needs no change for a newer client.

use std::borrow::Cow;

use super::{join, json_string, stand_in};
use crate::envelope::{Payload, Raw};
use crate::json::{self, Kind, Object, Rules};
use crate::method::Method;
use crate::revision::Revision;

/// The params of a question in the form of revision `to`; `None` where its clients cannot show or answer it.
pub fn question<'p>(method: &Method, params: &'p Payload, to: Revision) -> Option<Cow<'p, [u8]>> {
    match method {
        Method::Elicit => elicitation(params, to),
        Method::Sample => sampling(params, to),
        _ => Some(Cow::Borrowed(params.as_bytes())),
    }
}

/// Whether an elicitation sends the user to a URL.
pub fn is_url_mode(params: &Payload) -> bool {
    params.get("mode") == Some(br#""url""#)
}

fn elicitation(params: &Payload, to: Revision) -> Option<Cow<'_, [u8]>> {
    if to >= Revision::V2025_11_25 {
        return Some(Cow::Borrowed(params.as_bytes()));
    }
    if to < Revision::V2025_06_18 || is_url_mode(params) {
        return None;
    }
    let schema = match params.get("requestedSchema") {
        Some(schema) => Some(older_schema(schema)?),
        None => None,
    };
    let edits = [
        ("mode", None),
        ("_meta", None),
        ("task", None),
        ("requestedSchema", schema.as_deref()),
    ];
    Some(Cow::Owned(rewritten(params.as_raw(), &edits)))
}

fn rewritten(raw: Raw<'_>, edits: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.text.len());
    raw.rewrite(edits, &mut out);
    out
}

/// The form in 2025-06-18: scalars, plain enumerations with names beside them, defaults for flags only.
fn older_schema(schema: &[u8]) -> Option<Vec<u8>> {
    let object = Object::parse(schema, Rules::backend()).ok()?;
    let Some(properties) = object.get(schema, "properties").map(|s| s.of(schema)) else {
        return Some(schema.to_vec());
    };
    let members = Object::parse(properties, Rules::backend()).ok()?.members;
    let mut older = vec![b'{'];
    for (i, member) in members.iter().enumerate() {
        if i > 0 {
            older.push(b',');
        }
        json::encode_string(&member.key.decode(properties), &mut older);
        older.push(b':');
        older.extend_from_slice(&older_property(member.value.of(properties))?);
    }
    older.push(b'}');
    let raw = Raw {
        text: schema,
        object: &object,
    };
    let edits = [("properties", Some(&older[..])), ("$schema", None)];
    Some(rewritten(raw, &edits))
}

fn older_property(property: &[u8]) -> Option<Vec<u8>> {
    let object = Object::parse(property, Rules::backend()).ok()?;
    let member = |name: &str| object.get(property, name).map(|span| span.of(property));
    let raw = Raw {
        text: property,
        object: &object,
    };
    match member("type")? {
        // That revision has no multiple choice.
        br#""array""# => None,
        br#""boolean""# => Some(property.to_vec()),
        _ => {
            let Some(choices) = member("oneOf") else {
                return Some(rewritten(raw, &[("default", None)]));
            };
            let (values, names) = titled(choices)?;
            let edits = [
                ("default", None),
                ("oneOf", None),
                ("enum", Some(&values[..])),
                ("enumNames", Some(&names[..])),
            ];
            Some(rewritten(raw, &edits))
        }
    }
}

/// The constants of `[{"const":…,"title":…},…]` and their titles, as two arrays.
fn titled(choices: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut values, mut names) = (Vec::new(), Vec::new());
    for span in json::elements(choices, Rules::backend()).ok()? {
        let choice = span.of(choices);
        let object = Object::parse(choice, Rules::backend()).ok()?;
        let value = object.get(choice, "const")?.of(choice);
        let title = object.get(choice, "title").map(|span| span.of(choice));
        values.push(value.to_vec());
        names.push(title.unwrap_or(value).to_vec());
    }
    let array = |items: Vec<Vec<u8>>| join(items.iter().map(Vec::as_slice));
    Some((array(values), array(names)))
}

fn sampling(params: &Payload, to: Revision) -> Option<Cow<'_, [u8]>> {
    if to >= Revision::V2025_11_25 {
        return Some(Cow::Borrowed(params.as_bytes()));
    }
    let has_tools =
        |tools: &[u8]| !json::elements(tools, Rules::backend()).is_ok_and(|t| t.is_empty());
    if params.get("tools").is_some_and(has_tools) {
        return None;
    }
    let messages = match params.get("messages") {
        Some(messages) => Some(older_messages(messages, to)?),
        None => None,
    };
    let edits = [
        ("tools", None),
        ("toolChoice", None),
        ("_meta", None),
        ("task", None),
        ("messages", messages.as_deref()),
    ];
    Some(Cow::Owned(rewritten(params.as_raw(), &edits)))
}

/// Messages of one block each: several blocks become several messages of the same role.
fn older_messages(messages: &[u8], to: Revision) -> Option<Vec<u8>> {
    let mut older: Vec<Vec<u8>> = Vec::new();
    for span in json::elements(messages, Rules::backend()).ok()? {
        let message = span.of(messages);
        let object = Object::parse(message, Rules::backend()).ok()?;
        let raw = Raw {
            text: message,
            object: &object,
        };
        let content = object.get(message, "content")?.of(message);
        let blocks: Vec<&[u8]> = match Kind::of(content) {
            Some(Kind::Array) => {
                let spans = json::elements(content, Rules::backend()).ok()?;
                spans.iter().map(|span| span.of(content)).collect()
            }
            _ => vec![content],
        };
        for block in blocks {
            if uses_tools(block) {
                return None;
            }
            let block = stand_in(block, to).unwrap_or_else(|| block.to_vec());
            older.push(rewritten(
                raw,
                &[("content", Some(&block)), ("_meta", None)],
            ));
        }
    }
    Some(join(older.iter().map(Vec::as_slice)))
}

fn uses_tools(block: &[u8]) -> bool {
    Object::parse(block, Rules::backend()).is_ok_and(|object| {
        let kind = object.get(block, "type").map(|span| span.of(block));
        matches!(kind, Some(br#""tool_use""# | br#""tool_result""#))
    })
}

/// The params of a URL elicitation with the id that clients of 2025-11-25 require; an existing id is kept.
pub fn with_elicitation_id<'p>(params: &'p Payload, id: &str) -> Cow<'p, [u8]> {
    if params.get("elicitationId").is_some() {
        return Cow::Borrowed(params.as_bytes());
    }
    let id = json_string(id);
    Cow::Owned(rewritten(params.as_raw(), &[("elicitationId", Some(&id))]))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn asked(method: &Method, text: &'static str, to: Revision) -> Option<String> {
        let params = Payload::parse(Bytes::from_static(text.as_bytes()), Rules::backend());
        let params = params.expect("json");
        let told = question(method, &params, to)?;
        Some(String::from_utf8_lossy(&told).into_owned())
    }

    #[test]
    fn c_39_forms_are_asked_in_the_words_of_2025_06_18() {
        let form = r#"{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","default":"x","maxLength":3},"b":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"r"},"c":{"type":"boolean","default":true},"d":{"type":"string","enum":["1"]}},"required":["a"]}}"#;
        let older = r#"{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","maxLength":3},"b":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]},"c":{"type":"boolean","default":true},"d":{"type":"string","enum":["1"]}},"required":["a"]}}"#;
        assert_eq!(
            asked(&Method::Elicit, form, Revision::V2025_06_18).as_deref(),
            Some(older)
        );
        assert_eq!(
            asked(&Method::Elicit, form, Revision::V2025_11_25).as_deref(),
            Some(form)
        );
        assert_eq!(asked(&Method::Elicit, form, Revision::V2025_03_26), None);
    }

    #[test]
    fn c_39_what_cannot_be_shown_is_not_asked() {
        let many = r#"{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["x"]}}}}}"#;
        assert_eq!(asked(&Method::Elicit, many, Revision::V2025_06_18), None);
        let url = r#"{"mode":"url","message":"m","url":"https://x.example","elicitationId":"1"}"#;
        assert_eq!(asked(&Method::Elicit, url, Revision::V2025_06_18), None);
        assert!(asked(&Method::Elicit, url, Revision::V2025_11_25).is_some());
        let tools = r#"{"messages":[],"maxTokens":1,"tools":[{"name":"t"}]}"#;
        assert_eq!(asked(&Method::Sample, tools, Revision::V2025_06_18), None);
        let used = r#"{"messages":[{"role":"user","content":[{"type":"tool_result","toolUseId":"1"}]}],"maxTokens":1}"#;
        assert_eq!(asked(&Method::Sample, used, Revision::V2025_06_18), None);
    }

    #[test]
    fn c_39_a_message_of_many_blocks_becomes_many_messages_for_older_clients() {
        let newer = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"audio","mimeType":"audio/wav","data":""}]}],"maxTokens":12345678901234567890,"toolChoice":{"mode":"none"}}"#;
        let older = r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"[audio, audio/wav]"}}],"maxTokens":12345678901234567890}"#;
        assert_eq!(
            asked(&Method::Sample, newer, Revision::V2024_11_05).as_deref(),
            Some(older)
        );
    }

    #[test]
    fn c_39_a_url_elicitation_gets_the_id_it_lacks() {
        let with = |text: &'static str| {
            let params = Payload::parse(Bytes::from_static(text.as_bytes()), Rules::backend());
            let params = params.expect("json");
            let told = with_elicitation_id(&params, "7");
            String::from_utf8_lossy(&told).into_owned()
        };
        assert_eq!(
            with(r#"{"mode":"url","url":"u"}"#),
            r#"{"mode":"url","url":"u","elicitationId":"7"}"#
        );
        assert_eq!(with(r#"{"elicitationId":"a"}"#), r#"{"elicitationId":"a"}"#);
    }
}
