//! Parameters of a query string, as the members of one type.

use hyper::body::Incoming;
use schemars::{JsonSchema, Schema};
use sentinel_core::Fault;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{Exchange, FromRequest, invalid, schema_of};

/// The parameters of a GET. Every one is a text; a type with other members reads them from it (`flag`).
pub(in super::super) struct Params<T>(pub(in super::super) T);

impl<T: DeserializeOwned + JsonSchema + Send> FromRequest for Params<T> {
    fn schema() -> Option<Schema> {
        Some(schema_of::<T>())
    }

    async fn read(exchange: &Exchange<'_>, _: Incoming) -> Result<Self, Fault> {
        let query = exchange.head.uri.query().unwrap_or_default();
        parse(query).map(Self).map_err(invalid)
    }
}

fn parse<T: DeserializeOwned>(query: &str) -> Result<T, String> {
    let mut members = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if members.contains_key(&*name) {
            return Err(format!("`{name}` is there twice"));
        }
        members.insert(name.into_owned(), Value::String(value.into_owned()));
    }
    serde_json::from_value(Value::Object(members)).map_err(|error| error.to_string())
}

/// Reads `true` and `false`.
pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match String::deserialize(from)?.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(serde::de::Error::custom("a flag is `true` or `false`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        name: String,
        #[serde(default, deserialize_with = "flag")]
        all: bool,
    }

    #[test]
    fn a_query_is_read_or_refused_by_name() {
        let asked = Asked {
            name: "a b".to_owned(),
            all: true,
        };
        assert_eq!(parse("name=a%20b&all=true"), Ok(asked));
        for (query, word) in [
            ("", "`name`"),
            ("name=a&name=b", "`name` is there twice"),
            ("name=a&all=yes", "`true` or `false`"),
            ("name=a&other=b", "`other`"),
        ] {
            let refused = parse::<Asked>(query).expect_err(query);
            assert!(refused.contains(word), "{query}: {refused}");
        }
    }
}
