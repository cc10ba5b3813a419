//! A second look at a call, directly before it is sent.
//!
//! A call is resolved by what is known of its backend, and that may be what was remembered: the child sleeps, the
//! server is still looked for. Until it can be sent the lists were read and compared with the pins. So a connector
//! asks once more where pins are enforced, when nothing stands between the call and the wire any more; elsewhere that
//! costs the look at a flag.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sentinel_wire::Method;

use super::pins::Pin;
use super::{Publisher, Said};
use crate::backend::Call;
use crate::fault::Fault;
use crate::offer::ItemKind;
use crate::operation::Difference;
use crate::operation::unknown::{held, unseen};

/// What becomes of a call after the second look.
enum Look {
    Fine,
    Held(Difference),
    Gone,
}

impl Publisher {
    /// Whether a call must be confirmed before it is sent: it sets a tool going, or on, and the backend's tools are used
    /// as they were approved only.
    pub fn concerns(&self, call: &Call) -> bool {
        self.facts.enforced.load(Ordering::Relaxed)
            && matches!(call.method, Method::ToolsCall | Method::TasksUpdate)
            && call.target().operation.kind == Some(ItemKind::Tool)
    }

    /// Whether a call may be sent by what the backend offers now. The answer is what the walk gives to such a tool.
    pub fn confirm(&self, call: &Call) -> Result<(), Fault> {
        match self.concerns(call) {
            true => self.answer(call, self.look(call)),
            false => Ok(()),
        }
    }

    /// The same by what a server that the backend keeps for one caller says itself. What others are offered must
    /// be fine as well.
    pub fn confirm_by(&self, said: &Said, call: &Call) -> Result<(), Fault> {
        self.confirm(call)?;
        let operation = &call.target().operation;
        let (backend, own) = (&*operation.backend, &*operation.own);
        let pins = self.registry.pins();
        let look = match said.of_tool(own) {
            None => Look::Gone,
            Some(now) => match pins.difference(backend, own, now) {
                None => Look::Fine,
                Some(how) => {
                    pins.report_own(backend, own, how, now);
                    Look::Held(how)
                }
            },
        };
        self.answer(call, look)
    }

    fn look(&self, call: &Call) -> Look {
        let operation = &call.target().operation;
        let layout = self.registry.layout.load();
        if !Arc::ptr_eq(&layout.slots[self.index].tenant.facts, &self.facts) {
            return self.look_alone(call);
        }
        match self
            .registry
            .catalog
            .load()
            .own_tool(self.index, &operation.own)
        {
            None => Look::Gone,
            Some(now) => now.held.map_or(Look::Fine, Look::Held),
        }
    }

    /// A backend that was replaced ends its calls, and what it offers is in no catalog any more.
    fn look_alone(&self, call: &Call) -> Look {
        let operation = &call.target().operation;
        let offer = self.facts.known.lock().shown.clone();
        let mut tools = offer.iter().flat_map(|offer| &offer.tools);
        let Some(now) = tools.find(|item| *item.key == *operation.own) else {
            return Look::Gone;
        };
        let pins = self.registry.pins();
        match pins.difference(&operation.backend, &operation.own, &Pin::of(now)) {
            None => Look::Fine,
            Some(how) => Look::Held(how),
        }
    }

    fn answer(&self, call: &Call, look: Look) -> Result<(), Fault> {
        let operation = &call.target().operation;
        match look {
            Look::Fine => Ok(()),
            Look::Held(how) => Err(held(operation, call.view, how)),
            Look::Gone => Err(unseen(operation, call.view, &call.method)),
        }
    }
}
