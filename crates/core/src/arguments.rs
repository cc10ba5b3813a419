//! Arguments checked against a tool's input schema before any backend sees them, and results against its output schema.
//!
//! A schema is compiled at the first call and kept with the tool for as long as the backend offers
//! it unchanged. The bytes were refused earlier if any object in them repeats a key, so what is
//! decoded here is what the backend will read. References to other documents are never followed.
//!
//! Both sides may be hostile: a schema can multiply work by its arguments without end. What a check costs is counted
//! while it runs (`meter`), and what compiling would cost is bounded before (`prepare`).

#[cfg(test)]
mod hostile;
mod issue;
mod meter;
mod nulls;
mod precision;
mod prepare;
pub(crate) mod texts;

use std::collections::HashSet;
use std::sync::OnceLock;

use bytes::Bytes;
use jsonschema::PatternOptions;
use sentinel_wire::{Params, Revision};
use serde_json::Value;

use crate::fault::{Fault, Kind};
use crate::invocation::Refusals;
use crate::reply::{PROBLEM_META, Reply};
pub use issue::Issue;
use meter::{CostHints, Metered, MeteredJson};
use precision::Constants;

/// Larger schemas are not compiled: checking would cost more than it protects.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// What one pattern may cost: compiled size, what it remembers, and steps on one string.
const PATTERN_BYTES_MAX: usize = 1 << 20;
const PATTERN_CACHE_MAX: usize = 256 * 1024;
const BACKTRACK_MAX: usize = 20_000;
/// What one check may cost, in looks at a value of some tens of nanoseconds: a worker does nothing else meanwhile.
/// Large arguments may cost more, as they do everywhere else.
const LOOKS_MAX: u64 = 1_000_000;
const LOOKS_PER_BYTE: u64 = 4;
/// What finding out everything that is wrong may cost, beyond which the first thing must do, or nothing.
const DETAIL_LOOKS_MAX: u64 = 100_000;
const DETAIL_BYTES_PER_LOOK: u64 = 2;
/// Compiling follows a schema down its nesting; a worker's own stack is for what callers send.
const COMPILE_STACK_BYTES: usize = 32 << 20;
/// A caller that is wrong in more places than this knows enough.
const ISSUES_MAX: usize = 10;
const ISSUE_CHARS_MAX: usize = 300;
/// Bytes of a schema that a refusal shows; a larger one is in the catalog.
const SCHEMA_SHOWN_MAX: usize = 16 * 1024;

const TOO_COSTLY: &str = "they cost too much to check against the tool's input schema; send fewer or simpler values, \
    or have the tool's schema made simpler";
const NO_DETAILS: &str =
    "they do not match the tool's input schema, and finding out where costs too much";

type Validator = jsonschema::Validator<MeteredJson>;

/// A tool's input schema: as it was sent, and compiled when first needed.
pub struct Schema {
    raw: Option<Bytes>,
    compiled: OnceLock<Result<Option<Box<Compiled>>, Unusable>>,
}

/// Why a schema checks nothing.
type Unusable = Box<str>;

/// What a check of a tool's structured result comes to.
pub(crate) enum Fit {
    Good,
    /// The check cost too much, or the schema cannot be used.
    Unknown,
    Wrong(Vec<Issue>),
}

/// What a check of a call's arguments comes to.
pub(crate) enum Checked {
    Good,
    /// They are, without those that are null and count as left out: these are the params to go on with.
    Without(Params),
    /// What is wrong.
    Wrong(Vec<Issue>),
}

struct Compiled {
    validator: Validator,
    hints: CostHints,
    /// The arguments that the tool names.
    known: HashSet<String>,
    constants: Constants,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Schema").field(&self.raw).finish()
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Eq for Schema {}

impl Schema {
    pub fn new(raw: Option<Bytes>) -> Self {
        Self {
            raw,
            compiled: OnceLock::new(),
        }
    }

    /// The schema as the backend sent it.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.raw.as_deref()
    }

    /// Whether these params of a call hold what the tool asks for.
    pub(crate) fn check(&self, tool: &str, params: &Params) -> Checked {
        let arguments = params.get("arguments").unwrap_or(b"{}");
        let Some(compiled) = self.compiled(tool, "inputSchema") else {
            return Checked::Good;
        };
        let mut value: Value = match serde_json::from_slice(arguments) {
            Ok(value) => value,
            // JSON, but no number or text that could be compared with anything.
            Err(error) => {
                let text = format!("the arguments cannot be read: {error}");
                return Checked::Wrong(vec![Issue::whole(text)]);
            }
        };
        if let Err(number) = compiled.constants.settle(arguments, &mut value) {
            let text = format!("{number:.40} has too many digits to be compared with the schema");
            return Checked::Wrong(vec![Issue::whole(text)]);
        }
        let (verdict, _) = compiled.check(&value, arguments.len() as u64);
        match verdict {
            Ok(left_out) if left_out.is_empty() => Checked::Good,
            Ok(left_out) => match nulls::strip(params, &left_out) {
                Some(params) => Checked::Without(params),
                None => Checked::Wrong(vec![Issue::whole(format!("arguments: {NO_DETAILS}"))]),
            },
            Err(issues) => Checked::Wrong(issues),
        }
    }

    /// Whether this structured result of the tool is what its output schema promises.
    pub(crate) fn judge(&self, tool: &str, result: &[u8]) -> Fit {
        let Some(compiled) = self.compiled(tool, "outputSchema") else {
            return match self.unusable() {
                None => Fit::Good,
                Some(_) => Fit::Unknown,
            };
        };
        let Ok(mut value) = serde_json::from_slice::<Value>(result) else {
            return Fit::Unknown;
        };
        if compiled.constants.settle(result, &mut value).is_err() {
            return Fit::Unknown;
        }
        let bytes = result.len() as u64;
        let is_valid = || compiled.validator.is_valid(Metered(&value));
        match meter::run(allowance(bytes), compiled.hints, is_valid).0 {
            Ok(true) => Fit::Good,
            Ok(false) => Fit::Wrong(compiled.issues(&value, bytes)),
            Err(meter::AllowanceExceeded) => Fit::Unknown,
        }
    }

    fn compiled(&self, tool: &str, member: &str) -> Option<&Compiled> {
        let compiled = self.compiled.get_or_init(|| {
            let compiled = self.compile();
            if let Err(why) = &compiled {
                tracing::warn!(
                    tool,
                    "calls of the tool are not checked by its {member}, which cannot be used: {why}"
                );
            }
            compiled
        });
        compiled.as_ref().ok()?.as_deref()
    }

    fn compile(&self) -> Result<Option<Box<Compiled>>, Unusable> {
        let compiled = self.raw.as_deref().map_or(Ok(None), compile);
        Ok(compiled?.map(Box::new))
    }

    /// Why it checks nothing, as far as that was found out: at the tool's first call.
    pub fn unusable(&self) -> Option<&str> {
        self.compiled.get()?.as_ref().err().map(|why| &**why)
    }

    /// Why it checks nothing, found out now.
    pub fn examine(&self) -> Option<&str> {
        let compiled = self.compiled.get_or_init(|| self.compile());
        compiled.as_ref().err().map(|why| &**why)
    }
}

/// The looks that a check of so many bytes may take.
fn allowance(bytes: u64) -> u64 {
    LOOKS_MAX + bytes.saturating_mul(LOOKS_PER_BYTE)
}

impl Compiled {
    /// Which arguments count as left out if the others are valid, or what is wrong; and what it cost to find out
    /// whether they are valid.
    fn check(&self, value: &Value, bytes: u64) -> (Result<HashSet<String>, Vec<Issue>>, u64) {
        let (valid, cost) = meter::run(allowance(bytes), self.hints, || {
            if self.validator.is_valid(Metered(value)) {
                return Some(HashSet::new());
            }
            let names = nulls::left_out(&self.validator, value, &self.known);
            let given = (!names.is_empty()).then(|| nulls::without(value, &names))?;
            self.validator.is_valid(Metered(&given)).then_some(names)
        });
        let verdict = match valid {
            Ok(Some(left_out)) => Ok(left_out),
            Ok(None) => Err(self.issues(value, bytes)),
            Err(meter::AllowanceExceeded) => {
                Err(vec![Issue::whole(format!("arguments: {TOO_COSTLY}"))])
            }
        };
        (verdict, cost)
    }

    fn issues(&self, value: &Value, bytes: u64) -> Vec<Issue> {
        let allowance = DETAIL_LOOKS_MAX + bytes / DETAIL_BYTES_PER_LOOK;
        let all = || {
            let errors = self.validator.iter_errors(Metered(value));
            let errors = errors.take(ISSUES_MAX);
            errors.map(|error| Issue::of(&error)).collect()
        };
        let first = || {
            let error = self.validator.validate(Metered(value)).err();
            error.iter().map(Issue::of).collect()
        };
        let found = meter::run(allowance, self.hints, all).0;
        let found = found.or_else(|_| meter::run(allowance, self.hints, first).0);
        // No error where there was one would let the call pass.
        let found = found.ok().filter(|issues: &Vec<Issue>| !issues.is_empty());
        found.unwrap_or_else(|| vec![Issue::whole(format!("arguments: {NO_DETAILS}"))])
    }
}

/// `None` for a schema that asks for nothing but an object.
fn compile(raw: &[u8]) -> Result<Option<Compiled>, String> {
    if raw.len() > SCHEMA_BYTES_MAX {
        return Err(format!("it is larger than {SCHEMA_BYTES_MAX} bytes"));
    }
    let mut schema: Value = serde_json::from_slice(raw).map_err(|error| error.to_string())?;
    if is_trivial(&schema) {
        return Ok(None);
    }
    let named = schema.get("properties").and_then(Value::as_object);
    let known = named.map_or_else(HashSet::new, |named| named.keys().cloned().collect());
    let constants = Constants::of(&schema);
    let hints = prepare::prepare(&mut schema)?;
    let validator = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("schema".to_owned())
            .stack_size(COMPILE_STACK_BYTES);
        match thread.spawn_scoped(scope, || build(&schema)) {
            Ok(building) => building
                .join()
                .unwrap_or_else(|_| Err("it cannot be compiled".to_owned())),
            // No thread to be had: a tool must not go unchecked for that.
            Err(_) => build(&schema),
        }
    })?;
    Ok(Some(Compiled {
        validator,
        hints,
        known,
        constants,
    }))
}

fn build(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(BACKTRACK_MAX)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_CACHE_MAX);
    // 2020-12 unless it says otherwise; the crate is built without anything that could fetch.
    jsonschema::options_for::<MeteredJson>()
        .with_pattern_options(patterns)
        .offline()
        .build(schema)
        .map_err(|error| error.to_string().chars().take(ISSUE_CHARS_MAX).collect())
}

fn is_trivial(schema: &Value) -> bool {
    let Some(members) = schema.as_object() else {
        return schema == &Value::Bool(true);
    };
    members.iter().all(|(name, value)| match name.as_str() {
        "$schema" | "$id" | "title" | "description" | "$comment" => true,
        "type" => value == "object",
        "properties" => value.as_object().is_some_and(|p| p.is_empty()),
        "required" => value.as_array().is_some_and(|r| r.is_empty()),
        "additionalProperties" => value == &Value::Bool(true),
        _ => false,
    })
}

/// How a caller wants to hear of wrong arguments. MCP has them as the tool's own error since 2025-11-25, so that a model
/// can correct itself; that result has no `structuredContent`, which clients compare with the tool's output schema.
pub(crate) fn refusal(
    tool: &str,
    schema: Option<&Schema>,
    issues: &[Issue],
    revision: Revision,
    refusals: Refusals,
) -> Result<Reply, Fault> {
    let text = issue::text(tool, issues);
    if refusals == Refusals::Faults || revision < Revision::V2025_11_25 {
        let mut data = issue::member(issues);
        let schema = schema.and_then(Schema::as_bytes);
        let schema = schema.filter(|schema| schema.len() <= SCHEMA_SHOWN_MAX);
        if let Some(schema) = schema.and_then(|schema| std::str::from_utf8(schema).ok()) {
            data.push_str(",\"schema\":");
            data.push_str(schema);
        }
        return Err(Fault::new(Kind::InvalidArguments, text).with_data(data));
    }
    let (code, issues) = (Kind::InvalidArguments.as_str(), issue::member(issues));
    let meta = format!(r#""{PROBLEM_META}":{{"code":"{code}",{issues}}}"#);
    Ok(Reply::tool_error_with(&text, &meta, revision))
}

#[cfg(test)]
mod tests;
