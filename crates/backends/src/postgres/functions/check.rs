//! Keywords of JSON Schema for the CHECKs of a domain, where both certainly mean the same.
//!
//! What is not understood stays a part of the description; PostgreSQL checks all of it anyway.

use serde_json::{Map, Number, Value};

use super::types::{Class, describe};

/// Longer conditions are described, and not read.
const CHECK_BYTES_MAX: usize = 4096;
const SHOWN_CHARS_MAX: usize = 300;
const PATTERN_BYTES_MAX: usize = 200;

/// Adds what the CHECKs of a domain ask for to the schema of its base type.
pub(super) fn apply(checks: &[String], class: Class, schema: &mut Map<String, Value>) {
    for check in checks {
        let condition = check.strip_prefix("CHECK ").unwrap_or(check);
        let condition = condition.strip_suffix(" NOT VALID").unwrap_or(condition);
        if condition.len() > CHECK_BYTES_MAX || !all(unwrapped(condition), class, schema) {
            let shown: String = unwrapped(condition).chars().take(SHOWN_CHARS_MAX).collect();
            describe_last(schema, &format!("must satisfy {shown}"));
        }
    }
}

fn describe_last(schema: &mut Map<String, Value>, text: &str) {
    match schema.get("description").and_then(Value::as_str) {
        Some(before) => {
            let together = format!("{before}; {text}");
            schema.insert("description".to_owned(), together.into());
        }
        None => describe(schema, text),
    }
}

/// Whether all parts of a conjunction became keywords.
fn all(condition: &str, class: Class, schema: &mut Map<String, Value>) -> bool {
    let parts = split(condition, " AND ");
    let mut is_complete = true;
    for part in parts {
        let part = unwrapped(part);
        is_complete &= match split(part, " AND ").len() {
            1 => one(part, class, schema).is_some(),
            _ => all(part, class, schema),
        };
    }
    is_complete
}

/// A single condition as a keyword.
fn one(condition: &str, class: Class, schema: &mut Map<String, Value>) -> Option<()> {
    if condition == "VALUE IS NOT NULL" {
        return Some(());
    }
    for operator in [" >= ", " <= ", " <> ", " > ", " < ", " = ", " ~ "] {
        let [left, right] = split(condition, operator)[..] else {
            continue;
        };
        let (left, operator) = (unwrapped(left), operator.trim());
        if let Some(measured) = length_of(left).filter(|_| class == Class::Text) {
            return (subject(measured)).then(|| length(operator, number(right)?, schema))?;
        }
        if !subject(left) {
            return None;
        }
        return match (class, operator) {
            (Class::Integer | Class::Number, "=") | (Class::Text, "=") => among(right, schema),
            (Class::Integer | Class::Number, "~") => None,
            (Class::Integer | Class::Number, _) => bound(operator, number(right)?, schema),
            (Class::Text, "~") => {
                let pattern = pattern(&text(right)?)?;
                add(schema, "pattern", pattern.into())
            }
            (Class::Text, "<>") if text(right)?.is_empty() => at_least(schema, "minLength", 1),
            _ => None,
        };
    }
    None
}

/// Adds a keyword, unless it says something already.
fn add(schema: &mut Map<String, Value>, keyword: &str, value: Value) -> Option<()> {
    if schema.contains_key(keyword) {
        return None;
    }
    schema.insert(keyword.to_owned(), value);
    Some(())
}

fn at_least(schema: &mut Map<String, Value>, keyword: &str, value: i64) -> Option<()> {
    let before = schema.get(keyword).and_then(Value::as_i64);
    schema.insert(
        keyword.to_owned(),
        before.unwrap_or(value).max(value).into(),
    );
    Some(())
}

fn at_most(schema: &mut Map<String, Value>, keyword: &str, value: i64) -> Option<()> {
    let before = schema.get(keyword).and_then(Value::as_i64);
    schema.insert(
        keyword.to_owned(),
        before.unwrap_or(value).min(value).into(),
    );
    Some(())
}

fn length(operator: &str, limit: Number, schema: &mut Map<String, Value>) -> Option<()> {
    let limit = limit
        .as_i64()
        .filter(|limit| (0..=i64::from(u32::MAX)).contains(limit))?;
    match operator {
        ">=" => at_least(schema, "minLength", limit),
        ">" => at_least(schema, "minLength", limit + 1),
        "<=" => at_most(schema, "maxLength", limit),
        "<" if limit > 0 => at_most(schema, "maxLength", limit - 1),
        "=" => at_least(schema, "minLength", limit).and(at_most(schema, "maxLength", limit)),
        "<>" if limit == 0 => at_least(schema, "minLength", 1),
        _ => None,
    }
}

/// A limit of a number. The widest integers that a type has are a weaker limit and give way.
fn bound(operator: &str, limit: Number, schema: &mut Map<String, Value>) -> Option<()> {
    let (keyword, range) = match operator {
        ">=" => ("minimum", "minimum"),
        ">" => ("exclusiveMinimum", "minimum"),
        "<=" => ("maximum", "maximum"),
        "<" => ("exclusiveMaximum", "maximum"),
        _ => return None,
    };
    if let (Some(before), Some(new)) = (schema.get(range).and_then(Value::as_i64), limit.as_i64()) {
        let is_weaker = match range {
            "minimum" => new < before,
            _ => new > before,
        };
        if is_weaker {
            return Some(());
        }
        schema.shift_remove(range);
    }
    add(schema, keyword, limit.into())
}

/// `ANY (ARRAY['a'::text, 'b'::text])`, or a single value.
fn among(right: &str, schema: &mut Map<String, Value>) -> Option<()> {
    let is_text = schema.get("type").and_then(Value::as_str) == Some("string");
    let value = |right: &str| match is_text {
        true => text(right).map(Value::from),
        false => number(right).map(Value::from),
    };
    let right = unwrapped(right);
    let values: Option<Vec<Value>> = match right.strip_prefix("ANY ") {
        None => value(right).map(|one| vec![one]),
        Some(list) => {
            let list = unwrapped(uncast(unwrapped(list)));
            let list = list.strip_prefix("ARRAY[")?.strip_suffix(']')?;
            split(list, ", ").into_iter().map(value).collect()
        }
    };
    // Numbers may also be sent as text.
    let is_simple = is_text || schema.get("type").and_then(Value::as_str) == Some("integer");
    let values = values.filter(|_| is_simple)?;
    add(schema, "enum", Value::Array(values))
}

/// Whether it is the value itself.
fn subject(text: &str) -> bool {
    let bare = unwrapped(uncast(unwrapped(text)));
    bare == "VALUE"
}

/// What `length(…)` counts the characters of.
fn length_of(text: &str) -> Option<&str> {
    let names = ["char_length(", "character_length(", "length("];
    let inner = names.iter().find_map(|name| text.strip_prefix(name))?;
    inner.strip_suffix(')')
}

fn number(text: &str) -> Option<Number> {
    let text = unwrapped(uncast(unwrapped(text)));
    let text = text
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''))
        .unwrap_or(text);
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    // More digits than a float keeps.
    let float = text.parse().ok().filter(|_| is_plain && digits <= 15)?;
    Number::from_f64(float)
}

/// The text of a literal such as `'a'::text`.
fn text(literal: &str) -> Option<String> {
    let literal = unwrapped(uncast(unwrapped(literal)));
    let inner = literal.strip_prefix('\'')?.strip_suffix('\'')?;
    let is_whole = inner.replace("''", "").find('\'').is_none();
    is_whole.then(|| inner.replace("''", "'"))
}

/// A pattern that ECMAScript reads as PostgreSQL does, where it only has what both share. A repeated group may be large once it
/// is unrolled, so a number of times is for single characters.
fn pattern(pattern: &str) -> Option<String> {
    const PLAIN: &str = "-_@/:#=%&~!'\" ;<>,";
    if pattern.len() > PATTERN_BYTES_MAX {
        return None;
    }
    let mut rest = pattern.strip_prefix('^').unwrap_or(pattern);
    rest = rest.strip_suffix('$').unwrap_or(rest);
    let mut open = 0_u32;
    // Whether what stands before can be repeated.
    let (mut is_atom, mut is_group) = (false, false);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let was_group = std::mem::replace(&mut is_group, c == ')');
        is_atom = match c {
            '\\' => {
                let escaped = rest.chars().next()?;
                let is_shared = escaped == 'd' || escaped.is_ascii_punctuation();
                rest = rest.get(1..).filter(|_| is_shared)?;
                true
            }
            '[' => {
                let (class, behind) = rest.split_once(']')?;
                rest = behind;
                is_class(class).then_some(true)?
            }
            '(' if !rest.starts_with('?') => {
                open += 1;
                false
            }
            ')' => {
                open = open.checked_sub(1)?;
                true
            }
            '|' => false,
            '*' | '+' | '?' if is_atom => false,
            '{' if is_atom && !was_group => {
                let (bound, behind) = rest.split_once('}')?;
                rest = behind;
                is_bound(bound).then_some(false)?
            }
            c if c.is_ascii_alphanumeric() || PLAIN.contains(c) => true,
            _ => return None,
        };
    }
    (open == 0).then(|| pattern.to_owned())
}

/// Whether it is what stands between brackets: letters, digits, marks and ranges.
fn is_class(class: &str) -> bool {
    let class: Vec<char> = class.strip_prefix('^').unwrap_or(class).chars().collect();
    let is_plain = |c: &char| {
        c.is_ascii() && !c.is_ascii_control() && !matches!(c, '\\' | '[' | '^' | '&' | '~')
    };
    let ranges = class.windows(3).filter(|three| three[1] == '-');
    let is_range = |ends: &[char]| ends[0].is_ascii_alphanumeric() && ends[0] <= ends[2];
    !class.is_empty() && class.iter().all(is_plain) && ranges.into_iter().all(is_range)
}

/// Whether it is how often something is repeated: `2`, `2,` or `2,5`.
fn is_bound(bound: &str) -> bool {
    let (least, most) = bound.split_once(',').unwrap_or((bound, ""));
    let number = |text: &str| {
        text.parse::<u8>()
            .ok()
            .filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
    };
    match (number(least), most) {
        (None, _) => false,
        (Some(_), "") => true,
        (Some(least), most) => number(most).is_some_and(|most| least <= most),
    }
}

/// Without the cast at the end.
fn uncast(text: &str) -> &str {
    match split(text, "::")[..] {
        [value, _] => value,
        _ => text,
    }
}

/// Without parentheses around all of it.
fn unwrapped(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let inner = text
            .strip_prefix('(')
            .and_then(|text| text.strip_suffix(')'));
        match inner {
            Some(inner) if is_balanced(inner) => text = inner.trim(),
            _ => return text,
        }
    }
}

/// Whether no parenthesis closes one that was opened before.
fn is_balanced(text: &str) -> bool {
    let mut depth = 0_i32;
    let mut is_good = true;
    outside(text, |_, byte| {
        depth += i32::from(byte == b'(') - i32::from(byte == b')');
        is_good &= depth >= 0;
    });
    is_good && depth == 0
}

/// The parts between separators that stand in no parentheses, brackets or quotes.
fn split<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0_i32);
    outside(text, |at, byte| {
        depth += i32::from(matches!(byte, b'(' | b'[')) - i32::from(matches!(byte, b')' | b']'));
        if depth == 0 && at >= from && text.as_bytes()[at..].starts_with(separator.as_bytes()) {
            parts.push(&text[from..at]);
            from = at + separator.len();
        }
    });
    parts.push(&text[from..]);
    parts
}

/// Shows the bytes outside of quotes.
fn outside(text: &str, mut see: impl FnMut(usize, u8)) {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match quote {
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if matches!(byte, b'\'' | b'"') => quote = Some(byte),
            None => see(at, byte),
        }
    }
}

#[cfg(test)]
mod tests;
