//! Several types at once as one type. Where that cannot be said, the result is wider than the schema, never narrower.

use std::collections::BTreeMap;

use crate::typed_client::schema::{Field, Object, Type, union};

/// Combinations of options that are written out; beyond that the value can be anything.
const OPTIONS_MAX: usize = 64;
/// Names that are looked through one after another.
const NAMES_MAX: usize = 3;

/// A type without `All`, at its outermost level.
pub(super) fn merged(of: &Type, known: &BTreeMap<String, Type>) -> Type {
    match of {
        Type::All(parts) => {
            let parts = parts.iter().map(|part| merged(part, known));
            parts
                .reduce(|a, b| both(a, b, known, NAMES_MAX))
                .unwrap_or(Type::Any)
        }
        Type::Union(options) => union(options.iter().map(|one| merged(one, known)).collect()),
        other => other.clone(),
    }
}

fn both(a: Type, b: Type, known: &BTreeMap<String, Type>, names_left: usize) -> Type {
    match (a, b) {
        (Type::Any, other) | (other, Type::Any) => other,
        (a, b) if a == b => a,
        (Type::Object(a), Type::Object(b)) => Type::Object(objects(a, b, known, names_left)),
        (Type::Union(options), other) | (other, Type::Union(options)) => {
            if options.len() > OPTIONS_MAX {
                return Type::Any;
            }
            let each = options.into_iter();
            let each = each
                .map(|one| both(one, other.clone(), known, names_left))
                .collect();
            match union(each) {
                Type::Union(all) if all.len() > OPTIONS_MAX => Type::Any,
                of => of,
            }
        }
        (Type::Named(name), other) if names_left > 0 => {
            both(meaning(&name, known), other, known, names_left - 1)
        }
        (other, Type::Named(name)) if names_left > 0 => {
            both(other, meaning(&name, known), known, names_left - 1)
        }
        (
            literal @ Type::Literal(_),
            Type::String | Type::Number | Type::Integer | Type::Boolean,
        )
        | (
            Type::String | Type::Number | Type::Integer | Type::Boolean,
            literal @ Type::Literal(_),
        ) => literal,
        (Type::Integer, Type::Number) | (Type::Number, Type::Integer) => Type::Integer,
        _ => Type::Any,
    }
}

/// What a name stands for, unless that is itself a combination: its parts could lead back here.
fn meaning(name: &str, known: &BTreeMap<String, Type>) -> Type {
    match known.get(name) {
        None | Some(Type::All(_)) => Type::Any,
        Some(of) => of.clone(),
    }
}

fn objects(a: Object, b: Object, known: &BTreeMap<String, Type>, names_left: usize) -> Object {
    let mut fields = a.fields;
    for field in b.fields {
        match fields.iter_mut().find(|same| same.name == field.name) {
            Some(same) => {
                *same = Field {
                    is_required: same.is_required || field.is_required,
                    doc: same.doc.take().or(field.doc),
                    of: both(same.of.clone(), field.of, known, names_left),
                    name: field.name,
                };
            }
            None => fields.push(field),
        }
    }
    Object {
        fields,
        extra: a.extra.or(b.extra),
    }
}
