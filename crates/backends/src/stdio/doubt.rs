//! Whether what is known of a child's tools may no longer be so.
//!
//! A child raises a doubt when it says that its tools changed, and an operator by wanting to know. Whoever reads the list
//! settles those that were raised before it began. Calls of tools that must be as they were approved wait for that.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

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
