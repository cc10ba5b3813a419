//! MCP on any transport: answers of the gateway itself, sessions and calls of legacy callers, calls of modern ones.
//!
//! Not here: framing, headers and event streams (`http`, `stdio`).

mod asks;
mod connection;
mod hello;
mod in_flight;
mod introduction;
mod large;
mod legacy;
mod listen;
mod modern;
mod render;
mod session;
mod sink;
mod subscribe;
mod tasks;
mod visits;

pub(crate) use connection::Connection;
pub(crate) use hello::{answer_list, discover};
pub(crate) use in_flight::CallGuard;
pub(crate) use introduction::{Introduction, unsupported_version};
pub(crate) use large::{Large, Unfinished};
pub(crate) use listen::{Changes, Listener, change_message};
pub(crate) use modern::{CallOptions, ModernCall, Turn};
pub(crate) use render::{fault_message, outcome_message};
pub(crate) use session::{LegacySession, Opening, PendingCall, ReadyAt, no_batches};
pub(crate) use sink::{CallerSink, StreamItem};

/// Time without a message after which an answer becomes a stream, and the keep-alive interval of streams.
pub(crate) const SILENCE_MAX: std::time::Duration = std::time::Duration::from_secs(15);
