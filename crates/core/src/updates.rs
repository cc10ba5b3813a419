//! Who wants to hear that a resource changed.
//!
//! Surfaces add listeners and hold their tickets; dropping a ticket ends it. Backends look at what
//! is wanted of them, keep their own subscriptions in step with it, and report what they hear.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

/// Called with the URI that changed. Must not block: it runs where a backend is read.
pub type Hear = Arc<dyn Fn(&str) + Send + Sync>;

/// Listeners for one resource of one backend: enough for any crowd, and an end to a leak.
const LISTENERS_MAX: usize = 20_000;

#[derive(Default)]
struct Wanted {
    listeners: BTreeMap<Arc<str>, HashMap<u64, Hear>>,
    next_id: u64,
}

struct OfBackend {
    wanted: Mutex<Wanted>,
    /// Counts changes of the set of URIs.
    changed: watch::Sender<u64>,
}

/// One per gateway, with a place for each backend.
#[derive(Default)]
pub struct Updates {
    backends: RwLock<Vec<Arc<OfBackend>>>,
}

impl Updates {
    pub(crate) fn new(backends: usize) -> Arc<Self> {
        let this = Arc::new(Self::default());
        this.grow(backends);
        this
    }

    /// Makes places up to so many.
    pub(crate) fn grow(&self, backends: usize) {
        let place = || {
            Arc::new(OfBackend {
                wanted: Mutex::default(),
                changed: watch::Sender::new(0),
            })
        };
        let mut places = self.backends.write();
        while places.len() < backends {
            places.push(place());
        }
    }

    fn place(&self, backend: usize) -> Arc<OfBackend> {
        self.backends.read()[backend].clone()
    }

    /// Adds a listener; `None` when there are too many.
    pub fn listen(self: &Arc<Self>, backend: usize, uri: &str, hear: Hear) -> Option<Ticket> {
        let place = self.place(backend);
        let mut wanted = place.wanted.lock();
        wanted.next_id += 1;
        let id = wanted.next_id;
        let uri: Arc<str> = uri.into();
        let listeners = wanted.listeners.entry(uri.clone()).or_default();
        if listeners.len() >= LISTENERS_MAX {
            return None;
        }
        listeners.insert(id, hear);
        if listeners.len() == 1 {
            place.changed.send_modify(|count| *count += 1);
        }
        Some(Ticket {
            updates: self.clone(),
            backend,
            uri,
            id,
        })
    }

    /// A backend says that a resource changed; it may lie below the one that was subscribed to.
    pub(crate) fn tell(&self, backend: usize, uri: &str) {
        let hearers: Vec<Hear> = {
            let place = self.place(backend);
            let wanted = place.wanted.lock();
            let concerned = |listened: &str| {
                uri.strip_prefix(listened).is_some_and(|rest| {
                    rest.is_empty() || listened.ends_with('/') || rest.starts_with(['/', '#', '?'])
                })
            };
            let lists = wanted
                .listeners
                .iter()
                .filter(|(listened, _)| concerned(listened));
            lists
                .flat_map(|(_, listeners)| listeners.values().cloned())
                .collect()
        };
        for hear in hearers {
            hear(uri);
        }
    }

    pub(crate) fn wanted(&self, backend: usize) -> Vec<Arc<str>> {
        let place = self.place(backend);
        let wanted = place.wanted.lock();
        wanted.listeners.keys().cloned().collect()
    }

    pub(crate) fn changes(&self, backend: usize) -> watch::Receiver<u64> {
        self.place(backend).changed.subscribe()
    }
}

/// One listener's place; dropping it gives the place up.
pub struct Ticket {
    updates: Arc<Updates>,
    backend: usize,
    uri: Arc<str>,
    id: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let place = self.updates.place(self.backend);
        let mut wanted = place.wanted.lock();
        let Some(listeners) = wanted.listeners.get_mut(&self.uri) else {
            return;
        };
        listeners.remove(&self.id);
        if listeners.is_empty() {
            wanted.listeners.remove(&self.uri);
            place.changed.send_modify(|count| *count += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_hears_its_resource_and_what_lies_below_until_its_ticket_is_dropped() {
        let updates = Updates::new(2);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hear: Hear = {
            let heard = heard.clone();
            Arc::new(move |uri| heard.lock().push(uri.to_owned()))
        };
        let changes = updates.changes(0);
        let ticket = updates.listen(0, "x://a", hear.clone()).expect("room");
        let second = updates.listen(0, "x://a", hear).expect("room");
        assert_eq!(*changes.borrow(), 1, "the set changed once");
        drop(second);
        for uri in ["x://a", "x://a/b", "x://ab", "x://b"] {
            updates.tell(0, uri);
            updates.tell(1, uri);
        }
        assert_eq!(*heard.lock(), ["x://a", "x://a/b"]);
        assert_eq!(updates.wanted(0).len(), 1);
        drop(ticket);
        assert!(updates.wanted(0).is_empty());
        assert_eq!(*changes.borrow(), 2);
    }
}
