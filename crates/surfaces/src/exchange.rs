//! The exchange around every handler: opens the record, renders the outcome by the table of faults, finishes the
//! record. A handler returns `Result<_, Fault>` and never sees the record.
//!
//! There are two levels. `MessageExchange` is one JSON-RPC request, whatever brought it: an HTTP body, an element of a
//! batch, a line on stdio. `http::Exchange` is one HTTP request; what fails before a message could be read is recorded
//! there. Both finish their record before the answer can leave, and dropping either unfinished records a
//! cancelled request.
//!
//! ```ignore
//! let arrival = Arrival { gateway, surface: Surface::Stdio, identity, traceparent: None };
//! let mut exchange = MessageExchange::open(&arrival, &request, line.len());
//! exchange.identify(&caller);                                // once known; sets the revision of the answer
//! let handled = call(request, exchange.trail()).await;       // Result<Handled, Fault>
//! let answer = exchange.answer(handled);                     // on record from here on
//! output.send(answer.whole().await).await;
//! ```

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use sentinel_core::audit::{self, AuditTrail, Ending, Surface};
use sentinel_core::{Beginning, Caller, Conversation, Entry, Fault, Identity, Kind, Reply};
use sentinel_wire::envelope::{PARSE_ERROR, Refusal, write_result};
use sentinel_wire::{Id, Message, Method, Outcome, Params, Request, Revision};

use crate::gateway::Gateway;
use crate::mcp::{Large, fault_message, outcome_message};
use crate::rescue;

/// The origin of a message: surface and identity.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) surface: Surface,
    pub(crate) identity: &'a Identity,
    /// The header of that name, if any.
    pub(crate) traceparent: Option<&'a [u8]>,
}

/// One JSON-RPC request, from the moment it was read until its answer is on record.
pub(crate) struct MessageExchange {
    id: Id,
    method: Method,
    /// The revision in which the answer is written.
    revision: Revision,
    entry: Entry,
}

/// One operation called over REST or plain JSON-RPC, from the moment its input was read until its answer is on record.
pub(crate) struct OperationExchange {
    entry: Entry,
}

impl OperationExchange {
    pub(crate) fn open(
        arrival: &Arrival<'_>,
        id: Option<&Id>,
        method: &Method,
        params: &Params,
        bytes_in: usize,
    ) -> Self {
        let mut entry = arrival.gateway.auditor.open(&audit::Request {
            surface: arrival.surface,
            id: id.map(Id::as_bytes),
            method: Some(method),
            params: Some(params),
            bytes_in,
            traceparent: arrival.traceparent,
        });
        entry.from(arrival.identity);
        Self { entry }
    }

    /// The trail on which the walk notes facts about the call.
    pub(crate) fn trail(&self) -> Arc<AuditTrail> {
        self.entry.trail()
    }

    /// Records the outcome; the answer may be sent when this returns.
    pub(crate) fn end(self, ending: &Ending, bytes_out: usize) {
        self.entry.finish(ending, bytes_out);
    }
}

/// The outcome of a handler.
pub(crate) enum Handled {
    /// The gateway's own result, as JSON.
    Result(Bytes),
    /// A backend's answer, or the gateway's in its place.
    Reply(Reply),
    /// A large answer that has begun; the call produces the rest.
    Begins(Box<Beginning>, Box<Conversation>),
}

/// The response to a request.
pub(crate) enum Answer {
    Whole {
        message: Vec<u8>,
        /// For MCP over HTTP.
        status: StatusCode,
    },
    /// Sent while it is received; recorded before its last byte.
    Large(Box<Large>),
}

impl Answer {
    /// The message as a whole.
    pub(crate) async fn whole(self) -> Vec<u8> {
        match self {
            Self::Whole { message, .. } => message,
            Self::Large(large) => large.gathered().await,
        }
    }
}

impl MessageExchange {
    /// Opens the exchange of a request. Errors are written in the newest handshake revision until the caller is
    /// identified.
    pub(crate) fn open(arrival: &Arrival<'_>, request: &Request, bytes_in: usize) -> Self {
        let mut entry = arrival.gateway.auditor.open(&audit::Request {
            surface: arrival.surface,
            id: Some(request.id.as_bytes()),
            method: Some(&request.method),
            params: Some(&request.params),
            bytes_in,
            traceparent: arrival.traceparent,
        });
        entry.from(arrival.identity);
        Self {
            id: request.id.clone(),
            method: request.method.clone(),
            revision: Revision::NEWEST_LEGACY,
            entry,
        }
    }

    /// The revision in which a refusal is written before the caller is identified.
    pub(crate) fn in_revision(mut self, revision: Revision) -> Self {
        self.revision = revision;
        self
    }

    /// The caller accepts a large answer in pieces, each of which may wait for this many seconds.
    pub(crate) fn takes_pieces(&self, patience_s: u32) {
        self.entry.takes_pieces(patience_s);
    }

    /// Sets the caller, and the revision of the answer.
    pub(crate) fn identify(&mut self, caller: &Caller) {
        self.revision = caller.revision;
        self.entry.by(caller);
    }

    /// The trail on which the walk notes facts about the call.
    pub(crate) fn trail(&self) -> Arc<AuditTrail> {
        self.entry.trail()
    }

    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    /// The answer, whose record is made before this returns; of a large one, before its last byte.
    pub(crate) fn answer(self, handled: Result<Handled, Fault>) -> Answer {
        match handled {
            Ok(Handled::Result(result)) => {
                let mut message = Vec::new();
                write_result(&self.id, &result, &mut message);
                self.whole(message, &Ending::Success, StatusCode::OK)
            }
            Ok(Handled::Reply(reply)) => self.reply(&Ok(reply)),
            Err(fault) => self.reply(&Err(fault)),
            Ok(Handled::Begins(beginning, talk)) => {
                Answer::Large(Box::new(Large::new(self, *beginning, *talk)))
            }
        }
    }

    fn reply(self, outcome: &Result<Reply, Fault>) -> Answer {
        let message = outcome_message(&self.id, &self.method, self.revision, outcome);
        let status = match outcome {
            Err(fault) => rescue::row(fault.kind).mcp_status(self.revision),
            Ok(Reply {
                outcome: Outcome::Error(error),
                ..
            }) if self.revision.is_modern() => rescue::status_of_backend_error(error),
            Ok(_) => StatusCode::OK,
        };
        self.whole(message, &Ending::of(outcome), status)
    }

    fn whole(self, message: Vec<u8>, ending: &Ending, status: StatusCode) -> Answer {
        self.entry.finish(ending, message.len());
        Answer::Whole { message, status }
    }

    /// Records a request that opened a stream which lives on.
    pub(crate) fn opened(self, bytes_out: usize) {
        self.entry.finish(&Ending::Success, bytes_out);
    }

    /// Records the end of a large answer of which this many bytes were sent.
    pub(crate) fn ended(self, outcome: &Result<Reply, Fault>, bytes_out: usize) {
        self.entry.finish(&Ending::of(outcome), bytes_out);
    }

    /// The error message for a large answer that failed before any of it was sent.
    pub(crate) fn failure(&self, fault: &Fault) -> Vec<u8> {
        fault_message(Some(&self.id), self.revision, fault)
    }
}

#[cfg(test)]
impl MessageExchange {
    pub(crate) fn unrecorded(id: Id, revision: Revision) -> Self {
        let entry = sentinel_core::Auditor::off().open(&audit::Request {
            surface: Surface::Http,
            id: None,
            method: None,
            params: None,
            bytes_in: 0,
            traceparent: None,
        });
        Self {
            id,
            method: Method::ToolsCall,
            revision,
            entry,
        }
    }
}

impl Arrival<'_> {
    /// Records a refused message that is no request.
    fn record(&self, id: Option<&Id>, kind: Kind, bytes_in: usize, bytes_out: usize) {
        let request = audit::Request {
            surface: self.surface,
            id: id.map(Id::as_bytes),
            method: None,
            params: None,
            bytes_in,
            traceparent: None,
        };
        let mut entry = self.gateway.auditor.open(&request);
        entry.from(self.identity);
        entry.finish(&Ending::Refused(kind), bytes_out);
    }

    /// Answers and records an unreadable message.
    pub(crate) fn malformed(
        &self,
        refusal: &Refusal,
        revision: Revision,
        bytes_in: usize,
    ) -> Answer {
        let kind = match refusal.code {
            PARSE_ERROR => Kind::ParseError,
            _ => Kind::InvalidRequest,
        };
        let fault = Fault::new(kind, refusal.message.clone());
        self.refuse(refusal.id.as_ref(), &fault, revision, bytes_in)
    }

    /// Answers and records a message that is refused unread.
    pub(crate) fn refuse(
        &self,
        id: Option<&Id>,
        fault: &Fault,
        revision: Revision,
        bytes_in: usize,
    ) -> Answer {
        let message = fault_message(id, revision, fault);
        self.record(id, fault.kind, bytes_in, message.len());
        let status = rescue::row(fault.kind).status();
        Answer::Whole { message, status }
    }

    /// Refuses a batch: each of its requests gets a record, or the refusal itself if there is none.
    pub(crate) fn refuse_batch(&self, messages: &[Result<Message, Refusal>], fault: &Fault) {
        let mut recorded = false;
        for message in messages {
            match message {
                Ok(Message::Request(request)) => {
                    let bytes_in = request.params.as_bytes().len();
                    let exchange = MessageExchange::open(self, request, bytes_in);
                    exchange.entry.finish(&Ending::Refused(fault.kind), 0);
                }
                Ok(_) => continue,
                Err(refusal) => self.record(refusal.id.as_ref(), fault.kind, 0, 0),
            }
            recorded = true;
        }
        if !recorded {
            self.record(None, fault.kind, 0, 0);
        }
    }
}
