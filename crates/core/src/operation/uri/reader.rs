//! The ways to read a URI.
//!
//! A reader decodes, splits and resolves in its own order: `docs://u%23@host/a` has the host `host` if split before
//! decoding, and the host `u` otherwise; `file:///x?/../a` is the file `/a` to a reader without queries. `read` finds
//! all readings of a URI, each with the readers that share it.

use std::borrow::Cow;

/// Nested encodings that are decoded; no real reader decodes as often.
const DECODE_MAX: usize = 4;

/// How a backslash is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backslash {
    /// As a slash, like browsers do.
    Slash,
    /// As a slash within a path, where file names are split; as a character when the URI is split.
    SlashInPath,
    Character,
}

const BACKSLASHES: [Backslash; 3] = [
    Backslash::Slash,
    Backslash::SlashInPath,
    Backslash::Character,
];

/// One way to read a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reader {
    /// Takes everything after the scheme as one path.
    takes_one_path: bool,
    /// Number of decodings before it splits; the parts are then decoded fully.
    splits_after: usize,
    backslash: Backslash,
    /// Does not know queries.
    keeps_query: bool,
    /// Does not know fragments.
    keeps_fragment: bool,
}

/// Decodes once and splits as in RFC 3986.
const BY_THE_BOOK: Reader = Reader {
    takes_one_path: false,
    splits_after: DECODE_MAX,
    backslash: Backslash::Slash,
    keeps_query: false,
    keeps_fragment: false,
};

const COUNT: usize = 2 * (DECODE_MAX + 1) * BACKSLASHES.len() * 2 * 2;

/// A set of readers, by index in `Reader::all`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readers(u128);

const _: () = assert!(COUNT < u128::BITS as usize);

impl Readers {
    const ALL: Self = Self((1 << COUNT) - 1);
    /// All that distinguish host and path.
    const OF_HOSTS: Self = Self((1 << (COUNT / 2)) - 1);
    const OF_PATHS: Self = Self(Self::ALL.0 & !Self::OF_HOSTS.0);

    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn know_hosts(self) -> bool {
        self.0 & Self::OF_HOSTS.0 != 0
    }

    /// Whether it contains the RFC 3986 reader.
    pub(crate) fn go_by_the_book(self) -> bool {
        self.0 & 1 != 0
    }
}

/// Every form of a URI once, with its readers. Empty if it is no URI.
pub(crate) fn read(uri: &str) -> Vec<(Readers, String)> {
    // URL parsers drop surrounding blanks, and line breaks and tabs anywhere.
    let text = uri.trim_matches(|c: char| c <= ' ');
    let text = text.replace(['\t', '\r', '\n'], "");
    let mut found = Vec::new();
    if !is_ambiguous(&text) {
        let of_paths = Reader {
            takes_one_path: true,
            ..BY_THE_BOOK
        };
        add(&mut found, Readers::OF_HOSTS, BY_THE_BOOK.read(&text));
        add(&mut found, Readers::OF_PATHS, of_paths.read(&text));
        return found;
    }
    let text = Decodings::of(text);
    for (reader, readers) in text.tell_apart() {
        add(&mut found, readers, reader.read(text.after(reader)));
    }
    found
}

fn add(found: &mut Vec<(Readers, String)>, readers: Readers, form: Option<String>) {
    let Some(form) = form else { return };
    match found.iter_mut().find(|(_, known)| *known == form) {
        Some((known, _)) => known.0 |= readers.0,
        None => found.push((readers, form)),
    }
}

/// Whether readers may differ in more than where the path begins.
pub(super) fn is_ambiguous(text: &str) -> bool {
    text.contains(['%', '?', '#', '\\'])
}

/// A URI undecoded, decoded once, twice and so on, for as long as that changes it.
struct Decodings(Vec<String>);

impl Decodings {
    fn of(text: String) -> Self {
        let mut all = vec![text];
        while all.len() <= DECODE_MAX
            && let Cow::Owned(next) = decode_once(&all[all.len() - 1])
        {
            all.push(next);
        }
        Self(all)
    }

    fn after(&self, reader: Reader) -> &str {
        &self.0[reader.splits_after.min(self.0.len() - 1)]
    }

    /// One representative for each group of readers that agree on this URI.
    fn tell_apart(&self) -> Vec<(Reader, Readers)> {
        let has = |mark: char| self.0.iter().any(|text| text.contains(mark));
        let (query, fragment, backslash) = (has('?'), has('#'), has('\\'));
        let last = self.0.len() - 1;
        let mut apart: Vec<(Reader, Readers)> = Vec::new();
        for (place, reader) in Reader::all().enumerate() {
            let matters = Reader {
                splits_after: reader.splits_after.min(last),
                keeps_query: reader.keeps_query && query,
                keeps_fragment: reader.keeps_fragment && fragment,
                backslash: match backslash {
                    true => reader.backslash,
                    false => Backslash::Slash,
                },
                ..reader
            };
            match apart.iter_mut().find(|(known, _)| *known == matters) {
                Some((_, readers)) => readers.0 |= 1 << place,
                None => apart.push((matters, Readers(1 << place))),
            }
        }
        apart
    }
}

impl Reader {
    /// The RFC 3986 reader is the first; those without hosts are the second half.
    fn all() -> impl Iterator<Item = Self> {
        (0..COUNT).map(|place| {
            let (rest, keeps_query) = (place / 2, place % 2 == 1);
            let (rest, keeps_fragment) = (rest / 2, rest % 2 == 1);
            let (rest, backslash) = (rest / 3, BACKSLASHES[rest % 3]);
            let (rest, undone) = (rest / (DECODE_MAX + 1), rest % (DECODE_MAX + 1));
            Self {
                takes_one_path: rest == 1,
                splits_after: DECODE_MAX - undone,
                backslash,
                keeps_query,
                keeps_fragment,
            }
        })
    }

    /// Its reading of a URI that was decoded as often as it does before splitting.
    fn read(self, text: &str) -> Option<String> {
        let parts = self.split(text)?;
        Some(match self.takes_one_path {
            true => parts.as_one_path(),
            false => parts.normal(),
        })
    }

    fn split(self, text: &str) -> Option<Parts> {
        let text = match self.backslash {
            Backslash::Slash => text.replace('\\', "/"),
            _ => text.to_owned(),
        };
        let (scheme, rest) = text.split_once(':')?;
        if !is_scheme(scheme) {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let rest = match self.keeps_fragment {
            true => rest,
            false => rest.split('#').next().unwrap_or_default(),
        };
        let (rest, query) = match rest.split_once('?') {
            Some(apart) if !self.keeps_query => apart,
            _ => (rest, ""),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            // Browsers take any number of slashes as two, followed by a host.
            _ if self.takes_one_path && is_of_the_web(&scheme) => {
                let (authority, path) = apart(rest.trim_start_matches('/'));
                (Some(authority), path)
            }
            Some(rest) => {
                let (authority, path) = apart(rest);
                (Some(authority), path)
            }
            // The same file with and without a host.
            None if scheme == "file" => (Some(""), rest),
            None => (None, rest),
        };
        let decoded = |part: &str| match self.backslash {
            Backslash::Character => decode(part),
            _ => decode(part).replace('\\', "/"),
        };
        // The user part is removed before decoding.
        let authority = authority.map(|whole| whole.rsplit('@').next().unwrap_or_default());
        Some(Parts {
            authority: authority.map(|part| host(&scheme, &decode(part))),
            path: decoded(path),
            query: match query {
                "" => String::new(),
                query => format!("?{}", decoded(query)),
            },
            scheme,
        })
    }
}

/// A URI, split and decoded.
struct Parts {
    scheme: String,
    /// `None` without two slashes.
    authority: Option<String>,
    path: String,
    /// Includes the question mark; fragments are dropped, since they never reach a server.
    query: String,
}

impl Parts {
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

    /// Its form for a reader that takes everything after the scheme as a path.
    fn as_one_path(&self) -> String {
        let (scheme, query) = (&self.scheme, &self.query);
        if scheme == "file" {
            return self.normal();
        }
        let first = self.authority.as_deref().unwrap_or_default();
        let path = without_dots(&format!("{first}{}", self.path));
        let path = path.trim_start_matches('/');
        if is_of_the_web(scheme) {
            let (first, rest) = apart(path);
            return format!("{scheme}://{}{rest}{query}", host(scheme, first));
        }
        format!("{scheme}://{path}{query}")
    }
}

/// A host and the rest.
fn apart(rest: &str) -> (&str, &str) {
    rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}

pub(super) fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

fn is_of_the_web(scheme: &str) -> bool {
    matches!(scheme, "http" | "https" | "ws" | "wss" | "ftp")
}

/// The host without user, default port and trailing dot.
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
        ("file", "localhost" | "127.0.0.1" | "[::1]") => String::new(),
        _ => host.to_owned(),
    }
}

/// A path without empty and dot segments; slashes at both ends stay.
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

/// Decodes percent-encoding repeatedly.
fn decode(text: &str) -> String {
    let mut text = text.to_owned();
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
