//! A JSON document as YAML.
//!
//! Texts are in double quotes, where YAML has the escapes of JSON, so no text is taken for a number, a date or a word of
//! YAML 1.1. Names are plain where no reader can take them for anything else.

use serde_json::Value;

const INDENT: &str = "  ";
/// What YAML 1.1 takes for something else than text.
const WORDS: [&str; 12] = [
    "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity",
];

pub(super) fn write(value: &Value) -> Vec<u8> {
    let mut out = String::new();
    match is_flow(value) {
        true => push_flow(value, &mut out),
        false => push_block(value, 0, &mut out),
    }
    out.push('\n');
    out.into_bytes()
}

/// What stands on the line of its name.
fn is_flow(value: &Value) -> bool {
    match value {
        Value::Object(all) => all.is_empty(),
        Value::Array(all) => all.is_empty(),
        _ => true,
    }
}

fn push_flow(value: &Value, out: &mut String) {
    match value {
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::String(text) => push_text(text, out),
        Value::Number(number) => push_number(&number.to_string(), out),
        other => out.push_str(&other.to_string()),
    }
}

/// YAML 1.1 wants a point and a sign in what has an exponent.
fn push_number(number: &str, out: &mut String) {
    match number.split_once('e') {
        Some((digits, exponent)) => {
            out.push_str(digits);
            if !digits.contains('.') {
                out.push_str(".0");
            }
            out.push('e');
            if !exponent.starts_with(['-', '+']) {
                out.push('+');
            }
            out.push_str(exponent);
        }
        None => out.push_str(number),
    }
}

/// Begins where the first line of it does.
fn push_block(value: &Value, depth: usize, out: &mut String) {
    let line = |at: usize, out: &mut String| {
        if at > 0 {
            out.push('\n');
            out.push_str(&INDENT.repeat(depth));
        }
    };
    match value {
        Value::Object(all) => {
            for (at, (name, value)) in all.iter().enumerate() {
                line(at, out);
                push_name(name, depth, out);
                out.push(':');
                if is_flow(value) {
                    out.push(' ');
                    push_flow(value, out);
                } else {
                    out.push('\n');
                    out.push_str(&INDENT.repeat(depth + 1));
                    push_block(value, depth + 1, out);
                }
            }
        }
        Value::Array(all) => {
            for (at, value) in all.iter().enumerate() {
                line(at, out);
                out.push_str("- ");
                match is_flow(value) {
                    true => push_flow(value, out),
                    false => push_block(value, depth + 1, out),
                }
            }
        }
        other => push_flow(other, out),
    }
}

fn push_name(name: &str, depth: usize, out: &mut String) {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        && !WORDS.iter().any(|word| name.eq_ignore_ascii_case(word))
        // Longer names must be marked as such.
        && name.len() < 128;
    match is_plain {
        true => out.push_str(name),
        false if name.len() < 128 => push_text(name, out),
        false => {
            out.push_str("? ");
            push_text(name, out);
            out.push('\n');
            out.push_str(&INDENT.repeat(depth));
        }
    }
}

fn push_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(c),
            // Some of these end a line or are refused by readers.
            '\u{a1}'..='\u{1fff}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fefe}' => {
                out.push(c)
            }
            c if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_flows_and_texts() {
        let value = serde_json::json!({
            "a": [1, {"b": [], "c": {}}, [true, null]], "yes": "no", "x y": "l\n\"q\" \u{2028}😀é", "/p": 1.5e300,
        });
        let expected = "a:\n  - 1\n  - b: []\n    c: {}\n  - - true\n    - null\n\"yes\": \"no\"\n\
            \"x y\": \"l\\n\\\"q\\\" \\u2028\\U0001f600é\"\n\"/p\": 1.5e+300\n";
        assert_eq!(String::from_utf8(write(&value)).expect("text"), expected);
    }
}
