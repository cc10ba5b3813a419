//! JSON-RPC and MCP as bytes, in every revision. Pure: no I/O, no clock, no runtime.
//!
//! Not here: sockets and pipes (`backends`, `surfaces`), what a call is (`core`).

pub mod envelope;
mod framing;
pub mod header;
pub mod http1;
pub mod json;
pub mod lines;
pub mod meta;
pub mod method;
pub mod passing;
pub mod revision;
pub mod sse;
pub mod template;
pub mod translate;

pub use envelope::{
    Id, Incoming, Message, Notification, Outcome, Params, Payload, Request, Response,
};
pub use method::Method;
pub use passing::Passing;
pub use revision::{Era, Revision};
