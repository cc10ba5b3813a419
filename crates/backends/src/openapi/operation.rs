//! One operation of a description: what a request of it is made of, and what its answer is.
//!
//! `input` has its arguments, `forms` the fields of a form, `answers` what comes back.
//!
//! Not here: how it looks as a tool (`tools`), how a request is written (`request`, `body`), how an answer is read (`answer`).

use http::Method;
use serde_json::Value;

use super::auth::Credential;
use super::client::Place;
use super::document::{Document, Version, text};
use super::schema::Converter;
use super::style::Style;
use super::swagger;
use answers::Answers;
use input::{Input, PARAMETERS_MAX};

mod answers;
mod forms;
mod input;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum In {
    Path,
    Query,
    Header,
    Cookie,
}

impl In {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "path" => Self::Path,
            "query" => Self::Query,
            "header" => Self::Header,
            "cookie" => Self::Cookie,
            _ => return None,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }
}

/// One parameter: the argument that it comes from, and how it is sent.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) argument: String,
    pub(super) name: String,
    pub(super) place: In,
    pub(super) style: Style,
    pub(super) explode: bool,
    pub(super) allow_reserved: bool,
    /// `content` in place of a schema: the value is one text of JSON.
    pub(super) is_json: bool,
    /// Its values are numbers or booleans, so a text of one is written without quotes as an argument.
    pub(super) is_bare: bool,
}

/// What an operation sends besides parameters.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) argument: String,
    pub(super) media_type: String,
    pub(super) form: Form,
}

#[derive(Clone, Debug)]
pub(super) enum Form {
    /// As the caller wrote it.
    Json,
    Urlencoded(Vec<Field>),
    Multipart(Vec<Field>),
    Text,
    Bytes,
}

/// How one member of a form is sent.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) content_type: Option<String>,
    /// Where the description says one.
    pub(super) style: Option<(Style, bool, bool)>,
    pub(super) is_file: bool,
}

/// Whether answers are structured content, by the operation's output schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// There is no schema.
    Free,
    /// The answer is an object.
    Object,
    /// The answer is something else, and is the member `result` of one.
    Wrapped,
}

pub(super) struct Operation {
    pub(super) method: Method,
    /// Where the API is; its target ends without a slash.
    pub(super) base: Place,
    pub(super) path: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) accept: String,
    pub(super) credentials: Vec<Credential>,
    pub(super) output: Output,
}

/// An operation, and what its tool shows of it.
pub(super) struct Described {
    pub(super) operation: Operation,
    pub(super) input: Value,
    pub(super) output: Option<Value>,
}

/// The parts of an operation that its path item may hold for it.
pub(super) struct Source<'a> {
    pub(super) document: &'a Document,
    pub(super) item: &'a Value,
    pub(super) operation: &'a Value,
    pub(super) method: Method,
    pub(super) path: &'a str,
}

impl Source<'_> {
    /// Its parameters and body as arguments. `Err` says why it cannot be called.
    pub(super) fn describe(
        &self,
        converter: &Converter<'_>,
        base: Place,
        output_schemas: bool,
    ) -> Result<Described, String> {
        if !self.path.starts_with('/') || self.path.contains('#') {
            return Err("its path is none".to_owned());
        }
        let given = self.parameters();
        let upgraded;
        let operation = match self.document.version {
            Version::V20 => {
                upgraded = swagger::operation(self.document, self.operation, &given);
                &upgraded
            }
            _ => self.operation,
        };
        let parameters: Vec<&Value> = match self.document.version {
            Version::V20 => operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .collect(),
            _ => given,
        };
        let mut input = Input::new(converter);
        for parameter in parameters {
            input.parameter(self.document, parameter)?;
        }
        input.undeclared(self.path);
        let body = match self.document.member(operation, "requestBody") {
            Some(body) => input.body(self.document, body)?,
            None => None,
        };
        let answers = Answers::of(self.document, operation);
        let (output, schema) = match output_schemas {
            true => answers.output(converter),
            false => (Output::Free, None),
        };
        let operation = Operation {
            method: self.method.clone(),
            base,
            path: self.path.to_owned(),
            parameters: std::mem::take(&mut input.parameters),
            body,
            accept: answers.accept,
            credentials: Vec::new(),
            output,
        };
        let input = input.schema();
        Ok(Described {
            operation,
            input,
            output: schema,
        })
    }

    /// Those of the operation, and those of its path that it does not replace.
    fn parameters(&self) -> Vec<&Value> {
        let mut all: Vec<&Value> = Vec::new();
        for holder in [self.operation, self.item] {
            let list = holder
                .get("parameters")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            // Each is compared with all others.
            let list = list.take(PARAMETERS_MAX + 1);
            for parameter in list.filter_map(|p| self.document.resolve(p)) {
                let key = |p: &Value| {
                    (
                        text(p, "name").map(str::to_owned),
                        text(p, "in").map(str::to_owned),
                    )
                };
                if !all.iter().any(|known| key(known) == key(parameter)) {
                    all.push(parameter);
                }
            }
        }
        all
    }
}
/// The names in braces, each within one segment.
pub(super) fn names_in(path: &str) -> impl Iterator<Item = &str> {
    let names = path
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name));
    names.filter(|name| !name.contains(['/', '?']))
}
