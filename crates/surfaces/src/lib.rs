//! Surfaces: the doors callers come in by.
//!
//! A surface adapts its callers, of any revision, up to the core's `Call`, and what comes back down
//! to them. `mcp` is what all MCP doors share; `http` and `stdio` are the doors.
//!
//! Not here: what a call may do and where it goes (`core`), processes and sockets to servers
//! (`backends`).

mod exchange;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
pub mod http;
mod mcp;
pub mod rescue;
pub mod stdio;

pub use gateway::{Control, Gateway, Limits};
