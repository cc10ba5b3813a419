//! Questions of tasks of legacy servers.
//!
//! Such a server sends its questions to the request that waits for the task's result (`tasks/result`), and a modern
//! caller only polls. So once a task says that it wants input, `TaskQuestions` requests its result, and keeps the
//! questions until the caller's `tasks/update` answers them. This ends with the result, or when the caller has not polled
//! for the think time: the questions are then refused, as for a caller that cannot be asked.

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

/// Awaited tasks, over all callers and for one: each holds a request open at a backend.
const AWAITED_MAX: usize = 4096;
const AWAITED_PER_CALLER_MAX: usize = 64;
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

pub(crate) struct TaskQuestions {
    open: Mutex<HashMap<Key, Arc<AwaitedTask>>>,
    /// Names questions: a key is never used twice in the life of a task.
    next_key: AtomicU64,
    think_ms: AtomicU64,
}

impl Default for TaskQuestions {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            next_key: AtomicU64::new(1),
            think_ms: AtomicU64::new(THINK_DEFAULT.as_millis() as u64),
        }
    }
}

/// A task whose result is waited for, and what it asks meanwhile.
pub(super) struct AwaitedTask {
    asks: Mutex<Vec<(String, Ask)>>,
    /// A question came, or the task is over.
    news: Notify,
    over: AtomicBool,
    last_look: Mutex<Instant>,
    driver: Mutex<Option<AbortHandle>>,
}

impl TaskQuestions {
    pub(crate) fn set_think_time(&self, think: Duration) {
        let ms = think.as_millis() as u64;
        self.think_ms.store(ms, Ordering::Relaxed);
    }

    /// The awaited task; `begin` requests its result if it is not awaited yet. `None` if there are too many.
    pub(super) fn wait_for(
        self: &Arc<Self>,
        key: &Key,
        begin: impl FnOnce(Line) -> BoxFuture<'static, Result<Reply, Fault>>,
    ) -> Option<Arc<AwaitedTask>> {
        let mut open = self.open.lock();
        if let Some(awaited) = open.get(key) {
            return Some(awaited.clone());
        }
        let of_caller = open.keys().filter(|k| k.subject == key.subject).count();
        if open.len() >= AWAITED_MAX || of_caller >= AWAITED_PER_CALLER_MAX {
            return None;
        }
        let awaited = Arc::new(AwaitedTask {
            asks: Mutex::default(),
            news: Notify::new(),
            over: AtomicBool::new(false),
            last_look: Mutex::new(Instant::now()),
            driver: Mutex::default(),
        });
        let slot = PermitSlot::default();
        let (line, events) = Line::open(slot.clone(), UNREAD_BYTES_MAX);
        let talk = Conversation::new(begin(line.hiding_task()), events, Arc::default(), slot);
        let driver = tokio::spawn(drive(self.clone(), key.clone(), awaited.clone(), talk));
        *awaited.driver.lock() = Some(driver.abort_handle());
        open.insert(key.clone(), awaited.clone());
        Some(awaited)
    }

    pub(super) fn find(&self, key: &Key) -> Option<Arc<AwaitedTask>> {
        self.open.lock().get(key).cloned()
    }

    /// Ends the wait for this task.
    pub(super) fn close(&self, key: &Key) {
        let awaited = self.open.lock().remove(key);
        if let Some(driver) = awaited.and_then(|awaited| awaited.driver.lock().take()) {
            driver.abort();
        }
    }

    /// Removes an awaited task, unless another has its place by now.
    fn end(&self, key: &Key, awaited: &Arc<AwaitedTask>) {
        let mut open = self.open.lock();
        if open.get(key).is_some_and(|now| Arc::ptr_eq(now, awaited)) {
            open.remove(key);
        }
        drop(open);
        awaited.over.store(true, Ordering::Release);
        awaited.news.notify_waiters();
    }
}

/// Waits for the result and gathers questions. The result is dropped: the request that wants it fetches it again.
async fn drive(
    questions: Arc<TaskQuestions>,
    key: Key,
    awaited: Arc<AwaitedTask>,
    mut talk: Conversation,
) {
    let think = Duration::from_millis(questions.think_ms.load(Ordering::Relaxed));
    loop {
        let until = *awaited.last_look.lock() + think;
        let step = tokio::select! {
            step = talk.next() => step,
            () = tokio::time::sleep_until(until) => {
                if awaited.last_look.lock().elapsed() < think {
                    continue;
                }
                // Dropped unanswered: the server is told that no caller can be asked, and continues.
                awaited.asks.lock().clear();
                while !matches!(talk.next().await, Step::Done(_)) {}
                break;
            }
        };
        match step {
            Step::Event(Event::Ask(ask)) => {
                let mut asks = awaited.asks.lock();
                if asks.len() < ASKS_MAX {
                    let n = questions.next_key.fetch_add(1, Ordering::Relaxed);
                    asks.push((format!("ask-{n}"), *ask));
                }
                drop(asks);
                awaited.news.notify_waiters();
            }
            // A task of the extension has no progress and no log.
            // Questions about tasks are never answered in pieces.
            Step::Event(Event::Notice(_) | Event::Begins(_)) => {}
            Step::Done(_) => break,
        }
    }
    questions.end(&key, &awaited);
}

impl AwaitedTask {
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

    /// Passes answers to the questions of these keys; unknown keys are ignored.
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
