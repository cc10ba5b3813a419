//! Catalogs remembered across restarts: one file per backend in the data directory.
//!
//! A remembered catalog lists a lazy backend before it was ever started, and reserves the names of an eager one until
//! it is up. It belongs to a command or URL; when that changes, the file is ignored.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sentinel_core::catalog::{Publisher, Registry};
use sentinel_core::{Item, ItemKind, Offer, Reach, ServerCapabilities};
use sentinel_wire::Revision;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::data_dir;

/// A stored offer: every item unchanged.
#[derive(Serialize, Deserialize)]
struct StoredOffer {
    /// The command or URL it was read from.
    source: String,
    revision: String,
    capabilities: ServerCapabilities,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_info: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    tools: Vec<Box<RawValue>>,
    resources: Vec<Box<RawValue>>,
    templates: Vec<Box<RawValue>>,
    prompts: Vec<Box<RawValue>>,
}

/// The file of one backend.
pub(crate) struct OfferFile {
    file: PathBuf,
    source: String,
}

impl OfferFile {
    /// `source` is the backend's URL or command line without secrets.
    pub(crate) fn new(data_dir: &Path, name: &str, source: String) -> Self {
        Self {
            file: data_dir.join("catalogs").join(format!("{name}.json")),
            source,
        }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn load(&self) -> Option<Offer> {
        let text = fs::read(&self.file).ok()?;
        let kept: StoredOffer = serde_json::from_slice(&text).ok()?;
        if kept.source != self.source {
            return None;
        }
        kept.offer()
    }

    /// Writes the offer beside the old one, then replaces it.
    pub(crate) fn save(&self, offer: &Offer) -> anyhow::Result<()> {
        let folder = self.file.parent().expect("the file lies in a folder");
        data_dir::make(folder)?;
        let fresh = self
            .file
            .with_extension(format!("{}.new", std::process::id()));
        let mut file = data_dir::create(&fresh)?;
        file.write_all(&serde_json::to_vec(&StoredOffer::of(offer, &self.source)?)?)?;
        fs::rename(&fresh, &self.file)?;
        Ok(())
    }
}

impl StoredOffer {
    fn of(offer: &Offer, source: &str) -> anyhow::Result<Self> {
        let raw = |bytes: &Bytes| -> anyhow::Result<Box<RawValue>> {
            Ok(RawValue::from_string(String::from_utf8(bytes.to_vec())?)?)
        };
        let items = |kind: ItemKind| -> anyhow::Result<Vec<Box<RawValue>>> {
            offer
                .items(kind)
                .iter()
                // Routes are not remembered, so what is reached by them alone is not either.
                .filter(|item| item.reach == Reach::ByName)
                .map(|item| raw(&item.raw))
                .collect()
        };
        Ok(Self {
            source: source.to_owned(),
            revision: offer.revision.as_str().to_owned(),
            capabilities: offer.capabilities,
            extensions: offer.extensions.as_ref().map(raw).transpose()?,
            server_info: offer.server_info.as_ref().map(raw).transpose()?,
            instructions: offer.instructions.clone(),
            tools: items(ItemKind::Tool)?,
            resources: items(ItemKind::Resource)?,
            templates: items(ItemKind::Template)?,
            prompts: items(ItemKind::Prompt)?,
        })
    }

    fn offer(self) -> Option<Offer> {
        let raw = |value: Box<RawValue>| Bytes::from(String::from(Box::<str>::from(value)));
        let items = |kind: ItemKind, list: Vec<Box<RawValue>>| {
            list.into_iter()
                .filter_map(|value| Item::parse(kind, raw(value)))
                .collect()
        };
        Some(Offer {
            // Its age is unknown.
            freshness: Default::default(),
            cut: Default::default(),
            revision: Revision::parse(&self.revision)?,
            capabilities: self.capabilities,
            extensions: self.extensions.map(raw),
            server_info: self.server_info.map(raw),
            instructions: self.instructions,
            tools: items(ItemKind::Tool, self.tools),
            resources: items(ItemKind::Resource, self.resources),
            templates: items(ItemKind::Template, self.templates),
            prompts: items(ItemKind::Prompt, self.prompts),
            routes: Vec::new(),
        })
    }
}

/// The backends whose offers are stored; changed by a reload.
#[derive(Clone, Default)]
pub(crate) struct OfferFiles(Arc<Mutex<Vec<RememberedBackend>>>);

pub(crate) struct RememberedBackend {
    publisher: Publisher,
    place: OfferFile,
    written: Option<Arc<Offer>>,
}

impl RememberedBackend {
    /// Starts from the content of the file.
    pub(crate) fn new(publisher: Publisher, place: OfferFile) -> Self {
        Self {
            written: publisher.offer(),
            publisher,
            place,
        }
    }

    fn write(&mut self) {
        let now = self.publisher.offer();
        let same = match (&now, &self.written) {
            (Some(now), Some(last)) => Arc::ptr_eq(now, last) || now == last,
            (None, _) => true,
            (Some(_), None) => false,
        };
        if let (false, Some(offer)) = (same, &now)
            && let Err(error) = self.place.save(offer)
        {
            tracing::warn!("the catalog could not be remembered: {error:#}");
        }
        self.written = now;
    }
}

impl OfferFiles {
    /// Adds a backend, replacing the one of the same name.
    pub(crate) fn put(&self, one: RememberedBackend) {
        let mut all = self.0.lock();
        all.retain(|known| known.place.file != one.place.file);
        all.push(one);
    }

    /// Removes all others than those for which `stays` is true.
    pub(crate) fn retain(&self, stays: impl Fn(&Path) -> bool) {
        self.0.lock().retain(|one| stays(&one.place.file));
    }

    /// Stores every new offer, until the registry is dropped.
    pub(crate) async fn keep_writing(self, registry: Arc<Registry>) {
        let mut changes = registry.changes();
        // A backend may have published before this task started, so the first round waits for no change.
        loop {
            self.0.lock().iter_mut().for_each(RememberedBackend::write);
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_comes_back_as_it_was_unless_the_backend_is_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let item = |raw: &'static str| {
            Item::parse(ItemKind::Tool, Bytes::from_static(raw.as_bytes())).expect("a tool")
        };
        let offer = Offer {
            capabilities: ServerCapabilities {
                tools: true,
                ..Default::default()
            },
            server_info: Some(Bytes::from_static(br#"{"name":"x"}"#)),
            instructions: Some("be kind".into()),
            tools: vec![item(
                r#"{"name":"a","big":12345678901234567890123,"z":1.0}"#,
            )],
            ..Offer::empty(Revision::V2025_11_25)
        };
        let place = OfferFile::new(folder.path(), "x", "npx x".into());
        assert!(place.load().is_none());
        place.save(&offer).expect("written");
        assert_eq!(place.load(), Some(offer));
        assert!(
            OfferFile::new(folder.path(), "x", "npx y".into())
                .load()
                .is_none()
        );
    }
}
