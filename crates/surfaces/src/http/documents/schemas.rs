//! The named schemas of an OpenAPI document, made from the schemas of many tools.
//!
//! Equal schemas have one name, however they are written: a schema's hash is that of its canonical form with all
//! references followed. Objects and enumerations inside of others get names as well, because generators make a type of
//! each and would invent the names. References to other documents are not followed: what they stand for is anything.
//!
//! Not here: hashes (`source`), keywords of one schema (`dialect`), which schemas there are (`openapi`).

mod source;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::dialect::{self, Place};
use super::names::{Names, type_name};
use crate::http::rest::arguments::{TextForm, text_form};
use source::{Hash, Source, TooLarge};

/// The same in one document.
const STEPS_OF_ALL_MAX: usize = 2_000_000;

#[derive(Default)]
pub(super) struct Components {
    names: Names,
    by_hash: HashMap<Hash, String>,
    schemas: BTreeMap<String, Value>,
    steps: usize,
    any_object: Option<String>,
}

/// A tool's schema in the document.
pub(super) struct Named {
    pub(super) name: String,
    /// Its properties, where they were asked for.
    pub(super) parameters: Vec<Parameter>,
}

/// A property that can be given as text.
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) is_required: bool,
    pub(super) form: TextForm,
    pub(super) schema: Value,
    pub(super) description: Option<Value>,
}

impl Components {
    /// Adds a schema of our own.
    pub(super) fn own(&mut self, name: &str, schema: Value) {
        let unique = self.names.unique(name, name);
        debug_assert_eq!(unique, name, "schemas of our own come first");
        self.schemas.insert(unique, schema);
    }

    /// Adds a schema of a tool under this name, or finds its equal. With `parameters` its properties come as well.
    pub(super) fn add(&mut self, name: &str, schema: Option<&Value>, parameters: bool) -> Named {
        let any = json!({ "type": "object" });
        let typed;
        let schema = match schema {
            Some(Value::Object(object)) if !has_shape(object) => {
                let mut object = object.clone();
                object.insert("type".to_owned(), "object".into());
                typed = Value::Object(object);
                &typed
            }
            Some(schema @ Value::Object(_)) => schema,
            _ => &any,
        };
        let tried = self.try_add(name, schema, parameters);
        tried.unwrap_or_else(|TooLarge| self.any_object())
    }

    fn try_add(&mut self, name: &str, schema: &Value, parameters: bool) -> Result<Named, TooLarge> {
        let mut source = Source::new(schema, STEPS_OF_ALL_MAX.saturating_sub(self.steps));
        let mut writer = Writer {
            components: self,
            source: &mut source,
            added: Vec::new(),
        };
        let written = writer.named(name, schema, parameters);
        let steps = writer.source.steps;
        writer.components.steps += steps;
        if written.is_err() {
            let added = std::mem::take(&mut writer.added);
            self.forget(&added);
        }
        written
    }

    /// The schema of what is too large to be shown.
    fn any_object(&mut self) -> Named {
        let names = &mut self.names;
        let name = self
            .any_object
            .get_or_insert_with(|| names.unique("AnyObject", "AnyObject"));
        let any = json!({ "type": "object", "additionalProperties": true });
        self.schemas.insert(name.clone(), any);
        Named {
            name: name.clone(),
            parameters: Vec::new(),
        }
    }

    fn forget(&mut self, added: &[(Hash, String)]) {
        for (hash, name) in added {
            self.by_hash.remove(hash);
            self.schemas.remove(name);
            self.names.remove(name);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.schemas.get(name)
    }

    pub(super) fn into_schemas(self) -> Map<String, Value> {
        self.schemas.into_iter().collect()
    }
}

/// Whether a schema says of what form its values are.
fn has_shape(object: &Map<String, Value>) -> bool {
    let says = ["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"];
    says.iter().any(|keyword| object.contains_key(*keyword))
}

pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Writes one source into the components.
struct Writer<'c, 's> {
    components: &'c mut Components,
    source: &'c mut Source<'s>,
    added: Vec<(Hash, String)>,
}

impl<'s> Writer<'_, 's> {
    fn named(
        &mut self,
        name: &str,
        schema: &'s Value,
        parameters: bool,
    ) -> Result<Named, TooLarge> {
        let name = self.component(schema, &type_name(name))?;
        let mut all = Vec::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (property, inner) in properties.into_iter().flatten().filter(|_| parameters) {
            let required = schema.get("required").and_then(Value::as_array);
            all.push(Parameter {
                name: property.clone(),
                is_required: required.is_some_and(|all| all.iter().any(|one| one == property)),
                form: text_form(self.source.root, inner),
                schema: self.placed(Place::Property(property), inner, &name)?,
                description: inner
                    .get("description")
                    .filter(|text| text.is_string())
                    .cloned(),
            });
        }
        Ok(Named {
            name,
            parameters: all,
        })
    }

    /// The name of a schema, which is written if no equal one was.
    fn component(&mut self, schema: &'s Value, wanted: &str) -> Result<String, TooLarge> {
        let hash = self.source.hash(schema)?;
        if let Some(known) = self.components.by_hash.get(&hash) {
            return Ok(known.clone());
        }
        // A schema that is only a reference is what it refers to.
        let schema = match self.source.target(schema) {
            Some((target, _)) if self.source.hash(target)? == hash => target,
            _ => schema,
        };
        let seed: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = self.components.names.unique(wanted, &seed);
        self.components.by_hash.insert(hash, name.clone());
        self.added.push((hash, name.clone()));
        let written = self.written(schema, &name)?;
        self.components.schemas.insert(name.clone(), written);
        Ok(name)
    }

    /// A schema as it stands in the document, inside of what is called `parent`.
    fn written(&mut self, schema: &'s Value, parent: &str) -> Result<Value, TooLarge> {
        let mut written = dialect::rewrite(schema, &mut |place, inner| {
            self.placed(place, inner, parent)
        })?;
        if !Source::refers(schema) {
            self.declare_required(&mut written);
            self.discriminate(&mut written);
            return Ok(written);
        }
        let Some((target, name)) = self.source.target(schema) else {
            return Ok(written);
        };
        if let Value::Bool(allows) = target {
            if let (false, Some(object)) = (*allows, written.as_object_mut()) {
                object.insert("not".to_owned(), json!({}));
            }
            return Ok(written);
        }
        let wanted = match name {
            "Root" => parent.to_owned(),
            // Definitions of one name are not always one thing.
            name if self.components.names.has(&type_name(name)) => {
                format!("{parent}{}", type_name(name))
            }
            name => type_name(name),
        };
        let name = self.component(target, &wanted)?;
        if let (Some(to), Value::Object(from)) = (written.as_object_mut(), reference(&name)) {
            to.extend(from);
        }
        Ok(written)
    }

    fn placed(
        &mut self,
        place: Place<'s>,
        schema: &'s Value,
        parent: &str,
    ) -> Result<Value, TooLarge> {
        let name = match place {
            Place::Property(name) => format!("{parent}{}", type_name(name)),
            Place::Items => format!("{parent}Item"),
            Place::Values => format!("{parent}Value"),
            Place::Alternative(at) => format!("{parent}Option{}", at + 1),
            Place::Other => return self.written(schema, parent),
        };
        match deserves_name(schema) {
            true => Ok(reference(&self.component(schema, &name)?)),
            false => self.written(schema, &name),
        }
    }

    /// Validators want what is required beside `allOf` to be a property of some part.
    fn declare_required(&self, schema: &mut Value) {
        if schema.get("allOf").is_none() {
            return;
        }
        let (mut known, mut seen) = (Vec::new(), Vec::new());
        self.components
            .property_names(schema, &mut seen, &mut known);
        let required = schema.get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        let missing = names.filter(|name| !known.iter().any(|known| known == name));
        let missing: Vec<String> = missing.map(str::to_owned).collect();
        if missing.is_empty() {
            return;
        }
        let object = schema.as_object_mut().expect("it has members");
        let properties = object.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.extend(missing.into_iter().map(|name| (name, json!({}))));
        }
    }

    /// Says by which property alternatives are told apart, where each has a constant of its own in it.
    fn discriminate(&self, schema: &mut Value) {
        let alternatives = ["oneOf", "anyOf"]
            .iter()
            .find_map(|keyword| schema.get(*keyword)?.as_array());
        let Some(alternatives) = alternatives.filter(|all| all.len() > 1) else {
            return;
        };
        let first = self.components.resolved(&alternatives[0]);
        let properties = first.get("properties").and_then(Value::as_object);
        let found = properties
            .into_iter()
            .flat_map(Map::keys)
            .find_map(|property| {
                let mut mapping = Map::new();
                for alternative in alternatives {
                    let target = alternative.get("$ref")?;
                    let constant = self.constant(alternative, property)?;
                    let before = mapping.insert(constant, target.clone());
                    if before.is_some() {
                        return None;
                    }
                }
                Some(json!({ "propertyName": property, "mapping": mapping }))
            });
        if let (Some(found), Some(object)) = (found, schema.as_object_mut()) {
            object.insert("discriminator".to_owned(), found);
        }
    }

    /// The one text that a required property of an object can be.
    fn constant(&self, schema: &Value, property: &str) -> Option<String> {
        let schema = self.components.resolved(schema);
        let required = schema.get("required")?.as_array()?;
        if !required.iter().any(|name| name == property) {
            return None;
        }
        let value = schema.get("properties")?.get(property)?;
        let only = match value.get("enum").and_then(Value::as_array) {
            Some(one) if one.len() == 1 => one.first(),
            _ => value.get("const"),
        };
        only?.as_str().map(str::to_owned)
    }
}

impl Components {
    /// The properties of a schema and of its parts; each component is looked at once, however many ways lead to it.
    fn property_names<'v>(
        &'v self,
        schema: &'v Value,
        seen: &mut Vec<&'v str>,
        names: &mut Vec<String>,
    ) {
        let own = schema.get("properties").and_then(Value::as_object);
        names.extend(own.into_iter().flat_map(Map::keys).cloned());
        let parts = schema.get("allOf").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            if let Some(target) = part.get("$ref").and_then(Value::as_str) {
                if seen.contains(&target) {
                    continue;
                }
                seen.push(target);
            }
            self.property_names(self.resolved(part), seen, names);
        }
    }

    fn resolved<'v>(&'v self, schema: &'v Value) -> &'v Value {
        let name = schema.get("$ref").and_then(Value::as_str);
        let name = name.and_then(|name| name.strip_prefix("#/components/schemas/"));
        name.and_then(|name| self.schemas.get(name))
            .unwrap_or(schema)
    }
}

/// Whether generators would make a type of it.
fn deserves_name(schema: &Value) -> bool {
    if Source::refers(schema) {
        return false;
    }
    let of = |keyword: &str| schema.get(keyword);
    match of("type").and_then(Value::as_str) {
        Some("object") => of("properties")
            .and_then(Value::as_object)
            .is_some_and(|all| !all.is_empty()),
        Some("string") => {
            let all = of("enum").and_then(Value::as_array);
            all.is_some_and(|all| all.len() > 1 && all.iter().all(Value::is_string))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
