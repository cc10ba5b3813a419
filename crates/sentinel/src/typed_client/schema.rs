//! A JSON Schema as declarations of types that programming languages have.
//!
//! What a type cannot say (lengths, formats, patterns, conditions) is left out: the gateway checks it. A reference that
//! leads out of the document, or only to itself, is any value. Work is linear in the schema, which the gateway bounds.
//!
//! Not here: how a type is written in a language (`typescript`, `python`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::names::Names;

/// A type under a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declaration {
    pub(super) name: String,
    pub(super) doc: Option<String>,
    pub(super) of: Type,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Any,
    Null,
    Boolean,
    Integer,
    Number,
    String,
    /// A scalar.
    Literal(Value),
    Array(Box<Type>),
    Tuple(Tuple),
    Object(Object),
    Union(Vec<Type>),
    /// All of them at once.
    All(Vec<Type>),
    Named(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tuple {
    pub(super) items: Vec<Type>,
    /// So many of the items are always there.
    pub(super) required: usize,
    /// What may follow the items.
    pub(super) rest: Option<Box<Type>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Object {
    pub(super) fields: Vec<Field>,
    /// The type of members that have no field.
    pub(super) extra: Option<Box<Type>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) is_required: bool,
    pub(super) doc: Option<String>,
    pub(super) of: Type,
}

impl Object {
    /// Says nothing about its members.
    fn is_vague(&self) -> bool {
        self.fields.is_empty() && matches!(self.extra.as_deref(), None | Some(Type::Any))
    }
}

/// The type of a schema under this name, and those that it refers to.
pub(super) fn declare(schema: &Value, name: &str, names: &mut Names) -> Vec<Declaration> {
    let mut reader = Reader {
        root: schema,
        prefix: name,
        names,
        known: BTreeMap::from([(String::new(), name.to_owned())]),
        pending: VecDeque::from([(String::new(), name.to_owned())]),
    };
    let mut declared = Vec::new();
    while let Some((pointer, name)) = reader.pending.pop_front() {
        let schema = schema.pointer(&pointer).unwrap_or(&Value::Null);
        declared.push(Declaration {
            name,
            doc: doc(schema),
            of: reader.read(schema),
        });
    }
    break_circles(&mut declared);
    declared
}

/// What a schema says for people.
pub(super) fn doc(schema: &Value) -> Option<String> {
    let text = |member: &str| schema.get(member).and_then(Value::as_str);
    let text = text("description").or_else(|| text("title"));
    let default = schema.get("default").filter(|value| !value.is_null());
    let default = default.map(|value| format!("Default: {value}"));
    let parts: Vec<String> = text.map(str::to_owned).into_iter().chain(default).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

struct Reader<'s, 'n> {
    root: &'s Value,
    prefix: &'s str,
    names: &'n mut Names,
    /// Pointers that have a name.
    known: BTreeMap<String, String>,
    /// Those of which the type is still to be read.
    pending: VecDeque<(String, String)>,
}

impl Reader<'_, '_> {
    fn read(&mut self, schema: &Value) -> Type {
        let Some(members) = schema.as_object() else {
            return Type::Any;
        };
        let mut parts = Vec::new();
        if let Some(target) = members.get("$ref").and_then(Value::as_str) {
            parts.push(self.reference(target));
        }
        parts.push(self.own(members));
        for part in array(members, "allOf") {
            parts.push(self.read(part));
        }
        for keyword in ["anyOf", "oneOf"] {
            if members.contains_key(keyword) {
                let options = array(members, keyword).iter();
                let options = options.map(|option| self.read(option)).collect();
                parts.push(union(options));
            }
        }
        let of = all(parts);
        match members.get("nullable") {
            Some(Value::Bool(true)) => union(vec![of, Type::Null]),
            _ => of,
        }
    }

    /// What a schema says itself, without what it combines.
    fn own(&mut self, members: &Map<String, Value>) -> Type {
        if let Some(value) = members.get("const") {
            return literal(value);
        }
        if members.contains_key("enum") {
            return union(array(members, "enum").iter().map(literal).collect());
        }
        match members.get("type") {
            Some(Value::String(name)) => self.typed(name, members),
            Some(Value::Array(several)) => {
                let several = several.iter().filter_map(Value::as_str);
                union(several.map(|name| self.typed(name, members)).collect())
            }
            _ if members.contains_key("properties") => self.typed("object", members),
            _ if members.contains_key("items") || members.contains_key("prefixItems") => {
                self.typed("array", members)
            }
            _ => Type::Any,
        }
    }

    fn typed(&mut self, name: &str, members: &Map<String, Value>) -> Type {
        match name {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "string" => Type::String,
            "array" => self.array(members),
            "object" => Type::Object(self.object(members)),
            _ => Type::Any,
        }
    }

    fn array(&mut self, members: &Map<String, Value>) -> Type {
        // Until 2019-09 the items of a tuple were in `items`.
        let (firsts, rest) = match (members.get("prefixItems"), members.get("items")) {
            (Some(Value::Array(firsts)), rest) => (firsts, rest),
            (_, Some(Value::Array(firsts))) => (firsts, members.get("additionalItems")),
            (_, items) => {
                return Type::Array(Box::new(self.read(items.unwrap_or(&Value::Null))));
            }
        };
        let items: Vec<Type> = firsts.iter().map(|item| self.read(item)).collect();
        let at_least = members.get("minItems").and_then(Value::as_u64);
        let at_least = usize::try_from(at_least.unwrap_or(0)).unwrap_or(usize::MAX);
        let at_most = members.get("maxItems").and_then(Value::as_u64);
        let is_full = at_most.is_some_and(|max| max <= items.len() as u64);
        let is_closed = is_full || rest == Some(&Value::Bool(false));
        Type::Tuple(Tuple {
            required: at_least.min(items.len()),
            items,
            rest: (!is_closed).then(|| Box::new(self.read(rest.unwrap_or(&Value::Null)))),
        })
    }

    fn object(&mut self, members: &Map<String, Value>) -> Object {
        let required: BTreeSet<&str> = array(members, "required")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let properties = members.get("properties").and_then(Value::as_object);
        let fields = properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| Field {
                name: name.clone(),
                is_required: required.contains(name.as_str()),
                doc: doc(schema),
                of: self.read(schema),
            });
        let fields: Vec<Field> = fields.collect();
        let by_pattern = members.get("patternProperties").and_then(Value::as_object);
        let mut extra: Vec<Type> = by_pattern
            .into_iter()
            .flat_map(Map::values)
            .map(|schema| self.read(schema))
            .collect();
        match members.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            // Silence allows anything, but a type that does so finds no misspelt name.
            None if properties.is_some() || !extra.is_empty() => {}
            schema => extra.push(self.read(schema.unwrap_or(&Value::Null))),
        }
        Object {
            fields,
            extra: (!extra.is_empty()).then(|| Box::new(union(extra))),
        }
    }

    fn reference(&mut self, target: &str) -> Type {
        let Some(pointer) = target.strip_prefix('#') else {
            return Type::Any;
        };
        if let Some(name) = self.known.get(pointer) {
            return Type::Named(name.clone());
        }
        if self.root.pointer(pointer).is_none() {
            return Type::Any;
        }
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let name = self.names.of_type(&format!("{} {last}", self.prefix));
        self.known.insert(pointer.to_owned(), name.clone());
        self.pending.push_back((pointer.to_owned(), name.clone()));
        Type::Named(name)
    }
}

fn array<'s>(members: &'s Map<String, Value>, name: &str) -> &'s [Value] {
    members
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The type of which this is the only value.
fn literal(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Array(items) => Type::Tuple(Tuple {
            required: items.len(),
            items: items.iter().map(literal).collect(),
            rest: None,
        }),
        Value::Object(members) => Type::Object(Object {
            fields: members.iter().map(literal_field).collect(),
            extra: None,
        }),
        scalar => Type::Literal(scalar.clone()),
    }
}

fn literal_field((name, value): (&String, &Value)) -> Field {
    Field {
        name: name.clone(),
        is_required: true,
        doc: None,
        of: literal(value),
    }
}

/// Any of these; of none, or where one is any value, any value.
pub(super) fn union(options: Vec<Type>) -> Type {
    let mut flat = Vec::new();
    for option in options {
        match option {
            Type::Any => return Type::Any,
            Type::Union(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    let mut distinct: Vec<Type> = Vec::new();
    for option in flat {
        if !distinct.contains(&option) {
            distinct.push(option);
        }
    }
    match distinct.len() {
        0 => Type::Any,
        1 => distinct.remove(0),
        _ => Type::Union(distinct),
    }
}

/// All of these; what says nothing is left out.
fn all(parts: Vec<Type>) -> Type {
    let mut vague = None;
    let mut kept: Vec<Type> = Vec::new();
    for part in parts {
        match part {
            Type::Any => {}
            Type::Object(object) if object.is_vague() => vague = Some(Type::Object(object)),
            part if kept.contains(&part) => {}
            part => kept.push(part),
        }
    }
    match kept.len() {
        0 => vague.unwrap_or(Type::Any),
        1 => kept.remove(0),
        _ => Type::All(kept),
    }
}

/// A name that stands for itself, directly or by way of other names, has no meaning as a type: such an occurrence
/// becomes any value. Inside an array or an object it is a recursive type, and stays.
fn break_circles(declared: &mut [Declaration]) {
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for declaration in declared.iter() {
        let mut used = Vec::new();
        direct_names(&declaration.of, &mut used);
        for name in used {
            users
                .entry(name)
                .or_default()
                .push(declaration.name.clone());
        }
    }
    for declaration in declared {
        let mut circle = BTreeSet::new();
        let mut pending = vec![&declaration.name];
        while let Some(name) = pending.pop() {
            if circle.insert(name) {
                pending.extend(users.get(name).into_iter().flatten());
            }
        }
        declaration.of = without(&declaration.of, &circle);
    }
}

/// The names that a type is made of without an array or object between.
fn direct_names(of: &Type, into: &mut Vec<String>) {
    match of {
        Type::Named(name) => into.push(name.clone()),
        Type::Union(parts) | Type::All(parts) => {
            parts.iter().for_each(|part| direct_names(part, into));
        }
        _ => {}
    }
}

fn without(of: &Type, circle: &BTreeSet<&String>) -> Type {
    let each = |parts: &[Type]| parts.iter().map(|part| without(part, circle)).collect();
    match of {
        Type::Named(name) if circle.contains(name) => Type::Any,
        Type::Union(options) => union(each(options)),
        Type::All(parts) => all(each(parts)),
        other => other.clone(),
    }
}
