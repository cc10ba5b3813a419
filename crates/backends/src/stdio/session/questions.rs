//! Questions of the child to its callers.

use std::sync::Arc;

use bytes::Bytes;
use sentinel_core::{Answer, Caller};
use sentinel_wire::envelope::{
    INVALID_PARAMS, METHOD_NOT_FOUND, error_object, write_error_object, write_result,
};
use sentinel_wire::{Id, Method, Request, Revision};
use tokio::time::Instant;

use super::{ChildSession, PendingRequest};
use crate::relay;

/// Open questions of one child. A call may ask several, but not without bound.
const ASKS_MAX: usize = 32;

/// An open question that blocks the running call.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenQuestion {
    pub(super) since: Instant,
    /// Its call is parked with it, and the caller may never come back.
    pub(super) is_parked: bool,
}

impl ChildSession {
    pub(super) fn on_request(self: &Arc<Self>, request: Request) {
        if self.revision().is_modern() {
            // Servers of this revision must not ask, and must not be answered.
            tracing::debug!(backend = %self.name, method = request.method.as_str(), "a request from a modern server");
            return;
        }
        match request.method {
            Method::Ping => self.pipe.post(|out| write_result(&request.id, b"{}", out)),
            Method::Elicit | Method::Sample | Method::RootsList => self.ask(request),
            method => {
                let text = format!("{}: no such method", method.as_str());
                self.refuse(
                    &request.id,
                    error_object(METHOD_NOT_FOUND.into(), &text, None).into(),
                );
            }
        }
    }

    /// Puts a question of the child to the one caller it can be for.
    fn ask(self: &Arc<Self>, request: Request) {
        let Request { id, method, params } = request;
        if self.turn.is_none() {
            return self.refuse(&id, relay::nobody_to_ask(&method));
        }
        let begin = |call: u64, waiter: &mut PendingRequest| {
            let side = waiter.side.as_mut()?;
            can_answer(&side.caller, &method).then(|| {
                if side.open_questions == 0 {
                    side.since = Instant::now();
                    if !side.is_about_a_task {
                        self.asked.send_replace(Some(OpenQuestion {
                            since: side.since,
                            is_parked: side.caller.revision.is_modern(),
                        }));
                    }
                }
                side.open_questions += 1;
                (call, side.line.clone())
            })
        };
        let mut asks = self.asks.lock();
        let full = asks.len() >= ASKS_MAX || asks.contains_key(&id);
        let task = relay::related_task(&params);
        let found = match task {
            _ if full => Some(None),
            Some(task) => self.pipe.only(|w| w.awaits(&task), begin),
            None => self.pipe.only(PendingRequest::is_of_a_call, begin),
        };
        let (call, line) = match found {
            Some(Some(found)) => found,
            Some(None) => {
                drop(asks);
                return self.refuse(&id, relay::nobody_to_ask(&method));
            }
            None => {
                drop(asks);
                let text = "no call of a client goes with this question";
                return self.refuse(&id, error_object(INVALID_PARAMS.into(), text, None).into());
            }
        };
        let answer = line.ask(method, Bytes::copy_from_slice(params.as_bytes()));
        let session = Arc::clone(self);
        let asked = id.clone();
        let task = tokio::spawn(async move { session.answer(call, &asked, answer.await) });
        asks.insert(id, (call, task.abort_handle()));
    }

    fn answer(&self, call: u64, id: &Id, answer: Option<Answer>) {
        self.asks.lock().remove(id);
        self.count_answer(call);
        match answer {
            Some(Answer::Result(result)) => self.pipe.post(|out| write_result(id, &result, out)),
            Some(Answer::Error(error)) => self.refuse(id, error),
            None => {
                let text = "the client is gone";
                self.refuse(id, error_object(-1, text, None).into());
            }
        }
    }

    /// The child cancelled its question.
    pub(super) fn withdraw_ask(&self, id: Option<&[u8]>) {
        let id = id.map(Bytes::copy_from_slice).and_then(Id::from_raw);
        let found = id.and_then(|id| self.asks.lock().remove(&id));
        if let Some((call, ask)) = found {
            ask.abort();
            self.count_answer(call);
        }
    }

    /// Counts a question as answered.
    fn count_answer(&self, call: u64) {
        self.pipe.with(call, |waiter| {
            if let Some(side) = &mut waiter.side {
                side.open_questions = side.open_questions.saturating_sub(1);
                if side.open_questions == 0 {
                    side.answer_time += side.since.elapsed();
                    if !side.is_about_a_task {
                        self.asked.send_replace(None);
                    }
                }
            }
        });
    }

    fn refuse(&self, id: &Id, error: Bytes) {
        self.pipe
            .post(|out| write_error_object(Some(id), Revision::NEWEST_LEGACY, &error, out));
    }
}

fn can_answer(caller: &Caller, method: &Method) -> bool {
    let can = &caller.capabilities;
    match method {
        Method::Elicit => can.elicit_form || can.elicit_url,
        Method::Sample => can.sampling,
        Method::RootsList => can.roots,
        _ => false,
    }
}
