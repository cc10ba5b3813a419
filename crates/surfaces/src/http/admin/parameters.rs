//! The query strings of GETs: each parameter is taken once, and what is left over is refused by name.

use std::borrow::Cow;

use hyper::body::Incoming;
use schemars::{JsonSchema, Schema};
use sentinel_core::Fault;
use sentinel_core::audit::moment;

use super::{Exchange, FromRequest, invalid, schema_of};

/// An input that is read from a query string.
pub(in crate::http) trait FromQuery: Sized + Send {
    /// The parameters, for documents: one property each.
    type Declared: JsonSchema;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String>;
}

/// The parameters of a GET.
pub(in crate::http) struct Parameters<T>(pub(super) T);

impl<T: FromQuery> FromRequest for Parameters<T> {
    fn schema() -> Option<Schema> {
        Some(schema_of::<T::Declared>())
    }

    async fn read(exchange: &Exchange<'_>, _: Incoming) -> Result<Self, Fault> {
        let query = exchange.head.uri.query().unwrap_or_default();
        parse(query).map(Self).map_err(invalid)
    }
}

pub(super) fn parse<T: FromQuery>(query: &str) -> Result<T, String> {
    let mut pairs = Pairs::of(query)?;
    let taken = T::take(&mut pairs)?;
    pairs.finish()?;
    Ok(taken)
}

/// The pairs of a query string that were not taken yet.
pub(in crate::http) struct Pairs<'q> {
    left: Vec<(Cow<'q, str>, Cow<'q, str>)>,
    /// The names that were asked for, for the refusal of others.
    known: Vec<&'static str>,
}

impl<'q> Pairs<'q> {
    fn of(query: &'q str) -> Result<Self, String> {
        let mut left: Vec<(Cow<'q, str>, Cow<'q, str>)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if left.iter().any(|(before, _)| *before == name) {
                return Err(format!("`{name}` is there twice"));
            }
            left.push((name, value));
        }
        let known = Vec::new();
        Ok(Self { left, known })
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<Cow<'q, str>> {
        self.known.push(name);
        let at = self.left.iter().position(|(known, _)| known == name)?;
        Some(self.left.swap_remove(at).1)
    }

    /// The same as a text of its own.
    pub(super) fn owned(&mut self, name: &'static str) -> Option<String> {
        self.text(name).map(Cow::into_owned)
    }

    /// A point in time, in milliseconds since 1970.
    pub(super) fn time(&mut self, name: &'static str) -> Result<Option<u64>, String> {
        let text = self.text(name);
        let time = text.map(|text| moment::parse(&text).map_err(|why| format!("`{name}`: {why}")));
        time.transpose()
    }

    /// A number within these bounds.
    pub(super) fn number(
        &mut self,
        name: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let number = text.parse().ok();
        let allowed = number.filter(|number| (least..=most).contains(number));
        match allowed {
            Some(number) => Ok(Some(number)),
            None => Err(format!("`{name}` is {least} to {most}")),
        }
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, String> {
        match self.text(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(format!("`{name}` is true or false")),
        }
    }

    /// One of these words.
    pub(super) fn word(
        &mut self,
        name: &'static str,
        words: &[&str],
    ) -> Result<Option<String>, String> {
        match self.text(name) {
            Some(text) if !words.contains(&&*text) => {
                let known = words.join(", ");
                Err(format!("`{name}` is one of: {known}"))
            }
            text => Ok(text.map(Cow::into_owned)),
        }
    }

    fn finish(self) -> Result<(), String> {
        let Self { left, known } = self;
        match left.first() {
            None => Ok(()),
            Some((name, _)) => Err(format!(
                "there is no parameter `{name}`: use {}",
                known.join(", ")
            )),
        }
    }
}

/// Checks that the declared parameters are those that are taken.
#[cfg(test)]
pub(super) fn check_declared<T: FromQuery>() {
    let schema = schema_of::<T::Declared>();
    let properties = schema.get("properties").and_then(|all| all.as_object());
    let mut declared: Vec<&str> = properties
        .expect("it has properties")
        .keys()
        .map(String::as_str)
        .collect();
    let mut pairs = Pairs::of("").expect("it is empty");
    // Some need a parameter; those before it were asked for by then.
    let _ = T::take(&mut pairs);
    let mut taken = pairs.known;
    declared.sort_unstable();
    taken.sort_unstable();
    assert_eq!(taken, declared);
}
