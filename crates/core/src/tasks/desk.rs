//! Where tasks of legacy servers ask.
//!
//! Such a server puts its questions to whoever waits for the task's result (`tasks/result`); a modern caller
//! only looks in now and then. So the desk waits, once a task says that it wants input, and keeps what is
//! asked until the caller's `tasks/update` answers it. A hearing ends with the result, or when nobody looks
//! in for as long as a caller may think: then the server is told that there is nobody to ask.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sentinel_wire::Payload;
use sentinel_wire::json::{Kind, Object, Rules};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::admission::PermitSlot;
use crate::caller::Caller;
use crate::fault::Fault;
use crate::line::{Answer, Ask, Conversation, Event, Line, Step, UNREAD_BYTES_MAX};
use crate::park::input_requests;
use crate::reply::Reply;

/// Hearings at once, over all callers and for one: each holds a request open at a backend.
const HEARINGS_MAX: usize = 4096;
const HEARINGS_PER_CALLER_MAX: usize = 64;
/// Questions of one task at a time; further ones are refused.
const ASKS_MAX: usize = 32;
/// Questions that arrive together are shown together.
const SETTLE: Duration = Duration::from_millis(20);
const THINK_DEFAULT: Duration = Duration::from_secs(600);

/// One task of one caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The backend's place in the registry.
    pub(super) backend: usize,
    pub(super) subject: Arc<str>,
    pub(super) id: String,
}

pub(crate) struct Desk {
    open: Mutex<HashMap<Key, Arc<Hearing>>>,
    /// Names questions: a key is never used twice in the life of a task.
    next_key: AtomicU64,
    think_ms: AtomicU64,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            next_key: AtomicU64::new(1),
            think_ms: AtomicU64::new(THINK_DEFAULT.as_millis() as u64),
        }
    }
}

/// A task whose result is waited for, and what it asks meanwhile.
pub(super) struct Hearing {
    asks: Mutex<Vec<(String, Ask)>>,
    /// Something was asked, or it is over.
    news: Notify,
    over: AtomicBool,
    last_look: Mutex<Instant>,
    driver: Mutex<Option<AbortHandle>>,
}

impl Desk {
    pub(crate) fn be_patient(&self, think: Duration) {
        let ms = think.as_millis() as u64;
        self.think_ms.store(ms, Ordering::Relaxed);
    }

    /// The hearing of a task; `begin` asks for its result where nobody does yet. `None` if there are too
    /// many.
    pub(super) fn hear(
        self: &Arc<Self>,
        key: &Key,
        begin: impl FnOnce(Line) -> BoxFuture<'static, Result<Reply, Fault>>,
    ) -> Option<Arc<Hearing>> {
        let mut open = self.open.lock();
        if let Some(hearing) = open.get(key) {
            return Some(hearing.clone());
        }
        let of_caller = open.keys().filter(|k| k.subject == key.subject).count();
        if open.len() >= HEARINGS_MAX || of_caller >= HEARINGS_PER_CALLER_MAX {
            return None;
        }
        let hearing = Arc::new(Hearing {
            asks: Mutex::default(),
            news: Notify::new(),
            over: AtomicBool::new(false),
            last_look: Mutex::new(Instant::now()),
            driver: Mutex::default(),
        });
        let slot = PermitSlot::default();
        let (line, events) = Line::open(slot.clone(), UNREAD_BYTES_MAX);
        let talk = Conversation::new(begin(line.hiding_task()), events, Arc::default(), slot);
        let driver = tokio::spawn(drive(self.clone(), key.clone(), hearing.clone(), talk));
        *hearing.driver.lock() = Some(driver.abort_handle());
        open.insert(key.clone(), hearing.clone());
        Some(hearing)
    }

    pub(super) fn find(&self, key: &Key) -> Option<Arc<Hearing>> {
        self.open.lock().get(key).cloned()
    }

    /// Nobody wants to hear more of this task.
    pub(super) fn close(&self, key: &Key) {
        let hearing = self.open.lock().remove(key);
        if let Some(driver) = hearing.and_then(|hearing| hearing.driver.lock().take()) {
            driver.abort();
        }
    }

    /// Takes a hearing out, unless another has its place by now.
    fn end(&self, key: &Key, hearing: &Arc<Hearing>) {
        let mut open = self.open.lock();
        if open.get(key).is_some_and(|now| Arc::ptr_eq(now, hearing)) {
            open.remove(key);
        }
        drop(open);
        hearing.over.store(true, Ordering::Release);
        hearing.news.notify_waiters();
    }
}

/// Waits for the result and gathers questions; the result itself is fetched anew by whoever asks for it.
async fn drive(desk: Arc<Desk>, key: Key, hearing: Arc<Hearing>, mut talk: Conversation) {
    let think = Duration::from_millis(desk.think_ms.load(Ordering::Relaxed));
    loop {
        let until = *hearing.last_look.lock() + think;
        let step = tokio::select! {
            step = talk.next() => step,
            () = tokio::time::sleep_until(until) => {
                if hearing.last_look.lock().elapsed() < think {
                    continue;
                }
                // Dropped unanswered: the server hears that there is nobody, and goes on without.
                hearing.asks.lock().clear();
                while !matches!(talk.next().await, Step::Done(_)) {}
                break;
            }
        };
        match step {
            Step::Event(Event::Ask(ask)) => {
                let mut asks = hearing.asks.lock();
                if asks.len() < ASKS_MAX {
                    let n = desk.next_key.fetch_add(1, Ordering::Relaxed);
                    asks.push((format!("ask-{n}"), *ask));
                }
                drop(asks);
                hearing.news.notify_waiters();
            }
            // A task of the extension has no progress and no log.
            // Questions about tasks are never answered in pieces.
            Step::Event(Event::Notice(_) | Event::Begins(_)) => {}
            Step::Done(_) => break,
        }
    }
    desk.end(&key, &hearing);
}

impl Hearing {
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// What the task asks and this caller can answer, waiting a little for it; `None` if there is nothing.
    pub(super) async fn asked(&self, wait: Duration, caller: &Caller) -> Option<String> {
        *self.last_look.lock() = Instant::now();
        let news = self.news.notified();
        tokio::pin!(news);
        // Before the look, so that nothing falls in between.
        news.as_mut().enable();
        if self.asks.lock().is_empty() && !self.is_over() {
            let _ = tokio::time::timeout(wait, news).await;
            tokio::time::sleep(SETTLE).await;
        }
        let mut asks = self.asks.lock();
        asks.retain(|(_, ask)| !ask.answer.is_closed());
        let for_caller = |(_, ask): &&(String, Ask)| {
            Payload::parse(ask.params.clone(), Rules::backend())
                .is_ok_and(|params| caller.can_answer(&ask.method, &params))
        };
        let requests = input_requests(asks.iter().filter(for_caller));
        (requests != "{}").then_some(requests)
    }

    /// Hands answers to whoever asked; keys that nobody waits for are ignored.
    pub(super) fn answer(&self, raw: &Bytes) {
        *self.last_look.lock() = Instant::now();
        let answers = Object::parse(raw, Rules::backend()).unwrap_or_default();
        let mut asks = self.asks.lock();
        let mut open = Vec::new();
        for (key, ask) in asks.drain(..) {
            let answer = answers.get(raw, &key).map(|span| raw.slice(span.range()));
            match answer.filter(|answer| Kind::of(answer) == Some(Kind::Object)) {
                Some(answer) => drop(ask.answer.send(Answer::Result(answer))),
                None => open.push((key, ask)),
            }
        }
        *asks = open;
    }
}
