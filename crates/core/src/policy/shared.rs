//! Rate limits that many gateways share: the seam to whoever keeps the buckets.
//!
//! A gateway without a shared keeper never comes here. With one, the keeper decides, and the gateway's own bucket is
//! charged for what passed: when the keeper is away it takes over, and a caller has no more of this gateway than
//! its limit, whatever happens to the keeper.
//!
//! Not here: where the buckets are (`sentinel_stores::redis`).

use futures_util::future::BoxFuture;

use super::rates::Limited;
use crate::operation::Operation;

/// What one caller may do with one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Calls in a minute; never 0.
    pub rpm: u32,
    /// Calls that may come at once; never 0.
    pub burst: u32,
}

/// Nobody can say: the keeper is away, or did not answer in time.
#[derive(Debug, PartialEq, Eq)]
pub struct Unavailable;

/// What the keeper says about one call.
pub type Said = Result<Result<(), Limited>, Unavailable>;

/// Keeps the buckets of many gateways. It answers within a bound of its own, or is unavailable.
pub trait SharedRates: Send + Sync {
    /// Takes a token for one call of a tool.
    fn take(
        &self,
        subject: &str,
        tool: &Operation,
        allowance: Allowance,
    ) -> BoxFuture<'static, Said>;

    fn figures(&self) -> SharedFigures;
}

/// What is counted of the keeper.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedFigures {
    /// It answered when it was last asked.
    pub is_up: bool,
    /// Calls that it decided.
    pub decided: u64,
    /// Calls that the gateway decided by itself, for the keeper was away.
    pub alone: u64,
}
