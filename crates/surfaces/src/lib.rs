//! Surfaces: the protocols by which callers reach the gateway.
//!
//! A surface translates its callers' requests, of any revision, to the core's `Call`, and the answers back. `mcp` is
//! shared by all MCP surfaces; `http` and `stdio` are the transports.
//!
//! Not here: permissions and routing of calls (`core`), connections to servers (`backends`).

mod exchange;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
pub mod http;
mod mcp;
pub mod rescue;
pub mod stdio;

pub use gateway::{Control, Gateway, Limits};
