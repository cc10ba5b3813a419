//! Verifies the chains of all audit records.
//!
//! A chain holds or breaks as a whole, so there is nothing to verify of a part of one.

use schemars::JsonSchema;
use sentinel_core::{Fault, Kind};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::super::{Endpoint, Exchange, Posted, control};

/// Each reads the whole store.
static VERIFYING: Semaphore = Semaphore::const_new(1);

/// What a verification found.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    pub ok: bool,
    pub lanes: u64,
    pub records: u64,
    /// Missing records that were announced when they were lost.
    pub announced: u64,
    /// Lanes of other data directories: only those know where they end.
    pub elsewhere: u64,
    /// The first bad record of the first bad lane.
    pub broken: Option<BrokenRecord>,
    /// Lanes with a bad record.
    pub broken_lanes: u64,
    pub took_ms: u64,
}

/// A record that was altered, or that is missing.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct BrokenRecord {
    /// `<node>.<lane>.<seq>`
    pub key: String,
    pub reason: String,
}

pub(crate) struct Verify;

impl Endpoint for Verify {
    type Input = Posted;
    type Output = Verified;

    async fn handle(exchange: &Exchange<'_>, _: Posted) -> Result<Verified, Fault> {
        let busy = |_| {
            let text = "a verification runs already";
            Fault::new(Kind::Unavailable, text).retry_after_ms(1000)
        };
        let _turn = VERIFYING.try_acquire().map_err(busy)?;
        control(exchange.server)?.verify_records().await
    }
}
