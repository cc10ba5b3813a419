//! Paths and URIs with parameters: `/orders/{id}`, `shop://orders/{id}`. A parameter is one or more characters without a slash.
//!
//! Not here: URI templates of other servers, which only have to be recognised (`sentinel_wire::template`).

use percent_encoding::percent_decode_str;
use sentinel_core::RoutePattern;

/// Longer paths fit no pattern.
const PATH_BYTES_MAX: usize = 8 * 1024;
const PARAMETERS_MAX: usize = 16;

/// A pattern that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    #[error("a brace has no partner")]
    Brace,
    #[error("between two braces stands no name of letters, digits and underscores")]
    Name,
    #[error("two parameters need text between them")]
    Adjacent,
    #[error("a name occurs twice")]
    Twice,
    #[error("there are more than {PARAMETERS_MAX} parameters")]
    TooMany,
}

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    text: Box<str>,
    first: Box<str>,
    /// Each parameter, and the text behind it.
    rest: Vec<(Box<str>, Box<str>)>,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, PatternError> {
        let mut parts = text.split('{');
        let first = parts.next().unwrap_or_default();
        if first.contains('}') {
            return Err(PatternError::Brace);
        }
        let mut rest: Vec<(Box<str>, Box<str>)> = Vec::new();
        for part in parts {
            let (name, behind) = part.split_once('}').ok_or(PatternError::Brace)?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(PatternError::Name);
            }
            if behind.contains('}') {
                return Err(PatternError::Brace);
            }
            if rest.last().is_some_and(|(_, behind)| behind.is_empty()) {
                return Err(PatternError::Adjacent);
            }
            if rest.iter().any(|(known, _)| **known == *name) {
                return Err(PatternError::Twice);
            }
            rest.push((name.into(), behind.into()));
        }
        match rest.len() > PARAMETERS_MAX {
            true => Err(PatternError::TooMany),
            false => Ok(Self {
                text: text.into(),
                first: first.into(),
                rest,
            }),
        }
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.rest.iter().map(|(name, _)| &**name)
    }

    /// Characters that are no parameters: of two patterns that fit, the longer is meant.
    pub(super) fn literal_len(&self) -> usize {
        let behind = self.rest.iter().map(|(_, behind)| behind.len());
        self.first.len() + behind.sum::<usize>()
    }

    /// The decoded values of the parameters, if the pattern fits all of `path`.
    pub(super) fn values(&self, path: &str) -> Option<Vec<(String, String)>> {
        let mut left = path.strip_prefix(&*self.first)?;
        if path.len() > PATH_BYTES_MAX {
            return None;
        }
        let mut values = Vec::with_capacity(self.rest.len());
        for (at, (name, behind)) in self.rest.iter().enumerate() {
            let is_last = at + 1 == self.rest.len();
            let end = match is_last {
                // The end of the path must be the end of the pattern.
                true => left.strip_suffix(&**behind)?.len(),
                false => left.find(&**behind)?,
            };
            let value = &left[..end];
            if value.is_empty() || value.contains('/') {
                return None;
            }
            let value = percent_decode_str(value).decode_utf8().ok()?;
            values.push((name.to_string(), value.into_owned()));
            left = &left[end + behind.len()..];
        }
        (left.is_empty()).then_some(values)
    }
}

impl RoutePattern for Pattern {
    fn matches(&self, path: &str) -> Option<Vec<(String, String)>> {
        self.values(path)
    }

    fn shown(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_what_stands_between_the_texts() {
        let values = |pattern: &str, path: &str| {
            let found = Pattern::parse(pattern).expect("a pattern").values(path);
            found.map(|found| {
                found
                    .into_iter()
                    .map(|(n, v)| format!("{n}={v}"))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        for (pattern, path, wanted) in [
            ("/orders", "/orders", Some("")),
            ("/orders", "/orders/", None),
            ("/orders/{id}", "/orders/5", Some("id=5")),
            ("/orders/{id}", "/orders/", None),
            ("/orders/{id}", "/orders/5/items", None),
            (
                "/orders/{id}/items/{item}",
                "/orders/5/items/a%2Fb",
                Some("id=5 item=a/b"),
            ),
            ("shop://{a}-{b}.txt", "shop://x-y-z.txt", Some("a=x b=y-z")),
            ("/{name}", "/%C3%A9", Some("name=é")),
            ("/{name}", "/%FF", None),
        ] {
            assert_eq!(values(pattern, path).as_deref(), wanted, "{pattern} {path}");
        }
    }

    #[test]
    fn patterns_that_cannot_be_read_say_why() {
        for (pattern, wanted) in [
            ("/{a", PatternError::Brace),
            ("/a}", PatternError::Brace),
            ("/{}", PatternError::Name),
            ("/{a b}", PatternError::Name),
            ("/{a}{b}", PatternError::Adjacent),
            ("/{a}/{a}", PatternError::Twice),
        ] {
            assert_eq!(Pattern::parse(pattern), Err(wanted), "{pattern}");
        }
    }
}
