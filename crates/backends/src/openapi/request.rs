//! A tool's arguments as an HTTP request.
//!
//! The path keeps the shape that the description gives it: no value adds or removes a segment, or goes up. The host is the
//! description's or the configuration's. Values of headers that could end one are refused.

use http::{HeaderName, HeaderValue};
use sentinel_wire::Payload;

use super::auth::Credential;
use super::body;
use super::client::{Outgoing, Place};
use super::operation::{In, Operation, Parameter, names_in};
use super::style::{Escape, How, Shape, Style, escape};

/// Longest target; servers refuse less.
const TARGET_BYTES_MAX: usize = 60 * 1024;

/// Why arguments make no request, for the model that wrote them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unsendable(pub(super) String);

/// Headers of the configuration, sent with every request.
pub(super) type Headers = [(HeaderName, HeaderValue)];

/// The request for a call with these arguments, a JSON object that was checked against the tool's schema.
pub(super) fn build(
    operation: &Operation,
    arguments: &Payload,
    headers: &Headers,
    is_home: bool,
) -> Result<Outgoing, Unsendable> {
    let mut query = Vec::new();
    let mut cookies = Vec::new();
    let mut fields = Fields::default();
    let mut target = path(operation, arguments)?;
    for parameter in &operation.parameters {
        let Some(raw) = arguments.get(&parameter.argument) else {
            continue;
        };
        match parameter.place {
            In::Path => {}
            In::Query => query.extend(parameter.pairs(raw, Escape::Strict)),
            In::Cookie => cookies.extend(parameter.pairs(raw, Escape::Strict)),
            In::Header => {
                let text = parameter.whole(raw, Escape::None);
                fields.add(&parameter.name, &text)?;
            }
        }
    }
    if is_home {
        for credential in &operation.credentials {
            match credential {
                Credential::Header(name, value) => fields.secret(name, value, headers),
                Credential::Query(name, value) => replace(&mut query, name, value),
                Credential::Cookie(name, value) => replace(&mut cookies, name, value),
            }
        }
        for (name, value) in headers {
            fields.configured(name, value);
        }
    }
    if !cookies.is_empty() {
        fields.add("cookie", &cookies.join("; "))?;
    }
    if !query.is_empty() {
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&query.join("&"));
    }
    if target.len() > TARGET_BYTES_MAX {
        return Err(Unsendable(format!(
            "the arguments make a URL longer than {TARGET_BYTES_MAX} bytes"
        )));
    }
    let encoded = match &operation.body {
        Some(body) => arguments
            .get(&body.argument)
            .map(|raw| body::encode(body, raw))
            .transpose()?,
        None => None,
    };
    let content = match encoded {
        Some((content_type, bytes)) => {
            fields.add("content-type", &content_type)?;
            Some(bytes)
        }
        None => None,
    };
    let accept = HeaderValue::from_str(&operation.accept);
    Ok(Outgoing {
        method: operation.method.clone(),
        place: Place {
            origin: operation.base.origin.clone(),
            target,
        },
        fields: fields.written(),
        accept: accept.unwrap_or_else(|_| HeaderValue::from_static("*/*")),
        body: content,
    })
}

/// Puts a credential in the place of whatever the caller gave under its name.
fn replace(pairs: &mut Vec<String>, name: &str, value: &str) {
    pairs.retain(|pair| pair.split('=').next() != Some(name));
    pairs.push(format!("{name}={value}"));
}

impl Parameter {
    fn how(&self, escape: Escape) -> How<'_> {
        How {
            name: &self.name,
            style: self.style,
            explode: self.explode,
            escape: if self.allow_reserved && escape == Escape::Strict {
                Escape::Reserved
            } else {
                escape
            },
        }
    }

    fn shape(&self, raw: &[u8]) -> Shape {
        match self.is_json {
            true => Shape::Scalar(String::from_utf8_lossy(raw).into_owned()),
            false => Shape::of(raw),
        }
    }

    fn pairs(&self, raw: &[u8], escape: Escape) -> Vec<String> {
        self.how(escape).in_query(&self.shape(raw))
    }

    fn whole(&self, raw: &[u8], escape: Escape) -> String {
        self.how(escape).in_path(&self.shape(raw))
    }
}

/// The base's path and the operation's, with values in the places of their names.
fn path(operation: &Operation, arguments: &Payload) -> Result<String, Unsendable> {
    let mut out = operation
        .base
        .target
        .split('?')
        .next()
        .unwrap_or_default()
        .to_owned();
    let mut rest = operation.path.as_str();
    for name in names_in(&operation.path) {
        let whole = format!("{{{name}}}");
        let Some((before, after)) = rest.split_once(&whole) else {
            continue;
        };
        out.push_str(&literal(before));
        rest = after;
        let known = |p: &&Parameter| p.place == In::Path && p.name == name;
        let parameter = operation.parameters.iter().find(known);
        let given = parameter.and_then(|p| Some((p, arguments.get(&p.argument)?)));
        let Some((parameter, raw)) = given else {
            return Err(Unsendable(format!("`{name}` is missing")));
        };
        out.push_str(&value_in_path(parameter, raw)?);
    }
    out.push_str(&literal(rest));
    let climbs = |path: &str| path.split('/').any(is_dots);
    let before_query = out.split('?').next().unwrap_or_default();
    match climbs(before_query) {
        true => Err(Unsendable(
            "the arguments make a path with `.` or `..` in it".to_owned(),
        )),
        false => Ok(out),
    }
}

/// A value may not be, or hide, a step up, and may not be nothing: `/pets/` is another resource than a pet.
fn value_in_path(parameter: &Parameter, raw: &[u8]) -> Result<String, Unsendable> {
    let shape = parameter.shape(raw);
    let mut texts = Vec::new();
    collect(&shape, &mut texts);
    for text in texts {
        let steps = text.split(['/', '\\']);
        if steps.clone().count() > 1 && steps.into_iter().any(is_dots) {
            return Err(Unsendable(format!(
                "`{}` may not hold `..` between slashes",
                parameter.argument
            )));
        }
    }
    // Reserved characters would make other segments.
    let how = How {
        escape: Escape::Strict,
        ..parameter.how(Escape::Strict)
    };
    let text = how.in_path(&shape);
    if text.is_empty() && parameter.style == Style::Simple {
        return Err(Unsendable(format!(
            "`{}` may not be empty",
            parameter.argument
        )));
    }
    Ok(text)
}

fn collect<'a>(shape: &'a Shape, texts: &mut Vec<&'a str>) {
    match shape {
        Shape::Null => {}
        Shape::Scalar(text) => texts.push(text),
        Shape::List(items) => items.iter().for_each(|item| collect(item, texts)),
        Shape::Map(members) => members.iter().for_each(|(key, value)| {
            texts.push(key);
            collect(value, texts);
        }),
    }
}

/// `.` and `..`, also where the dots are written in three characters.
fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

/// The description's own part of a path: what no URL may hold is encoded.
fn literal(text: &str) -> String {
    let keep = |c: char| {
        c.is_ascii_graphic()
            && !matches!(
                c,
                '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' | '#'
            )
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match keep(c) {
            true => out.push(c),
            false => out.push_str(&escape(&c.to_string(), Escape::Strict)),
        }
    }
    out
}

/// Header fields, each name once.
#[derive(Default)]
struct Fields(Vec<(HeaderName, HeaderValue)>);

impl Fields {
    fn add(&mut self, name: &str, value: &str) -> Result<(), Unsendable> {
        let bad = || {
            Unsendable(format!(
                "the value of `{name}` cannot be sent in a header: only visible ASCII characters and spaces can"
            ))
        };
        let header: HeaderName = name.parse().map_err(|_| bad())?;
        // Tabs and other bytes are legal, and every reader takes them for something else.
        let plain = |byte: u8| (b' '..=b'~').contains(&byte);
        let value = Some(value).filter(|value| value.bytes().all(plain));
        let value = value
            .and_then(|value| HeaderValue::from_str(value).ok())
            .ok_or_else(bad)?;
        self.0.push((header, value));
        Ok(())
    }

    /// A credential stands in the place of a parameter of that name, and gives way to a configured header.
    fn secret(&mut self, name: &HeaderName, value: &HeaderValue, configured: &Headers) {
        if !configured.iter().any(|(known, _)| known == name) {
            self.configured(name, value);
        }
    }

    fn configured(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.clone(), value.clone()));
    }

    fn written(self) -> Vec<u8> {
        crate::http::wire::written(&self.0.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
