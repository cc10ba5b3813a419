//! A description as one JSON value: read from JSON or YAML within bounds, its version, its references.
//!
//! Not here: where it comes from and other documents that it refers to (`source`), what its parts mean (`operation`, `schema`).

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// A reference that leads only to references is followed so far.
const CHAIN_MAX: usize = 32;
/// Deepest nesting of a document; `serde_json` has the same bound for JSON.
const DEPTH_MAX: usize = 128;
/// Anchors of YAML can repeat a text without end. Large real documents have some hundred thousand nodes.
const YAML_NODES_MAX: usize = 4_000_000;
const YAML_REPLAYED_MAX: usize = 100_000;

/// Why a text is no description that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    #[error("the description is not UTF-8")]
    NotText,
    #[error("the description is no JSON: {0}")]
    Json(#[source] serde_json::Error),
    #[error("the description is no YAML that can be used: {0}")]
    Yaml(String),
    #[error(
        "the description has neither `openapi: 3.x` nor `swagger: \"2.0\"`, so it is none that can be used"
    )]
    Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Swagger 2.0.
    V20,
    V30,
    /// 3.1 and later: schemas are JSON Schema 2020-12.
    V31,
}

pub(super) struct Document {
    pub(super) root: Value,
    pub(super) version: Version,
}

/// JSON or YAML as a value. JSON is told by its first character, because the YAML reader is many times slower.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, DocumentError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.trim_ascii_start().starts_with(b"{") {
        return serde_json::from_slice(bytes).map_err(DocumentError::Json);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| DocumentError::NotText)?;
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = DEPTH_MAX;
    budget.flow_nesting_limit = DEPTH_MAX;
    budget.max_nodes = YAML_NODES_MAX;
    budget.max_events = YAML_NODES_MAX * 2;
    budget.max_documents = 1;
    budget.max_total_scalar_bytes = text.len().saturating_mul(2).max(1 << 20);
    let mut limits = serde_saphyr::options::AliasLimits::default();
    limits.max_total_replayed_events = YAML_REPLAYED_MAX;
    let mut options = serde_saphyr::Options::default();
    options.budget = Some(budget);
    options.alias_limits = limits;
    options.duplicate_keys = serde_saphyr::DuplicateKeyPolicy::LastWins;
    options.with_snippet = false;
    // YAML 1.2: `yes` and `no` are texts.
    options.strict_booleans = true;
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| DocumentError::Yaml(error.to_string()))
}

impl Document {
    pub(super) fn new(root: Value) -> Result<Self, DocumentError> {
        let says = |member: &str| match root.get(member) {
            Some(Value::String(text)) => text.clone(),
            // Unquoted in YAML.
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let version = match (says("openapi"), says("swagger")) {
            (_, swagger) if swagger.starts_with("2.0") || swagger == "2" => Version::V20,
            (openapi, _) if openapi.starts_with("3.0") || openapi == "3" => Version::V30,
            (openapi, _) if openapi.starts_with("3.") => Version::V31,
            _ => return Err(DocumentError::Version),
        };
        Ok(Self { root, version })
    }

    /// What a local reference points at, one step.
    pub(super) fn target(&self, reference: &str) -> Option<&Value> {
        let pointer = reference.strip_prefix('#')?;
        let pointer: Cow<'_, str> = percent_decode_str(pointer).decode_utf8().ok()?;
        match self.root.pointer(&pointer) {
            None if pointer.contains('%') => self.root.pointer(reference.strip_prefix('#')?),
            found => found,
        }
    }

    /// A value, or what it refers to in the end; `None` if that is nowhere.
    pub(super) fn resolve<'a>(&'a self, value: &'a Value) -> Option<&'a Value> {
        let mut at = value;
        for _ in 0..CHAIN_MAX {
            match at.get("$ref").and_then(Value::as_str) {
                None => return Some(at),
                Some(reference) => at = self.target(reference)?,
            }
        }
        None
    }

    /// The same for a member of an object.
    pub(super) fn member<'a>(&'a self, of: &'a Value, name: &str) -> Option<&'a Value> {
        self.resolve(of.get(name)?)
    }

    /// The members of an object, each resolved; those that lead nowhere are left out.
    pub(super) fn members<'a>(
        &'a self,
        of: Option<&'a Value>,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let members = of.and_then(Value::as_object).into_iter().flatten();
        members.filter_map(|(name, value)| Some((name.as_str(), self.resolve(value)?)))
    }
}

/// A text member.
pub(super) fn text<'a>(of: &'a Value, name: &str) -> Option<&'a str> {
    of.get(name).and_then(Value::as_str)
}

/// A member that is true or false.
pub(super) fn flag(of: &Value, name: &str) -> Option<bool> {
    of.get(name).and_then(Value::as_bool)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn o_1_json_and_yaml_read_alike() {
        let json = br#"{"openapi":"3.1.0","paths":{"/a":{"get":{"responses":{"200":{"description":"yes"}}}}}}"#;
        let yaml = b"openapi: 3.1.0\npaths:\n  /a:\n    get:\n      responses:\n        200:\n          description: yes\n";
        assert_eq!(parse(json).expect("json"), parse(yaml).expect("yaml"));
        let date = parse(b"info: {version: 2024-01-01, big: 1e3}").expect("yaml");
        assert_eq!(date["info"]["version"], "2024-01-01");
    }

    #[test]
    fn o_1_versions_are_told_apart() {
        for (text, version) in [
            ("swagger: '2.0'", Version::V20),
            ("swagger: 2.0", Version::V20),
            ("openapi: 3.0.3", Version::V30),
            ("openapi: 3.1.1", Version::V31),
            ("openapi: 3.2.0", Version::V31),
        ] {
            let read = Document::new(parse(text.as_bytes()).expect("yaml")).expect(text);
            assert_eq!(read.version, version);
        }
        for text in ["openapi: 4.0.0", "a: 1", "- 1", "swagger: '1.2'"] {
            assert!(
                Document::new(parse(text.as_bytes()).expect("yaml")).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn o_9_hostile_texts_are_refused() {
        let mut bomb = String::from("a: &a [x,x,x,x,x,x,x,x,x,x]\n");
        for (name, of) in ["b", "c", "d", "e", "f", "g", "h", "i"]
            .iter()
            .zip("abcdefgh".chars())
        {
            let ten = vec![format!("*{of}"); 10].join(",");
            bomb.push_str(&format!("{name}: &{name} [{ten}]\n"));
        }
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let deep_json = format!("{{\"a\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
        for text in [&bomb, &deep, &deep_json, "{", "a: [", "\u{0}", "a: .nan"] {
            let began = std::time::Duration::from_secs(5);
            let clock = tokio::time::Instant::now();
            assert!(parse(text.as_bytes()).is_err(), "{text:.40}");
            assert!(clock.elapsed() < began);
        }
        assert!(parse(b"a: \xff").is_err());
    }

    #[test]
    fn references_are_followed_within_the_document_and_not_for_ever() {
        let root = json!({
            "openapi": "3.1.0",
            "a/b": {"x": 1},
            "one": {"$ref": "#/two"}, "two": {"$ref": "#/a~1b"},
            "loop": {"$ref": "#/loop"}, "off": {"$ref": "other.yaml#/x"},
        });
        let read = Document::new(root).expect("a description");
        assert_eq!(read.member(&read.root, "one"), Some(&json!({"x": 1})));
        assert_eq!(read.target("#/a%7E1b"), Some(&json!({"x": 1})));
        assert_eq!(read.member(&read.root, "loop"), None);
        assert_eq!(read.member(&read.root, "off"), None);
    }
}
