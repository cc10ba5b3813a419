//! Cache of `resources/read` answers.
//!
//! A 2026-07-28 backend says with each answer how long it stays fresh and who may see it. `public` answers serve
//! every caller who may read the resource; `private` ones only the caller who got them. A change notification for the
//! resource, or for its list, evicts them.
//!
//! Not here: whether a caller may read it (earlier steps of the walk decide), and lists, which the catalog holds.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Outcome, Params, Payload, meta};
use tokio::time::Instant;

use crate::backend::Call;
use crate::caller::Caller;
use crate::offer::Freshness;
use crate::reply::Reply;

/// Bounds of a gateway's cache: enough for resources that are read repeatedly, small beside the rest of the memory.
/// The oldest entries are evicted.
const ENTRIES_MAX: usize = 4096;
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Larger answers are not cached: they would displace too many others.
const ENTRY_BYTES_MAX: usize = 1024 * 1024;
/// Members of `_meta` that do not affect the answer.
const NEUTRAL_META: [&str; 8] = [
    meta::PROTOCOL_VERSION,
    meta::CLIENT_CAPABILITIES,
    meta::CLIENT_INFO,
    meta::LOG_LEVEL,
    meta::PROGRESS_TOKEN,
    "traceparent",
    "tracestate",
    "baggage",
];

/// The scope of an answer: all callers, or one caller with its rights.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Audience(Option<Arc<str>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    backend: usize,
    whose: Audience,
    uri: Arc<str>,
}

struct CachedAnswer {
    reply: Reply,
    until: Instant,
    /// Tells this entry from an earlier one under the same key.
    number: u64,
}

#[derive(Default)]
struct Store {
    kept: HashMap<Key, CachedAnswer>,
    /// In order of insertion; entries that were replaced are skipped.
    order: VecDeque<(Key, u64)>,
    bytes: usize,
    next: u64,
    /// Number of change notifications per backend.
    changes: Vec<u64>,
}

/// One per gateway.
pub struct Cache(Mutex<Store>);

/// A cacheable request: its key, and the count of changes before it was sent.
pub(crate) struct CacheMiss {
    backend: usize,
    uri: Arc<str>,
    caller: Arc<str>,
    changes: u64,
}

impl Cache {
    pub(crate) fn new(backends: usize) -> Self {
        Self(Mutex::new(Store {
            changes: vec![0; backends],
            ..Store::default()
        }))
    }

    /// Adds room for backends up to this index.
    pub(crate) fn grow(&self, backends: usize) {
        let mut store = self.0.lock();
        let len = store.changes.len().max(backends);
        store.changes.resize(len, 0);
    }

    /// The cached answer, or the token to store the future one; `None` unless it is a plain read.
    pub(crate) fn look(&self, call: &Call) -> Option<Result<Reply, CacheMiss>> {
        if call.method != Method::ResourcesRead {
            return None;
        }
        let uri = plain_uri(&call.params)?;
        Some(self.get(call.target().index, uri.into(), identity(&call.caller)))
    }

    fn get(&self, backend: usize, uri: Arc<str>, caller: Arc<str>) -> Result<Reply, CacheMiss> {
        let mut store = self.0.lock();
        let now = Instant::now();
        for whose in [None, Some(caller.clone())] {
            let key = Key {
                backend,
                whose: Audience(whose),
                uri: uri.clone(),
            };
            let Some(kept) = store.kept.get(&key) else {
                continue;
            };
            if kept.until <= now {
                store.remove(&key);
                continue;
            }
            return Ok(aged(&kept.reply, kept.until - now));
        }
        Err(CacheMiss {
            backend,
            uri,
            caller,
            changes: store.changes[backend],
        })
    }

    /// Stores an answer, if its backend allows that and no change was announced since.
    pub(crate) fn note(&self, asked: CacheMiss, reply: &Reply) {
        let Outcome::Result(result) = &reply.outcome else {
            return;
        };
        let fresh = Freshness::of(result);
        let complete = result.get("resultType") == Some(br#""complete""#);
        let bytes = result.as_bytes().len();
        if !complete || fresh.ttl.is_zero() || bytes > ENTRY_BYTES_MAX {
            return;
        }
        let mut store = self.0.lock();
        if store.changes[asked.backend] != asked.changes {
            return;
        }
        let key = Key {
            backend: asked.backend,
            whose: Audience((!fresh.shared).then_some(asked.caller)),
            uri: asked.uri,
        };
        store.insert(key, reply.clone(), Instant::now() + fresh.ttl);
    }

    /// A resource changed, and with it everything below it.
    pub(crate) fn changed(&self, backend: usize, uri: &str) {
        let mut store = self.0.lock();
        store.forget(backend, |kept| {
            let rest = kept.strip_prefix(uri).or_else(|| uri.strip_prefix(kept));
            rest.is_some()
        });
    }

    /// Any resource of this backend may have changed.
    pub(crate) fn all_changed(&self, backend: usize) {
        self.0.lock().forget(backend, |_| true);
    }
}

impl Store {
    fn insert(&mut self, key: Key, reply: Reply, until: Instant) {
        self.remove(&key);
        self.next += 1;
        let number = self.next;
        self.bytes += size(&reply);
        self.order.push_back((key.clone(), number));
        self.kept.insert(
            key,
            CachedAnswer {
                reply,
                until,
                number,
            },
        );
        while self.kept.len() > ENTRIES_MAX || self.bytes > BYTES_MAX {
            let Some((oldest, number)) = self.order.pop_front() else {
                break;
            };
            if self.kept.get(&oldest).is_some_and(|k| k.number == number) {
                self.remove(&oldest);
            }
        }
        // Entries of replaced or expired answers must not accumulate either.
        if self.order.len() > 2 * ENTRIES_MAX {
            let kept = &self.kept;
            self.order
                .retain(|(key, number)| kept.get(key).is_some_and(|k| k.number == *number));
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(kept) = self.kept.remove(key) {
            self.bytes -= size(&kept.reply);
        }
    }

    fn forget(&mut self, backend: usize, concerned: impl Fn(&str) -> bool) {
        self.changes[backend] += 1;
        let of_backend = |key: &&Key| key.backend == backend && concerned(&key.uri);
        let gone: Vec<Key> = self.kept.keys().filter(of_backend).cloned().collect();
        for key in gone {
            self.remove(&key);
        }
    }
}

fn size(reply: &Reply) -> usize {
    match &reply.outcome {
        Outcome::Result(payload) | Outcome::Error(payload) => payload.as_bytes().len(),
    }
}

/// The answer with its remaining time to live.
fn aged(reply: &Reply, left: Duration) -> Reply {
    let Outcome::Result(result) = &reply.outcome else {
        return reply.clone();
    };
    let ttl = left.as_millis().to_string();
    let mut out = Vec::with_capacity(result.as_bytes().len());
    result
        .as_raw()
        .rewrite(&[("ttlMs", Some(ttl.as_bytes()))], &mut out);
    match Payload::parse(out.into(), Rules::backend()) {
        Ok(result) => Reply {
            revision: reply.revision,
            outcome: Outcome::Result(result),
        },
        Err(_) => reply.clone(),
    }
}

/// A digest of the rights of a caller: callers with other rights do not share private answers.
fn identity(caller: &Caller) -> Arc<str> {
    let tenant = caller.tenant.as_deref().unwrap_or_default();
    let mut all = format!("{}\0{}\0{tenant}", caller.subject, caller.role);
    for scope in caller.scopes.iter() {
        all.push('\0');
        all.push_str(scope);
    }
    all.into()
}

/// The URI, if nothing else in the request can change the answer. Answers of retries depend on the input given, so
/// they are not shared.
fn plain_uri(params: &Params) -> Option<String> {
    let raw = params.as_raw();
    let all = raw.object.members.iter();
    let mut names = all.map(|member| member.key.decode(raw.text));
    if !names.all(|name| name == "uri" || name == "_meta") {
        return None;
    }
    if let Some(said) = params.meta_object() {
        let mut keys = said.object.members.iter().map(|m| m.key.decode(said.text));
        if !keys.all(|key| NEUTRAL_META.contains(&&*key)) {
            return None;
        }
    }
    params.string("uri").map(|uri| uri.into_owned())
}

#[cfg(test)]
mod tests;
