//! Sessions of legacy HTTP callers: random ids, bound to their caller and endpoint, ended by the
//! caller, by idleness, or by the next one when there are too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures_util::future::{AbortHandle, AbortRegistration};
use parking_lot::{Mutex, RwLock};
use sentinel_core::catalog::Registry;
use sentinel_core::map::Map;
use sentinel_core::seal::random_id;
use sentinel_core::{Caller, Identity, View};
use sentinel_wire::Id;
use tokio::time::Instant;

use super::resume::{Streams, Total};
use crate::gateway::Limits;
use crate::mcp::{Asks, Changes, Subscriber};

/// Calls one session can have in flight; far beyond what any client does.
const IN_FLIGHT_MAX: usize = 4096;
/// When there is no more room, a caller with this part of all sessions can take none from others.
const SHARES: usize = 16;

pub(super) struct Session {
    pub(super) id: Arc<str>,
    pub(super) caller: Arc<Caller>,
    pub(super) view: View,
    pub(super) asks: Arc<Asks>,
    pub(super) subscriber: Arc<Subscriber>,
    pub(super) streams: Arc<Streams>,
    in_flight: Mutex<Map<Id, InFlight>>,
    /// How many calls it ever had.
    begun: AtomicU64,
    /// The lists as the session's own stream last told them.
    told: Mutex<Option<Changes>>,
    /// What its last request proved.
    identity: Mutex<Arc<Identity>>,
    /// Milliseconds since the table was made.
    used_ms: AtomicU64,
}

/// Why a call cannot be added to a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    IdInUse,
    TooMany,
}

impl Session {
    /// Notes a call, so that it can be cancelled by its id until the note is dropped.
    pub(super) fn begin(self: &Arc<Self>, id: &Id, abort: AbortHandle) -> Result<Noted, NotTaken> {
        let mut calls = self.in_flight.lock();
        if calls.contains_key(id) {
            return Err(NotTaken::IdInUse);
        }
        if calls.len() >= IN_FLIGHT_MAX {
            return Err(NotTaken::TooMany);
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        calls.insert(id.clone(), InFlight { number, abort });
        Ok(Noted {
            session: self.clone(),
            id: id.clone(),
            number,
        })
    }

    /// Ends a call: its future is dropped, and everything it held with it.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some(call) = self.in_flight.lock().remove(id) {
            call.abort.abort();
        }
    }

    /// What changes from here on: since the session's own stream was last read where it is taken up
    /// again, else since now.
    pub(super) fn changes(&self, registry: &Registry, resumed: bool) -> Changes {
        let told = self.told.lock().clone().filter(|_| resumed);
        told.unwrap_or_else(|| Changes::of(registry, self.view))
    }

    /// What was told so far, for whoever takes the stream up again.
    pub(super) fn note_told(&self, changes: &Changes) {
        *self.told.lock() = Some(changes.clone());
    }

    fn is_listening(&self) -> bool {
        self.streams.is_heard()
    }

    fn belongs_to(&self, identity: &Identity) -> bool {
        let caller = &*self.caller;
        caller.subject == identity.subject
            && caller.role == identity.role
            && caller.tenant == identity.tenant
            && caller.scopes == identity.scopes
    }

    fn is_idle(&self) -> bool {
        self.in_flight.lock().is_empty() && !self.is_listening()
    }

    fn end(&self) {
        self.streams.hush();
        for (_, call) in self.in_flight.lock().drain() {
            call.abort.abort();
        }
    }
}

struct InFlight {
    /// Tells it from an earlier call of the same id.
    number: u64,
    abort: AbortHandle,
}

/// One call's place in the table of its session.
pub(super) struct Noted {
    session: Arc<Session>,
    id: Id,
    number: u64,
}

impl Noted {
    /// What the rest of the call is cancelled by, now that its first part is over; nothing if it was cancelled
    /// already.
    pub(super) fn renew(&self) -> Option<AbortRegistration> {
        let mut calls = self.session.in_flight.lock();
        let call = calls.get_mut(&self.id)?;
        let (abort, aborted) = AbortHandle::new_pair();
        (call.number == self.number).then(|| {
            call.abort = abort;
            aborted
        })
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut calls = self.session.in_flight.lock();
        // A call that was cancelled left its id to others at once.
        if calls
            .get(&self.id)
            .is_some_and(|call| call.number == self.number)
        {
            calls.remove(&self.id);
        }
    }
}

pub(super) struct Sessions {
    open: RwLock<Map<Arc<str>, Arc<Session>>>,
    began: Instant,
    len_max: AtomicUsize,
    idle_max_ms: AtomicU64,
    kept: Total,
    stream_bytes_max: usize,
}

/// There are as many sessions as allowed, and all are in use.
#[derive(Debug)]
pub(super) struct TooMany;

impl Sessions {
    /// Calls that run, whether their requests are still there or not.
    pub(super) fn calls(&self) -> usize {
        let open = self.open.read();
        open.values().map(|s| s.in_flight.lock().len()).sum()
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

    /// Other bounds, from now on. Sessions beyond the new number stay until they end.
    pub(super) fn bound(&self, limits: &Limits) {
        let idle_ms = limits.session_idle.as_millis() as u64;
        self.len_max.store(limits.sessions_max, Ordering::Relaxed);
        self.idle_max_ms.store(idle_ms, Ordering::Relaxed);
    }

    /// Opens a session; `caller` makes the caller that belongs to its id.
    pub(super) fn open(
        &self,
        view: View,
        identity: &Arc<Identity>,
        caller: impl FnOnce(Arc<str>) -> Caller,
    ) -> Result<Arc<Session>, TooMany> {
        let streams = Streams::new(self.kept.clone(), self.stream_bytes_max);
        let outside = streams.clone();
        let subscriber = Subscriber::new(view, move |message| outside.tell(&message));
        let id: Arc<str> = random_id().into();
        let session = Arc::new(Session {
            caller: Arc::new(caller(id.clone())),
            id: id.clone(),
            view,
            asks: Arc::default(),
            subscriber: Arc::new(subscriber),
            streams,
            in_flight: Mutex::default(),
            begun: AtomicU64::new(0),
            told: Mutex::default(),
            identity: Mutex::new(identity.clone()),
            used_ms: AtomicU64::new(self.now_ms()),
        });
        let mut open = self.open.write();
        if open.len() >= self.len_max.load(Ordering::Relaxed) {
            let subject = &session.caller.subject;
            let leaving = self.leaving(open.values(), subject).ok_or(TooMany)?;
            open.remove(&leaving);
        }
        open.insert(id, session.clone());
        Ok(session)
    }

    /// Many clients never end their sessions: the longest unused one makes room. Whoever has his share
    /// makes room among his own, so that nobody can end everybody's.
    fn leaving<'s>(
        &self,
        open: impl Iterator<Item = &'s Arc<Session>>,
        subject: &str,
    ) -> Option<Arc<str>> {
        let (mut own_len, mut own, mut all) = (0, None, None);
        for session in open {
            let mine = *session.caller.subject == *subject;
            own_len += usize::from(mine);
            if !session.is_idle() {
                continue;
            }
            let candidate = (session.used_ms.load(Ordering::Relaxed), &session.id);
            let older = |than: Option<(u64, &Arc<str>)>| than.is_none_or(|t| candidate.0 < t.0);
            if older(all) {
                all = Some(candidate);
            }
            if mine && older(own) {
                own = Some(candidate);
            }
        }
        let full = own_len >= (self.len_max.load(Ordering::Relaxed) / SHARES).max(1);
        let (_, id) = if full { own } else { all }?;
        Some(id.clone())
    }

    /// A session, if it belongs to this caller and endpoint; anything else does not exist. Whoever comes
    /// back with other rights begins anew, so a session never outlives what it was opened with.
    pub(super) fn get(
        &self,
        id: &str,
        identity: &Arc<Identity>,
        view: View,
    ) -> Option<Arc<Session>> {
        let session = self.open.read().get(id)?.clone();
        if !session.belongs_to(identity) || session.view != view {
            return None;
        }
        session.used_ms.store(self.now_ms(), Ordering::Relaxed);
        *session.identity.lock() = identity.clone();
        Some(session)
    }

    pub(super) fn end(&self, id: &str) {
        if let Some(session) = self.open.write().remove(id) {
            session.end();
        }
    }

    /// Ends the sessions whose callers `are_out`.
    pub(super) fn end_those(&self, are_out: impl Fn(&Identity) -> bool) {
        let all: Vec<Arc<Session>> = self.open.read().values().cloned().collect();
        for session in all {
            let identity = session.identity.lock().clone();
            if are_out(&identity) {
                self.end(&session.id);
            }
        }
    }

    pub(super) fn sweep(&self) {
        let now = self.now_ms();
        let idle_ms = self.idle_max_ms.load(Ordering::Relaxed);
        let stale = |s: &Session| {
            now.saturating_sub(s.used_ms.load(Ordering::Relaxed)) > idle_ms && !s.is_listening()
        };
        let mut expired: Vec<Arc<str>> = Vec::new();
        for session in self.open.read().values() {
            session.streams.sweep();
            if stale(session) {
                expired.push(session.id.clone());
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

    use super::*;
    use futures_util::future::Abortable;
    use sentinel_core::ClientCapabilities;
    use sentinel_wire::Revision;

    fn caller(session: Arc<str>) -> Caller {
        Caller {
            subject: "local".into(),
            role: "admin".into(),
            scopes: Arc::default(),
            tenant: None,
            revision: Revision::V2025_11_25,
            capabilities: ClientCapabilities::default(),
            client_info: None,
            session: Some(session),
            log_level: sentinel_core::LogLevel::default(),
            tags: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_its_callers_own_and_expires() {
        let sessions = Sessions::new(&Limits::default());
        let local = Identity::local("admin");
        // The same subject with another role is somebody else.
        let mallory = Identity::local("viewer");
        let session = sessions.open(View::Merged, &local, caller).expect("room");
        assert!(sessions.get(&session.id, &local, View::Merged).is_some());
        assert!(sessions.get(&session.id, &mallory, View::Merged).is_none());
        assert!(sessions.get(&session.id, &local, View::Only(0)).is_none());
        tokio::time::advance(Duration::from_secs(1801)).await;
        sessions.sweep();
        assert!(sessions.get(&session.id, &local, View::Merged).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn p_r06_whoever_opens_without_end_takes_few_sessions_from_others() {
        let sessions = Sessions::new(&Limits {
            sessions_max: 4 * SHARES,
            ..Limits::default()
        });
        let open = |subject: &'static str| {
            let by = |id| Caller {
                subject: subject.into(),
                ..caller(id)
            };
            let local = Identity::local("admin");
            let opened = sessions.open(View::Merged, &local, by);
            opened.expect("room").id.clone()
        };
        let quiet: Vec<_> = (0..4 * SHARES).map(|_| open("quiet")).collect();
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..1_000 {
            open("noisy");
        }
        let left = quiet
            .iter()
            .filter(|id| sessions.open.read().contains_key(*id));
        assert_eq!(left.count(), 4 * SHARES - 4);
        assert_eq!(sessions.len(), 4 * SHARES);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_unused_session_makes_room_for_a_new_one() {
        let local = Identity::local("admin");
        let sessions = Sessions::new(&Limits {
            sessions_max: 2,
            ..Limits::default()
        });
        let first = sessions.open(View::Merged, &local, caller).expect("room");
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = sessions.open(View::Merged, &local, caller).expect("room");
        tokio::time::advance(Duration::from_secs(1)).await;
        sessions.get(&first.id, &local, View::Merged);
        sessions.open(View::Merged, &local, caller).expect("room");
        assert!(sessions.get(&second.id, &local, View::Merged).is_none());
        assert!(sessions.get(&first.id, &local, View::Merged).is_some());
        assert_eq!(sessions.len(), 2);
        let id = Id::from_number(1);
        let begin = || first.begin(&id, AbortHandle::new_pair().0).map(drop);
        let (abort, aborted) = AbortHandle::new_pair();
        let noted = first.begin(&id, abort).expect("free");
        assert_eq!(begin(), Err(NotTaken::IdInUse));
        first.cancel(&id);
        let busy = Abortable::new(std::future::pending::<()>(), aborted);
        busy.await.expect_err("aborted");
        assert_eq!(begin(), Ok(()), "its id is free at once");
        drop(noted);
        assert_eq!(begin(), Ok(()));
    }
}
