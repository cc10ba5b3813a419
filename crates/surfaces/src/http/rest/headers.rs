//! Request headers that change how an operation is called: `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07)
//! and `Prefer` (RFC 7240).
//!
//! Pure. Not here: what is done about them (`once`, `later`).

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use sentinel_core::{Fault, Kind};

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const PREFER: HeaderName = HeaderName::from_static("prefer");

/// A UUID has 36 characters; longer keys than this are a mistake.
const KEY_CHARS_MAX: usize = 255;
/// Preferences that are looked at.
const PREFERENCES_MAX: usize = 32;
/// No request is held longer, whatever its client prefers.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The key of a request that must not be made twice.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let key = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => parse_key(value.as_bytes()),
        (Some(_), Some(_)) => Err("it is repeated"),
    };
    let wrong = |why| Fault::new(Kind::InvalidRequest, format!("Idempotency-Key: {why}"));
    key.map(Some).map_err(wrong)
}

/// A String of structured fields (RFC 8941, 3.3.3). A bare word is taken as well, since most clients send one, and is the
/// same key as that word in quotes.
pub(crate) fn parse_key(value: &[u8]) -> Result<String, &'static str> {
    let value = value.trim_ascii();
    let key = match value.strip_prefix(b"\"") {
        Some(rest) => parse_quoted(rest).ok_or("it is no string in quotes")?,
        None => {
            parse_bare(value).ok_or("put it in quotes, or use visible ASCII without \" \\ , ;")?
        }
    };
    match key.len() {
        0 => Err("it is empty"),
        len if len > KEY_CHARS_MAX => Err("it has more than 255 characters"),
        _ => Ok(key),
    }
}

/// What stands between the quotes; the first of them was taken.
fn parse_quoted(text: &[u8]) -> Option<String> {
    let mut key = String::new();
    let mut rest = text.iter();
    loop {
        match rest.next()? {
            b'"' => break,
            b'\\' => match rest.next()? {
                escaped @ (b'"' | b'\\') => key.push(char::from(*escaped)),
                _ => return None,
            },
            plain @ b' '..=b'~' => key.push(char::from(*plain)),
            _ => return None,
        }
    }
    rest.as_slice().is_empty().then_some(key)
}

fn parse_bare(text: &[u8]) -> Option<String> {
    let is_plain = |b: &u8| b.is_ascii_graphic() && !b"\"\\,;".contains(b);
    let text = text.iter().all(is_plain).then_some(text)?;
    String::from_utf8(text.to_vec()).ok()
}

/// What a client prefers, as far as it matters here. Preferences are advice: what cannot be read is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preferences {
    /// The answer may come later, at another URL.
    pub(crate) respond_async: bool,
    /// How long the client waits for this answer.
    pub(crate) wait: Option<Duration>,
}

impl Preferences {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self::parse(headers.get_all(PREFER).iter().map(HeaderValue::as_bytes))
    }

    /// Of a preference that comes twice the first one counts.
    pub(crate) fn parse<'v>(values: impl Iterator<Item = &'v [u8]>) -> Self {
        let mut all = Self::default();
        let preferences = values.flat_map(|value| split_unquoted(value, b','));
        for preference in preferences.take(PREFERENCES_MAX) {
            // Parameters follow; neither of ours has any.
            let Some(preference) = split_unquoted(preference, b';').next() else {
                continue;
            };
            let (name, value) = match preference.iter().position(|b| *b == b'=') {
                Some(at) => (&preference[..at], &preference[at + 1..]),
                None => (preference, &b""[..]),
            };
            let is = |known: &[u8]| name.trim_ascii().eq_ignore_ascii_case(known);
            if is(b"respond-async") {
                all.respond_async = true;
            } else if is(b"wait") && all.wait.is_none() {
                all.wait = seconds(value.trim_ascii());
            }
        }
        all
    }
}

/// Whole seconds, as a word or in quotes.
fn seconds(value: &[u8]) -> Option<Duration> {
    let inner = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""));
    let digits = inner.unwrap_or(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse::<u64>();
    // Of so many digits that it is no number: long.
    Some(Duration::from_secs(number.unwrap_or(u64::MAX)).min(WAIT_MAX))
}

/// The parts of a text between separators that are not in quotes.
fn split_unquoted(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |b| {
        match b {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
        *b == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_string_or_a_bare_word() {
        let long = format!("\"{}\"", "x".repeat(KEY_CHARS_MAX));
        for (value, key) in [
            ("\"8e03978e-40d5\"", "8e03978e-40d5"),
            ("8e03978e-40d5", "8e03978e-40d5"),
            (" \"a b, c; d\" ", "a b, c; d"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (&long, &"x".repeat(KEY_CHARS_MAX)),
        ] {
            assert_eq!(parse_key(value.as_bytes()).as_deref(), Ok(key), "{value}");
        }
    }

    #[test]
    fn a_key_that_is_none_is_refused() {
        let long = "x".repeat(KEY_CHARS_MAX + 1);
        for value in [
            "",
            "\"\"",
            "\"",
            "\"a",
            "a\"",
            "\"a\"b",
            "\"a\";p=1",
            "a b",
            "a,b",
            r#""\n""#,
            "ä",
            "\"ä\"",
            "\"a\tb\"",
            &long,
        ] {
            assert!(parse_key(value.as_bytes()).is_err(), "{value}");
        }
        let mut headers = HeaderMap::new();
        assert_eq!(idempotency_key(&headers).expect("none"), None);
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
        let fault = idempotency_key(&headers).expect_err("repeated");
        assert_eq!(fault.kind, Kind::InvalidRequest);
    }

    #[test]
    fn preferences_are_read_as_rfc_7240_has_them() {
        let wait = |seconds| Some(Duration::from_secs(seconds));
        for (value, respond_async, wait) in [
            ("", false, None),
            ("respond-async", true, None),
            ("Respond-Async, WAIT=10", true, wait(10)),
            ("wait = \"7\" ; x=y, respond-async;p", true, wait(7)),
            ("wait=1, wait=2", false, wait(1)),
            ("wait=-1", false, None),
            ("wait=1.5", false, None),
            ("wait", false, None),
            ("wait=99999999999999999999999", false, Some(WAIT_MAX)),
            ("x=\"respond-async, wait=3\"", false, None),
            (r#"x="\", respond-async""#, false, None),
            ("x=\"unended, respond-async", false, None),
            ("return=minimal,,respond-async", true, None),
        ] {
            let read = Preferences::parse([value.as_bytes()].into_iter());
            assert_eq!(
                (read.respond_async, read.wait),
                (respond_async, wait),
                "{value}"
            );
        }
        let several = [&b"respond-async"[..], b"wait=4"].into_iter();
        assert_eq!(Preferences::parse(several).wait, wait(4));
    }
}
