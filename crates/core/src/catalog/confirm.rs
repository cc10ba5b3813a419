//! The check of a call directly before it is sent.
//!
//! A call may be resolved by a remembered offer, while the child sleeps or the server is being detected. Before it is
//! sent the lists are read and compared with the pins. So where pins are enforced, a connector checks the call once
//! more when it is ready to be written; elsewhere this costs the check of a flag.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sentinel_wire::Method;

use super::pins::Pin;
use super::{Publisher, ToolDefinitions};
use crate::backend::Call;
use crate::fault::Fault;
use crate::offer::ItemKind;
use crate::operation::Difference;
use crate::operation::unknown::{held, unseen};

/// The result of the check.
enum PinCheck {
    Fine,
    Held(Difference),
    Gone,
}

impl Publisher {
    /// Whether a call must be checked before it is sent: it starts or continues a tool of a backend with enforced
    /// pins.
    pub fn concerns(&self, call: &Call) -> bool {
        self.facts.enforced.load(Ordering::Relaxed)
            && matches!(call.method, Method::ToolsCall | Method::TasksUpdate)
            && call.target().operation.kind == Some(ItemKind::Tool)
    }

    /// Whether a call may be sent under the current offer. A refusal equals that of the walk for such a tool.
    pub fn confirm(&self, call: &Call) -> Result<(), Fault> {
        match self.concerns(call) {
            true => self.answer(call, self.look(call)),
            false => Ok(()),
        }
    }

    /// Like [`Publisher::confirm`] for a server that the backend runs for one caller: both its own list and the
    /// published one must pass.
    pub fn confirm_by(&self, definitions: &ToolDefinitions, call: &Call) -> Result<(), Fault> {
        self.confirm(call)?;
        let operation = &call.target().operation;
        let (backend, own) = (&*operation.backend, &*operation.own);
        let pins = self.registry.pins();
        let look = match definitions.of_tool(own) {
            None => PinCheck::Gone,
            Some(now) => match pins.difference(backend, own, now) {
                None => PinCheck::Fine,
                Some(how) => {
                    pins.report_own(backend, own, how, now);
                    PinCheck::Held(how)
                }
            },
        };
        self.answer(call, look)
    }

    fn look(&self, call: &Call) -> PinCheck {
        let operation = &call.target().operation;
        let layout = self.registry.layout.load();
        if !Arc::ptr_eq(&layout.slots[self.index].running.facts, &self.facts) {
            return self.look_alone(call);
        }
        match self
            .registry
            .catalog
            .load()
            .own_tool(self.index, &operation.own)
        {
            None => PinCheck::Gone,
            Some(now) => now.held.map_or(PinCheck::Fine, PinCheck::Held),
        }
    }

    /// Calls of a replaced backend end, and its offer is in no catalog any more.
    fn look_alone(&self, call: &Call) -> PinCheck {
        let operation = &call.target().operation;
        let offer = self.facts.known.lock().shown.clone();
        let mut tools = offer.iter().flat_map(|offer| &offer.tools);
        let Some(now) = tools.find(|item| *item.key == *operation.own) else {
            return PinCheck::Gone;
        };
        let pins = self.registry.pins();
        match pins.difference(&operation.backend, &operation.own, &Pin::of(now)) {
            None => PinCheck::Fine,
            Some(how) => PinCheck::Held(how),
        }
    }

    fn answer(&self, call: &Call, look: PinCheck) -> Result<(), Fault> {
        let operation = &call.target().operation;
        match look {
            PinCheck::Fine => Ok(()),
            PinCheck::Held(how) => Err(held(operation, call.view, how)),
            PinCheck::Gone => Err(unseen(operation, call.view, &call.method)),
        }
    }
}
