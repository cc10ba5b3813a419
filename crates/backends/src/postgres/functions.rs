//! Plain functions as operations: which of a schema's functions, and what is left out and why.
//!
//! A function is an operation if its comment marks it (`functions::comment` has the table of annotations) or, with
//! `expose = "all"`, unless its comment says `@ignore`. Schemas come from the names, types and defaults of its parameters and from what
//! it returns. A function that is wanted and cannot be offered is left out with a notice.
//!
//! The parts: `catalog` reads, `comment` parses, `types`, `check` and `signature` write schemas, `declare` makes operations, `statement`
//! writes the SQL of calls, `execute` runs it, `answer` makes results.
//!
//! Not here: the registry's handlers (`registry`) and tables (`tables`). Beside a registry's tables, functions are only operations if
//! their comment marks them: the others there are the registry's own.

use std::collections::HashSet;

use sentinel_config::{Expose, Registry};
use sentinel_core::{Route, RouteKind};
use sentinel_pg::{PgError, Session};

use super::Config;
use super::operation::Found;
use catalog::{Function, Listed, Routine};
use comment::Comment;
use types::Types;

pub(super) mod answer;
mod catalog;
mod check;
mod comment;
mod declare;
pub(super) mod execute;
pub(super) mod fuzzing;
mod signature;
pub(super) mod statement;
pub(super) mod types;

/// `offered` has the names of functions that are offered already.
pub(super) async fn read(
    session: &mut Session,
    config: &Config,
    offered: &[String],
) -> Result<Found, PgError> {
    let mut found = Found::default();
    let name = &config.schema;
    let schema = catalog::schema(session, name).await?;
    let Some(schema) = schema.filter(|schema| schema.may_use) else {
        // Tables may be all that is wanted.
        if config.select.is_empty() {
            let text = format!("the schema {name} does not exist, or the login has no USAGE on it");
            found.notices.push(text);
        }
        return Ok(found);
    };
    let has_registry = schema.has_handlers && config.registry != Registry::Off;
    let all = config.expose == Expose::All && !has_registry;
    let listed = catalog::functions(session, name, all, offered).await?;
    found.notices.extend(note_beyond(name, &listed, all));
    if all && schema.of_extensions > 0 {
        let count = schema.of_extensions;
        found.notices.push(format!(
            "{count} functions of extensions in {name} are left out; @tool offers one anyway"
        ));
    }
    let wanted = select(listed.functions, name, all, &mut found.notices);
    let kinds = wanted.iter().flat_map(|(function, _)| {
        let arguments = function.arguments.iter().map(|argument| argument.kind);
        arguments.chain([function.returns])
    });
    let mut kinds: Vec<u32> = kinds.collect();
    kinds.sort_unstable();
    kinds.dedup();
    let types = types_of(session, &kinds).await?;
    let mut routes = HashSet::new();
    for (function, comment) in &wanted {
        match declare::operations(name, function, comment, &types) {
            Ok(operations) => {
                for operation in &operations {
                    note_repeated(&operation.routes, &mut routes, &mut found.notices);
                }
                found.operations.extend(operations);
                found.sources.push(function.name.clone());
            }
            Err(why) => found.notices.push(left_out(name, function, &why)),
        }
    }
    Ok(found)
}

/// These types, with all that they consist of.
pub(super) async fn types_of(session: &mut Session, oids: &[u32]) -> Result<Types, PgError> {
    Ok(Types::new(catalog::types(session, oids).await?))
}

/// What is beyond the bound, and how to come below it.
fn note_beyond(schema: &str, listed: &Listed, all: bool) -> Option<String> {
    let (beyond, most) = (listed.beyond, catalog::FUNCTIONS_MAX);
    let names = listed.beyond_names.join(", ");
    let narrow = match all {
        true => "expose = \"marked\" and @ignore make it fewer, and so do",
        false => "mark fewer of them, or use",
    };
    (beyond > 0).then(|| {
        format!(
            "{beyond} functions of {schema} are left out, for example {names}: at most {most} are offered, those that are offered \
             already and then the oldest; {narrow} several schemas with a backend for each"
        )
    })
}

/// The functions that are wanted, with their comments.
fn select(
    functions: Vec<Function>,
    name: &str,
    all: bool,
    notices: &mut Vec<String>,
) -> Vec<(Function, Comment)> {
    let mut wanted = Vec::new();
    for function in functions {
        let comment = match Comment::parse(&function.comment) {
            Ok(comment) => comment,
            Err(why) => {
                notices.push(left_out(name, &function, &why));
                continue;
            }
        };
        if comment.is_ignored {
            continue;
        }
        let why = match (comment.is_marked(), all) {
            (false, false) if comment.has_annotations => {
                "its comment has annotations, and none of @tool, @resource, @prompt and @route"
            }
            (false, false) => continue,
            (false, true) if function.is_of_extension || !function.may_execute => continue,
            (true, _) if !function.may_execute => "the login may not EXECUTE it",
            _ => match function.routine {
                Routine::Function => {
                    wanted.push((function, comment));
                    continue;
                }
                Routine::Procedure => "it is a procedure",
                Routine::Aggregate => "it is an aggregate",
                Routine::Window => "it is a window function",
            },
        };
        notices.push(left_out(name, &function, &why));
    }
    wanted
}

fn left_out(schema: &str, function: &Function, why: &impl std::fmt::Display) -> String {
    format!("{schema}.{} is left out: {why}", function.name)
}

/// Of two routes with the same verb and path, the first one is taken.
fn note_repeated(routes: &[Route], known: &mut HashSet<String>, notices: &mut Vec<String>) {
    for route in routes {
        let RouteKind::Http { pattern, verbs } = &route.kind else {
            continue;
        };
        // The names of parameters make no difference.
        let texts = pattern
            .shown()
            .split('{')
            .map(|part| part.split_once('}').unwrap_or(("", part)).1);
        let place = format!(
            "{} {}",
            verbs.join(","),
            texts.collect::<Vec<_>>().join("{}")
        );
        if !known.insert(place) {
            let (path, tool) = (pattern.shown(), &route.tool);
            notices.push(format!(
                "the route {} {path} of {tool} is never taken: another function has it",
                verbs.join(",")
            ));
        }
    }
}
