//! Backends: MCP servers over HTTP and as child processes, HTTP APIs, and functions of PostgreSQL, adapted down from the
//! core's calls.
//!
//! Not here: which backend a call goes to and what it may do (`core`), anything of callers
//! (`surfaces`).

mod causes;
pub mod child;
pub mod discover;
pub mod fetch;
pub mod http;
pub mod kind;
mod loaded;
pub mod openapi;
pub mod postgres;
mod reach;
pub mod relay;
pub mod stdio;

pub use kind::{BackendKind, Context, MessageLimits, StartError};

/// The table of kinds: the settings of a `[[backends]]` entry as their kind.
pub fn kind_of(settings: &sentinel_config::BackendKind) -> &dyn BackendKind {
    use sentinel_config::BackendKind::{Http, Openapi, Postgres, Stdio};
    match settings {
        Http(settings) => settings,
        Stdio(settings) => settings,
        Openapi(settings) => settings,
        Postgres(settings) => settings,
    }
}
