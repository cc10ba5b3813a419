//! API keys in a file, `<data_dir>/keys.json`: hashes, never secrets, readable by its owner alone.
//!
//! The file is replaced as a whole, so a reader sees the old one or the new one. Its version is checked for each
//! lookup, which costs less than a microsecond, so a key revoked by another process is rejected by the next request
//! (P-S07).

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use sentinel_core::identity::{KeyRecord, KeyStore, StoreProblem, api_key};
use sentinel_core::state_file::{StateFile, Version};
use serde::{Deserialize, Serialize};

pub(crate) const NAME: &str = "keys.json";

/// Bound on keys, which stops a program that creates them in a loop.
const KEYS_MAX: usize = 10_000;

pub(crate) struct KeyFile {
    file: StateFile<Contents>,
    known: RwLock<Known>,
}

/// The content at the last reading.
#[derive(Clone, Default)]
struct Known {
    version: Version,
    keys: Arc<HashMap<String, KeyRecord>>,
}

#[derive(Default, Serialize, Deserialize)]
struct Contents {
    keys: Vec<KeyRecord>,
}

impl KeyFile {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self {
            file: StateFile::new(data_dir.join(NAME)),
            known: RwLock::default(),
        }
    }

    /// Changes whenever the file does.
    pub(crate) fn version(&self) -> Version {
        self.file.version()
    }

    fn keys(&self) -> Arc<HashMap<String, KeyRecord>> {
        let version = self.version();
        {
            let known = self.known.read();
            if known.version == version {
                return known.keys.clone();
            }
        }
        // The version that was read may be newer than the one compared.
        let (version, contents) = match self.file.read() {
            Ok(read) => read,
            Err(error) => {
                // If revocations are unreadable, no key is accepted.
                let file = self.file.path().display();
                tracing::error!("{file}: {error}: no API key is accepted");
                (version, Contents::default())
            }
        };
        let keys = contents.keys.into_iter().map(|key| (key.id.clone(), key));
        let fresh = Known {
            version,
            keys: Arc::new(keys.collect()),
        };
        *self.known.write() = fresh.clone();
        fresh.keys
    }

    /// The subjects of the keys that a name refers to; none if the file is unreadable.
    pub(crate) fn subjects(&self, name: &str) -> Vec<String> {
        api_key::subjects(self.keys().values(), name)
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<KeyRecord>) -> io::Result<T>,
    ) -> Result<T, StoreProblem> {
        let changed = self.file.change(|contents| change(&mut contents.keys));
        changed.map_err(|error| self.problem(error))
    }

    fn problem(&self, error: io::Error) -> StoreProblem {
        StoreProblem {
            what: format!(
                "{}: the API keys cannot be read or written",
                self.file.path().display()
            ),
            source: Some(Box::new(error)),
        }
    }
}

impl KeyStore for KeyFile {
    fn find(&self, id: &str) -> Option<KeyRecord> {
        self.keys().get(id).cloned()
    }

    fn list(&self) -> Result<Vec<KeyRecord>, StoreProblem> {
        self.file
            .read()
            .map(|(_, contents)| contents.keys)
            .map_err(|error| self.problem(error))
    }

    fn add(&self, record: KeyRecord) -> Result<(), StoreProblem> {
        self.change(|keys| {
            if keys.len() >= KEYS_MAX {
                return Err(io::Error::other(format!(
                    "there are {KEYS_MAX} keys already"
                )));
            }
            // People refer to keys by name.
            let taken =
                |key: &&KeyRecord| key.name == record.name && key.is_good(record.created_at);
            if let Some(key) = keys.iter().find(taken) {
                let (name, id) = (&key.name, &key.id);
                let text = format!("the key {id} has the name {name:?}");
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
            keys.push(record);
            Ok(())
        })
    }

    fn revoke(&self, id: &str, now: u64) -> Result<bool, StoreProblem> {
        self.change(|keys| {
            let live = |key: &&mut KeyRecord| key.id == id && key.revoked_at.is_none();
            Ok(keys
                .iter_mut()
                .find(live)
                .map(|key| key.revoked_at = Some(now))
                .is_some())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn made(store: &KeyFile, name: &str) -> KeyRecord {
        let (record, _) = KeyRecord::create(name, "developer", 1, None);
        store.add(record.clone()).expect("kept");
        record
    }

    #[test]
    fn p_s07_another_process_s_revocation_is_seen_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let gateway = KeyFile::new(&folder.path().join("data"));
        let command = KeyFile::new(&folder.path().join("data"));
        assert_eq!(gateway.find("x"), None);
        for n in 0..50 {
            let record = made(&command, &format!("k{n}"));
            assert_eq!(gateway.find(&record.id), Some(record.clone()));
            assert!(command.revoke(&record.id, 7).expect("written"));
            let seen = gateway.find(&record.id).expect("kept for the record");
            assert_eq!(seen.revoked_at, Some(7));
            assert!(!command.revoke(&record.id, 8).expect("written"));
        }
        assert_eq!(command.list().expect("read").len(), 50);
        let mode = fs::metadata(gateway.file.path())
            .expect("a file")
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_read_accepts_no_key_and_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = KeyFile::new(folder.path());
        let record = made(&store, "a");
        assert!(store.find(&record.id).is_some());
        fs::write(folder.path().join("other"), "{").expect("written");
        fs::rename(folder.path().join("other"), store.file.path()).expect("moved");
        assert_eq!(store.find(&record.id), None);
        assert!(store.add(record).is_err());
        assert_eq!(fs::read(store.file.path()).expect("a file"), b"{");
    }
}
