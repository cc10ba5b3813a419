//! Whether the known list of a child's tools may be outdated.
//!
//! A child invalidates the list by announcing a change, an operator by requesting a check. Reading the list covers
//! the invalidations made before the read began. Calls of pinned tools wait for that.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sentinel_core::catalog::ToolDefinitions;
use sentinel_core::{Call, Fault, ItemKind};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{ChildSession, Failure};
use crate::discover;

#[derive(Debug)]
pub(crate) struct Freshness {
    invalidations: AtomicU64,
    covered: watch::Sender<Coverage>,
}

#[derive(Debug, Default)]
struct Coverage {
    upto: u64,
    /// Why the last reading of the list failed.
    problem: Option<String>,
}

impl Default for Freshness {
    fn default() -> Self {
        Self {
            invalidations: AtomicU64::new(0),
            covered: watch::Sender::new(Coverage::default()),
        }
    }
}

impl Freshness {
    pub(crate) fn invalidate(&self) {
        self.invalidations.fetch_add(1, Ordering::SeqCst);
    }

    /// Number of invalidations so far.
    pub(crate) fn invalidations(&self) -> u64 {
        self.invalidations.load(Ordering::SeqCst)
    }

    /// Covers the first `upto` invalidations: the list was read after them, or could not be read. `None`: it was not
    /// requested.
    pub(crate) fn cover(&self, upto: u64, tools: Option<Result<(), String>>) {
        self.covered.send_modify(|settled| {
            settled.upto = settled.upto.max(upto);
            if let Some(read) = tools {
                settled.problem = read.err();
            }
        });
    }

    pub(crate) fn has_problem(&self) -> bool {
        self.covered.borrow().problem.is_some()
    }

    /// Waits until all invalidations so far are covered; an error says why the list could not be read.
    pub(crate) async fn covered(&self) -> Result<(), String> {
        let invalidations = self.invalidations();
        let mut settled = self.covered.subscribe();
        let settled = settled
            .wait_for(|settled| settled.upto >= invalidations)
            .await;
        let settled = settled.expect("the sender lives as long as `self`");
        settled.problem.clone().map_or(Ok(()), Err)
    }
}

/// The tools of a child that belongs to one caller, and the number of invalidations when they were read.
pub(super) type OwnTools = tokio::sync::Mutex<Option<(u64, Arc<ToolDefinitions>)>>;

impl ChildSession {
    /// Waits until lists are announced as changed: which, and how many invalidations reading them now covers.
    pub(crate) async fn changes(&self, settle: Duration) -> (Vec<ItemKind>, u64) {
        self.changed.some(settle).await;
        // The invalidation is counted after the change is recorded.
        let invalidations = self.freshness.invalidations();
        (self.changed.take(), invalidations)
    }

    /// The lists were read after so many invalidations; `tools` if the list of tools was among them.
    pub(crate) fn settle(&self, invalidations: u64, tools: Option<Result<(), String>>) {
        self.freshness.cover(invalidations, tools);
    }

    /// Whether the last reading of its tools was refused.
    pub(crate) fn refuses_tools(&self) -> bool {
        self.freshness.has_problem()
    }

    /// Requests a new reading of the list of tools.
    pub(crate) fn tools_changed(&self) {
        self.changed.set(&[ItemKind::Tool]);
        self.freshness.invalidate();
    }

    /// Requests a new reading of the list of tools, and waits for it.
    pub(crate) async fn look(&self, deadline: Instant) -> Result<(), Fault> {
        self.tools_changed();
        let mut time = pin!(sleep_until(deadline));
        let settled = self.in_time(&mut time, self.freshness.covered()).await?;
        if self.pipe.is_closed() {
            return Err(self.gone());
        }
        settled.map_err(|why| discover::tools_refused(&self.name, why))
    }

    /// Checks a call of a pinned tool again, directly before it is sent.
    pub(super) async fn confirm(
        self: &Arc<Self>,
        call: &Call,
        time: &mut Pin<&mut Sleep>,
    ) -> Result<(), Failure> {
        let look = async {
            self.pipe.room().await;
            match &self.own {
                None => {
                    if self.freshness.covered().await.is_err() {
                        // It may give its list now.
                        self.tools_changed();
                        let again = self.freshness.covered().await;
                        again.map_err(|why| discover::tools_refused(&self.name, why))?;
                    }
                    Ok(self.publisher.confirm(call))
                }
                Some(own) => {
                    let definitions = self.own_tools(own).await?;
                    Ok(self.publisher.confirm_by(&definitions, call))
                }
            }
        };
        let looked: Result<_, Fault> = self.in_time(time, look).await?;
        if self.pipe.is_closed() {
            return Err(Failure::Closed);
        }
        looked?.map_err(|held| call.turned_back(held).into())
    }

    /// The tools of this child, read again if it announced a change since.
    async fn own_tools(self: &Arc<Self>, own: &OwnTools) -> Result<Arc<ToolDefinitions>, Fault> {
        let mut known = own.lock().await;
        let invalidations = self.freshness.invalidations();
        if let Some((_, definitions)) = known.as_ref().filter(|(at, _)| *at == invalidations) {
            return Ok(definitions.clone());
        }
        let (kind, revision) = (ItemKind::Tool, self.revision());
        let list = discover::read_list(self, revision, kind, &self.name, &[]).await?;
        if let Some(why) = list.refused {
            return Err(discover::tools_refused(&self.name, why));
        }
        let definitions = Arc::new(ToolDefinitions::of(&list.items));
        *known = Some((invalidations, definitions.clone()));
        Ok(definitions)
    }
}
