//! The subscriptions of a legacy caller, for as long as it is connected.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sentinel_core::updates::{OnUpdate, Ticket};
use sentinel_core::{Caller, Invocation, View, Walk};
use sentinel_wire::envelope::write_notification;
use sentinel_wire::{Method, json};

use crate::gateway::Gateway;

/// Bound on one caller's subscriptions.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 1000;

pub(crate) struct Subscriber {
    view: View,
    tell: Arc<dyn Fn(Vec<u8>) + Send + Sync>,
    tickets: Mutex<HashMap<String, Ticket>>,
}

impl Subscriber {
    /// `tell` sends a ready message to the caller; it must not block.
    pub(crate) fn new(view: View, tell: impl Fn(Vec<u8>) + Send + Sync + 'static) -> Self {
        Self {
            view,
            tell: Arc::new(tell),
            tickets: Mutex::default(),
        }
    }

    /// Starts listening before the backend is asked, so that no update is missed.
    pub(crate) fn begin(
        &self,
        gateway: &Gateway,
        caller: &Arc<Caller>,
        uri: &str,
    ) -> Option<Ticket> {
        if self.tickets.lock().len() >= SUBSCRIPTIONS_MAX {
            return None;
        }
        let right = Permission::to_hear_of(uri, gateway, caller, self.view);
        let tell = self.tell.clone();
        let hear: OnUpdate = Arc::new(move |changed| {
            if right.holds_for(changed) {
                tell(updated_message(changed, ""));
            }
        });
        gateway.registry.listen(self.view, caller, uri, hear)
    }

    pub(crate) fn keep(&self, uri: String, ticket: Ticket) {
        self.tickets.lock().insert(uri, ticket);
    }

    pub(crate) fn end(&self, uri: &str) {
        self.tickets.lock().remove(uri);
    }
}

/// A caller's permission to follow a resource, checked for each update, since it may be revoked while the caller
/// listens.
pub(crate) struct Permission {
    walk: Walk,
    caller: Arc<Caller>,
    view: View,
    /// The subscribed resource.
    uri: Box<str>,
}

impl Permission {
    pub(crate) fn to_hear_of(
        uri: &str,
        gateway: &Gateway,
        caller: &Arc<Caller>,
        view: View,
    ) -> Self {
        Self {
            walk: gateway.walk.clone(),
            caller: caller.clone(),
            view,
            uri: uri.into(),
        }
    }

    /// Whether it is granted now. The changed resource may lie below the subscribed one: if a backend names it
    /// itself, it is checked itself, since it may be hidden.
    pub(crate) fn holds_for(&self, changed: &str) -> bool {
        let walk = &self.walk;
        if walk.permits_all(&self.caller) {
            return true;
        }
        let read = |uri: &str| Invocation::resource(self.caller.clone(), self.view, uri);
        let changed = read(changed);
        let read = match walk.knows(&changed) {
            true => changed,
            false => read(&self.uri),
        };
        walk.permits(read, Arc::default()).is_ok()
    }
}

/// `notifications/resources/updated`, with further members of params unchanged.
pub(crate) fn updated_message(uri: &str, members: &str) -> Vec<u8> {
    let mut params = br#"{"uri":"#.to_vec();
    json::encode_string(uri, &mut params);
    params.extend_from_slice(members.as_bytes());
    params.push(b'}');
    let mut message = Vec::new();
    write_notification(Method::ResourceUpdated.as_str(), &params, &mut message);
    message
}
