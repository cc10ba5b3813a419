//! How URIs are compared for policy.
//!
//! A server may take several spellings for one resource, and which ones only it knows. So a rule that denies a
//! resource denies whatever any reader could take for it (`Operation::any_name`), and a rule that grants one grants
//! only what every reader takes for it (`Operation::every_name`). Readers read rules as they read URIs: to one that
//! takes host and path for one path `docs:///a` and `docs://a` are the same, in a rule as well. The backend gets what
//! the caller sent.
//!
//! Not here: routing, which goes by the URI as it was sent (`snapshot`).

use std::borrow::Cow;
use std::sync::Arc;

/// Encodings within encodings that are undone; nobody decodes as often.
const DECODE_MAX: usize = 4;

/// What a URI may stand for, besides itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Spellings {
    pub(super) forms: Forms,
    /// The same resource to a reader that does not care about a slash at the end.
    pub(super) slashed: Vec<String>,
}

/// A URI's normal forms, one for each way to read it, where they differ from it and from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// As RFC 3986 has it.
    pub(crate) normal: Option<Arc<str>>,
    /// For readers that take whatever follows the scheme for one path.
    pub(crate) path: Option<Arc<str>>,
}

impl Forms {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<str>> + Clone {
        self.normal.iter().chain(&self.path)
    }
}

impl Spellings {
    pub(super) fn of(uri: &str) -> Self {
        let Some(parts) = Parts::of(uri) else {
            return Self::default();
        };
        let (normal, path) = (parts.normal(), parts.as_one_path());
        let forms = Forms {
            path: (path != uri && path != normal).then(|| path.into()),
            normal: (normal != uri).then(|| normal.into()),
        };
        let known: Vec<&str> = forms.iter().map(|form| &**form).chain([uri]).collect();
        let slashed = known.iter().map(|form| match form.strip_suffix('/') {
            Some(without) => without.to_owned(),
            None => format!("{form}/"),
        });
        let slashed = slashed.filter(|one| !known.contains(&&**one)).collect();
        Self { forms, slashed }
    }
}

/// The normal form of a pattern over URIs; patterns over other names are what they are.
pub(crate) fn plain(pattern: &str) -> Option<String> {
    let form = Parts::of(pattern)?.normal();
    (form != pattern).then_some(form)
}

/// A pattern over URIs to a reader that takes whatever follows the scheme for one path, where that differs: `a:///*`
/// means to it what `a://*` does.
pub(crate) fn as_path(pattern: &str) -> Option<String> {
    let form = Parts::of(pattern)?.as_one_path();
    (form != pattern).then_some(form)
}

/// A URI with as many slashes after its scheme as another text has: the same to a reader that takes all of it for one
/// path. `None` where there is nothing to change.
pub(super) fn begun_like(uri: &str, other: &str) -> Option<String> {
    let apart = |text: &str| {
        let (scheme, rest) = text.split_once(':')?;
        let slashes = rest.len() - rest.trim_start_matches('/').len();
        is_scheme(scheme).then_some((scheme.len() + 1, slashes))
    };
    let ((begin, have), (_, want)) = (apart(uri)?, apart(other)?);
    let (scheme, rest) = uri.split_at(begin);
    (have != want).then(|| format!("{scheme}{}{}", "/".repeat(want), &rest[have..]))
}

/// A URI, decoded and taken apart.
struct Parts {
    scheme: String,
    /// `None` where there are no two slashes.
    authority: Option<String>,
    path: String,
    /// With its question mark; a fragment is for the reader of a page.
    query: String,
}

impl Parts {
    fn of(uri: &str) -> Option<Self> {
        // What URL parsers drop: blanks around, and line breaks and tabs anywhere.
        let text = uri.trim_matches(|c: char| c <= ' ');
        let text = text.replace(['\t', '\r', '\n'], "");
        let text = decode(text).replace('\\', "/");
        let (scheme, rest) = text.split_once(':')?;
        if !is_scheme(scheme) {
            return None;
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) if !query.is_empty() => (rest, format!("?{query}")),
            Some((rest, _)) => (rest, String::new()),
            None => (rest, String::new()),
        };
        let scheme = scheme.to_ascii_lowercase();
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                (Some(host(&scheme, &rest[..end])), rest[end..].to_owned())
            }
            // The same file with and without a host.
            None if scheme == "file" => (Some(String::new()), rest.to_owned()),
            None => (None, rest.to_owned()),
        };
        Some(Self {
            scheme,
            authority,
            path,
            query,
        })
    }

    fn normal(&self) -> String {
        let Self {
            scheme,
            authority,
            path,
            query,
        } = self;
        let path = without_dots(path);
        match authority {
            Some(authority) => format!("{scheme}://{authority}{path}{query}"),
            None => format!("{scheme}:{path}{query}"),
        }
    }

    /// As somebody reads it who takes everything after the scheme for a path.
    fn as_one_path(&self) -> String {
        let (scheme, query) = (&self.scheme, &self.query);
        if scheme == "file" {
            return self.normal();
        }
        let first = self.authority.as_deref().unwrap_or_default();
        let path = without_dots(&format!("{first}{}", self.path));
        let path = path.trim_start_matches('/');
        // Browsers' readers take any number of slashes for two, and then there is a host.
        if matches!(scheme.as_str(), "http" | "https" | "ws" | "wss" | "ftp") {
            let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
            return format!("{scheme}://{}{rest}{query}", host(scheme, first));
        }
        format!("{scheme}://{path}{query}")
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// The host without its user, its usual port and the dot of a full name.
fn host(scheme: &str, authority: &str) -> String {
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.to_ascii_lowercase();
    let usual = match scheme {
        "http" | "ws" => ":80",
        "https" | "wss" => ":443",
        _ => ":",
    };
    let host = host.strip_suffix(usual).unwrap_or(&host);
    let host = host.strip_suffix(':').unwrap_or(host);
    let host = host.strip_suffix('.').unwrap_or(host);
    match (scheme, host) {
        ("file", "localhost") => String::new(),
        _ => host.to_owned(),
    }
}

/// A path without empty and dot segments; a slash at either end stays.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    let folder = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    let first = if path.starts_with('/') { "/" } else { "" };
    let last = if folder && !kept.is_empty() { "/" } else { "" };
    format!("{first}{}{last}", kept.join("/"))
}

/// Undoes percent-encoding, also where something is encoded more than once.
fn decode(text: String) -> String {
    let mut text = text;
    for _ in 0..DECODE_MAX {
        match decode_once(&text) {
            Cow::Borrowed(_) => break,
            Cow::Owned(decoded) => text = decoded,
        }
    }
    text
}

fn decode_once(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let escaped = |at: usize| {
        let pair = digit(at + 1).zip(digit(at + 2))?;
        (bytes[at] == b'%').then_some((pair.0 * 16 + pair.1) as u8)
    };
    if !(0..bytes.len()).any(|at| escaped(at).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let found = escaped(at);
        out.push(found.unwrap_or(bytes[at]));
        at += if found.is_some() { 3 } else { 1 };
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(found: &Spellings) -> impl Iterator<Item = &str> {
        let forms = found.forms.iter().map(|form| &**form);
        forms.chain(found.slashed.iter().map(String::as_str))
    }

    /// Each line: a URI, and what a reader may take it for.
    #[test]
    fn decision_1_a_uri_is_recognised_in_its_other_spellings() {
        for (uri, stands_for) in [
            ("TEST://static", "test://static"),
            ("test://STATIC", "test://static"),
            ("test://static/", "test://static"),
            ("test://static//", "test://static"),
            ("test://static", "test://static/"),
            ("test://%73tatic", "test://static"),
            ("test://%2573tatic", "test://static"),
            ("test:%2F%2Fstatic", "test://static"),
            ("test:\\\\static", "test://static"),
            ("test://./static", "test://static"),
            ("test:///static", "test://static"),
            ("test://items/../static", "test://static"),
            ("test://items/%2e%2E/static", "test://static"),
            ("test://static#top", "test://static"),
            ("test://static?", "test://static"),
            ("test://me@static", "test://static"),
            ("test://static:", "test://static"),
            (" test://sta\ttic\n", "test://static"),
            ("test://static/.", "test://static"),
            ("test://items/%37", "test://items/7"),
            ("test://items//7", "test://items/7"),
            ("test://items/./7/", "test://items/7"),
            ("file:/etc/passwd", "file:///etc/passwd"),
            ("file://localhost/etc/./passwd", "file:///etc/passwd"),
            ("file:///etc/x/../passwd", "file:///etc/passwd"),
            ("https://Docs.example:443/a", "https://docs.example/a"),
            ("test://items/%7Bid%7D", "test://items/{id}"),
            ("urn:Book:%41", "urn:Book:A"),
            ("https:///Docs.example:443/a", "https://docs.example/a"),
            ("https:/me@DOCS.example/b/../a", "https://docs.example/a"),
            ("https:docs.example./a", "https://docs.example/a"),
            ("test:/static", "test://static"),
            ("test:static", "test://static"),
        ] {
            let found = Spellings::of(uri);
            assert!(
                all(&found).any(|one| one == stands_for),
                "{uri:?}: {found:?}"
            );
        }
    }

    #[test]
    fn other_resources_stay_others() {
        for (uri, other) in [
            ("test://static2", "test://static"),
            ("test://items/A", "test://items/a"),
            ("test://static?x=1", "test://static"),
            ("test://items/7", "test://items/8"),
            ("other://static", "test://static"),
        ] {
            let found = Spellings::of(uri);
            assert!(!all(&found).any(|one| one == other), "{uri:?}: {found:?}");
        }
        // What is no URI is nothing else either.
        assert_eq!(Spellings::of("echo"), Spellings::default());
        assert_eq!(Spellings::of("1:2"), Spellings::default());
        // Already normal: nothing but the slash.
        assert_eq!(Spellings::of("test://items/7").forms, Forms::default());
    }

    #[test]
    fn patterns_are_written_plainly_too() {
        assert_eq!(
            plain("TEST://Items/%41*").as_deref(),
            Some("test://items/A*")
        );
        assert_eq!(plain("test://items/*"), None);
        assert_eq!(plain("delete_*"), None);
        assert_eq!(plain("*"), None);
        assert_eq!(as_path("test:///*").as_deref(), Some("test://*"));
        assert_eq!(as_path("urn:book:*").as_deref(), Some("urn://book:*"));
        assert_eq!(as_path("file:///a/*"), None);
        assert_eq!(as_path("delete_*"), None);
        assert_eq!(
            begun_like("test://7", "test:///{id}").as_deref(),
            Some("test:///7")
        );
        assert_eq!(
            begun_like("urn://b:7", "urn:b:{n}").as_deref(),
            Some("urn:b:7")
        );
        assert_eq!(begun_like("test://7", "test://{id}"), None);
    }

    /// Encodings within encodings come to an end, whatever is sent.
    #[test]
    fn a_long_chain_of_encodings_is_bounded() {
        let deep = format!("test://{}", "%25".repeat(100_000));
        assert!(Spellings::of(&deep).forms.normal.is_some());
    }
}
