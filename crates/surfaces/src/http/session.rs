//! Sessions of Streamable HTTP: random ids, bound to their caller and endpoint, ended by the caller, by
//! idleness, by revocation, or evicted when there are too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use sentinel_core::map::Map;
use sentinel_core::seal::random_id;
use sentinel_core::{Fault, Identity, Kind};
use tokio::time::Instant;

use super::Endpoint;
use super::resume::{Streams, Total};
use crate::gateway::{Gateway, Limits};
use crate::mcp::{Changes, LegacySession, Opening, ReadyAt};

/// Divisor for a caller's share: at capacity, a caller with this part of all sessions cannot evict those of others.
const SHARES: usize = 16;

pub(super) struct HttpSession {
    pub(super) legacy: Arc<LegacySession>,
    pub(super) streams: Arc<Streams>,
    /// The lists as the session's own stream last announced them.
    announced: Mutex<Option<Changes>>,
    /// The identity of the last request, whose credential may be newer than the one that opened the session.
    identity: Mutex<Arc<Identity>>,
    /// Milliseconds since the table was made.
    used_ms: AtomicU64,
}

impl HttpSession {
    pub(super) fn id(&self) -> &Arc<str> {
        &self.legacy.id
    }

    /// Changes from now on: since the session's own stream was last read if it is resumed, else since now.
    pub(super) fn changes(&self, resumed: bool) -> Changes {
        let announced = self.announced.lock().clone().filter(|_| resumed);
        let legacy = &self.legacy;
        announced.unwrap_or_else(|| Changes::of(&legacy.gateway.registry, legacy.view))
    }

    /// Remembers the announced generations, for a stream that is resumed.
    pub(super) fn note_announced(&self, changes: &Changes) {
        *self.announced.lock() = Some(changes.clone());
    }

    fn is_listening(&self) -> bool {
        self.streams.has_own_listener()
    }

    fn is_idle(&self) -> bool {
        self.legacy.in_flight.len() == 0 && !self.is_listening()
    }

    fn end(&self) {
        self.streams.close_own_stream();
        self.legacy.end();
    }
}

pub(super) struct Sessions {
    open: RwLock<Map<Arc<str>, Arc<HttpSession>>>,
    began: Instant,
    len_max: AtomicUsize,
    idle_max_ms: AtomicU64,
    kept: Total,
    stream_bytes_max: usize,
}

impl Sessions {
    /// Calls in flight, including those whose requests were disconnected.
    pub(super) fn calls(&self) -> usize {
        let open = self.open.read();
        open.values().map(|s| s.legacy.in_flight.len()).sum()
    }

    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            open: RwLock::default(),
            began: Instant::now(),
            len_max: AtomicUsize::new(limits.sessions_max),
            idle_max_ms: AtomicU64::new(limits.session_idle.as_millis() as u64),
            kept: Total::default(),
            stream_bytes_max: limits.stream_bytes_max,
        }
    }

    /// Changes the bounds. Sessions beyond the new number stay until they end.
    pub(super) fn bound(&self, limits: &Limits) {
        let idle_ms = limits.session_idle.as_millis() as u64;
        self.len_max.store(limits.sessions_max, Ordering::Relaxed);
        self.idle_max_ms.store(idle_ms, Ordering::Relaxed);
    }

    /// A new session; it can be found once it is added.
    pub(super) fn create(
        &self,
        gateway: &Arc<Gateway>,
        identity: &Arc<Identity>,
        at: &Endpoint,
    ) -> Arc<HttpSession> {
        let streams = Streams::new(self.kept.clone(), self.stream_bytes_max);
        let own_stream = streams.clone();
        let opening = Opening {
            gateway: gateway.clone(),
            identity: identity.clone(),
            view: at.view,
            tags: at.tags.clone(),
            id: random_id().into(),
            ready_at: ReadyAt::Initialize,
        };
        Arc::new(HttpSession {
            legacy: LegacySession::new(opening, move |message| own_stream.tell(&message)),
            streams,
            announced: Mutex::default(),
            identity: Mutex::new(identity.clone()),
            used_ms: AtomicU64::new(self.now_ms()),
        })
    }

    /// Adds a session, in place of the longest unused one when there are too many.
    pub(super) fn add(&self, session: Arc<HttpSession>) -> Result<(), Fault> {
        let mut open = self.open.write();
        if open.len() >= self.len_max.load(Ordering::Relaxed) {
            let subject = &session.legacy.identity.subject;
            let Some(evicted) = self.evicted(open.values(), subject) else {
                let text = "too many sessions (limits.sessions)";
                return Err(Fault::new(Kind::TooManySessions, text));
            };
            open.remove(&evicted);
        }
        open.insert(session.id().clone(), session);
        Ok(())
    }

    /// Many clients never end their sessions, so the longest unused one is evicted. A caller that has its share evicts one
    /// of its own, so that none can end the sessions of all others.
    fn evicted<'s>(
        &self,
        open: impl Iterator<Item = &'s Arc<HttpSession>>,
        subject: &str,
    ) -> Option<Arc<str>> {
        let (mut own_len, mut own, mut all) = (0, None, None);
        for session in open {
            let is_own = *session.legacy.identity.subject == *subject;
            own_len += usize::from(is_own);
            if !session.is_idle() {
                continue;
            }
            let candidate = (session.used_ms.load(Ordering::Relaxed), session.id());
            let older = |than: Option<(u64, &Arc<str>)>| than.is_none_or(|t| candidate.0 < t.0);
            if older(all) {
                all = Some(candidate);
            }
            if is_own && older(own) {
                own = Some(candidate);
            }
        }
        let full = own_len >= (self.len_max.load(Ordering::Relaxed) / SHARES).max(1);
        let (_, id) = if full { own } else { all }?;
        Some(id.clone())
    }

    /// A session, if it belongs to this caller and endpoint; any other is answered like one that does not exist.
    pub(super) fn get(
        &self,
        id: &str,
        identity: &Arc<Identity>,
        at: &Endpoint,
    ) -> Option<Arc<HttpSession>> {
        let session = self.open.read().get(id)?.clone();
        let legacy = &session.legacy;
        if !legacy.belongs_to(identity) || legacy.view != at.view || legacy.tags != at.tags {
            return None;
        }
        session.used_ms.store(self.now_ms(), Ordering::Relaxed);
        *session.identity.lock() = identity.clone();
        legacy.renew(identity);
        Some(session)
    }

    pub(super) fn end(&self, id: &str) {
        if let Some(session) = self.open.write().remove(id) {
            session.end();
        }
    }

    /// Ends the sessions whose callers `are_out`.
    pub(super) fn end_those(&self, are_out: impl Fn(&Identity) -> bool) {
        let all: Vec<Arc<HttpSession>> = self.open.read().values().cloned().collect();
        for session in all {
            let identity = session.identity.lock().clone();
            if are_out(&identity) {
                self.end(session.id());
            }
        }
    }

    pub(super) fn sweep(&self) {
        let now = self.now_ms();
        let idle_ms = self.idle_max_ms.load(Ordering::Relaxed);
        let stale = |s: &HttpSession| {
            now.saturating_sub(s.used_ms.load(Ordering::Relaxed)) > idle_ms && !s.is_listening()
        };
        let mut expired: Vec<Arc<str>> = Vec::new();
        for session in self.open.read().values() {
            session.streams.sweep();
            if stale(session) {
                expired.push(session.id().clone());
            }
        }
        for id in expired {
            self.end(&id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.open.read().len()
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sentinel_core::policy::Settings;
    use sentinel_core::{Auditor, Policy, Registry, View};

    use super::*;

    const HERE: Endpoint = Endpoint {
        view: View::Merged,
        tags: None,
    };

    struct Opened {
        gateway: Arc<Gateway>,
        sessions: Sessions,
    }

    impl Opened {
        fn new(sessions_max: usize) -> Self {
            let limits = Limits {
                sessions_max,
                ..Limits::default()
            };
            let policy = Policy::new(Registry::new(Vec::new()), Settings::default());
            Self {
                sessions: Sessions::new(&limits),
                gateway: Gateway::new(policy, limits, Auditor::off()),
            }
        }

        fn open(&self, identity: &Arc<Identity>) -> Arc<str> {
            let session = self.sessions.create(&self.gateway, identity, &HERE);
            self.sessions.add(session.clone()).expect("room");
            session.id().clone()
        }

        fn has(&self, id: &str, identity: &Arc<Identity>, at: &Endpoint) -> bool {
            self.sessions.get(id, identity, at).is_some()
        }
    }

    fn caller(subject: &str) -> Arc<Identity> {
        Arc::new(Identity {
            subject: subject.into(),
            role: "admin".into(),
            tenant: None,
            scopes: Arc::default(),
            proof: sentinel_core::identity::Proof::None,
            account: None,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_its_callers_own_and_expires() {
        let table = Opened::new(10);
        let local = Identity::local("admin");
        let id = table.open(&local);
        let elsewhere = Endpoint {
            view: View::Only(0),
            tags: None,
        };
        assert!(table.has(&id, &local, &HERE));
        assert!(!table.has(&id, &Identity::local("viewer"), &HERE), "role");
        assert!(!table.has(&id, &local, &elsewhere));
        tokio::time::advance(Duration::from_secs(1801)).await;
        table.sessions.sweep();
        assert!(!table.has(&id, &local, &HERE));
    }

    #[tokio::test(start_paused = true)]
    async fn p_r06_a_caller_that_opens_without_end_takes_few_sessions_from_others() {
        let table = Opened::new(4 * SHARES);
        let (quiet, noisy) = (caller("quiet"), caller("noisy"));
        let ids: Vec<_> = (0..4 * SHARES).map(|_| table.open(&quiet)).collect();
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..1_000 {
            table.open(&noisy);
        }
        let left = ids.iter().filter(|id| table.has(id, &quiet, &HERE));
        assert_eq!(left.count(), 4 * SHARES - 4);
        assert_eq!(table.sessions.len(), 4 * SHARES);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_unused_session_makes_room_for_a_new_one() {
        let table = Opened::new(2);
        let local = Identity::local("admin");
        let first = table.open(&local);
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = table.open(&local);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(table.has(&first, &local, &HERE), "used again");
        table.open(&local);
        assert!(!table.has(&second, &local, &HERE));
        assert!(table.has(&first, &local, &HERE));
        assert_eq!(table.sessions.len(), 2);
    }
}
