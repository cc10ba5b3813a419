//! Reading a description: a file or a URL, with the documents that it refers to, as one document.
//!
//! A reference to another document becomes one into `x-sentinel-documents` of the first, so that the rest of the program knows local
//! references only. Files lead to files in or below the folder of the first one, and URLs to URLs: those of the same origin, and of
//! others by the rules of the client. How many documents there are and how large all of them together is bounded.
//!
//! Not here: when it is read again (the backend), how it is parsed (`document`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{HeaderValue, Method};
use percent_encoding::percent_decode_str;
use sentinel_core::Fault;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;

use super::client::{Client, Outgoing, Place};
use super::document::{DocumentError, parse};

/// Documents that one description is spread over.
const DOCUMENTS_MAX: usize = 64;
/// The member that holds all but the first.
const OTHERS: &str = "x-sentinel-documents";
/// Members that hold data in which a `$ref` is no reference.
const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// Why a description could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error("`{0}` cannot be read")]
    File(String, #[source] std::io::Error),
    #[error("`{0}` cannot be fetched")]
    Fetch(String, #[source] Fault),
    #[error("`{0}` cannot be fetched: the server answered {1}")]
    Status(String, u16),
    #[error("the description is larger than the {0} bytes allowed (max_document_mb)")]
    TooLarge(usize),
    #[error("`{0}` cannot be used")]
    Document(String, #[source] DocumentError),
    #[error("the description could not be worked on")]
    Lost(#[source] tokio::task::JoinError),
    #[error("the description is spread over more than {DOCUMENTS_MAX} documents")]
    TooMany,
    #[error("the reference `{0}` leads out of the folder of the description")]
    Outside(String),
    #[error("the reference `{0}` is no place where a document could be")]
    Reference(String),
}

/// Where a document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    File(PathBuf),
    Url(Place),
}

impl Location {
    pub(super) fn shown(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Url(place) => place.shown(),
        }
    }

    fn key(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Url(place) => place.url(),
        }
    }
}

/// A description with everything it refers to.
pub(super) struct Read {
    pub(super) root: Value,
    /// The bytes of all documents, to see whether anything changed.
    pub(super) digest: [u8; 32],
    /// Where the first one is, after redirects: server URLs are relative to it.
    pub(super) location: Location,
}

pub(super) struct Reader<'a> {
    pub(super) client: &'a Client,
    /// Header fields for the origin of the first document.
    pub(super) fields: &'a [u8],
    pub(super) bytes_max: usize,
}

impl Reader<'_> {
    pub(super) async fn read(&self, first: &Location) -> Result<Read, SourceError> {
        let mut left = self.bytes_max;
        let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
        let mut known: HashMap<String, usize> = HashMap::from([(first.key(), 0)]);
        let mut queue = vec![first.clone()];
        let mut documents: Vec<Value> = Vec::new();
        let mut location = first.clone();
        while documents.len() < queue.len() {
            let index = documents.len();
            let (bytes, place) = self.load(&queue[index], first, left).await?;
            left -= bytes.len();
            digest.update(&bytes);
            if index == 0 {
                location = place.clone();
            }
            let named = |error| SourceError::Document(place.shown(), error);
            // A large text takes a second, which calls of this worker need not wait for.
            let parsed = tokio::task::spawn_blocking(move || parse(&bytes)).await;
            let mut document = parsed.map_err(SourceError::Lost)?.map_err(named)?;
            let mut table = Table {
                known: &mut known,
                queue: &mut queue,
                first,
                base: &place,
                index,
            };
            table.rewrite(&mut document)?;
            documents.push(document);
        }
        let mut documents = documents.into_iter();
        let mut root = documents.next().unwrap_or_default();
        let others: Map<String, Value> = documents
            .enumerate()
            .map(|(n, document)| ((n + 1).to_string(), document))
            .collect();
        if let (Some(root), false) = (root.as_object_mut(), others.is_empty()) {
            root.insert(OTHERS.to_owned(), Value::Object(others));
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(digest.finish().as_ref());
        Ok(Read {
            root,
            digest: hash,
            location,
        })
    }

    async fn load(
        &self,
        location: &Location,
        first: &Location,
        left: usize,
    ) -> Result<(Bytes, Location), SourceError> {
        match location {
            Location::File(path) => {
                let bytes = read_file(path, left)
                    .await
                    .map_err(|error| SourceError::File(path.display().to_string(), error))?;
                let bytes = bytes.ok_or(SourceError::TooLarge(self.bytes_max))?;
                Ok((bytes, location.clone()))
            }
            Location::Url(place) => {
                let ours = matches!(first, Location::Url(first) if first.origin == place.origin);
                let outgoing = Outgoing {
                    method: Method::GET,
                    place: place.clone(),
                    fields: if ours {
                        self.fields.to_vec()
                    } else {
                        Vec::new()
                    },
                    accept: HeaderValue::from_static("application/json, application/yaml, */*"),
                    body: None,
                };
                let answer = self.client.send(&outgoing, left).await;
                let answer = answer.map_err(|fault| SourceError::Fetch(place.shown(), fault))?;
                if answer.head.status != 200 {
                    return Err(SourceError::Status(place.shown(), answer.head.status));
                }
                if answer.is_cut {
                    return Err(SourceError::TooLarge(self.bytes_max));
                }
                Ok((answer.body, Location::Url(answer.place)))
            }
        }
    }
}

/// `None` if it is larger; what is no plain file may have no end.
async fn read_file(path: &Path, bytes_max: usize) -> std::io::Result<Option<Bytes>> {
    let file = tokio::fs::File::open(path).await?;
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .await?;
    Ok((bytes.len() <= bytes_max).then(|| bytes.into()))
}

/// The documents met so far, while the references of one are rewritten.
struct Table<'a> {
    known: &'a mut HashMap<String, usize>,
    queue: &'a mut Vec<Location>,
    first: &'a Location,
    base: &'a Location,
    index: usize,
}

impl Table<'_> {
    fn rewrite(&mut self, value: &mut Value) -> Result<(), SourceError> {
        match value {
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.rewrite(item)),
            Value::Object(members) => {
                for (name, value) in members.iter_mut() {
                    match value {
                        Value::String(reference) if name == "$ref" => {
                            let rewritten = self.reference(reference)?;
                            *reference = rewritten;
                        }
                        _ if DATA.contains(&name.as_str()) => {}
                        _ => self.rewrite(value)?,
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn reference(&mut self, reference: &str) -> Result<String, SourceError> {
        let (file, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let index = match file {
            "" => self.index,
            _ => self.document(file)?,
        };
        Ok(match index {
            0 => format!("#{fragment}"),
            _ => format!("#/{OTHERS}/{index}{fragment}"),
        })
    }

    fn document(&mut self, file: &str) -> Result<usize, SourceError> {
        let location = self.locate(file)?;
        if let Some(known) = self.known.get(&location.key()) {
            return Ok(*known);
        }
        if self.queue.len() >= DOCUMENTS_MAX {
            return Err(SourceError::TooMany);
        }
        self.queue.push(location.clone());
        self.known.insert(location.key(), self.queue.len() - 1);
        Ok(self.queue.len() - 1)
    }

    fn locate(&self, file: &str) -> Result<Location, SourceError> {
        let nowhere = || SourceError::Reference(file.to_owned());
        let is_url = file.contains("://");
        match self.base {
            Location::Url(place) => place.join(file).map(Location::Url).ok_or_else(nowhere),
            Location::File(_) if is_url => Place::of(file).map(Location::Url).ok_or_else(nowhere),
            Location::File(here) => {
                let relative = percent_decode_str(file)
                    .decode_utf8()
                    .map_err(|_| nowhere())?;
                let outside = || SourceError::Outside(file.to_owned());
                let folder = here.parent().ok_or_else(nowhere)?;
                let path = folder.join(relative.as_ref());
                let Location::File(first) = self.first else {
                    return Err(outside());
                };
                let root = first.parent().and_then(|folder| folder.canonicalize().ok());
                let path = path
                    .canonicalize()
                    .map_err(|error| SourceError::File(path.display().to_string(), error))?;
                match root {
                    Some(root) if path.starts_with(&root) => Ok(Location::File(path)),
                    _ => Err(outside()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn read(files: &[(&str, &str)], bytes_max: usize) -> Result<Read, SourceError> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let client = Client::new([], false);
        let reader = Reader {
            client: &client,
            fields: &[],
            bytes_max,
        };
        reader
            .read(&Location::File(folder.path().join("api.yaml")))
            .await
    }

    #[tokio::test]
    async fn o_1_documents_that_refer_to_each_other_become_one() {
        let files = [
            (
                "api.yaml",
                "openapi: 3.1.0\na: {$ref: 'parts/b.yaml#/x'}\nown: {$ref: '#/a'}\nexample: {$ref: gone.yaml}",
            ),
            (
                "parts/b.yaml",
                "x: {$ref: '#/y'}\ny: {$ref: '../api.yaml#/own'}\nz: {$ref: c.json}",
            ),
            ("parts/c.json", "{\"c\":1}"),
        ];
        let read = read(&files, 10_000).await.expect("a description");
        assert_eq!(
            read.root,
            json!({
                "openapi": "3.1.0",
                "a": {"$ref": "#/x-sentinel-documents/1/x"},
                "own": {"$ref": "#/a"},
                "example": {"$ref": "gone.yaml"},
                "x-sentinel-documents": {
                    "1": {
                        "x": {"$ref": "#/x-sentinel-documents/1/y"},
                        "y": {"$ref": "#/own"},
                        "z": {"$ref": "#/x-sentinel-documents/2"},
                    },
                    "2": {"c": 1},
                },
            })
        );
    }

    #[tokio::test]
    async fn o_9_files_stay_in_their_folder_and_within_bounds() {
        let refers = |to: &str| format!("openapi: 3.1.0\na: {{$ref: '{to}'}}");
        for (to, words) in [
            ("/etc/hostname", "out of the folder"),
            ("../../../../../../../../etc/hostname", "out of the folder"),
            ("%2Fetc%2Fhostname", "out of the folder"),
            ("gone.yaml", "cannot be read"),
            ("ftp://example.com/a.yaml", "no place"),
            ("http://127.0.0.1:1/a.yaml", "cannot be fetched"),
        ] {
            let error = read(&[("api.yaml", &refers(to))], 10_000)
                .await
                .err()
                .expect(to);
            assert!(error.to_string().contains(words), "{to}: {error}");
        }
        let long = format!("openapi: 3.1.0 # {}", "x".repeat(10_000));
        let error = read(&[("api.yaml", &long)], 10_000)
            .await
            .err()
            .expect("too large");
        assert!(matches!(error, SourceError::TooLarge(_)));
        let error = read(
            &[("api.yaml", &refers("self.yaml")), ("self.yaml", "a: 1\n")],
            40,
        )
        .await;
        assert!(matches!(error.err(), Some(SourceError::TooLarge(_))));
    }
}
