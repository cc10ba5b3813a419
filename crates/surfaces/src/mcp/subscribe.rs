//! The resources a legacy caller subscribed to, for as long as it is connected.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sentinel_core::catalog::Registry;
use sentinel_core::updates::{Hear, Ticket};
use sentinel_core::{Caller, View};
use sentinel_wire::envelope::write_notification;
use sentinel_wire::{Method, json};

/// Resources one caller can follow at once.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 1000;

pub(crate) struct Subscriber {
    registry: Arc<Registry>,
    view: View,
    hear: Hear,
    tickets: Mutex<HashMap<String, Ticket>>,
}

impl Subscriber {
    /// `tell` sends a ready message to the caller; it must not block.
    pub(crate) fn new(
        registry: Arc<Registry>,
        view: View,
        tell: impl Fn(Vec<u8>) + Send + Sync + 'static,
    ) -> Self {
        let hear: Hear = Arc::new(move |uri| tell(updated_message(uri, "")));
        Self {
            registry,
            view,
            hear,
            tickets: Mutex::default(),
        }
    }

    /// Begins to listen, before the backend is asked, so that nothing is missed.
    pub(crate) fn begin(&self, caller: &Caller, uri: &str) -> Option<Ticket> {
        if self.tickets.lock().len() >= SUBSCRIPTIONS_MAX {
            return None;
        }
        self.registry
            .listen(self.view, caller, uri, self.hear.clone())
    }

    pub(crate) fn keep(&self, uri: String, ticket: Ticket) {
        self.tickets.lock().insert(uri, ticket);
    }

    pub(crate) fn end(&self, uri: &str) {
        self.tickets.lock().remove(uri);
    }
}

/// `notifications/resources/updated`, with further members of params as they are.
pub(crate) fn updated_message(uri: &str, members: &str) -> Vec<u8> {
    let mut params = br#"{"uri":"#.to_vec();
    json::encode_string(uri, &mut params);
    params.extend_from_slice(members.as_bytes());
    params.push(b'}');
    let mut message = Vec::new();
    write_notification(Method::ResourceUpdated.as_str(), &params, &mut message);
    message
}
