//! The caller of one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use sentinel_wire::translate::ask::is_url_mode;
use sentinel_wire::{Method, Payload, Revision};

use crate::capabilities::{CapabilitySet, ClientCapabilities};
use crate::identity::{Account, Identity};
use crate::offer::Reach;
use crate::tags;

/// One caller at one revision. A legacy session has one; each modern request creates its own.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The subject; `local` without authentication.
    pub subject: Arc<str>,
    /// The role; `admin` without authentication.
    pub role: Arc<str>,
    /// Scopes of its token; empty for other credentials.
    pub scopes: Arc<[Arc<str>]>,
    pub tenant: Option<Arc<str>>,
    pub revision: Revision,
    pub capabilities: ClientCapabilities,
    /// `clientInfo` as it was sent, for backends.
    pub client_info: Option<Bytes>,
    /// The legacy session or stdio connection this belongs to.
    pub session: Option<Arc<str>>,
    /// The tags that it filters tools by.
    pub tags: Option<tags::TagFilter>,
    /// The least urgent log level it wants.
    pub log_level: LogLevel,
    /// How it names operations.
    pub addressing: Addressing,
    /// What its credential says about it, where it has one.
    pub account: Option<Arc<Account>>,
}

/// By what a caller names the operations it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Addressing {
    /// By their names in the catalog.
    #[default]
    Name,
    /// By JSON-RPC.
    Rpc,
    /// By an HTTP route of a backend.
    Route,
    /// It only reads about them: documents describe every way.
    Document,
}

impl Addressing {
    pub(crate) fn reaches(self, reach: Reach) -> bool {
        match (reach, self) {
            (Reach::ByName, _) | (_, Self::Document) => true,
            (Reach::ByRpc, by) => by == Self::Rpc,
            (Reach::ByRoute, by) => by == Self::Route,
        }
    }
}

impl Caller {
    /// A caller of whom only the identity is known: no capabilities, no session.
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
            addressing: Addressing::default(),
            account: identity.account.clone(),
            tags: None,
        }
    }

    /// Subject and tenant: the key for everything that belongs to a single caller.
    pub fn principal(&self) -> Arc<str> {
        match &self.tenant {
            None => self.subject.clone(),
            Some(tenant) => format!("\0{}\0{tenant}{}", tenant.len(), self.subject).into(),
        }
    }

    /// Whether it declared the capability for this question, in a revision that has it.
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

    /// The capability set by which callers share lists.
    pub fn capability_set(&self) -> CapabilitySet {
        CapabilitySet::of(&self.capabilities.in_revision(self.revision))
    }

    /// Whether its calls may be answered with a task. The extension has no meaning in legacy revisions.
    pub fn takes_tasks(&self) -> bool {
        self.revision.is_modern() && self.capabilities.tasks
    }
}

/// A log level that a caller may change while connected; initially none.
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

    /// The rank of a level given as a JSON string; `None` for other values.
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
