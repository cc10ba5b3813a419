//! The `x-mcp-header` annotations of one tool's `inputSchema`.
//!
//! A tool that breaks a rule has to be removed from the list (an HTTP client MUST reject it), so the first violation
//! is reported. The walk knows only as much JSON Schema as it needs: where subschemas are, and where a key is data or
//! a property name.

use serde_json::{Map, Value};

use super::PARAM_PREFIX;

const KEYWORD: &str = "x-mcp-header";

/// One argument that is mirrored into a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// The property keys from the arguments' root to the value.
    pub path: Vec<String>,
    /// The full header name, as the annotation spells it.
    pub header: String,
    pub kind: ParamType,
}

/// The types that may be mirrored. `number` is not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamType {
    String,
    Integer,
    Boolean,
}

/// Why a tool's annotations are invalid. `at` is the JSON pointer of the schema at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    #[error("the input schema is not JSON, or nested too deeply")]
    NotJson,
    #[error("x-mcp-header at `{at}` is not a string")]
    NotAString { at: String },
    #[error("x-mcp-header at `{at}` is not a header name")]
    NotAToken { at: String },
    #[error("x-mcp-header `{name}` at `{at}` is used twice")]
    Repeated { at: String, name: String },
    #[error("x-mcp-header at `{at}` needs the type string, integer or boolean")]
    Type { at: String },
    #[error("x-mcp-header at `{at}` is not on a property reached through `properties` alone")]
    OutOfReach { at: String },
}

/// Reads the annotations of an `inputSchema`; an empty list is the usual answer.
pub fn annotations(input_schema: &[u8]) -> Result<Vec<Param>, AnnotationError> {
    if cannot_be_annotated(input_schema) {
        return Ok(Vec::new());
    }
    let schema: Value =
        serde_json::from_slice(input_schema).map_err(|_| AnnotationError::NotJson)?;
    let mut walk = Walk::default();
    walk.any(&schema, Reach::Root)?;
    Ok(walk.found)
}

/// Spares nearly every tool the parse. The keyword could be spelled with escapes, so any escape disables the short
/// cut.
fn cannot_be_annotated(input_schema: &[u8]) -> bool {
    memchr::memmem::find(input_schema, KEYWORD.as_bytes()).is_none()
        && memchr::memmem::find(input_schema, br"\u").is_none()
}

/// How a schema is reached from the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Root,
    Property,
    Nowhere,
}

#[derive(Default)]
struct Walk {
    /// All keys on the path, keywords included.
    pointer: Vec<String>,
    /// The property names on the path.
    path: Vec<String>,
    found: Vec<Param>,
}

impl Walk {
    /// A value that is a schema or a list of them; the recursion is as deep as the parser allows.
    fn any(&mut self, value: &Value, reach: Reach) -> Result<(), AnnotationError> {
        match value {
            Value::Object(schema) => self.schema(schema, reach),
            Value::Array(items) => items.iter().enumerate().try_for_each(|(at, item)| {
                self.below(&at.to_string(), |walk| walk.any(item, Reach::Nowhere))
            }),
            _ => Ok(()),
        }
    }

    fn schema(&mut self, schema: &Map<String, Value>, reach: Reach) -> Result<(), AnnotationError> {
        if let Some(name) = schema.get(KEYWORD) {
            self.annotation(schema, name, reach)?;
        }
        for (keyword, value) in schema {
            self.below(keyword, |walk| walk.keyword(keyword, value, reach))?;
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        reach: Reach,
    ) -> Result<(), AnnotationError> {
        match (keyword, value) {
            ("properties", Value::Object(properties)) if reach != Reach::Nowhere => {
                for (name, schema) in properties {
                    self.path.push(name.clone());
                    self.below(name, |walk| walk.any(schema, Reach::Property))?;
                    self.path.pop();
                }
                Ok(())
            }
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
                Value::Object(schemas),
            ) => schemas.iter().try_for_each(|(name, schema)| {
                self.below(name, |walk| walk.any(schema, Reach::Nowhere))
            }),
            // Data, in which keywords have no meaning; and the annotation itself.
            ("const" | "enum" | "default" | "examples" | KEYWORD, _) => Ok(()),
            _ => self.any(value, Reach::Nowhere),
        }
    }

    fn annotation(
        &mut self,
        schema: &Map<String, Value>,
        name: &Value,
        reach: Reach,
    ) -> Result<(), AnnotationError> {
        if reach != Reach::Property {
            return Err(AnnotationError::OutOfReach { at: self.at() });
        }
        let Value::String(name) = name else {
            return Err(AnnotationError::NotAString { at: self.at() });
        };
        if name.is_empty() || !name.bytes().all(is_tchar) {
            return Err(AnnotationError::NotAToken { at: self.at() });
        }
        let kind = match schema.get("type").and_then(Value::as_str) {
            Some("string") => ParamType::String,
            Some("integer") => ParamType::Integer,
            Some("boolean") => ParamType::Boolean,
            _ => return Err(AnnotationError::Type { at: self.at() }),
        };
        let header = format!("{PARAM_PREFIX}{name}");
        if self
            .found
            .iter()
            .any(|param| param.header.eq_ignore_ascii_case(&header))
        {
            let (at, name) = (self.at(), name.clone());
            return Err(AnnotationError::Repeated { at, name });
        }
        self.found.push(Param {
            path: self.path.clone(),
            header,
            kind,
        });
        Ok(())
    }

    fn below<T>(&mut self, key: &str, then: impl FnOnce(&mut Self) -> T) -> T {
        self.pointer.push(key.to_owned());
        let outcome = then(self);
        self.pointer.pop();
        outcome
    }

    fn at(&self) -> String {
        self.pointer
            .iter()
            .map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")))
            .collect()
    }
}

/// RFC 9110, 5.6.2.
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
