//! Whoever is downstream, as far as one call needs to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use sentinel_wire::translate::ask::is_url_mode;
use sentinel_wire::{Method, Payload, Revision};

use crate::capabilities::{CapabilitySet, ClientCapabilities};
use crate::identity::Identity;
use crate::tags;

/// One caller at one revision. Legacy sessions share one; a modern request makes its own.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who it is; `local` while nobody is asked to prove it.
    pub subject: Arc<str>,
    /// What it may do; `admin` while nobody is asked to prove anything.
    pub role: Arc<str>,
    /// Of its token; empty for others.
    pub scopes: Arc<[Arc<str>]>,
    pub tenant: Option<Arc<str>>,
    pub revision: Revision,
    pub capabilities: ClientCapabilities,
    /// `clientInfo` as it was sent, for backends to see.
    pub client_info: Option<Bytes>,
    /// The legacy session or stdio connection this belongs to.
    pub session: Option<Arc<str>>,
    /// The tools that it wants to see, where it does not want all.
    pub tags: Option<tags::Wanted>,
    /// The least urgent log line it wants.
    pub log_level: LogLevel,
}

impl Caller {
    /// Somebody of whom only the identity is known: it offers nothing and is in no session.
    pub fn of(identity: &Identity) -> Self {
        Self {
            subject: identity.subject.clone(),
            role: identity.role.clone(),
            scopes: identity.scopes.clone(),
            tenant: identity.tenant.clone(),
            revision: Revision::NEWEST,
            capabilities: ClientCapabilities::default(),
            client_info: None,
            session: None,
            log_level: LogLevel::default(),
            tags: None,
        }
    }

    /// Who it is, and of which tenant: whatever is one caller's alone is bound to this.
    pub fn principal(&self) -> Arc<str> {
        match &self.tenant {
            None => self.subject.clone(),
            Some(tenant) => format!("\0{}\0{tenant}{}", tenant.len(), self.subject).into(),
        }
    }

    /// Whether it declared that it can be asked this, in a revision that has it.
    pub fn can_answer(&self, method: &Method, params: &Payload) -> bool {
        let can = &self.capabilities;
        match method {
            Method::Elicit if is_url_mode(params) => {
                can.elicit_url && self.revision >= Revision::V2025_11_25
            }
            Method::Elicit => can.elicit_form && self.revision >= Revision::V2025_06_18,
            Method::Sample => can.sampling && (can.sampling_tools || params.get("tools").is_none()),
            Method::RootsList => can.roots,
            _ => false,
        }
    }

    /// The group of callers with which it shares its lists.
    pub fn capability_set(&self) -> CapabilitySet {
        CapabilitySet::of(&self.capabilities.in_revision(self.revision))
    }

    /// Whether a call of its may be answered with a task. Under a legacy revision the extension's name
    /// means nothing.
    pub fn takes_tasks(&self) -> bool {
        self.revision.is_modern() && self.capabilities.tasks
    }
}

/// A log level that a caller may change while it is connected; none until it names one.
#[derive(Clone, Debug)]
pub struct LogLevel(Arc<AtomicU8>);

/// The eight levels of RFC 5424, least urgent first, as JSON strings.
const LEVELS: [&[u8]; 8] = [
    b"\"debug\"",
    b"\"info\"",
    b"\"notice\"",
    b"\"warning\"",
    b"\"error\"",
    b"\"critical\"",
    b"\"alert\"",
    b"\"emergency\"",
];

impl LogLevel {
    pub const NONE: u8 = u8::MAX;

    /// The rank of a level given as a JSON string; `None` for anything else.
    pub fn rank(name: &[u8]) -> Option<u8> {
        LEVELS
            .iter()
            .position(|level| *level == name)
            .map(|at| at as u8)
    }

    /// The level of this rank, as a JSON string.
    pub fn name(rank: u8) -> Option<&'static [u8]> {
        LEVELS.get(usize::from(rank)).copied()
    }

    pub fn of(rank: Option<u8>) -> Self {
        Self(Arc::new(AtomicU8::new(rank.unwrap_or(Self::NONE))))
    }

    pub fn get(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Relaxed)).filter(|rank| *rank != Self::NONE)
    }

    pub fn set(&self, rank: u8) {
        self.0.store(rank, Ordering::Relaxed);
    }
}

impl Default for LogLevel {
    fn default() -> Self {
        Self::of(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bound_to_a_caller_is_bound_to_its_tenant() {
        let of = |tenant: Option<&str>, subject: &str| {
            Caller {
                subject: subject.into(),
                tenant: tenant.map(Arc::from),
                ..Caller::of(&Identity::local("r"))
            }
            .principal()
        };
        let all = [
            of(None, "alice"),
            of(Some("t"), "alice"),
            of(Some("u"), "alice"),
            of(Some("ta"), "lice"),
            of(Some(""), "alice"),
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(!all[..n].contains(one), "{one:?}");
        }
    }
}
