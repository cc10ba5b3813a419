//! The client in Python: types of the operations, then the code that calls them (`runtime.py`).
//!
//! An object is a `TypedDict`, which Python can only have under a name: those inside others get one (`flat`). There is no
//! "all of these types" either: such types are merged (`merge`).

mod merge;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::names::Names;
use super::schema::{Declaration, Field, Object, Type, declare, union};
use super::{Api, Prompt, Tool, text};
use merge::merged;

const RUNTIME: &str = include_str!("runtime.py");
/// What a type of an operation must not be called.
#[rustfmt::skip] // a list of words
const RESERVED: &[&str] = &[
    "Any", "AsyncClient", "AsyncIterator", "AsyncOperation", "AsyncPrompt", "AsyncPrompts", "AsyncTools", "CallOptions",
    "Callable", "Client", "ConfirmationNeeded", "Content", "ContentBlock", "Err", "EventReader", "Generic", "Headers", "I",
    "InputRequest", "InputRequired", "InvalidInput", "Issue", "Iterator", "Json", "KnownCode", "Literal", "LocalCode",
    "LogRecord", "Mapping", "NotRequired", "O", "Ok", "Operation", "Outcome", "Problem", "ProblemCode", "ProgressRecord",
    "Prompt", "PromptMessage", "PromptResult", "Prompts", "Request", "ResourceContent", "ResultRecord", "SentinelError",
    "StreamRecord", "Token", "ToolFailed", "Tools", "TracebackType", "TypeAlias", "TypeVar", "TypedDict", "Unpack",
    "Unstructured",
];
/// Names that annotations of a class use: a member of that name would hide it.
const USED: &[&str] = &["bool", "dict", "float", "int", "list", "str"];

/// The whole file.
pub(super) fn write(api: &Api, header: &[String]) -> String {
    let mut out = String::new();
    for line in header {
        let _ = writeln!(out, "# {line}");
    }
    // The runtime begins with what has to be on top of a module.
    let (imports, runtime) = RUNTIME
        .split_once("# --- types of the operations ---\n")
        .expect("the mark is in the file");
    out.push_str(imports);
    let base = api
        .base_url
        .as_ref()
        .map_or("None".to_owned(), |url| quoted(url));
    let _ = writeln!(out, "BASE_URL: str | None = {base}\n");
    let codes: Vec<String> = api.codes.iter().map(|code| quoted(code)).collect();
    let codes = codes.join(",\n    ");
    let _ = writeln!(out, "KnownCode: TypeAlias = Literal[\n    {codes},\n]\n\n");
    let mut namespaces = String::new();
    types(api, &mut out, &mut namespaces);
    out.push_str(runtime);
    out.push_str(&namespaces);
    out
}

/// The types of all operations and prompts; and the classes that have a member for each.
pub(super) fn types(api: &Api, out: &mut String, namespaces: &mut String) {
    let mut names = Names::new(RESERVED.iter().copied());
    let mut tools = Vec::new();
    let mut members = Names::default();
    for tool in &api.tools {
        let (input, output) = tool_types(tool, &mut names, out);
        tools.push(Member {
            name: members.of_member(&tool.name),
            of: format!("[{input}, {output}]"),
            called: &tool.name,
            doc: tool.doc.as_deref(),
        });
    }
    let mut prompts = Vec::new();
    let mut members = Names::default();
    for prompt in &api.prompts {
        let name = names.of_type(&format!("{} Arguments", prompt.name));
        let of = Type::Object(arguments(prompt));
        let declaration = Declaration {
            name: name.clone(),
            doc: prompt.doc.clone(),
            of,
        };
        push_declarations(vec![declaration], &mut names, out);
        prompts.push(Member {
            name: members.of_member(&prompt.name),
            of: format!("[{name}]"),
            called: &prompt.name,
            doc: prompt.doc.as_deref(),
        });
    }
    for (prefix, transport) in [("", "_Transport"), ("Async", "_AsyncTransport")] {
        push_namespace(
            &format!("{prefix}Tools"),
            &format!("{prefix}Operation"),
            transport,
            &tools,
            namespaces,
        );
        push_namespace(
            &format!("{prefix}Prompts"),
            &format!("{prefix}Prompt"),
            transport,
            &prompts,
            namespaces,
        );
    }
}

/// A member of the classes `Tools` and `Prompts`.
struct Member<'a> {
    name: String,
    /// Its type arguments.
    of: String,
    called: &'a str,
    doc: Option<&'a str>,
}

fn push_namespace(
    class: &str,
    of: &str,
    transport: &str,
    members: &[Member<'_>],
    out: &mut String,
) {
    let _ = writeln!(out, "\n\nclass {class}:");
    let _ = writeln!(
        out,
        "    def __init__(self, transport: {transport}) -> None:"
    );
    if members.is_empty() {
        out.push_str("        del transport\n");
    }
    for member in members {
        let Member {
            name,
            of: arguments,
            called,
            doc,
        } = member;
        let called = quoted(called);
        let _ = writeln!(
            out,
            "        self.{name}: {of}{arguments} = {of}(transport, {called})"
        );
        push_doc(*doc, 2, out);
    }
}

/// Declares the types of a tool; their names.
fn tool_types(tool: &Tool, names: &mut Names, out: &mut String) -> (String, String) {
    let input = names.of_type(&format!("{} Input", tool.name));
    let declared = declare(&tool.input, &input, names);
    push_declarations(declared, names, out);
    let Some(schema) = &tool.output else {
        return (input, "Unstructured".to_owned());
    };
    let output = names.of_type(&format!("{} Output", tool.name));
    let declared = declare(schema, &output, names);
    push_declarations(declared, names, out);
    (input, output)
}

fn arguments(prompt: &Prompt) -> Object {
    Object {
        fields: prompt.arguments.clone(),
        extra: None,
    }
}

fn push_declarations(declared: Vec<Declaration>, names: &mut Names, out: &mut String) {
    let known = declared
        .iter()
        .map(|one| (one.name.clone(), one.of.clone()));
    let known: BTreeMap<String, Type> = known.collect();
    let mut flattener = Flattener {
        known: &known,
        names,
        found: Vec::new(),
        combined: Vec::new(),
    };
    for Declaration { name, doc, of } in declared {
        let of = match merged(&of, &known) {
            Type::Object(object) if is_class(&object) => {
                Type::Object(flattener.fields_flat(object, &name))
            }
            of => flattener.flat(of, &name),
        };
        flattener.found.push(Declaration { name, doc, of });
    }
    for declaration in flattener.found {
        push_declaration(&declaration, out);
    }
}

/// Whether an object is written as a `TypedDict`: those that only map names to values are dictionaries.
fn is_class(object: &Object) -> bool {
    !object.fields.is_empty() || object.extra.is_none()
}

/// Gives objects inside of types names of their own.
struct Flattener<'a> {
    known: &'a BTreeMap<String, Type>,
    names: &'a mut Names,
    found: Vec<Declaration>,
    /// Combinations that were merged into an object, with its name: one may occur within itself.
    combined: Vec<(Type, String)>,
}

impl Flattener<'_> {
    fn flat(&mut self, of: Type, path: &str) -> Type {
        if let Some((_, name)) = self.combined.iter().find(|(known, _)| *known == of) {
            return Type::Named(name.clone());
        }
        match merged(&of, self.known) {
            Type::Object(object) if is_class(&object) => {
                let name = self.names.of_type(path);
                if matches!(of, Type::All(_)) {
                    self.combined.push((of, name.clone()));
                }
                let of = Type::Object(self.fields_flat(object, &name));
                self.found.push(Declaration {
                    name: name.clone(),
                    doc: None,
                    of,
                });
                Type::Named(name)
            }
            Type::Object(Object { extra, fields }) => {
                let extra = extra.map(|of| Box::new(self.flat(*of, &format!("{path} Value"))));
                Type::Object(Object { fields, extra })
            }
            Type::Array(item) => Type::Array(Box::new(self.flat(*item, &format!("{path} Item")))),
            // A list in JSON is a list in Python, and has one type of items.
            Type::Tuple(tuple) => {
                let items = tuple.items.into_iter().chain(tuple.rest.map(|rest| *rest));
                let items = items
                    .map(|item| self.flat(item, &format!("{path} Item")))
                    .collect();
                Type::Array(Box::new(union(items)))
            }
            Type::Union(options) => {
                let options = options.into_iter();
                union(options.map(|one| self.flat(one, path)).collect())
            }
            other => other,
        }
    }

    fn fields_flat(&mut self, object: Object, name: &str) -> Object {
        let fields = object.fields.into_iter().map(|field| Field {
            of: self.flat(field.of, &format!("{name} {}", field.name)),
            ..field
        });
        Object {
            fields: fields.collect(),
            extra: object.extra,
        }
    }
}

fn push_declaration(declaration: &Declaration, out: &mut String) {
    let Declaration { name, doc, of } = declaration;
    match of {
        Type::Object(object) if is_class(object) && object.fields.iter().all(may_be_member) => {
            let _ = writeln!(out, "class {name}(TypedDict):");
            push_doc(doc.as_deref(), 1, out);
            if object.fields.is_empty() {
                out.push_str("    pass\n");
            }
            for field in &object.fields {
                let _ = writeln!(out, "    {}: {}", field.name, field_written(field));
                push_doc(field.doc.as_deref(), 1, out);
            }
            out.push_str("\n\n");
        }
        Type::Object(object) if is_class(object) => {
            let _ = writeln!(out, "{name} = TypedDict(\n    {},\n    {{", quoted(name));
            for field in &object.fields {
                let (key, of) = (quoted(&field.name), quoted(&field_written(field)));
                let _ = writeln!(out, "        {key}: {of},");
            }
            out.push_str("    },\n)\n");
            push_doc(doc.as_deref(), 0, out);
            out.push_str("\n\n");
        }
        of => {
            let _ = writeln!(out, "{name}: TypeAlias = {}", quoted(&written(of)));
            push_doc(doc.as_deref(), 0, out);
            out.push_str("\n\n");
        }
    }
}

/// Whether a class body may name it: there a name must be one of the language, and hides others of that name.
fn may_be_member(field: &Field) -> bool {
    let name = field.name.as_str();
    let mut chars = name.chars();
    // Types begin with a capital, names with special meaning with an underscore.
    chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text::is_python_keyword(name)
        && !USED.contains(&name)
}

fn field_written(field: &Field) -> String {
    let of = written(&field.of);
    match field.is_required {
        true => of,
        false => format!("NotRequired[{of}]"),
    }
}

/// Documentation of what stands before it.
fn push_doc(doc: Option<&str>, depth: usize, out: &mut String) {
    let lines = text::doc_lines(doc.unwrap_or_default());
    let indent = "    ".repeat(depth);
    let safe = |line: &str| line.replace('\\', "\\\\").replace('"', "\\\"");
    match &lines[..] {
        [] => {}
        [line] => {
            let _ = writeln!(out, "{indent}\"\"\"{}\"\"\"", safe(line));
        }
        [first, more @ ..] => {
            let _ = writeln!(out, "{indent}\"\"\"{}", safe(first));
            for line in more {
                let _ = writeln!(out, "{}", format!("{indent}{}", safe(line)).trim_end());
            }
            let _ = writeln!(out, "{indent}\"\"\"");
        }
    }
}

fn quoted(text: &str) -> String {
    text::quoted(text, beyond)
}

fn beyond(code: u32) -> String {
    format!("\\U{code:08x}")
}

/// A type that was made flat.
fn written(of: &Type) -> String {
    match of {
        Type::Any | Type::All(_) | Type::Tuple(_) => "Any".to_owned(),
        Type::Null => "None".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::Integer => "int".to_owned(),
        Type::Number => "float".to_owned(),
        Type::String => "str".to_owned(),
        Type::Literal(value) => {
            literal(value).map_or("float".to_owned(), |value| format!("Literal[{value}]"))
        }
        Type::Named(name) => name.clone(),
        Type::Array(item) => format!("list[{}]", written(item)),
        Type::Object(object) => {
            let extra = object
                .extra
                .as_ref()
                .map_or("Any".to_owned(), |extra| written(extra));
            format!("dict[str, {extra}]")
        }
        Type::Union(options) => union_written(options),
    }
}

/// Literals of a union stand together.
fn union_written(options: &[Type]) -> String {
    let literals: Vec<String> = options
        .iter()
        .filter_map(|option| match option {
            Type::Literal(value) => literal(value),
            _ => None,
        })
        .collect();
    let mut parts = Vec::new();
    if !literals.is_empty() {
        parts.push(format!("Literal[{}]", literals.join(", ")));
    }
    for option in options {
        let part = written(option);
        if !part.starts_with("Literal[") && !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(" | ")
}

/// As a member of `Literal`, which takes no fractions.
fn literal(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::Bool(true) => Some("True".to_owned()),
        serde_json::Value::Bool(false) => Some("False".to_owned()),
        serde_json::Value::Number(number) if !number.is_i64() && !number.is_u64() => None,
        other => Some(text::scalar(other, beyond)),
    }
}
