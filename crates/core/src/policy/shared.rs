//! Rate limits shared by several gateways: the interface to the store of their buckets.
//!
//! Used only if configured. The store decides, and the gateway's own bucket is charged for what passed: when the
//! store is unavailable the own bucket takes over, so a caller never gets more from this gateway than its limit.
//!
//! Not here: where the buckets are (`sentinel_stores::redis`).

use futures_util::future::BoxFuture;

use super::rates::Limited;
use crate::operation::Operation;

/// The limit of one caller for one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Calls in a minute; never 0.
    pub rpm: u32,
    /// Burst; never 0.
    pub burst: u32,
}

/// The decision of the store about one call.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    Limited(Limited),
    /// The store is unavailable, or did not answer in time.
    Unavailable,
}

/// A store of shared buckets. It answers within a bound of its own, or is unavailable.
pub trait SharedRates: Send + Sync {
    /// Takes a token for one call of a tool.
    fn take(
        &self,
        subject: &str,
        tool: &Operation,
        allowance: Allowance,
    ) -> BoxFuture<'static, Decision>;

    fn figures(&self) -> SharedFigures;
}

/// Counters of the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedFigures {
    /// It answered the last request.
    pub is_up: bool,
    /// Calls that it decided.
    pub decided: u64,
    /// Calls that the gateway decided itself while the store was unavailable.
    pub alone: u64,
}
