//! Arguments mirrored into `Mcp-Param-*` headers: the headers to send with a call, and the check of received ones
//! against the body.
//!
//! The value's own JSON type decides how it is written and compared, not the type in the schema: validation against
//! the schema is done elsewhere. The arguments are read level by level along the annotated paths; the rest is
//! skipped.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{DecodeError, Param, Scalar, parse_integer};

/// An argument that cannot be mirrored; the caller's mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    #[error("the arguments are not a JSON object")]
    NotAnObject,
    #[error("`{path}` is given twice")]
    Repeated { path: String },
    #[error("`{path}` is neither a string, nor a boolean, nor an integer below 2^53")]
    NotMirrorable { path: String },
}

/// Header and body disagree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MismatchError {
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error("{header} is missing, though the body has a value for it")]
    Missing { header: String },
    #[error("{header} is present, though the body has no value for it")]
    NotInBody { header: String },
    #[error("{header} is present more than once")]
    Repeated { header: String },
    #[error("{header} cannot be read")]
    Unreadable {
        header: String,
        #[source]
        source: DecodeError,
    },
    #[error("{header} does not match the body")]
    Different { header: String },
}

/// The headers to send with a call: name and encoded value for each annotated argument that is
/// present and not null.
pub fn headers<'p>(
    params: &'p [Param],
    arguments: Option<&RawValue>,
) -> Result<Vec<(&'p str, String)>, ArgumentError> {
    let mut out = Vec::new();
    let arguments = Arguments::read(params, arguments)?;
    for param in params {
        if let Some(value) = arguments.value(param)? {
            out.push((param.header.as_str(), value.scalar().encode().into_owned()));
        }
    }
    Ok(out)
}

/// Compares received headers with the body; `received` yields all headers of the request, names in any case. Headers
/// without an annotation are ignored.
pub fn check<'h, H>(
    params: &[Param],
    arguments: Option<&RawValue>,
    received: H,
) -> Result<(), MismatchError>
where
    H: IntoIterator<Item = (&'h str, &'h [u8])>,
    H::IntoIter: Clone,
{
    let received = received.into_iter();
    let arguments = Arguments::read(params, arguments)?;
    for param in params {
        let header = || param.header.clone();
        let mut values = received
            .clone()
            .filter(|(name, _)| name.eq_ignore_ascii_case(&param.header))
            .map(|(_, value)| value);
        let value = values.next();
        if values.next().is_some() {
            return Err(MismatchError::Repeated { header: header() });
        }
        match (value, arguments.value(param)?) {
            (None, None) => {}
            (None, Some(_)) => return Err(MismatchError::Missing { header: header() }),
            (Some(_), None) => return Err(MismatchError::NotInBody { header: header() }),
            (Some(value), Some(body)) => match body.scalar().agrees_with(value) {
                Ok(true) => {}
                Ok(false) => return Err(MismatchError::Different { header: header() }),
                Err(source) => {
                    let header = header();
                    return Err(MismatchError::Unreadable { header, source });
                }
            },
        }
    }
    Ok(())
}

/// The first level of the arguments, read once for all parameters.
struct Arguments<'a>(Object<'a>);

impl<'a> Arguments<'a> {
    fn read(params: &[Param], arguments: Option<&'a RawValue>) -> Result<Self, ArgumentError> {
        match arguments {
            Some(raw) if !params.is_empty() && raw.get() != "null" => Object::read(raw)
                .map(Self)
                .ok_or(ArgumentError::NotAnObject),
            _ => Ok(Self(Object::default())),
        }
    }

    fn value(&self, param: &Param) -> Result<Option<Body<'a>>, ArgumentError> {
        let path = || param.path.join(".");
        let Some((first, rest)) = param.path.split_first() else {
            return Ok(None);
        };
        let repeated = |_| ArgumentError::Repeated { path: path() };
        let mut found = self.0.get(first).map_err(repeated)?;
        for key in rest {
            let Some(object) = found.and_then(Object::read) else {
                return Ok(None);
            };
            found = object.get(key).map_err(repeated)?;
        }
        match found {
            None => Ok(None),
            Some(raw) if raw.get() == "null" => Ok(None),
            Some(raw) => Body::read(raw)
                .map(Some)
                .ok_or_else(|| ArgumentError::NotMirrorable { path: path() }),
        }
    }
}

/// A value of the body, decoded.
enum Body<'a> {
    String(Cow<'a, str>),
    Integer(i64),
    Boolean(bool),
}

impl<'a> Body<'a> {
    fn read(raw: &'a RawValue) -> Option<Self> {
        match raw.get() {
            "true" => Some(Body::Boolean(true)),
            "false" => Some(Body::Boolean(false)),
            text if text.starts_with('"') => {
                let Key(text) = serde_json::from_str(text).ok()?;
                Some(Body::String(text))
            }
            text => parse_integer(text).map(Body::Integer),
        }
    }

    fn scalar(&self) -> Scalar<'_> {
        match self {
            Body::String(text) => Scalar::String(text),
            Body::Integer(value) => Scalar::Integer(*value),
            Body::Boolean(value) => Scalar::Boolean(*value),
        }
    }
}

/// A string borrowed where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

struct Twice;

/// One level of an object, its values unread.
#[derive(Default)]
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    fn read(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// A repeated key is refused: gateway and backend might pick different ones.
    fn get(&self, key: &str) -> Result<Option<&'a RawValue>, Twice> {
        let mut found = self.0.iter().filter(|(name, _)| name == key);
        let value = found.next().map(|(_, raw)| *raw);
        match found.next() {
            None => Ok(value),
            Some(_) => Err(Twice),
        }
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}
