//! A description as tools: which operations, under which names, with which schemas and words.
//!
//! A part that cannot be used is left out with a notice; the rest is offered. `Api` is complete in itself: calls need nothing else.
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
use super::document::{Document, DocumentError, flag, text};
use super::operation::{Described, Operation, Source};
use super::schema::Converter;
use super::select::{Candidate, Selection};
use super::source::Location;
use super::swagger;

/// `trace` sends a request back as it came, credentials included.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
/// Longest name of a tool and longest description: models are given all of them.
const NAME_CHARS_MAX: usize = 64;
const WORDS_CHARS_MAX: usize = 2000;
const INSTRUCTIONS_CHARS_MAX: usize = 2000;
/// Notices that are kept; a document that is all wrong repeats itself.
const NOTICES_MAX: usize = 50;
/// Links of an operation that its description mentions.
const LINKS_MAX: usize = 8;

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
        format!("its description has {left_out} operations more than the {max} that become tools (max_operations)")
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
        if self.tools.len() >= self.wishes.operations_max {
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
        let converter = Converter::new(self.document);
        let output_schemas = self.wishes.output_schemas;
        let described = source.describe(&converter, base.clone(), output_schemas)?;
        let name = self.name(source);
        let (mut described, mut item) = (described, None);
        let tool = self.item(source, &described, &name, tags);
        // Only a pattern can be wrong in a way that is not seen here.
        if tool
            .as_ref()
            .is_some_and(|tool| has_patterns(tool) && tool.schema.examine().is_some())
        {
            let converter = Converter::without_patterns(self.document);
            described = source.describe(&converter, base, output_schemas)?;
            self.notices.add(format!("tool `{name}`: its patterns are left out: they are no regular expressions that are understood here"));
        } else {
            item = tool;
        }
        let item = item.or_else(|| self.item(source, &described, &name, tags));
        let item = item.ok_or("its parts make no tool")?;
        let mut operation = described.operation;
        operation.tool.clone_from(&name);
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

    /// Where the API as a whole is.
    fn home(&mut self) -> Option<Origin> {
        match self.base(&[&self.document.root]) {
            Ok(base) => Some(base.origin),
            Err(why) => {
                self.notices
                    .add(format!("the API's server cannot be used: {why}"));
                None
            }
        }
    }

    /// The first server that can be used, of the first holder that names any.
    fn base(&self, holders: &[&Value]) -> Result<Place, String> {
        if let Some(base) = &self.wishes.base {
            return Ok(base.clone());
        }
        let swagger;
        let named = holders.iter().filter_map(|holder| holder.get("servers"));
        let mut named =
            named.filter(|servers| servers.as_array().is_some_and(|all| !all.is_empty()));
        let servers = match named.next() {
            Some(servers) => servers,
            None => {
                swagger = match self.document.root.get("swagger") {
                    Some(_) => swagger::servers(&self.document.root),
                    None => json!([{ "url": "/" }]),
                };
                &swagger
            }
        };
        let mut first = None;
        for server in servers.as_array().into_iter().flatten() {
            match self.server(server) {
                Ok(place) => return Ok(place),
                Err(why) => first = first.or(Some(why)),
            }
        }
        Err(first.unwrap_or_else(|| "no server is named; set base_url".to_owned()))
    }

    fn server(&self, server: &Value) -> Result<Place, String> {
        let mut url = text(server, "url").unwrap_or("/").to_owned();
        let variables = server.get("variables").and_then(Value::as_object);
        for (name, variable) in variables.into_iter().flatten() {
            let default = text(variable, "default").unwrap_or_default();
            let value = self
                .wishes
                .variables
                .get(name)
                .map_or(default, String::as_str);
            let values = variable.get("enum").and_then(Value::as_array);
            if values.is_some_and(|values| !values.iter().any(|known| known == value)) {
                return Err(format!("the server variable `{name}` cannot be `{value}`"));
            }
            url = url.replace(&format!("{{{name}}}"), value);
        }
        let nowhere = || format!("the server `{url:.200}` is no http or https URL; set base_url");
        let mut place = match (Place::of(&url), self.location) {
            (Some(place), _) => place,
            (None, Location::Url(document)) => document.join(&url).ok_or_else(nowhere)?,
            (None, Location::File(_)) => return Err(nowhere()),
        };
        let path = place.target.split('?').next().unwrap_or_default();
        place.target = path.trim_end_matches('/').to_owned();
        Ok(place)
    }

    /// The operation's own id, or its method and path; a number tells equal ones apart.
    fn name(&self, source: &Source<'_>) -> String {
        let plain = |text: &str| {
            let mut out = String::new();
            for c in text.chars() {
                match c {
                    c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => out.push(c),
                    _ if !out.ends_with('_') => out.push('_'),
                    _ => {}
                }
            }
            out.trim_matches('_')
                .chars()
                .take(NAME_CHARS_MAX)
                .collect::<String>()
        };
        let method = source.method.as_str().to_ascii_lowercase();
        let own = text(source.operation, "operationId")
            .map(plain)
            .unwrap_or_default();
        let base = match own.is_empty() {
            true => plain(&format!("{method}_{}", source.path)),
            false => own,
        };
        let mut name = base.clone();
        for n in 2.. {
            if !self.names.contains_key(&name) {
                break;
            }
            let number = format!("_{n}");
            name = format!("{:.1$}{number}", base, NAME_CHARS_MAX - number.len());
        }
        name
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

    /// What a model reads: what it does, and what can be called with its answer.
    fn words(&self, source: &Source<'_>) -> String {
        let operation = source.operation;
        let mut parts: Vec<String> = Vec::new();
        let summary = text(operation, "summary").unwrap_or_default().trim();
        let long = text(operation, "description").unwrap_or_default().trim();
        let both = [summary, long]
            .into_iter()
            .filter(|words| !words.is_empty());
        let both = both.filter(|words| *words != summary || !long.starts_with(summary));
        parts.extend(both.map(str::to_owned));
        if parts.is_empty() {
            parts.push(format!("{} {}", source.method, source.path));
        }
        if flag(operation, "deprecated") == Some(true) {
            parts.push("Deprecated.".to_owned());
        }
        let mut words = shortened(&parts.join("\n\n"), WORDS_CHARS_MAX);
        for hint in self.hints(operation) {
            words.push_str("\n\n");
            words.push_str(&hint);
        }
        words
    }

    /// The links of good answers, in words.
    fn hints(&self, operation: &Value) -> Vec<String> {
        let responses = self.document.members(operation.get("responses"));
        let good = responses.filter(|(status, _)| status.starts_with('2'));
        let links = good.flat_map(|(_, response)| self.document.members(response.get("links")));
        let hint = |(_, link): (&str, &Value)| {
            let named = text(link, "operationId").map(str::to_owned);
            let to = named.or_else(|| self.links.get(text(link, "operationRef")?).cloned())?;
            let given = link
                .get("parameters")
                .and_then(Value::as_object)
                .into_iter()
                .flatten();
            let given: Vec<String> = given
                .map(|(name, from)| {
                    let from = from
                        .as_str()
                        .map_or_else(|| from.to_string(), str::to_owned);
                    format!("{name} = {}", from.replace("$response.body#", "answer"))
                })
                .collect();
            let given = if given.is_empty() {
                String::new()
            } else {
                format!(" with {}", given.join(", "))
            };
            let words =
                text(link, "description").map(|words| format!(": {}", shortened(words, 200)));
            Some(format!("Then: {to}{given}{}", words.unwrap_or_default()))
        };
        links.filter_map(hint).take(LINKS_MAX).collect()
    }
}

/// Operation ids by `#/paths/~1a/get`.
fn links(document: &Document) -> HashMap<String, String> {
    let paths = document.root.get("paths").and_then(Value::as_object);
    let mut out = HashMap::new();
    for (path, item) in paths.into_iter().flatten() {
        for method in METHODS {
            if let Some(id) = item.get(method).and_then(|one| text(one, "operationId")) {
                let escaped = path.replace('~', "~0").replace('/', "~1");
                out.insert(format!("#/paths/{escaped}/{method}"), id.to_owned());
            }
        }
    }
    out
}

fn annotations(method: &Method) -> Value {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let mut hints = json!({ "readOnlyHint": reads, "openWorldHint": true });
    if reads || matches!(*method, Method::PUT | Method::DELETE) {
        hints["idempotentHint"] = json!(true);
    }
    if !reads {
        // What a PUT or a PATCH replaces is lost as well, which is what no hint means.
        match *method {
            Method::DELETE => hints["destructiveHint"] = json!(true),
            Method::POST => hints["destructiveHint"] = json!(false),
            _ => {}
        }
    }
    hints
}

fn has_patterns(tool: &Item) -> bool {
    let schema = tool.schema.as_bytes().unwrap_or_default();
    memchr::memmem::find(schema, b"\"pattern").is_some()
}

fn shortened(words: &str, chars_max: usize) -> String {
    match words.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests;
