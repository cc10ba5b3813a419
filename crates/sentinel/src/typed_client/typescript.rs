//! The client in TypeScript: types of the operations, then the code that calls them (`runtime.ts`).

use std::fmt::Write as _;

use super::names::Names;
use super::schema::{Declaration, Object, Tuple, Type, declare};
use super::{Api, Prompt, Tool, text};

const RUNTIME: &str = include_str!("runtime.ts");
/// What a type of an operation must not be called.
#[rustfmt::skip] // a list of words
const RESERVED: &[&str] = &[
    "Asked", "CallOptions", "Client", "ClientOptions", "ConfirmationNeeded", "ContentBlock", "EventReader", "Exchange",
    "Input", "InputAnswer", "InputRequest", "InputRequired", "InvalidInput", "Issue", "Json", "LocalCode", "Members",
    "OperationName", "Operations", "OtherProblem", "Outcome", "Output", "Problem", "ProblemCode", "PromptName",
    "PromptResult", "Prompts", "ResourceContent", "Rest", "SentinelError", "StreamRecord", "ToolFailed", "Unstructured",
];

/// The whole file.
pub(super) fn write(api: &Api, header: &[String]) -> String {
    let mut out = String::new();
    for line in header {
        let _ = writeln!(out, "{}", format!("// {line}").trim_end());
    }
    out.push('\n');
    types(api, &mut out);
    let codes: Vec<String> = api.codes.iter().map(|code| quoted(code)).collect();
    let _ = writeln!(
        out,
        "const PROBLEM_CODES = [\n  {},\n] as const;",
        codes.join(",\n  ")
    );
    let base = api
        .base_url
        .as_ref()
        .map_or("undefined".to_owned(), |url| quoted(url));
    let _ = writeln!(out, "const BASE_URL: string | undefined = {base};\n");
    out.push_str(RUNTIME);
    out
}

/// The types of all operations and prompts, and the maps from their names.
pub(super) fn types(api: &Api, out: &mut String) {
    let mut names = Names::new(RESERVED.iter().copied());
    let mut operations = String::new();
    for tool in &api.tools {
        let (input, output) = tool_types(tool, &mut names, out);
        push_doc(tool.doc.as_deref(), 1, &mut operations);
        let name = quoted(&tool.name);
        let _ = writeln!(
            operations,
            "  {name}: {{ input: {input}; output: {output} }};"
        );
    }
    let mut prompts = String::new();
    for prompt in &api.prompts {
        push_doc(prompt.doc.as_deref(), 1, &mut prompts);
        let arguments = written(&Type::Object(arguments(prompt)), 1);
        let _ = writeln!(prompts, "  {}: {arguments};", quoted(&prompt.name));
    }
    let _ = writeln!(
        out,
        "/** Every operation, with the types of its input and output. */"
    );
    let _ = writeln!(out, "export type Operations = {{\n{operations}}};\n");
    let _ = writeln!(out, "/** Every prompt, with the type of its arguments. */");
    let _ = writeln!(out, "export type Prompts = {{\n{prompts}}};\n");
}

/// Declares the types of a tool; their names.
fn tool_types(tool: &Tool, names: &mut Names, out: &mut String) -> (String, String) {
    let input = names.of_type(&format!("{} Input", tool.name));
    for declaration in declare(&tool.input, &input, names) {
        push_declaration(&declaration, out);
    }
    let Some(schema) = &tool.output else {
        return (input, "Unstructured".to_owned());
    };
    let output = names.of_type(&format!("{} Output", tool.name));
    for declaration in declare(schema, &output, names) {
        push_declaration(&declaration, out);
    }
    (input, output)
}

/// What a prompt takes: texts.
fn arguments(prompt: &Prompt) -> Object {
    Object {
        fields: prompt.arguments.clone(),
        extra: None,
    }
}

fn push_declaration(declaration: &Declaration, out: &mut String) {
    push_doc(declaration.doc.as_deref(), 0, out);
    let of = written(&declaration.of, 0);
    let _ = writeln!(out, "export type {} = {of};\n", declaration.name);
}

fn push_doc(doc: Option<&str>, depth: usize, out: &mut String) {
    let lines = text::doc_lines(doc.unwrap_or_default());
    let indent = "  ".repeat(depth);
    let safe = |line: &str| line.replace("*/", "*\\/");
    match &lines[..] {
        [] => {}
        [line] => {
            let _ = writeln!(out, "{indent}/** {} */", safe(line));
        }
        lines => {
            let _ = writeln!(out, "{indent}/**");
            for line in lines {
                let _ = writeln!(out, "{}", format!("{indent} * {}", safe(line)).trim_end());
            }
            let _ = writeln!(out, "{indent} */");
        }
    }
}

fn quoted(text: &str) -> String {
    text::quoted(text, beyond)
}

fn beyond(code: u32) -> String {
    format!("\\u{{{code:x}}}")
}

/// A type; `depth` is that of the line it begins on.
fn written(of: &Type, depth: usize) -> String {
    match of {
        Type::Any => "unknown".to_owned(),
        Type::Null => "null".to_owned(),
        Type::Boolean => "boolean".to_owned(),
        Type::Integer | Type::Number => "number".to_owned(),
        Type::String => "string".to_owned(),
        Type::Literal(value) => text::scalar(value, beyond),
        Type::Named(name) => name.clone(),
        Type::Array(item) => format!("{}[]", grouped(item, depth)),
        Type::Tuple(tuple) => tuple_written(tuple, depth),
        Type::Object(object) => object_written(object, depth),
        Type::Union(options) => {
            let options: Vec<String> = options.iter().map(|one| grouped(one, depth)).collect();
            options.join(" | ")
        }
        Type::All(parts) => {
            let parts: Vec<String> = parts.iter().map(|one| grouped(one, depth)).collect();
            parts.join(" & ")
        }
    }
}

fn grouped(of: &Type, depth: usize) -> String {
    let text = written(of, depth);
    match of {
        Type::Union(_) | Type::All(_) => format!("({text})"),
        _ => text,
    }
}

fn tuple_written(tuple: &Tuple, depth: usize) -> String {
    let items = tuple.items.iter().enumerate().map(|(at, item)| {
        let mark = if at < tuple.required { "" } else { "?" };
        format!("{}{mark}", grouped(item, depth))
    });
    let rest = tuple
        .rest
        .iter()
        .map(|rest| format!("...{}[]", grouped(rest, depth)));
    let items: Vec<String> = items.chain(rest).collect();
    format!("[{}]", items.join(", "))
}

fn object_written(object: &Object, depth: usize) -> String {
    if object.fields.is_empty() && object.extra.is_none() {
        return "Record<string, never>".to_owned();
    }
    let mut out = String::from("{\n");
    let indent = "  ".repeat(depth + 1);
    for field in &object.fields {
        push_doc(field.doc.as_deref(), depth + 1, &mut out);
        let name = match is_identifier(&field.name) {
            true => field.name.clone(),
            false => quoted(&field.name),
        };
        let mark = if field.is_required { "" } else { "?" };
        let of = written(&field.of, depth + 1);
        let _ = writeln!(out, "{indent}{name}{mark}: {of};");
    }
    if let Some(extra) = &object.extra {
        let _ = writeln!(
            out,
            "{indent}[member: string]: {};",
            others(object, extra, depth + 1)
        );
    }
    let _ = write!(out, "{}}}", "  ".repeat(depth));
    out
}

/// The type of further members. TypeScript wants the named ones to be of that type, too.
fn others(object: &Object, extra: &Type, depth: usize) -> String {
    if *extra == Type::Any {
        return written(extra, depth);
    }
    let mut options = vec![extra.clone()];
    options.extend(object.fields.iter().map(|field| field.of.clone()));
    let of = written(&super::schema::union(options), depth);
    match object.fields.iter().all(|field| field.is_required) {
        true => of,
        false => format!("{of} | undefined"),
    }
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    // A member may be called like a keyword.
    chars.next().is_some_and(starts) && chars.all(|c| starts(c) || c.is_ascii_digit())
}
