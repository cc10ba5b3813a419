//! Operations made of a function, its comment and its types.

use std::sync::Arc;

use sentinel_core::{ItemKind, Reach, Route, RouteKind};
use serde_json::{Map, Value, json};

use super::super::mode::Mode;
use super::super::operation::Declared;
use super::super::path::{Pattern, PatternError};
use super::answer::Answer;
use super::catalog::Function;
use super::comment::{Comment, NAME_WANTED, is_name};
use super::execute::{Executor, Statements, Surface};
use super::signature::{Shown, object, parameter, returns, show};
use super::statement::{Callable, Form, Parameter, quoted};
use super::types::{Types, Unsupported};

/// Why a function that is wanted cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("a parameter has no name")]
    Unnamed,
    #[error("its parameter {name} {why}")]
    Parameter { name: String, why: Unsupported },
    #[error("what it returns {0}")]
    Result(Unsupported),
    #[error("it returns record without OUT parameters or TABLE")]
    Record,
    #[error(
        "another function has its name, and optional parameters make that a call may mean either"
    )]
    Ambiguous,
    #[error("{0:?} is not {NAME_WANTED}; @tool, @resource and @prompt take another")]
    Name(String),
    #[error("its comment has @{word} {name}, and that is none of its parameters")]
    NoParameter { word: &'static str, name: String },
    #[error("its comment has {text}: {why}")]
    Pattern { text: String, why: PatternError },
    #[error("its parameter {name} is needed and not in the URI {uri}")]
    NotInUri { name: String, uri: String },
    #[error("@route GET is for functions that only read: STABLE, IMMUTABLE or @read_only")]
    WritingGet,
    #[error("@deferrable is for functions that only read: STABLE, IMMUTABLE or @read_only")]
    WritingDeferrable,
    #[error("it is declared STABLE or IMMUTABLE, and @destructive")]
    ReadingDestructive,
}

/// A function as far as all its operations share it.
struct Parts<'a> {
    function: &'a Function,
    comment: &'a Comment,
    shown: Vec<Shown>,
    callable: Callable,
    answer: Answer,
    output: Value,
    mode: Mode,
}

/// The operations of a function: a tool, a resource, a prompt, or several of these.
pub(super) fn operations(
    schema: &str,
    function: &Function,
    comment: &Comment,
    types: &Types,
) -> Result<Vec<Declared>, Problem> {
    let parts = Parts::of(schema, function, comment, types)?;
    let mut operations = Vec::new();
    let is_tool = comment.tool.is_some() || !comment.is_marked();
    if is_tool || !comment.routes.is_empty() {
        let reach = match is_tool {
            true => Reach::ByName,
            false => Reach::ByRoute,
        };
        operations.push(parts.tool(reach)?);
    }
    if let Some((uri, name)) = &comment.resource {
        operations.push(parts.resource(uri, name.as_ref())?);
    }
    if let Some(name) = &comment.prompt {
        operations.push(parts.prompt(name.as_ref())?);
    }
    Ok(operations)
}

impl<'a> Parts<'a> {
    fn of(
        schema: &str,
        function: &'a Function,
        comment: &'a Comment,
        types: &Types,
    ) -> Result<Self, Problem> {
        let inputs = || {
            function
                .arguments
                .iter()
                .filter(|argument| argument.mode.is_input())
        };
        let parameters: Result<Vec<Parameter>, Problem> = inputs()
            .map(|argument| parameter(argument, comment, types))
            .collect();
        let parameters = parameters?;
        if function.is_ambiguous {
            return Err(Problem::Ambiguous);
        }
        let annotated = comment.params.iter().map(|(name, _)| ("param", name));
        let annotated = annotated.chain(comment.binds.iter().map(|(name, _)| ("bind", name)));
        for (word, name) in annotated {
            if !parameters.iter().any(|one| one.name == *name) {
                let name = name.clone();
                return Err(Problem::NoParameter { word, name });
            }
        }
        let mut shown = Vec::new();
        for (argument, parameter) in inputs().zip(&parameters) {
            if parameter.bound.is_none() {
                shown.push(show(
                    argument,
                    parameter,
                    function.is_strict,
                    comment,
                    types,
                )?);
            }
        }
        let (returns, output) = returns(function, types)?;
        let mode = Mode {
            isolation: comment.isolation,
            is_read_only: !function.is_volatile || comment.is_read_only,
            is_deferrable: comment.is_deferrable,
        };
        if mode.is_deferrable && !mode.is_read_only {
            return Err(Problem::WritingDeferrable);
        }
        if mode.is_read_only && comment.destructive == Some(true) {
            return Err(Problem::ReadingDestructive);
        }
        Ok(Self {
            function,
            comment,
            shown,
            answer: Answer {
                returns: returns.clone(),
                is_set: function.returns_set,
                class: types.class(function.returns),
                mime: comment.mime.clone(),
            },
            callable: Callable {
                function: format!("{}.{}", quoted(schema), quoted(&function.name)),
                parameters,
                returns,
                is_set: function.returns_set,
            },
            output,
            mode,
        })
    }

    fn tool(&self, reach: Reach) -> Result<Declared, Problem> {
        let comment = self.comment;
        let name = self.name(comment.tool.as_ref().and_then(Option::as_ref))?;
        let mut annotations = Map::new();
        annotations.insert("readOnlyHint".to_owned(), self.mode.is_read_only.into());
        if let Some(destructive) = comment.destructive {
            annotations.insert("destructiveHint".to_owned(), destructive.into());
        }
        if let Some(idempotent) = comment.idempotent {
            annotations.insert("idempotentHint".to_owned(), idempotent.into());
        }
        annotations.insert("openWorldHint".to_owned(), false.into());
        let mut definition = self.definition("name", &name);
        definition.insert("inputSchema".to_owned(), self.input());
        definition.insert("outputSchema".to_owned(), self.output.clone());
        definition.insert("annotations".to_owned(), annotations.into());
        if !comment.tags.is_empty() {
            definition.insert("_meta".to_owned(), json!({ "tags": comment.tags }));
        }
        let routes: Result<Vec<Route>, Problem> = comment
            .routes
            .iter()
            .map(|line| {
                if line.verb == "GET" && !self.mode.is_read_only {
                    return Err(Problem::WritingGet);
                }
                let pattern = self.pattern("route", &line.path)?;
                Ok(Route {
                    kind: RouteKind::Http {
                        pattern: Arc::new(pattern),
                        verbs: [line.verb.as_str().into()].into(),
                    },
                    tool: name.as_str().into(),
                    is_whole: false,
                })
            })
            .collect();
        Ok(Declared {
            reach,
            routes: routes?,
            ..self.declared(ItemKind::Tool, name, definition, Surface::Tool)
        })
    }

    fn resource(&self, uri: &str, name: Option<&String>) -> Result<Declared, Problem> {
        let pattern = self.pattern("resource", uri)?;
        let is_in_uri = |name: &str| pattern.parameters().any(|known| known == name);
        let missing = self
            .shown
            .iter()
            .find(|one| one.is_required && !is_in_uri(&one.name));
        if let Some(missing) = missing {
            let (name, uri) = (missing.name.clone(), uri.to_owned());
            return Err(Problem::NotInUri { name, uri });
        }
        let (kind, member) = match pattern.parameters().next() {
            Some(_) => (ItemKind::Template, "uriTemplate"),
            None => (ItemKind::Resource, "uri"),
        };
        let mut definition = self.definition(member, uri);
        definition.insert("name".to_owned(), self.name(name)?.into());
        definition.insert("mimeType".to_owned(), self.answer.media_type().into());
        Ok(self.declared(kind, uri.to_owned(), definition, Surface::Resource))
    }

    fn prompt(&self, name: Option<&String>) -> Result<Declared, Problem> {
        let name = self.name(name)?;
        let argument = |shown: &Shown| {
            let mut argument = Map::new();
            argument.insert("name".to_owned(), shown.name.as_str().into());
            if let Some(text) = &shown.description {
                argument.insert("description".to_owned(), text.as_str().into());
            }
            argument.insert("required".to_owned(), shown.is_required.into());
            Value::Object(argument)
        };
        let mut definition = self.definition("name", &name);
        definition.insert(
            "arguments".to_owned(),
            self.shown.iter().map(argument).collect(),
        );
        let description = self.comment.description.clone();
        let surface = Surface::Prompt { description };
        Ok(self.declared(ItemKind::Prompt, name, definition, surface))
    }

    fn declared(
        &self,
        kind: ItemKind,
        key: String,
        definition: Map<String, Value>,
        surface: Surface,
    ) -> Declared {
        let mut callable = self.callable.clone();
        if !matches!(surface, Surface::Tool) {
            // Only a tool's schema makes sure that a number is whole; a cast would round it.
            for parameter in &mut callable.parameters {
                if parameter.form == Form::Whole {
                    parameter.form = Form::Plain;
                }
            }
        }
        Declared {
            kind,
            key,
            definition: Value::Object(definition).to_string(),
            reach: Reach::ByName,
            routes: Vec::new(),
            needs_identity: self.comment.needs_identity,
            execute: Box::new(Executor {
                callable,
                answer: self.answer.clone(),
                surface,
                mode: self.mode,
                timeout: self.comment.timeout,
                max_rows: self.comment.max_rows,
                statements: Statements::default(),
            }),
        }
    }

    /// The members that the definitions of all kinds begin with.
    fn definition(&self, member: &str, key: &str) -> Map<String, Value> {
        let mut definition = Map::new();
        definition.insert(member.to_owned(), key.into());
        if let Some(title) = &self.comment.title {
            definition.insert("title".to_owned(), title.as_str().into());
        }
        if !self.comment.description.is_empty() {
            let description = self.comment.description.as_str();
            definition.insert("description".to_owned(), description.into());
        }
        definition
    }

    fn name(&self, given: Option<&String>) -> Result<String, Problem> {
        let name = given.unwrap_or(&self.function.name);
        match is_name(name) {
            true => Ok(name.clone()),
            false => Err(Problem::Name(name.clone())),
        }
    }

    /// A pattern whose parameters are those of the function.
    fn pattern(&self, word: &'static str, text: &str) -> Result<Pattern, Problem> {
        let pattern = Pattern::parse(text).map_err(|why| Problem::Pattern {
            text: format!("@{word} {text}"),
            why,
        })?;
        let is_known = |name: &str| self.shown.iter().any(|one| one.name == name);
        let unknown = pattern.parameters().find(|name| !is_known(name));
        let unknown = unknown.map(|name| format!("{text} with {{{name}}}"));
        match unknown {
            Some(name) => Err(Problem::NoParameter { word, name }),
            None => Ok(pattern),
        }
    }

    fn input(&self) -> Value {
        let mut properties = Map::new();
        for shown in &self.shown {
            properties.insert(shown.name.clone(), shown.schema.clone());
        }
        let required = self.shown.iter().filter(|shown| shown.is_required);
        let required: Vec<&str> = required.map(|shown| shown.name.as_str()).collect();
        object(properties, &required)
    }
}
