//! Parameters as text: the styles of OpenAPI, which are expansions of RFC 6570 and two of its own.
//!
//! What comes out is safe where it is put: everything but unreserved characters is percent-encoded, so a value ends neither a path
//! segment nor a parameter, and no header line.
//!
//! Not here: which parameters an operation has (`operation`), where the texts go (`request`).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sentinel_wire::json::{self, Kind, Object, Rules};

/// RFC 3986 `unreserved` stays.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// `allowReserved`: what separates parts of a URL stays too, but for the number sign, which would end the query, and the
/// ampersand, by which a value could add a parameter.
const RESERVED: &AsciiSet = &VALUE
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'[')
    .remove(b']')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// Objects in `deepObject` parameters are followed to this depth; what lies deeper is written as JSON.
const DEEP_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    /// `collectionFormat: tsv` of Swagger 2.0.
    TabDelimited,
    DeepObject,
}

impl Style {
    pub(super) fn of(word: &str) -> Option<Self> {
        Some(match word {
            "simple" => Self::Simple,
            "label" => Self::Label,
            "matrix" => Self::Matrix,
            "form" => Self::Form,
            "spaceDelimited" => Self::SpaceDelimited,
            "pipeDelimited" => Self::PipeDelimited,
            "tabDelimited" => Self::TabDelimited,
            "deepObject" => Self::DeepObject,
            _ => return None,
        })
    }
}

/// A JSON value as parameters see it. Numbers are texts, so they are sent with the digits that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Null,
    Scalar(String),
    List(Vec<Shape>),
    Map(Vec<(String, Shape)>),
}

impl Shape {
    /// Reads checked JSON.
    pub(super) fn of(raw: &[u8]) -> Self {
        let rules = Rules::backend();
        match Kind::of(raw) {
            Some(Kind::String) => {
                Self::Scalar(json::decode_string(raw).unwrap_or_default().into_owned())
            }
            Some(Kind::Array) => {
                let spans = json::elements(raw, rules).unwrap_or_default();
                Self::List(spans.iter().map(|span| Self::of(span.of(raw))).collect())
            }
            Some(Kind::Object) => {
                let members = Object::parse(raw, rules).unwrap_or_default().members;
                let member =
                    |m: &json::Member| (m.key.decode(raw).into_owned(), Self::of(m.value.of(raw)));
                Self::Map(members.iter().map(member).collect())
            }
            Some(Kind::Null) => Self::Null,
            _ => Self::Scalar(String::from_utf8_lossy(raw).into_owned()),
        }
    }

    /// One text: what lies deeper than the styles reach is JSON, roughly as it came.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Scalar(text) => text.clone(),
            nested => nested.json(),
        }
    }

    fn json(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Self::Null => "null".to_owned(),
            // A text that reads as JSON was a number, or is meant as one.
            Self::Scalar(text) => match serde_json::from_str::<serde_json::Number>(text) {
                Ok(_) => text.clone(),
                Err(_) if matches!(text.as_str(), "true" | "false") => text.clone(),
                Err(_) => quoted(text),
            },
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(Self::json).collect();
                format!("[{}]", items.join(","))
            }
            Self::Map(members) => {
                let member =
                    |(name, value): &(String, Self)| format!("{}:{}", quoted(name), value.json());
                let members: Vec<_> = members.iter().map(member).collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }
}

/// How the characters of a value are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// Everything but unreserved characters.
    Strict,
    /// `allowReserved`.
    Reserved,
    /// A form body: a space is a plus sign.
    Form,
    /// A header: as it is.
    None,
}

pub(super) fn escape(text: &str, how: Escape) -> String {
    match how {
        Escape::Strict => utf8_percent_encode(text, VALUE).to_string(),
        Escape::Reserved => keep_triplets(text),
        // WHATWG: the tilde is written in three, a space in one.
        Escape::Form => utf8_percent_encode(text, VALUE)
            .to_string()
            .replace("%20", "+")
            .replace('~', "%7E"),
        Escape::None => text.to_owned(),
    }
}

/// Reserved expansion leaves `%41` as it is and encodes a percent sign that begins no such triplet.
fn keep_triplets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.extend(utf8_percent_encode(&rest[..at], RESERVED));
        let digits = rest.as_bytes().get(at + 1..at + 3);
        match digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            Some(_) => {
                out.push_str(&rest[at..at + 3]);
                rest = &rest[at + 3..];
            }
            None => {
                out.push_str("%25");
                rest = &rest[at + 1..];
            }
        }
    }
    out.extend(utf8_percent_encode(rest, RESERVED));
    out
}

/// One parameter's name and how it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct How<'a> {
    pub(super) name: &'a str,
    pub(super) style: Style,
    pub(super) explode: bool,
    pub(super) escape: Escape,
}

impl How<'_> {
    fn value(&self, shape: &Shape) -> String {
        escape(&shape.text(), self.escape)
    }

    fn key(&self, key: &str) -> String {
        match self.escape {
            Escape::Reserved => escape(key, Escape::Strict),
            other => escape(key, other),
        }
    }

    /// Items or members, flattened, in the order in which they are written one after the other.
    fn flat(&self, shape: &Shape) -> Vec<String> {
        match shape {
            Shape::Null => Vec::new(),
            Shape::Scalar(_) => vec![self.value(shape)],
            Shape::List(items) => items.iter().map(|item| self.value(item)).collect(),
            Shape::Map(members) => members
                .iter()
                .flat_map(|(key, value)| [self.key(key), self.value(value)])
                .collect(),
        }
    }

    /// `key=value` for each member.
    fn pairs(&self, members: &[(String, Shape)]) -> Vec<String> {
        let pair =
            |(key, value): &(String, Shape)| format!("{}={}", self.key(key), self.value(value));
        members.iter().map(pair).collect()
    }

    /// The text in place of a path's `{name}`, or of a header's value.
    pub(super) fn in_path(&self, shape: &Shape) -> String {
        match self.style {
            Style::Label => {
                let parts = match (shape, self.explode) {
                    (Shape::Map(members), true) => self.pairs(members),
                    _ => self.flat(shape),
                };
                let between = if self.explode { "." } else { "," };
                format!(".{}", parts.join(between))
            }
            Style::Matrix => self.matrix(shape),
            _ => match (shape, self.explode) {
                (Shape::Map(members), true) => self.pairs(members).join(","),
                _ => self.flat(shape).join(","),
            },
        }
    }

    fn matrix(&self, shape: &Shape) -> String {
        let name = self.key(self.name);
        let one = |value: String| match value.is_empty() {
            true => format!(";{name}"),
            false => format!(";{name}={value}"),
        };
        match (shape, self.explode) {
            (Shape::List(_), true) => self.flat(shape).into_iter().map(one).collect(),
            (Shape::Map(members), true) => {
                let pairs = self.pairs(members).into_iter();
                pairs.map(|pair| format!(";{pair}")).collect()
            }
            _ => one(self.flat(shape).join(",")),
        }
    }

    /// The `name=value` pairs in a query, a cookie or a form. Null, an empty list and an empty object are left out.
    pub(super) fn in_query(&self, shape: &Shape) -> Vec<String> {
        let name = self.key(self.name);
        let nothing = match shape {
            Shape::Null => true,
            Shape::List(items) => items.is_empty(),
            Shape::Map(members) => members.is_empty(),
            Shape::Scalar(_) => false,
        };
        if nothing {
            return Vec::new();
        }
        let one = |value: String| format!("{name}={value}");
        match (self.style, shape) {
            (Style::DeepObject, Shape::Map(_) | Shape::List(_)) => {
                let mut out = Vec::new();
                self.deep(&mut self.name.to_owned(), shape, 0, &mut out);
                out
            }
            (_, Shape::List(_)) if self.explode => self.flat(shape).into_iter().map(one).collect(),
            (_, Shape::Map(members)) if self.explode => self.pairs(members),
            (style, _) => {
                let between = match style {
                    Style::SpaceDelimited => "%20",
                    Style::PipeDelimited => "%7C",
                    Style::TabDelimited => "%09",
                    _ => ",",
                };
                vec![one(self.flat(shape).join(between))]
            }
        }
    }

    /// `name[a][b]=value`. OpenAPI leaves nested objects open; this is what common servers read.
    fn deep(&self, path: &mut String, shape: &Shape, depth: usize, out: &mut Vec<String>) {
        let mut within = |step: &str, inner: &Shape| {
            let len = path.len();
            path.push_str(&format!("[{step}]"));
            self.deep(path, inner, depth + 1, out);
            path.truncate(len);
        };
        match shape {
            Shape::Map(members) if depth < DEEP_MAX => {
                for (key, value) in members {
                    within(key, value);
                }
            }
            Shape::List(items) if depth < DEEP_MAX && depth > 0 => {
                // Lists of plain values repeat their key.
                for item in items {
                    self.deep(path, item, DEEP_MAX, out);
                }
            }
            Shape::Null => {}
            _ => out.push(format!("{}={}", self.key(path), self.value(shape))),
        }
    }
}

#[cfg(test)]
mod tests;
