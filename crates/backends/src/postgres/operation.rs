//! An operation as the database declares it, and what carries out its calls.
//!
//! `functions`, `tables` and `registry` make these; `served` adds what the gateway keeps per operation.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use sentinel_core::{Call, ItemKind, Reach, Reply, Route};
use tokio::sync::Notify;

use super::Config;
use super::database::Database;
use super::failure::Failure;
use super::settings::Fixed;

/// What a reader of the database found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) operations: Vec<Declared>,
    /// What they are made of: names of functions, ids of handlers.
    pub(super) sources: Vec<String>,
    /// What was left out and why, for the log, `doctor` and `pg check`.
    pub(super) notices: Vec<String>,
}

impl Found {
    pub(super) fn extend(&mut self, other: Self) {
        self.operations.extend(other.operations);
        self.sources.extend(other.sources);
        self.notices.extend(other.notices);
    }
}

pub(super) struct Declared {
    pub(super) kind: ItemKind,
    /// The name, URI or URI template.
    pub(super) key: String,
    /// The item of the list of its kind, as MCP 2026-07-28 has it.
    pub(super) definition: String,
    pub(super) reach: Reach,
    /// Further ways to it; `Route::tool` is `key`.
    pub(super) routes: Vec<Route>,
    /// It is for callers with a credential only.
    pub(super) needs_identity: bool,
    pub(super) execute: Box<dyn Execute>,
}

/// Carries out the calls of one operation.
pub(super) trait Execute: Send + Sync {
    fn run<'a>(&'a self, site: Site<'a>) -> BoxFuture<'a, Result<Reply, Failure>>;
}

/// A call, and what it runs with.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) database: &'a Database,
    pub(super) config: &'a Config,
    pub(super) fixed: &'a Fixed,
    /// Wakes the reader of the catalog.
    pub(super) changed: &'a Notify,
    pub(super) call: &'a Call,
    /// A JSON object: of a tool or prompt as it was sent, of a resource template the values in the URI.
    pub(super) arguments: &'a Bytes,
}
