//! MCP as all doors speak it: what the gateway answers itself, and conversations with callers of
//! both eras.
//!
//! Not here: framing, headers and sessions (`http`, `stdio`).

mod asks;
mod hello;
mod introduction;
mod large;
mod legacy;
mod listen;
mod modern;
mod render;
mod sink;
mod subscribe;
mod tasks;
mod visits;

pub(crate) use asks::Asks;
pub(crate) use hello::{answer_list, discover, initialize, waits_for_lists};
pub(crate) use introduction::{Introduction, unsupported_version};
pub(crate) use large::{Large, Unfinished};
pub(crate) use legacy::LegacyCall;
pub(crate) use listen::{Changes, Listener, change_message};
pub(crate) use modern::{Talk, Turn};
pub(crate) use render::{fault_message, outcome_message};
pub(crate) use sink::{CallerSink, StreamItem};
pub(crate) use subscribe::Subscriber;

/// Nothing to say for this long turns an answer into a stream, and keeps a stream alive.
pub(crate) const SILENCE_MAX: std::time::Duration = std::time::Duration::from_secs(15);
