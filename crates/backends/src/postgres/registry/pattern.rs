//! The addresses of registry routes: PostgreSQL's regular expressions on a normalised path.
//!
//! The database routes each request itself. The gateway must come to the same route, because policy decides on that route's tool:
//! so only expressions are used that both engines understand alike, and the path is normalised as the database does it.
//!
//! Not here: the order of routes (`core::catalog::routes`), and the check that the database took the same one (`http`).

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};
use sentinel_core::RoutePattern;

/// The headers that name the version of an API, the first one first.
const VERSION_HEADERS: [&str; 2] = ["x-api-version", "accept-version"];
/// The database refuses longer URLs.
const PATH_BYTES_MAX: usize = 8192;
/// Longest expression, and the largest automaton made of one.
const EXPRESSION_BYTES_MAX: usize = 4096;
const AUTOMATON_BYTES_MAX: usize = 1024 * 1024;
/// The verbs that a route's expression is asked about. HEAD is a GET to the database.
const VERBS: [&str; 10] = [
    "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "PROPFIND", "REPORT", "SEARCH",
];

/// A regular expression that cannot be used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpressionError {
    #[error("it is longer than {EXPRESSION_BYTES_MAX} bytes")]
    TooLong,
    #[error("`{0}` means nothing here, or something else")]
    Foreign(&'static str),
    #[error("it cannot be read, or is too large")]
    Unreadable,
    #[error("it fits no verb")]
    NoVerb,
}

/// The address of a route.
#[derive(Debug)]
pub(super) struct Address {
    path: Regex,
    version: Regex,
    shown: Box<str>,
}

impl Address {
    /// `shown` is how documents show it.
    pub(super) fn new(path: &str, version: &str, shown: &str) -> Result<Self, ExpressionError> {
        Ok(Self {
            path: compile(path)?,
            version: compile(version)?,
            shown: shown.into(),
        })
    }
}

impl RoutePattern for Address {
    fn matches(&self, path: &str) -> Option<Vec<(String, String)>> {
        let fits = path.len() <= PATH_BYTES_MAX
            && path.is_ascii()
            && self.path.is_match(&normalised(path));
        fits.then(Vec::new)
    }

    fn takes<'h>(&self, header: &dyn Fn(&str) -> Option<&'h str>) -> bool {
        let version = VERSION_HEADERS.into_iter().find_map(header);
        self.version.is_match(version.unwrap_or_default())
    }

    fn shown(&self) -> &str {
        &self.shown
    }
}

/// The verbs that fit an expression.
pub(super) fn verbs(expression: &str) -> Result<Vec<Box<str>>, ExpressionError> {
    let expression = compile(expression)?;
    let fitting = VERBS.into_iter().filter(|verb| expression.is_match(verb));
    let fitting: Vec<Box<str>> = fitting.map(Box::from).collect();
    match fitting.is_empty() {
        true => Err(ExpressionError::NoVerb),
        false => Ok(fitting),
    }
}

fn compile(expression: &str) -> Result<Regex, ExpressionError> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(ExpressionError::TooLong);
    }
    let translated = translated(expression)?;
    RegexBuilder::new(&translated)
        .size_limit(AUTOMATON_BYTES_MAX)
        .dfa_size_limit(AUTOMATON_BYTES_MAX)
        .dot_matches_new_line(true)
        .build()
        .map_err(|_| ExpressionError::Unreadable)
}

/// An advanced regular expression of PostgreSQL in the notation of `regex`.
fn translated(expression: &str) -> Result<String, ExpressionError> {
    use ExpressionError::Foreign;
    if expression.starts_with("***") {
        return Err(Foreign("***"));
    }
    let mut out = String::with_capacity(expression.len() + 8);
    let mut rest = expression.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, &mut out)?,
            '[' => bracket(&mut rest, &mut out)?,
            '(' if rest.peek() == Some(&'?') => {
                rest.next();
                match rest.next() {
                    Some(':') => out.push_str("(?:"),
                    _ => return Err(Foreign("(?")),
                }
            }
            '{' if !rest.peek().is_some_and(char::is_ascii_digit) => out.push_str("\\{"),
            '}' | ']' if !is_bound_end(c, &out) => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_ascii() => out.push(c),
            _ => return Err(Foreign("a character outside ASCII")),
        }
    }
    Ok(out)
}

/// Whether a brace ends a number of repetitions.
fn is_bound_end(c: char, before: &str) -> bool {
    let bound = before.trim_end_matches(|c: char| c.is_ascii_digit() || c == ',');
    c == '}' && bound.len() < before.len() && bound.ends_with('{') && !bound.ends_with("\\{")
}

/// What follows a backslash.
fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), ExpressionError> {
    use ExpressionError::Foreign;
    let c = rest.next().ok_or(Foreign("\\"))?;
    match c {
        'd' | 'D' | 's' | 'S' | 'w' | 'W' | 't' | 'n' | 'r' => out.extend(['\\', c]),
        'A' => out.push_str("\\A"),
        'Z' => out.push_str("\\z"),
        'y' => out.push_str("\\b"),
        'Y' => out.push_str("\\B"),
        'm' => out.push_str("\\b{start}"),
        'M' => out.push_str("\\b{end}"),
        c if c.is_ascii_punctuation() => literal(c, out),
        _ => return Err(Foreign("an escape of a letter or digit")),
    }
    Ok(())
}

fn literal(c: char, out: &mut String) {
    let mut buffer = [0; 4];
    out.push_str(&regex::escape(c.encode_utf8(&mut buffer)));
}

/// A bracket expression, its `[` taken.
fn bracket(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), ExpressionError> {
    use ExpressionError::{Foreign, Unreadable};
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut is_first = true;
    loop {
        let c = rest.next().ok_or(Unreadable)?;
        match c {
            ']' if !is_first => break,
            '[' if rest.peek() == Some(&':') => class(rest, out)?,
            '[' if matches!(rest.peek(), Some('.' | '=')) => return Err(Foreign("[.")),
            '\\' => match rest.next() {
                Some(c @ ('d' | 's' | 'w' | 't' | 'n' | 'r')) => out.extend(['\\', c]),
                Some(c) if c.is_ascii_punctuation() => out.extend(['\\', c]),
                _ => return Err(Foreign("an escape of a letter or digit")),
            },
            // A range, unless it stands first or last.
            '-' if !is_first && rest.peek() != Some(&']') => out.push('-'),
            '[' | ']' | '&' | '~' | '-' | '^' => out.extend(['\\', c]),
            c if c.is_ascii() => out.push(c),
            _ => return Err(Foreign("a character outside ASCII")),
        }
        is_first = false;
    }
    out.push(']');
    Ok(())
}

/// `[:alpha:]` and its like, the first bracket taken.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), ExpressionError> {
    let mut name = String::from("[");
    while !name.ends_with(":]") {
        match rest.next() {
            Some(c) if name.len() < 12 => name.push(c),
            _ => return Err(ExpressionError::Unreadable),
        }
    }
    const CLASSES: [&str; 8] = [
        "alpha", "alnum", "digit", "lower", "upper", "space", "xdigit", "punct",
    ];
    let known = CLASSES
        .into_iter()
        .any(|class| name == format!("[:{class}:]"));
    match known {
        true => out.push_str(&name),
        false => return Err(ExpressionError::Foreign("[:")),
    }
    Ok(())
}

/// The path as RFC 3986, section 6.2.2, writes it, with single slashes and without the last one.
fn normalised(path: &str) -> Cow<'_, str> {
    let is_normal = path.starts_with('/')
        && !path.contains('%')
        && !path.contains("//")
        && !path.contains("/.")
        && (path.len() == 1 || !path.ends_with('/'));
    if is_normal {
        return Cow::Borrowed(path);
    }
    let decoded = unreserved(path);
    // An empty segment counts until the dots are gone, as in RFC 3986, section 5.2.4.
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.trim_start_matches('/').split('/') {
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    segments.retain(|segment| !segment.is_empty());
    Cow::Owned(format!("/{}", segments.join("/")))
}

/// Decodes characters that need no percent sign, and writes the others in upper case.
fn unreserved(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let digits = from
            .get(1..3)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(byte) = byte else {
            out.push('%');
            rest = &from[1..];
            continue;
        };
        match char::from(byte) {
            c if c.is_ascii_alphanumeric() || "-._~".contains(c) => out.push(c),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        rest = &from[3..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_the_same_as_in_postgresql_or_are_refused() {
        for (expression, fits, not) in [
            (r"^/users/\d+$", "/users/12", "/users/12x"),
            (
                r"^/users/[^/]+/posts$",
                "/users/a-b/posts",
                "/users/a/b/posts",
            ),
            (r"^/(?:a|b){2}$", "/ab", "/a"),
            (r"^/{id}$", "/{id}", "/id"),
            (r"^/a{2,3}$", "/aaa", "/a"),
            (r"^/x\.json$", "/x.json", "/xyjson"),
            (r"^/[]a-]+$", "/]a-", "/b"),
            (r"^/[a&&b]$", "/&", "/c"),
            (r"^/[[:digit:]_]+$", "/1_", "/a"),
            (r"^/\mcat\M$", "/cat", "/cats"),
            (r"\A/\w+\Z", "/abc", "/a.c"),
            (r"^/a\<b$", "/a<b", "/ab"),
        ] {
            let expression =
                compile(expression).unwrap_or_else(|why| panic!("{expression}: {why}"));
            assert!(expression.is_match(fits), "{expression} {fits}");
            assert!(!expression.is_match(not), "{expression} {not}");
        }
        for refused in [
            "***=/a",
            "(?i)^/a$",
            "^/(?!admin)",
            r"^/(a)\1$",
            r"^/\x41$",
            "^/[[.a.]]$",
            "^/[[:<:]]a$",
            "^/é$",
            "^/(a$",
            "^/[a$",
        ] {
            assert!(compile(refused).is_err(), "{refused}");
        }
        assert_eq!(
            compile(&"a".repeat(5000)).err(),
            Some(ExpressionError::TooLong)
        );
    }

    #[test]
    fn paths_are_compared_in_their_normal_form() {
        for (path, wanted) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b"),
            ("//a///b", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/../../a", "/a"),
            ("/a//../b", "/a/b"),
            ("/%61%2f%c3%a9", "/a%2F%C3%A9"),
            ("/a/%2e%2e/b", "/b"),
            ("/100%", "/100%"),
            ("/%zz", "/%zz"),
        ] {
            assert_eq!(normalised(path), wanted, "{path}");
        }
    }

    #[test]
    fn a_route_has_the_verbs_and_the_version_of_its_expressions() {
        let found = verbs("^(GET|PUT)$").expect("an expression");
        assert_eq!(found, ["GET".into(), "PUT".into()] as [Box<str>; 2]);
        assert_eq!(verbs("^get$"), Err(ExpressionError::NoVerb));
        let address = Address::new("^/a$", "^2", "/a").expect("expressions");
        assert!(address.takes(&|name| (name == "accept-version").then_some("2.1")));
        assert!(!address.takes(&|_| None));
        assert!(address.matches("/%61").is_some());
        assert!(address.matches("/a/b").is_none());
    }
}
