//! Cache of verified tokens by hash, so that a signature is checked once and not on every call.
//!
//! Two generations: when the young one is full it becomes the old one, and the previous old one is dropped. An entry
//! in use moves to the young one again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::Identity;

/// Tokens per generation; at some 300 bytes each, both take a few megabytes.
const GENERATION_MAX: usize = 8192;

type Digest = [u8; 32];

#[derive(Clone)]
struct Entry {
    identity: Arc<Identity>,
    until: u64,
}

#[derive(Default)]
struct Generations {
    young: HashMap<Digest, Entry>,
    old: HashMap<Digest, Entry>,
}

#[derive(Default)]
pub(super) struct Remembered(RwLock<Generations>);

impl Remembered {
    pub(super) fn get(&self, digest: &Digest, now: u64) -> Option<Arc<Identity>> {
        let entry = {
            let both = self.0.read();
            if let Some(entry) = both.young.get(digest) {
                return (now < entry.until).then(|| entry.identity.clone());
            }
            both.old.get(digest)?.clone()
        };
        if now >= entry.until {
            return None;
        }
        // Only if it is still present: keys may have been replaced since.
        let mut both = self.0.write();
        let entry = both.old.remove(digest)?;
        let identity = entry.identity.clone();
        both.insert(*digest, entry);
        Some(identity)
    }

    pub(super) fn put(&self, digest: Digest, identity: Arc<Identity>, until: u64, now: u64) {
        let mut both = self.0.write();
        if both.young.len() >= GENERATION_MAX {
            both.young.retain(|_, entry| now < entry.until);
        }
        both.insert(digest, Entry { identity, until });
    }

    pub(super) fn clear(&self) {
        *self.0.write() = Generations::default();
    }

    pub(super) fn len(&self) -> usize {
        let both = self.0.read();
        both.young.len() + both.old.len()
    }
}

impl Generations {
    fn insert(&mut self, digest: Digest, entry: Entry) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_bounded_and_keeps_what_is_used() {
        let memory = Remembered::default();
        let identity = Identity::local("admin");
        let digest = |n: u32| {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&n.to_be_bytes());
            digest
        };
        memory.put(digest(0), identity.clone(), 100, 0);
        for n in 1..30_000 {
            memory.put(digest(n), identity.clone(), 100, 0);
            assert!(memory.get(&digest(0), 1).is_some(), "{n}");
        }
        assert!(memory.len() <= 2 * GENERATION_MAX);
        assert!(memory.get(&digest(0), 100).is_none(), "expired");
        memory.clear();
        assert!(memory.get(&digest(0), 1).is_none());
    }
}
