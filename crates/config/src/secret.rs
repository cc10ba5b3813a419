//! Values that came from the environment, and URLs that may carry one.
//!
//! A value is read once, when the configuration is built. Nothing here prints it: `Debug` and the
//! normalised output name the variable. Only `expose` gives it away, and a reader can search for it.

use std::fmt;

use serde::{Serialize, Serializer};

use super::credentials;

/// Where a value came from, which is also how it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Written in the file.
    File,
    /// Written in the file although it looks like a credential: never repeated.
    FileHidden,
    /// An environment variable.
    Variable(String),
    /// Text of the file with variables in it.
    Template(String),
}

/// A value that must not be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    value: Box<str>,
    origin: Origin,
}

impl Secret {
    pub fn from_variable(name: &str, value: &str) -> Self {
        Self {
            value: value.into(),
            origin: Origin::Variable(name.to_owned()),
        }
    }

    pub fn from_template(template: &str, value: &str) -> Self {
        Self {
            value: value.into(),
            origin: Origin::Template(template.to_owned()),
        }
    }

    /// A literal of the file, under the key `name`.
    pub fn from_file(name: &str, value: &str) -> Self {
        let hidden = credentials::looks_secret(name, value);
        let origin = if hidden {
            Origin::FileHidden
        } else {
            Origin::File
        };
        Self {
            value: value.into(),
            origin,
        }
    }

    /// The value itself.
    pub fn expose(&self) -> &str {
        &self.value
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The value, or where it comes from if it may be a credential.
    pub fn shown(&self) -> String {
        match &self.origin {
            Origin::File => self.value.to_string(),
            Origin::FileHidden => "<hidden>".into(),
            Origin::Variable(name) => format!("<from {name}>"),
            Origin::Template(template) => template.clone(),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A literal may be a credential that nobody recognised.
        match &self.origin {
            Origin::File | Origin::FileHidden => f.write_str("<from the file>"),
            Origin::Variable(_) | Origin::Template(_) => f.write_str(&self.shown()),
        }
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown())
    }
}

/// A backend's URL. One that came from a variable is shown as the variable.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    uri: http::Uri,
    variable: Option<String>,
}

impl Endpoint {
    pub fn new(uri: http::Uri, variable: Option<String>) -> Self {
        Self { uri, variable }
    }

    /// The URL itself; it may hold a credential.
    pub fn expose(&self) -> &http::Uri {
        &self.uri
    }

    fn shown(&self) -> String {
        match &self.variable {
            Some(name) => format!("<from {name}>"),
            None => {
                let uri = self.uri.to_string();
                match (credentials::url_credential(&uri), self.uri.host()) {
                    (false, _) => uri,
                    (true, host) => format!("<hidden> at {}", host.unwrap_or_default()),
                }
            }
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown())
    }
}
