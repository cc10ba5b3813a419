//! How URIs are compared for policy.
//!
//! A server may accept several spellings of a resource, and only it knows which. So a rule that denies a resource
//! denies every spelling that any reader could resolve to it (`Operation::any_name`), and a rule that grants one
//! grants only what every reader resolves to it. Readers (`reader`) apply to rules as well: to a reader that takes
//! host and path for one path, `docs:///a` and `docs://a` are the same in rules too. The backend gets the URI as it
//! was sent.
//!
//! Not here: routing, which uses the URI as it was sent (`snapshot`).

mod reader;

use std::sync::Arc;

pub(crate) use reader::Readers;
use reader::{is_ambiguous, is_scheme, read};

/// A longer URI with several readings is not read: its readings would be many times its length.
const LENGTH_MAX: usize = 4096;

/// The readings of a URI other than its spelling.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Spellings {
    pub(super) forms: Forms,
    /// The same resource to a reader that ignores a trailing slash.
    pub(super) slashed: Vec<String>,
}

/// A URI's normal forms, one per reading, where they differ from the URI and from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    pub(crate) readings: Vec<Reading>,
    /// Not computed: any reading is possible.
    pub(crate) is_unclear: bool,
}

/// A reading that some readers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) readers: Readers,
    pub(crate) text: Arc<str>,
}

impl Forms {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<str>> + Clone {
        self.readings.iter().map(|reading| &reading.text)
    }
}

impl Spellings {
    pub(super) fn of(uri: &str) -> Self {
        let mut found = Self::default();
        if uri.len() > LENGTH_MAX && is_ambiguous(uri) {
            found.forms.is_unclear = true;
            return found;
        }
        let all = read(uri);
        if all.is_empty() {
            return found;
        }
        let forms = all.iter().map(|(_, form)| &**form);
        let known: Vec<&str> = forms.filter(|form| *form != uri).chain([uri]).collect();
        let slashed = known.iter().map(|form| match form.strip_suffix('/') {
            Some(without) => without.to_owned(),
            None => format!("{form}/"),
        });
        found.slashed = slashed.filter(|one| !known.contains(&&**one)).collect();
        let others = all.into_iter().filter(|(_, form)| form != uri);
        let reading = |(readers, form): (Readers, String)| Reading {
            readers,
            text: form.into(),
        };
        found.forms.readings = others.map(reading).collect();
        found
    }
}

/// The readings of a pattern over URIs where they differ from its spelling: to readers without hosts `a:///*` means
/// `a://*`. Patterns over other names have one reading.
pub(crate) fn of_pattern(pattern: &str) -> Vec<(Readers, String)> {
    let mut found = read(pattern);
    found.retain(|(_, form)| form != pattern);
    found
}

/// The URI with as many slashes after its scheme as another text has: equal to a reader that takes all of it as one
/// path. `None` if nothing changes.
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
            ("file://127.0.0.1/etc/passwd", "file:///etc/passwd"),
            ("file://[::1]/etc/passwd", "file:///etc/passwd"),
            ("file:///x%23/../etc/passwd", "file:///etc/passwd"),
            ("file:///x?/../etc/passwd", "file:///etc/passwd"),
            ("file:///x?/../etc/passwd#/../../x", "file:///etc/passwd"),
            ("file:///x#/../etc/passwd?", "file:///etc/passwd"),
            ("test://u%23@static", "test://static"),
            ("test://u\\@static", "test://static"),
            ("test:%2f%2fu%2523@static", "test://static"),
            ("test://u\\@static/x\\..", "test://static"),
            ("https:///u%23@docs.example/a", "https://docs.example/a"),
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
        let forms = |pattern: &str| {
            let found = of_pattern(pattern).into_iter();
            found.map(|(_, form)| form).collect::<Vec<_>>()
        };
        assert_eq!(forms("TEST://Items/%41*"), ["test://items/A*"]);
        assert_eq!(forms("test:///*"), ["test://*"]);
        assert_eq!(forms("urn:book:*"), ["urn://book:*"]);
        for as_written in ["test://items/*", "file:///a/*", "delete_*", "*"] {
            assert!(of_pattern(as_written).is_empty(), "{as_written}");
        }
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

    /// Encodings within encodings come to an end, whatever is sent, and readings do not pile up.
    #[test]
    fn a_long_chain_of_encodings_is_bounded() {
        let deep = format!("test://{}", "%25".repeat(1_300));
        assert!(!Spellings::of(&deep).forms.readings.is_empty());
        let long = format!("test://{}", "%25".repeat(100_000));
        let found = Spellings::of(&long);
        assert!(found.forms.is_unclear && found.slashed.is_empty());
        // What has one reading may be as long as it likes.
        let long = format!("test://{}", "a/../b".repeat(100_000));
        assert!(!Spellings::of(&long).forms.is_unclear);
    }
}
