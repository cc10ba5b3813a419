//! Calls that are answered later (`Prefer: respond-async`): who made them, how they go, and their answers.
//!
//! A job is found by its id and the whole identity that made it; to others it does not exist. It ends with its answer, which
//! is kept for as long as a caller may think about a question (`limits.park_ttl`), when it is removed, or with the process.
//! Bounded by count and bytes, in all and for each caller.
//!
//! Not here: running a job and its routes (`later`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::Mutex;
use sentinel_core::seal::random_id;
use sentinel_core::{Addressing, Fault, Identity, Kind};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::accept::Accept;
use super::stored::StoredAnswer;
use super::stream;
use crate::rescue::RestInput;

/// Jobs at once, over all callers and for one: each holds a call or its answer.
const JOBS_MAX: usize = 4096;
const JOBS_PER_CALLER_MAX: usize = 64;
/// Bytes of their arguments and answers, over all callers and for one.
const BYTES_MAX: usize = 256 << 20;
const BYTES_PER_CALLER_MAX: usize = 64 << 20;
/// A longer progress or log line is not shown.
const NOTICE_BYTES_MAX: usize = 16 << 10;

/// The identity that made a job: another role or other scopes are another caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    subject: Arc<str>,
    role: Arc<str>,
    tenant: Option<Arc<str>>,
    scopes: Arc<[Arc<str>]>,
}

impl Owner {
    pub(super) fn of(identity: &Identity) -> Self {
        Self {
            subject: identity.subject.clone(),
            role: identity.role.clone(),
            tenant: identity.tenant.clone(),
            scopes: identity.scopes.clone(),
        }
    }
}

/// What is called, and how its answer is written.
pub(super) struct Order {
    pub(super) tool: String,
    /// The arguments as they came.
    pub(super) arguments: Bytes,
    pub(super) input: RestInput,
    pub(super) accept: Accept,
    pub(super) addressing: Addressing,
    /// The path above that of the operation.
    pub(super) above: String,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Working(Said),
    /// It waits for answers of its caller, which go on from this sealed state.
    Asking {
        question: Arc<StoredAnswer>,
        sealed: Bytes,
        since: Instant,
    },
    Done {
        answer: Arc<StoredAnswer>,
        since: Instant,
        is_read: bool,
    },
}

/// The last that a call said on the way, as JSON objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) progress: Option<Bytes>,
    pub(super) log: Option<Bytes>,
}

impl Said {
    /// Takes a notification of MCP.
    pub(super) fn hear(&mut self, message: &[u8]) {
        if message.len() > NOTICE_BYTES_MAX {
            return;
        }
        match stream::notice(message) {
            Some(("progress", object)) => self.progress = Some(object.into()),
            Some((_, object)) => self.log = Some(object.into()),
            None => {}
        }
    }
}

impl State {
    pub(super) fn is_working(&self) -> bool {
        matches!(self, Self::Working(_))
    }

    fn is_read(&self) -> bool {
        matches!(self, Self::Done { is_read: true, .. })
    }

    fn weight(&self) -> usize {
        match self {
            Self::Working(_) => 0,
            Self::Asking { question, .. } => question.weight(),
            Self::Done { answer, .. } => answer.weight(),
        }
    }

    /// Since when nobody but its caller can bring it on.
    fn resting_since(&self) -> Option<Instant> {
        match self {
            Self::Working(_) => None,
            Self::Asking { since, .. } | Self::Done { since, .. } => Some(*since),
        }
    }
}

pub(super) struct Job {
    pub(super) id: String,
    owner: Owner,
    pub(super) order: Order,
    /// The path of its status.
    pub(super) path: String,
    pub(super) created_at_ms: u64,
    pub(super) state: watch::Sender<State>,
    driver: Mutex<Option<AbortHandle>>,
}

impl Job {
    /// Bytes that it holds.
    fn weight(&self) -> usize {
        self.order.arguments.len() + self.state.borrow().weight()
    }

    /// Drives it from now on; removing the job ends that.
    pub(super) fn driven_by(&self, driver: AbortHandle) {
        *self.driver.lock() = Some(driver);
    }

    pub(super) fn now(&self) -> State {
        self.state.borrow().clone()
    }

    /// Waits a while for it to be done or to ask something.
    pub(super) async fn settled(&self, wait: Duration) {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !state.is_working());
        let _ = tokio::time::timeout(wait, settled).await;
    }

    /// Goes on after what it asked was answered: the state from which it does.
    pub(super) fn take_question(&self) -> Option<(State, Bytes)> {
        let mut taken = None;
        self.state.send_if_modified(|state| {
            let State::Asking { sealed, .. } = &*state else {
                return false;
            };
            let sealed = sealed.clone();
            let before = std::mem::replace(state, State::Working(Said::default()));
            taken = Some((before, sealed));
            true
        });
        taken
    }
}

#[derive(Default)]
pub(crate) struct Jobs(Mutex<HashMap<String, Arc<Job>>>);

impl Jobs {
    /// A new job below this path, if its caller has room for it; answers that the caller has read give way.
    pub(super) fn open(&self, owner: Owner, order: Order, path: &str) -> Result<Opened<'_>, Fault> {
        let mut jobs = self.0.lock();
        let own = jobs.values().filter(|job| job.owner == owner);
        let is_full = jobs.len() >= JOBS_MAX || own.count() >= JOBS_PER_CALLER_MAX;
        let has_place = !is_full || remove_oldest(&mut jobs, &owner, State::is_read);
        if !has_place || !make_room(&mut jobs, &owner, order.arguments.len(), State::is_read) {
            let text = "too many calls are to be answered later: read or DELETE some of them";
            return Err(Fault::new(Kind::RateLimited, text).retry_after_ms(1000));
        }
        let id = random_id();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let job = Arc::new(Job {
            path: format!("{path}/{id}"),
            id: id.clone(),
            owner,
            order,
            created_at_ms: since.map_or(0, |since| since.as_millis() as u64),
            state: watch::Sender::new(State::Working(Said::default())),
            driver: Mutex::default(),
        });
        jobs.insert(id, job.clone());
        Ok(Opened {
            jobs: self,
            job,
            is_kept: false,
        })
    }

    pub(super) fn find(&self, id: &str, owner: &Owner) -> Option<Arc<Job>> {
        let jobs = self.0.lock();
        jobs.get(id).filter(|job| job.owner == *owner).cloned()
    }

    /// Ends a job and forgets it.
    pub(super) fn remove(&self, id: &str) {
        let job = self.0.lock().remove(id);
        if let Some(driver) = job.and_then(|job| job.driver.lock().take()) {
            driver.abort();
        }
    }

    /// Whether an answer of so many bytes has room; the caller's oldest answers give way to it.
    pub(super) fn has_room_for(&self, job: &Job, weight: usize) -> bool {
        let is_done = |state: &State| matches!(state, State::Done { .. });
        make_room(&mut self.0.lock(), &job.owner, weight, is_done)
    }

    /// Drops what nobody came back for in so long.
    pub(crate) fn sweep(&self, ttl: Duration) {
        let now = Instant::now();
        let is_over = |job: &Job| {
            let since = job.state.borrow().resting_since();
            since.is_some_and(|since| now.duration_since(since) >= ttl)
        };
        self.0.lock().retain(|_, job| !is_over(job));
    }
}

/// A job that nobody was told of yet: dropped, it is forgotten.
pub(super) struct Opened<'j> {
    jobs: &'j Jobs,
    job: Arc<Job>,
    is_kept: bool,
}

impl Opened<'_> {
    pub(super) fn order(&self) -> &Order {
        &self.job.order
    }

    /// The call is answered later. `said` is what it said so far.
    pub(super) fn keep(mut self, said: Said) -> Arc<Job> {
        self.is_kept = true;
        self.job.state.send_replace(State::Working(said));
        self.job.clone()
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.jobs.0.lock().remove(&self.job.id);
        }
    }
}

/// Makes room for so many bytes of this caller; its oldest jobs of such a state give way.
fn make_room(
    jobs: &mut HashMap<String, Arc<Job>>,
    owner: &Owner,
    weight: usize,
    gives_way: fn(&State) -> bool,
) -> bool {
    loop {
        let all: usize = jobs.values().map(|job| job.weight()).sum();
        let own = jobs.values().filter(|job| job.owner == *owner);
        let own: usize = own.map(|job| job.weight()).sum();
        if own + weight <= BYTES_PER_CALLER_MAX && all + weight <= BYTES_MAX {
            return true;
        }
        if !remove_oldest(jobs, owner, gives_way) {
            return false;
        }
    }
}

/// Removes the job of this caller that rests longest among those of such a state; false if there is none.
fn remove_oldest(
    jobs: &mut HashMap<String, Arc<Job>>,
    owner: &Owner,
    is_such: impl Fn(&State) -> bool,
) -> bool {
    let candidates = jobs.values().filter(|job| job.owner == *owner);
    let since = |job: &Arc<Job>| {
        let state = job.state.borrow();
        state.resting_since().filter(|_| is_such(&state))
    };
    let resting = candidates.filter_map(|job| Some((since(job)?, job.id.clone())));
    let Some((_, id)) = resting.min() else {
        return false;
    };
    jobs.remove(&id).is_some()
}

#[cfg(test)]
mod tests {
    use http::Response;
    use http::header::HeaderMap;

    use super::super::super::body::Body;
    use super::*;

    fn owner(scopes: &[&str]) -> Owner {
        Owner {
            scopes: scopes.iter().map(|scope| Arc::from(*scope)).collect(),
            ..Owner::of(&Identity::local("r"))
        }
    }

    fn try_open<'j>(jobs: &'j Jobs, owner: &Owner, bytes: usize) -> Result<Opened<'j>, Fault> {
        let order = Order {
            addressing: Addressing::Name,
            tool: "t".into(),
            arguments: vec![b' '; bytes].into(),
            input: RestInput::Body,
            accept: Accept::of(&HeaderMap::new()),
            above: "/api".into(),
        };
        jobs.open(owner.clone(), order, "/api/tasks")
    }

    fn open(jobs: &Jobs, owner: &Owner) -> Arc<Job> {
        let opened = try_open(jobs, owner, 0);
        opened.map(|job| job.keep(Said::default())).expect("room")
    }

    fn finish(job: &Job, bytes: usize, is_read: bool) {
        let answer = StoredAnswer::of(&Response::new(Body::from(vec![b'x'; bytes])));
        job.state.send_replace(State::Done {
            answer: Arc::new(answer.expect("ready bytes")),
            since: Instant::now(),
            is_read,
        });
    }

    #[test]
    fn a_job_is_there_for_the_identity_that_made_it_only() {
        let jobs = Jobs::default();
        let job = open(&jobs, &owner(&["a"]));
        assert!(jobs.find(&job.id, &owner(&["a"])).is_some());
        assert!(jobs.find(&job.id, &owner(&["a", "b"])).is_none());
        assert!(jobs.find("x", &owner(&["a"])).is_none());
        jobs.remove(&job.id);
        assert!(jobs.find(&job.id, &owner(&["a"])).is_none());
    }

    #[test]
    fn one_caller_has_so_many_jobs_and_answers_that_it_read_give_way() {
        let (jobs, alice) = (Jobs::default(), owner(&[]));
        let all: Vec<_> = (0..JOBS_PER_CALLER_MAX)
            .map(|_| open(&jobs, &alice))
            .collect();
        let refused = try_open(&jobs, &alice, 0).err().expect("full");
        assert_eq!(refused.kind, Kind::RateLimited);
        open(&jobs, &owner(&["x"]));
        finish(&all[3], 1, false);
        assert!(try_open(&jobs, &alice, 0).is_err(), "not read yet");
        finish(&all[5], 1, true);
        drop(try_open(&jobs, &alice, 0).expect("room"));
        drop(try_open(&jobs, &alice, 0).expect("the place of a job that nobody was told of"));
        assert!(jobs.find(&all[5].id, &alice).is_none());
        assert!(jobs.find(&all[3].id, &alice).is_some());
    }

    #[test]
    fn arguments_count_as_long_as_their_job_is_there() {
        let (jobs, alice) = (Jobs::default(), owner(&[]));
        let half = BYTES_PER_CALLER_MAX / 2;
        let first = try_open(&jobs, &alice, half).map(|job| job.keep(Said::default()));
        let first = first.expect("room");
        assert!(try_open(&jobs, &alice, half + 1).is_err());
        assert!(!jobs.has_room_for(&first, half + 1));
        finish(&first, 1, true);
        assert!(try_open(&jobs, &alice, half + 1).is_ok(), "it was read");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_bounded_in_bytes_and_time() {
        let (jobs, alice) = (Jobs::default(), owner(&[]));
        let (old, new) = (open(&jobs, &alice), open(&jobs, &alice));
        finish(&old, BYTES_PER_CALLER_MAX / 2, false);
        assert!(jobs.has_room_for(&new, BYTES_PER_CALLER_MAX));
        assert!(jobs.find(&old.id, &alice).is_none(), "it gave way");
        assert!(!jobs.has_room_for(&new, BYTES_PER_CALLER_MAX + 1));
        let ttl = Duration::from_secs(60);
        tokio::time::advance(2 * ttl).await;
        jobs.sweep(ttl);
        assert!(jobs.find(&new.id, &alice).is_some(), "it works");
        finish(&new, 1, false);
        tokio::time::advance(ttl).await;
        jobs.sweep(ttl);
        assert!(jobs.0.lock().is_empty());
    }
}
