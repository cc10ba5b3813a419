//! Subscriptions to changed resources and to the progress of modern backends' tasks.
//!
//! Surfaces add listeners and hold their tickets; dropping a ticket ends a subscription. Backends read which
//! resources and tasks are wanted, keep their own subscriptions in step, and report notifications.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use sentinel_wire::Payload;
use tokio::sync::watch;

/// Called with the URI that changed. Must not block: it runs where a backend is read.
pub type OnUpdate = Arc<dyn Fn(&str) + Send + Sync>;

/// Called with the task's state, or with `None` when notifications may have been lost. Must not block either.
pub type OnTask = Arc<dyn Fn(Option<&Payload>) + Send + Sync>;

/// Longest wait until a backend knows the current subscriptions.
const TOLD_MAX: Duration = Duration::from_secs(5);
/// Bound on listeners for one resource of one backend: enough for any real use, and a limit for leaks.
const LISTENERS_MAX: usize = 20_000;

/// By resource or task, and by number.
type Listeners<H> = BTreeMap<Arc<str>, HashMap<u64, H>>;

#[derive(Default)]
struct Subscriptions {
    listeners: Listeners<OnUpdate>,
    tasks: Listeners<OnTask>,
    next_id: u64,
}

/// Listeners for one server: a backend's, or one that a backend runs for some callers only.
pub(crate) struct Followers {
    wanted: Mutex<Subscriptions>,
    /// Counts changes of the set of URIs and tasks.
    changed: watch::Sender<u64>,
    /// The count as of which a modern server knows the set.
    told: watch::Sender<u64>,
}

#[derive(Default)]
struct OfBackend {
    all: Arc<Followers>,
    /// By audience; an entry is removed with its last listener and its server.
    some: Mutex<HashMap<Arc<str>, Weak<Followers>>>,
}

/// One per gateway, with an entry for each backend.
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

    /// Adds entries up to this index.
    pub(crate) fn grow(&self, backends: usize) {
        let mut places = self.backends.write();
        while places.len() < backends {
            places.push(Arc::default());
        }
    }

    /// Listeners of a backend's server, or of the one that it runs for this audience.
    pub(crate) fn of(&self, backend: usize, audience: Option<&Arc<str>>) -> Arc<Followers> {
        let place = self.backends.read()[backend].clone();
        let Some(audience) = audience else {
            return place.all.clone();
        };
        let mut some = place.some.lock();
        if let Some(known) = some.get(audience).and_then(Weak::upgrade) {
            return known;
        }
        some.retain(|_, followers| followers.strong_count() > 0);
        let new = Arc::<Followers>::default();
        some.insert(audience.clone(), Arc::downgrade(&new));
        new
    }
}

impl Default for Followers {
    fn default() -> Self {
        Self {
            wanted: Mutex::default(),
            changed: watch::Sender::new(0),
            told: watch::Sender::new(0),
        }
    }
}

impl Followers {
    /// Adds a listener; `None` when there are too many.
    pub(crate) fn listen(self: &Arc<Self>, uri: &str, hear: OnUpdate) -> Option<Ticket> {
        self.add(
            uri,
            hear,
            |wanted| &mut wanted.listeners,
            SubscriptionKey::Resource,
        )
    }

    /// Like [`Followers::listen`] for a task, by the backend's own name for it.
    pub(crate) fn follow(self: &Arc<Self>, task: &str, hear: OnTask) -> Option<Ticket> {
        self.add(
            task,
            hear,
            |wanted| &mut wanted.tasks,
            SubscriptionKey::Task,
        )
    }

    fn add<H>(
        self: &Arc<Self>,
        name: &str,
        hear: H,
        table: fn(&mut Subscriptions) -> &mut Listeners<H>,
        what: fn(Arc<str>) -> SubscriptionKey,
    ) -> Option<Ticket> {
        let mut wanted = self.wanted.lock();
        wanted.next_id += 1;
        let id = wanted.next_id;
        let name: Arc<str> = name.into();
        let listeners = table(&mut wanted).entry(name.clone()).or_default();
        if listeners.len() >= LISTENERS_MAX {
            return None;
        }
        listeners.insert(id, hear);
        if listeners.len() == 1 {
            self.changed.send_modify(|count| *count += 1);
        }
        Some(Ticket {
            followers: self.clone(),
            what: what(name),
            id,
        })
    }

    /// A backend reports the state of a task.
    pub(crate) fn tell_task(&self, task: &str, now: &Payload) {
        for hear in self.followers(|id| id == task) {
            hear(Some(now));
        }
    }

    /// Notifications of a backend about tasks may have been missed.
    pub(crate) fn missed(&self) {
        for hear in self.followers(|_| true) {
            hear(None);
        }
    }

    fn followers(&self, of: impl Fn(&str) -> bool) -> Vec<OnTask> {
        let wanted = self.wanted.lock();
        let lists = wanted.tasks.iter().filter(|(id, _)| of(id));
        lists
            .flat_map(|(_, listeners)| listeners.values().cloned())
            .collect()
    }

    pub(crate) fn wanted_tasks(&self) -> Vec<Arc<str>> {
        let wanted = self.wanted.lock();
        wanted.tasks.keys().cloned().collect()
    }

    /// A modern backend knows the set as of this count.
    pub(crate) fn told(&self, changes: u64) {
        self.told.send_replace(changes);
    }

    /// Waits until a modern backend knows the current set; bounded, since a server that cannot be told is no reason
    /// to refuse.
    pub(crate) async fn are_told(&self) {
        let wanted = *self.changed.borrow();
        let mut told = self.told.subscribe();
        let known = told.wait_for(|told| *told >= wanted);
        let _ = tokio::time::timeout(TOLD_MAX, known).await;
    }

    /// A backend reports a changed resource, which may lie below the subscribed one.
    pub(crate) fn tell(&self, uri: &str) {
        let hearers: Vec<OnUpdate> = {
            let wanted = self.wanted.lock();
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

    /// Updates of a resource may have been lost: its own followers are told that it changed.
    pub(crate) fn tell_followers(&self, uri: &str) {
        let hearers: Vec<OnUpdate> = {
            let wanted = self.wanted.lock();
            let listeners = wanted.listeners.get(uri);
            listeners.map_or_else(Vec::new, |all| all.values().cloned().collect())
        };
        for hear in hearers {
            hear(uri);
        }
    }

    pub(crate) fn wanted(&self) -> Vec<Arc<str>> {
        let wanted = self.wanted.lock();
        wanted.listeners.keys().cloned().collect()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// A subscription; dropping it ends it.
pub struct Ticket {
    followers: Arc<Followers>,
    what: SubscriptionKey,
    id: u64,
}

enum SubscriptionKey {
    Resource(Arc<str>),
    Task(Arc<str>),
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut wanted = self.followers.wanted.lock();
        let was_last = match &self.what {
            SubscriptionKey::Resource(uri) => remove(&mut wanted.listeners, uri, self.id),
            SubscriptionKey::Task(task) => remove(&mut wanted.tasks, task, self.id),
        };
        if was_last {
            self.followers.changed.send_modify(|count| *count += 1);
        }
    }
}

/// Removes one listener; says whether it was the last.
fn remove<H>(all: &mut BTreeMap<Arc<str>, HashMap<u64, H>>, what: &Arc<str>, id: u64) -> bool {
    let Some(listeners) = all.get_mut(what) else {
        return false;
    };
    listeners.remove(&id);
    let was_last = listeners.is_empty();
    if was_last {
        all.remove(what);
    }
    was_last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> (Arc<Mutex<Vec<String>>>, OnUpdate) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let note = heard.clone();
        (heard, Arc::new(move |uri| note.lock().push(uri.to_owned())))
    }

    #[test]
    fn a_listener_hears_its_resource_and_what_lies_below_until_its_ticket_is_dropped() {
        let updates = Updates::new(2);
        let (heard, hear) = notes();
        let [first, other] = [0, 1].map(|backend| updates.of(backend, None));
        let changes = first.changes();
        let ticket = first.listen("x://a", hear.clone()).expect("room");
        let second = first.listen("x://a", hear).expect("room");
        assert_eq!(*changes.borrow(), 1, "the set changed once");
        drop(second);
        for uri in ["x://a", "x://a/b", "x://ab", "x://b"] {
            first.tell(uri);
            other.tell(uri);
        }
        assert_eq!(*heard.lock(), ["x://a", "x://a/b"]);
        assert_eq!(first.wanted().len(), 1);
        drop(ticket);
        assert!(first.wanted().is_empty());
        assert_eq!(*changes.borrow(), 2);
    }

    #[test]
    fn decision_23_news_of_a_server_that_is_kept_for_some_callers_are_for_them() {
        let updates = Updates::new(1);
        let [a, b] = ["a", "b"].map(|name| Some(Arc::<str>::from(name)));
        let (heard, hear) = notes();
        let ticket = updates.of(0, a.as_ref()).listen("x://a", hear);
        for audience in [None, b.as_ref()] {
            let followers = updates.of(0, audience);
            followers.tell("x://a");
            assert!(followers.wanted().is_empty());
        }
        assert!(heard.lock().is_empty());
        updates.of(0, a.as_ref()).tell("x://a");
        assert_eq!(*heard.lock(), ["x://a"]);
        // Nothing stays of an audience that has left.
        drop(ticket);
        drop(updates.of(0, b.as_ref()));
        assert_eq!(updates.backends.read()[0].some.lock().len(), 1);
    }
}
