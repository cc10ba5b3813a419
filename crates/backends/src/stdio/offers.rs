//! The server's offer to callers who can be asked.
//!
//! A modern child gets the capabilities with each request, so the shared child is asked. A legacy child gets them
//! once, in its handshake: a further process is started, asked and ended. Callers reach such tools only where a child
//! may ask questions (`isolation`, `interactive`), so elsewhere none is started.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::FutureExt;
use parking_lot::Mutex;
use sentinel_core::backend::OfferFor;
use sentinel_core::{CapabilitySet, Fault, Kind, Offer};
use sentinel_wire::{Era, Revision};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::keeper::Keeper;
use super::life::{Plan, live};
use super::session::CallMode;
use crate::discover::{self, Greeting};
use crate::relay;

/// Reads offers for capability sets.
pub(crate) struct Offers {
    plan: Arc<Plan>,
    /// Callers have children of their own.
    is_isolated: bool,
    /// One further process at a time, however many capability sets there are.
    reading: tokio::sync::Mutex<()>,
}

impl Offers {
    pub(crate) fn new(plan: Arc<Plan>, is_isolated: bool) -> Arc<Self> {
        Arc::new(Self {
            plan,
            is_isolated,
            reading: tokio::sync::Mutex::default(),
        })
    }

    /// Reads the offer for a capability set; `None` if it equals what the shared child published.
    pub(crate) fn of(
        self: &Arc<Self>,
        set: CapabilitySet,
        shared: &Arc<Keeper>,
    ) -> Option<OfferFor> {
        let (this, shared) = (self.clone(), shared.clone());
        if *self.plan.era.lock() == Some(Era::Modern) {
            let reading = async move { this.ask_shared(set, &shared).await.map(Some) };
            return (set != CapabilitySet::NONE).then(|| reading.boxed());
        }
        let published = match self.plan.mode {
            CallMode::Interactive => CapabilitySet::ALL,
            CallMode::Parallel => CapabilitySet::NONE,
        };
        let may_ask = self.is_isolated || self.plan.mode == CallMode::Interactive;
        let reading = async move { this.ask_another(set).await.map(Some) };
        (may_ask && set != published).then(|| reading.boxed())
    }

    async fn ask_shared(&self, set: CapabilitySet, shared: &Keeper) -> Result<Offer, Fault> {
        let session = shared
            .session(Instant::now() + self.plan.config.timeout)
            .await?;
        let published = self.plan.publisher.offer();
        let published = published.ok_or_else(|| self.failed("it lists nothing yet"))?;
        let greeting = Greeting {
            revision: session.revision(),
            capabilities: published.capabilities,
            extensions: published.extensions.clone(),
            server_info: published.server_info.clone(),
            instructions: published.instructions.clone(),
            declared: relay::declaration(&set.capabilities(), session.revision()).into(),
            legacy: Vec::new(),
        };
        let name = &self.plan.name;
        let lists = discover::read_lists(&session, &greeting, name, Some(&published)).await?;
        match lists.tools_refused {
            None => Ok(lists.offer),
            Some(why) => Err(self.failed(&why)),
        }
    }

    async fn ask_another(&self, set: CapabilitySet) -> Result<Offer, Fault> {
        let _one_at_a_time = self.reading.lock().await;
        let (plan, revision) = (&self.plan, Revision::NEWEST_LEGACY);
        let plan = Plan {
            config: plan.config.clone(),
            name: plan.name.clone(),
            declared: relay::declaration(&set.capabilities(), revision).into(),
            mode: CallMode::Parallel,
            lists: true,
            // Notifications of this child are dropped.
            publisher: plan.publisher.for_audience(&"\0offers".into()),
            changed: Arc::default(),
            missed: AtomicBool::new(false),
            era: Arc::new(Mutex::new(*plan.era.lock())),
            output_tail: plan.output_tail.clone(),
        };
        let (ready, arriving) = oneshot::channel();
        let (end, ending) = oneshot::channel();
        let limit = plan.config.timeout;
        let mut life = Box::pin(live(Arc::new(plan), ready, ending));
        let offer = tokio::select! {
            Ok(ready) = arriving => ready.offer,
            ended = &mut life => return Err(self.failed(&ended.why)),
            () = tokio::time::sleep(limit) => None,
        };
        // Some servers take seconds to end; dropping the future afterwards kills the rest of the tree.
        tokio::spawn(async move {
            drop(end);
            let _ = timeout(limit, life).await;
        });
        offer.ok_or_else(|| self.failed("it did not start in time"))
    }

    fn failed(&self, why: &str) -> Fault {
        let text = format!("backend `{}` does not say what it offers", self.plan.name);
        Fault::new(Kind::BackendUnavailable, text).because(why.to_owned())
    }
}
