//! A description as tools: which operations, under which names, with which schemas and words.
//!
//! A part that cannot be used is left out with a notice; the rest is offered. `Api` is complete in itself: calls need nothing else.
//!
//! `servers` says where its operations are, `words` what their tools say of themselves.
//!
//! Not here: where the description comes from (`source`), how calls are made (`request`, `answer`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::Method;
use sentinel_config::ApiAuth;
use sentinel_core::{Freshness, Item, ItemKind, Offer, ServerCapabilities};
use sentinel_wire::Revision;
use serde_json::{Map, Value, json};

use super::auth;
use super::client::{Origin, Place};
use super::document::{Document, DocumentError, text};
use super::operation::{Described, Operation, Source};
use super::schema::Converter;
use super::select::{Candidate, Selection};
use super::source::Location;
use words::{annotations, links, shortened};

mod servers;
mod words;

/// `trace` sends a request back as it came, credentials included.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
const INSTRUCTIONS_CHARS_MAX: usize = 2000;
/// Schemas from this size on are tried: all arguments together may be more than can be checked.
const LARGE_BYTES_MIN: usize = 64 * 1024;
/// Parts of schemas that are converted for one description: some ten seconds of work. The largest real ones have a tenth.
const PARTS_MAX: usize = 10_000_000;
/// Notices that are kept; a document that is all wrong repeats itself.
const NOTICES_MAX: usize = 50;

/// What the configuration says about turning a description into tools.
pub(super) struct Wishes {
    /// In place of every server of the description.
    pub(super) base: Option<Place>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) auth: ApiAuth,
    pub(super) selection: Selection,
    pub(super) operations_max: usize,
    pub(super) output_schemas: bool,
}

/// An API as the gateway offers it.
pub(super) struct Api {
    pub(super) offer: Offer,
    pub(super) operations: HashMap<String, Arc<Operation>>,
    /// Where the API is: credentials go there and nowhere else.
    pub(super) home: Option<Origin>,
    pub(super) notices: Notices,
}

/// What was left out, and why.
#[derive(Default)]
pub(super) struct Notices {
    pub(super) kept: Vec<String>,
    pub(super) total: usize,
}

impl Notices {
    fn add(&mut self, notice: String) {
        self.total += 1;
        if self.kept.len() < NOTICES_MAX {
            self.kept.push(notice);
        }
    }
}

/// Turns a description into tools.
pub(super) fn api(root: Value, location: &Location, wishes: &Wishes) -> Result<Api, DocumentError> {
    let document = Document::new(root)?;
    let mut maker = Maker {
        document: &document,
        location,
        wishes,
        converter: Converter::new(&document),
        names: HashMap::new(),
        links: links(&document),
        notices: Notices::default(),
        left_out: 0,
        tools: Vec::new(),
        operations: HashMap::new(),
        home: None,
    };
    maker.home = maker.home();
    maker.all();
    let left_out = maker.left_out;
    let cut = (left_out > 0).then(|| {
        let max = wishes.operations_max;
        format!("its description has {left_out} operations more than the {max} that become tools (max_operations), or than can be worked on")
    });
    Ok(Api {
        offer: offer(&document, maker.tools, cut),
        operations: maker.operations,
        home: maker.home,
        notices: maker.notices,
    })
}

fn offer(document: &Document, tools: Vec<Item>, cut: Option<String>) -> Offer {
    let empty = json!({});
    let info = document.root.get("info").unwrap_or(&empty);
    let title = text(info, "title").unwrap_or("API");
    let version = text(info, "version").unwrap_or("0");
    let words = text(info, "description").map(|words| shortened(words, INSTRUCTIONS_CHARS_MAX));
    Offer {
        capabilities: ServerCapabilities {
            tools: true,
            ..ServerCapabilities::default()
        },
        freshness: [Freshness::LASTING; 4],
        cut: [cut, None, None, None],
        server_info: Some(
            json!({ "name": title, "version": version })
                .to_string()
                .into(),
        ),
        instructions: words.map(|words| format!("{title}: {words}")),
        tools,
        ..Offer::empty(Revision::NEWEST)
    }
}

struct Maker<'a> {
    document: &'a Document,
    location: &'a Location,
    wishes: &'a Wishes,
    converter: Converter<'a>,
    /// Names that are taken.
    names: HashMap<String, usize>,
    /// Operation ids by the references that links use in their place.
    links: HashMap<String, String>,
    notices: Notices,
    left_out: usize,
    tools: Vec<Item>,
    operations: HashMap<String, Arc<Operation>>,
    home: Option<Origin>,
}

impl Maker<'_> {
    fn all(&mut self) {
        let document = self.document;
        let paths = document.root.get("paths").and_then(Value::as_object);
        for (path, item) in paths.into_iter().flatten() {
            let Some(item) = document.resolve(item) else {
                self.notices
                    .add(format!("{path}: its reference leads nowhere"));
                continue;
            };
            for method in METHODS {
                if let Some(operation) = item.get(method).filter(|one| one.is_object()) {
                    self.one(path, method, item, operation);
                }
            }
        }
        if self.tools.is_empty() && self.notices.total == 0 {
            self.notices
                .add("no operation of the description is chosen".to_owned());
        }
    }

    fn one(&mut self, path: &str, method: &str, item: &Value, operation: &Value) {
        let upper = method.to_ascii_uppercase();
        let tags = operation
            .get("tags")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let tags: Vec<&str> = tags.filter_map(Value::as_str).collect();
        let id = text(operation, "operationId").unwrap_or_default();
        let candidate = Candidate {
            method: &upper,
            path,
            id,
            tags: &tags,
        };
        if !self.wishes.selection.takes(candidate) {
            return;
        }
        if self.tools.len() >= self.wishes.operations_max || self.converter.spent() > PARTS_MAX {
            self.left_out += 1;
            return;
        }
        let Ok(verb) = upper.parse::<Method>() else {
            return;
        };
        let source = Source {
            document: self.document,
            item,
            operation,
            method: verb,
            path,
        };
        if let Err(why) = self.add(&source, &tags) {
            self.notices.add(format!("{upper} {path}: left out: {why}"));
        }
    }

    fn add(&mut self, source: &Source<'_>, tags: &[&str]) -> Result<(), String> {
        let base = self.base(&[source.operation, source.item, &self.document.root])?;
        let output_schemas = self.wishes.output_schemas;
        let described = source.describe(&self.converter, base.clone(), output_schemas)?;
        let name = self.name(source);
        let item = self.item(source, &described, &name, tags);
        let (described, item) = match item {
            Some(tool) if may_fail(&tool) && tool.schema.examine().is_some() => {
                let converter = Converter::without_patterns(self.document);
                let plain = source.describe(&converter, base, output_schemas)?;
                let tool = self.item(source, &plain, &name, tags);
                if let Some(why) = tool.as_ref().and_then(|tool| tool.schema.examine()) {
                    return Err(format!("its arguments could not be checked: {why:.200}"));
                }
                self.notices.add(format!("tool `{name}`: its patterns are left out: they are no regular expressions that are understood here"));
                (plain, tool)
            }
            tool => (described, tool),
        };
        let item = item.ok_or("its parts make no tool")?;
        let mut operation = described.operation;
        match auth::credentials(self.document, source.operation, &self.wishes.auth) {
            Ok(credentials) => operation.credentials = credentials,
            Err(scheme) => self.notices.add(format!("tool `{name}` is called without a credential: `auth` has none for the scheme `{scheme}`")),
        }
        if self.home.as_ref() != Some(&operation.base.origin) && !operation.credentials.is_empty() {
            let place = operation.base.origin.to_string();
            self.notices.add(format!(
                "tool `{name}` is called without credentials: {place} is not where the API is"
            ));
        }
        *self.names.entry(name.clone()).or_default() += 1;
        self.tools.push(item);
        self.operations.insert(name, Arc::new(operation));
        Ok(())
    }

    fn item(
        &self,
        source: &Source<'_>,
        described: &Described,
        name: &str,
        tags: &[&str],
    ) -> Option<Item> {
        let mut tool = Map::new();
        tool.insert("name".into(), name.into());
        if let Some(title) = text(source.operation, "summary").filter(|title| !title.is_empty()) {
            tool.insert("title".into(), shortened(title, 200).into());
        }
        tool.insert("description".into(), self.words(source).into());
        tool.insert("inputSchema".into(), described.input.clone());
        if let Some(output) = &described.output {
            tool.insert("outputSchema".into(), output.clone());
        }
        tool.insert("annotations".into(), annotations(&source.method));
        if !tags.is_empty() {
            tool.insert("_meta".into(), json!({ "tags": tags }));
        }
        Item::parse(ItemKind::Tool, Value::Object(tool).to_string().into())
    }
}

/// Most schemas need no try, which costs some milliseconds: what was converted compiles, but for patterns and size.
fn may_fail(tool: &Item) -> bool {
    let schema = tool.schema.as_bytes().unwrap_or_default();
    schema.len() > LARGE_BYTES_MIN || memchr::memmem::find(schema, b"\"pattern").is_some()
}

#[cfg(test)]
mod tests;
