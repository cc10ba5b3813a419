//! Answers about names that do not exist or are held back. The same texts answer for operations that a caller may not
//! see, so they are written only here.

use std::borrow::Cow;

use sentinel_wire::{Method, Params, json};

use super::{Difference, Operation};
use crate::fault::{Fault, Kind};
use crate::invocation::View;
use crate::offer::ItemKind;

/// The answer to a call of an operation that its caller does not see.
pub(crate) fn unseen(operation: &Operation, view: View, method: &Method) -> Fault {
    let used = operation.name_in(view);
    match operation.kind {
        Some(kind @ (ItemKind::Tool | ItemKind::Prompt)) => unknown_name(kind, used),
        Some(ItemKind::Resource | ItemKind::Template) => unknown_resource(used),
        None => unknown_method(method),
    }
}

/// The answer to a call of a tool that is held back.
pub(crate) fn held(operation: &Operation, view: View, how: Difference) -> Fault {
    let name = operation.name_in(view);
    let why = match how {
        Difference::New => format!("`{name}` is new"),
        Difference::Unknown => format!("what was approved of `{name}` cannot be read"),
        Difference::Words | Difference::Shape | Difference::Both => {
            format!("`{name}` is not what it was")
        }
    };
    let text = format!("{why}, and is off until somebody approves it");
    Fault::new(Kind::Disabled, text)
}

pub(crate) fn unknown_name(kind: ItemKind, name: &str) -> Fault {
    let noun = if kind == ItemKind::Tool {
        "tool"
    } else {
        "prompt"
    };
    Fault::new(Kind::UnknownName, format!("unknown {noun}: {name}"))
}

pub(crate) fn unknown_resource(uri: &str) -> Fault {
    let mut data = br#""uri":"#.to_vec();
    json::encode_string(uri, &mut data);
    let data = String::from_utf8(data).expect("JSON is UTF-8");
    Fault::new(Kind::UnknownResource, format!("unknown resource: {uri}")).with_data(data)
}

pub(crate) fn unknown_method(method: &Method) -> Fault {
    Fault::new(
        Kind::MethodNotFound,
        format!("unknown method: {}", method.as_str()),
    )
}

pub(crate) fn required<'p>(params: &'p Params, name: &str) -> Result<Cow<'p, str>, Fault> {
    params.string(name).ok_or_else(|| {
        Fault::new(
            Kind::InvalidParams,
            format!("`{name}` is missing or no string"),
        )
    })
}
