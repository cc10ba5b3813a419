//! Backends: MCP servers over HTTP and as child processes, adapted down from the core's calls.
//!
//! Not here: which backend a call goes to and what it may do (`core`), anything of callers
//! (`surfaces`).

pub mod child;
pub mod discover;
pub mod fetch;
pub mod http;
pub mod kind;
pub mod relay;
pub mod stdio;

pub use kind::{BackendKind, Context, MessageLimits, StartError, kind_of};
