//! Client capabilities that allow questions: sampling, elicitation, roots.

use std::fmt;

use bytes::Bytes;
use sentinel_wire::json::{Kind, Object, Rules};
use sentinel_wire::{Payload, Revision};

/// A client's declared capabilities, raw and decoded.
#[derive(Clone, Debug, Default)]
pub struct ClientCapabilities {
    raw: Option<Bytes>,
    pub elicit_form: bool,
    pub elicit_url: bool,
    pub sampling: bool,
    pub sampling_tools: bool,
    pub roots: bool,
    /// It announces changes of its roots; in legacy revisions only.
    pub roots_changed: bool,
    /// It declared the tasks extension of 2026-07-28.
    pub tasks: bool,
}

impl ClientCapabilities {
    /// Reads a declared object. An empty `elicitation` means forms only, in every revision.
    pub fn parse(raw: Bytes) -> Option<Self> {
        if Kind::of(&raw) != Some(Kind::Object) {
            return None;
        }
        let payload = Payload::parse(raw.clone(), Rules::backend()).ok()?;
        let has = |value: &[u8], name: &str| {
            Object::parse(value, Rules::backend()).is_ok_and(|o| o.get(value, name).is_some())
        };
        let elicitation = payload.get("elicitation");
        let sampling = payload.get("sampling");
        let elicit_url = elicitation.is_some_and(|e| has(e, "url"));
        Some(Self {
            elicit_form: elicitation.is_some_and(|e| has(e, "form") || !elicit_url),
            elicit_url,
            sampling: sampling.is_some(),
            sampling_tools: sampling.is_some_and(|s| has(s, "tools")),
            roots: payload.get("roots").is_some(),
            roots_changed: payload.get_bytes("roots").is_some_and(|roots| {
                let roots = Payload::parse(roots, Rules::backend());
                roots.is_ok_and(|roots| roots.get("listChanged") == Some(b"true"))
            }),
            tasks: payload
                .get("extensions")
                .is_some_and(|e| has(e, "io.modelcontextprotocol/tasks")),
            raw: Some(raw),
        })
    }

    /// The object as it was declared; `{}` for none.
    pub fn as_bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(b"{}")
    }

    /// The kinds of question it can answer, as bits; see `of_questions`.
    pub fn questions(&self) -> u8 {
        let all = [
            self.elicit_form,
            self.elicit_url,
            self.sampling,
            self.sampling_tools,
            self.roots,
            self.roots_changed,
        ];
        (all.iter().enumerate()).fold(0, |bits, (at, can)| bits | (u8::from(*can) << at))
    }

    /// A client that declared exactly these kinds of question.
    pub fn of_questions(bits: u8) -> Self {
        let can = |at: u8| bits & (1 << at) != 0;
        Self {
            raw: None,
            elicit_form: can(0),
            elicit_url: can(1),
            sampling: can(2),
            sampling_tools: can(3),
            roots: can(4),
            roots_changed: can(5),
            tasks: false,
        }
    }

    /// The capabilities that exist in this revision.
    pub fn in_revision(&self, revision: Revision) -> Self {
        let newer = revision >= Revision::V2025_11_25;
        Self {
            raw: None,
            elicit_form: self.elicit_form && revision >= Revision::V2025_06_18,
            elicit_url: self.elicit_url && newer,
            sampling: self.sampling,
            sampling_tools: self.sampling_tools && newer,
            roots: self.roots,
            roots_changed: self.roots_changed && !revision.is_modern(),
            tasks: false,
        }
    }

    /// Whether a backend may ask this caller anything.
    pub fn can_be_asked(&self) -> bool {
        self.elicit_form || self.elicit_url || self.sampling || self.roots
    }
}

/// The capabilities that lists may depend on: the lower bits of `ClientCapabilities::questions`. `roots.listChanged`
/// is left out: no server's tools depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapabilitySet(u8);

impl CapabilitySet {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(0b1_1111);

    pub fn of(askable: &ClientCapabilities) -> Self {
        Self(askable.questions() & Self::ALL.0)
    }

    pub fn capabilities(self) -> ClientCapabilities {
        ClientCapabilities::of_questions(self.0)
    }
}

impl fmt::Display for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let can = self.capabilities();
        let named = [
            (can.elicit_form, "elicitation by form"),
            (can.elicit_url, "elicitation by URL"),
            (can.sampling, "sampling"),
            (can.sampling_tools, "sampling with tools"),
            (can.roots, "roots"),
        ];
        let all: Vec<&str> = named
            .iter()
            .filter(|(can, _)| *can)
            .map(|(_, name)| *name)
            .collect();
        match all.is_empty() {
            true => f.write_str("callers without capabilities"),
            false => write!(f, "callers with {}", all.join(", ")),
        }
    }
}

/// A set of capability sets, one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilitySets(u32);

impl CapabilitySets {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(u32::MAX);

    pub(crate) fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub fn contains(self, set: CapabilitySet) -> bool {
        self.0 & (1 << set.0) != 0
    }

    #[must_use]
    pub fn with(self, set: CapabilitySet) -> Self {
        Self(self.0 | (1 << set.0))
    }

    #[must_use]
    pub fn without(self, set: CapabilitySet) -> Self {
        Self(self.0 & !(1 << set.0))
    }

    pub fn iter(self) -> impl Iterator<Item = CapabilitySet> {
        let all = (0..=CapabilitySet::ALL.0).map(CapabilitySet);
        all.filter(move |set| self.contains(*set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_elicitation_means_forms_only() {
        let caps = |text: &'static str| {
            ClientCapabilities::parse(Bytes::from_static(text.as_bytes())).expect("an object")
        };
        assert!(caps(r#"{"elicitation":{}}"#).elicit_form);
        assert!(!caps(r#"{"elicitation":{}}"#).elicit_url);
        let url_only = caps(r#"{"elicitation":{"url":{}}}"#);
        assert!(url_only.elicit_url && !url_only.elicit_form);
        assert!(!caps("{}").can_be_asked());
        let again = ClientCapabilities::of_questions(url_only.questions());
        assert!(again.elicit_url && !again.elicit_form && !again.sampling);
        assert!(ClientCapabilities::parse(Bytes::from_static(b"[]")).is_none());
    }
}
