//! Whether what is known of a child's tools may no longer be so.
//!
//! A child raises a doubt when it says that its tools changed, and an operator by wanting to know. Whoever reads the list
//! settles those that were raised before it began. Calls of tools that must be as they were approved wait for that.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sentinel_core::catalog::Said;
use sentinel_core::{Call, Fault, ItemKind};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Failure, Talk};
use crate::discover;

#[derive(Debug)]
pub(crate) struct Doubt {
    raised: AtomicU64,
    settled: watch::Sender<Settled>,
}

#[derive(Debug, Default)]
struct Settled {
    upto: u64,
    /// Why the list could not be read, the last time that it was asked for.
    problem: Option<String>,
}

impl Default for Doubt {
    fn default() -> Self {
        Self {
            raised: AtomicU64::new(0),
            settled: watch::Sender::new(Settled::default()),
        }
    }
}

impl Doubt {
    pub(crate) fn raise(&self) {
        self.raised.fetch_add(1, Ordering::SeqCst);
    }

    /// How many there were so far.
    pub(crate) fn raised(&self) -> u64 {
        self.raised.load(Ordering::SeqCst)
    }

    /// The first `upto` of them need nobody any more: the list was read after them, or could not be. `None` if it was
    /// not asked for.
    pub(crate) fn settle(&self, upto: u64, tools: Option<Result<(), String>>) {
        self.settled.send_modify(|settled| {
            settled.upto = settled.upto.max(upto);
            if let Some(read) = tools {
                settled.problem = read.err();
            }
        });
    }

    pub(crate) fn has_problem(&self) -> bool {
        self.settled.borrow().problem.is_some()
    }

    /// Waits until those that were raised so far are settled; an error says why the list could not be read.
    pub(crate) async fn is_settled(&self) -> Result<(), String> {
        let raised = self.raised();
        let mut settled = self.settled.subscribe();
        let settled = settled.wait_for(|settled| settled.upto >= raised).await;
        let settled = settled.expect("the sender lives as long as `self`");
        settled.problem.clone().map_or(Ok(()), Err)
    }
}

/// What a child that belongs to one caller says of its tools, and how many doubts there had been when it was asked.
pub(super) type Own = tokio::sync::Mutex<Option<(u64, Arc<Said>)>>;

impl Talk {
    /// Waits until lists are said to have changed: which, and how many doubts are settled by reading them now.
    pub(crate) async fn changes(&self, settle: Duration) -> (Vec<ItemKind>, u64) {
        self.changed.some(settle).await;
        // A doubt is raised after what it is about was noted.
        let raised = self.doubt.raised();
        (self.changed.take(), raised)
    }

    /// The lists were read after so many doubts, and among them that of tools, or it could not be.
    pub(crate) fn settle(&self, doubts: u64, tools: Option<Result<(), String>>) {
        self.doubt.settle(doubts, tools);
    }

    /// The last time it was asked for its tools it did not give them.
    pub(crate) fn keeps_its_tools(&self) -> bool {
        self.doubt.has_problem()
    }

    /// The list of tools is to be read again.
    pub(crate) fn tools_changed(&self) {
        self.changed.set(&[ItemKind::Tool]);
        self.doubt.raise();
    }

    /// Has the list of tools read again, and waits for it.
    pub(crate) async fn look(&self, deadline: Instant) -> Result<(), Fault> {
        self.tools_changed();
        let mut time = pin!(sleep_until(deadline));
        let settled = self.in_time(&mut time, self.doubt.is_settled()).await?;
        if self.pipe.is_closed() {
            return Err(self.gone());
        }
        settled.map_err(|why| discover::keeps_its_tools(&self.name, why))
    }

    /// Looks at a call of a pinned tool once more, when nothing is left to wait for.
    pub(super) async fn confirm(
        self: &Arc<Self>,
        call: &Call,
        time: &mut Pin<&mut Sleep>,
    ) -> Result<(), Failure> {
        let look = async {
            self.pipe.room().await;
            match &self.own {
                None => {
                    if self.doubt.is_settled().await.is_err() {
                        // Perhaps it gives its list now.
                        self.tools_changed();
                        let again = self.doubt.is_settled().await;
                        again.map_err(|why| discover::keeps_its_tools(&self.name, why))?;
                    }
                    Ok(self.publisher.confirm(call))
                }
                Some(own) => {
                    let said = self.own_tools(own).await?;
                    Ok(self.publisher.confirm_by(&said, call))
                }
            }
        };
        let looked: Result<_, Fault> = self.in_time(time, look).await?;
        if self.pipe.is_closed() {
            return Err(Failure::Closed);
        }
        looked?.map_err(|held| call.turned_back(held).into())
    }

    /// What this child says of its tools, asked again if it said since that they changed.
    async fn own_tools(self: &Arc<Self>, own: &Own) -> Result<Arc<Said>, Fault> {
        let mut known = own.lock().await;
        let raised = self.doubt.raised();
        if let Some((_, said)) = known.as_ref().filter(|(at, _)| *at == raised) {
            return Ok(said.clone());
        }
        let (kind, revision) = (ItemKind::Tool, self.revision());
        let list = discover::read_list(self, revision, kind, &self.name, &[]).await?;
        if let Some(why) = list.refused {
            return Err(discover::keeps_its_tools(&self.name, why));
        }
        let said = Arc::new(Said::of(&list.items));
        *known = Some((raised, said.clone()));
        Ok(said)
    }
}
