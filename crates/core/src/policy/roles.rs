//! Roles: what each may see and call.
//!
//! `Role::grant` is the role's part of the only predicate, `Policy::grant`; a token's scopes (`scopes`) are the other
//! part. Lists show what it lets a caller see, and calls pass if it lets the caller call, on every endpoint and in
//! every revision; so the two cannot differ.

use std::sync::Arc;

use crate::catalog::Glob;
use crate::map::Map;
use crate::offer::ItemKind;
use crate::operation::Operation;
use crate::operation::uri::{self, Readers, Reading};

/// The role that exists without configuration.
pub const ADMIN: &str = "admin";

/// The rights of a role on one operation. Callable implies visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub see: bool,
    pub call: bool,
}

impl Grant {
    pub const NONE: Self = Self {
        see: false,
        call: false,
    };
    pub const FULL: Self = Self {
        see: true,
        call: true,
    };
    pub(super) const SEE: Self = Self {
        see: true,
        call: false,
    };

    /// The intersection.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            see: self.see && other.see,
            call: self.call && other.call,
        }
    }

    /// The union.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            see: self.see || other.see,
            call: self.call || other.call,
        }
    }
}

/// A pattern as written and, if it is about URIs, in their normal forms.
#[derive(Clone, Debug)]
pub(super) struct PatternForms {
    written: Glob,
    /// Its meanings to other readers.
    forms: Vec<(Readers, Glob)>,
    /// Those forms contain stars that were written `%2A`: they match more than was written, so they grant nothing.
    is_wider: bool,
}

impl PatternForms {
    pub(super) fn new(text: &str) -> Self {
        let forms = uri::of_pattern(text);
        let stars = |text: &str| text.matches('*').count();
        let glob = |(readers, form): (Readers, String)| (readers, Glob::new(form));
        Self {
            written: Glob::new(text),
            is_wider: forms.iter().any(|(_, form)| stars(form) > stars(text)),
            forms: forms.into_iter().map(glob).collect(),
        }
    }

    /// The forms that may grant something.
    fn giving(&self) -> impl Iterator<Item = &(Readers, Glob)> {
        self.forms.iter().filter(|_| !self.is_wider)
    }

    /// Whether it matches this name for the RFC 3986 reader.
    fn matches(&self, name: &str) -> bool {
        let mut plain = self.giving().filter(|(who, _)| who.go_by_the_book());
        self.written.matches(name) || plain.any(|(_, glob)| glob.matches(name))
    }

    /// Whether it matches this name for any reader.
    fn may_mean(&self, name: &str) -> bool {
        self.written.matches(name) || self.forms.iter().any(|(_, glob)| glob.matches(name))
    }

    /// Whether it matches this operation for every reader, each of which reads the pattern as it reads the URI.
    fn means(&self, operation: &Operation) -> bool {
        let forms = &operation.forms;
        self.matches(&operation.own)
            && (!forms.is_unclear || self.written.is_everything())
            && forms.readings.iter().all(|reading| self.means_to(reading))
    }

    fn means_to(&self, Reading { readers, text }: &Reading) -> bool {
        let agree = self.giving().filter(|(_, glob)| glob.matches(text));
        let others = agree.fold(*readers, |others, (who, _)| others.without(*who));
        others.is_empty() || self.written.matches(text)
    }

    /// Whether any URI can match.
    fn may_be_a_uri(&self) -> bool {
        self.written.may_match(|first| {
            let scheme = first.split(':').next().unwrap_or_default();
            let known = first.contains(':');
            let valid = |b: u8| b.is_ascii_alphanumeric() || b"+-.%".contains(&b);
            (known || first.len() == scheme.len()) && scheme.bytes().all(valid)
        })
    }
}

/// A name in a denial: plain patterns match merged names, `<backend>.<glob>` own names, of any kind of operation. A
/// URI matches in any spelling.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: Box<str>,
    merged: PatternForms,
    own: Option<(String, PatternForms)>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            merged: PatternForms::new(text),
            own: text
                .split_once('.')
                .map(|(backend, glob)| (backend.to_owned(), PatternForms::new(glob))),
        }
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn matches(&self, operation: &Operation) -> bool {
        let own = |(backend, words): &(String, PatternForms)| {
            **backend == *operation.backend && operation.any_name().any(|n| words.may_mean(n))
        };
        let further = || operation.forms.iter().chain(&operation.also);
        self.own.as_ref().is_some_and(own)
            || self.merged.may_mean(&operation.exposed)
            || further().any(|name| self.merged.may_mean(name))
            || operation.forms.is_unclear && self.may_hide_resources(&operation.backend)
    }

    /// Whether it denies all operations of this backend.
    fn is_all_of(&self, backend: &str) -> bool {
        let own =
            |(of, words): &(String, PatternForms)| of == backend && words.written.is_everything();
        self.merged.written.is_everything() || self.own.as_ref().is_some_and(own)
    }

    /// Whether it can deny a resource of this backend.
    fn may_hide_resources(&self, backend: &str) -> bool {
        match &self.own {
            Some((of, words)) if of == backend => words.may_be_a_uri(),
            // About another backend, unless no backend can have that name.
            Some((of, _)) if of.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => false,
            _ => self.merged.may_be_a_uri(),
        }
    }
}

/// Operations that a backend may have beyond its lists; its own methods are always unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unlisted {
    /// Its lists are unknown, or it accepts unlisted names.
    Anything,
    Resources,
    Methods,
}

#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// `tool:<glob>`
    Tool(Glob),
    /// `<backend>.<glob>`
    Own(String, PatternForms),
}

impl Rule {
    /// Whether it grants this operation: a URI only in every reading.
    pub(super) fn matches(&self, operation: &Operation) -> bool {
        match self {
            Self::Tool(glob) => {
                operation.kind == Some(ItemKind::Tool) && glob.matches(&operation.exposed)
            }
            Self::Own(backend, words) => {
                let template = operation.template.as_deref();
                **backend == *operation.backend
                    && (words.means(operation) || template.is_some_and(|t| words.matches(t)))
            }
        }
    }

    /// Whether it may grant an unlisted operation of this backend.
    pub(super) fn may_give(&self, backend: &str, unlisted: Unlisted) -> bool {
        match self {
            Self::Own(of, words) if of == backend => match unlisted {
                Unlisted::Anything => true,
                Unlisted::Resources => words.may_be_a_uri() || words.written.may_match_a_method(),
                Unlisted::Methods => words.written.may_match_a_method(),
            },
            _ => false,
        }
    }

    /// Whether it grants everything of this backend.
    fn is_all_of(&self, backend: &str) -> bool {
        matches!(self, Self::Own(of, words) if of == backend && words.written.is_everything())
    }
}

#[derive(Clone, Debug, Default)]
pub struct Role {
    /// As they were written.
    permissions: Vec<Box<str>>,
    /// The places among them of those that let it see, and call, everything.
    read: Option<usize>,
    execute: Option<usize>,
    admin: bool,
    /// With their places.
    rules: Vec<(usize, Rule)>,
    denied: Vec<Pattern>,
    /// Tools whose calls it has to confirm.
    confirm: Vec<Pattern>,
}

/// What of a role decides about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling<'r> {
    /// An entry of `denied_tools`.
    Denied(&'r str),
    /// A permission, and what it grants.
    Permitted(&'r str, Grant),
    /// No permission is about it.
    Unmentioned,
}

impl Ruling<'_> {
    pub fn grant(self) -> Grant {
        match self {
            Self::Permitted(_, grant) => grant,
            Self::Denied(_) | Self::Unmentioned => Grant::NONE,
        }
    }
}

impl Role {
    /// Built from `permissions` and `denied_tools`. An invalid permission grants nothing; the configuration reports
    /// it.
    pub fn new<P: AsRef<str>>(
        permissions: impl IntoIterator<Item = P>,
        denied: impl IntoIterator<Item = P>,
    ) -> Self {
        let mut role = Self {
            permissions: permissions.into_iter().map(|p| p.as_ref().into()).collect(),
            denied: denied
                .into_iter()
                .map(|d| Pattern::new(d.as_ref()))
                .collect(),
            ..Self::default()
        };
        for (at, permission) in role.permissions.iter().enumerate() {
            match &**permission {
                "*" => (role.execute, role.admin) = (role.execute.or(Some(at)), true),
                "admin" => role.admin = true,
                "tools.read" => role.read = role.read.or(Some(at)),
                "tools.execute" => role.execute = role.execute.or(Some(at)),
                other => role.rules.extend(rule(other).map(|rule| (at, rule))),
            }
        }
        // Callable implies visible.
        role.read = role.read.or(role.execute);
        role
    }

    /// Its permissions, denials and tools to confirm, as they were written.
    pub fn permissions(&self) -> impl Iterator<Item = &str> {
        self.permissions.iter().map(|permission| &**permission)
    }

    pub fn denied(&self) -> impl Iterator<Item = &str> {
        self.denied.iter().map(Pattern::text)
    }

    pub fn confirms(&self) -> impl Iterator<Item = &str> {
        self.confirm.iter().map(Pattern::text)
    }

    /// The role with tools whose calls it has to confirm.
    #[must_use]
    pub fn confirming<P: AsRef<str>>(mut self, tools: impl IntoIterator<Item = P>) -> Self {
        let tools = tools.into_iter();
        self.confirm = tools.map(|t| Pattern::new(t.as_ref())).collect();
        self
    }

    /// The entry of `confirm` by which it has to confirm calls of this tool.
    pub(super) fn must_confirm(&self, tool: &Operation) -> Option<&str> {
        let found = self.confirm.iter().find(|pattern| pattern.matches(tool));
        found.map(Pattern::text)
    }

    /// Whether this role may use the admin API.
    pub fn is_admin(&self) -> bool {
        self.admin
    }

    /// Whether it may see and call everything, so that single operations need no check.
    pub(super) fn is_full(&self) -> bool {
        self.execute.is_some() && self.denied.is_empty()
    }

    /// Whether nothing is hidden from it.
    pub(super) fn sees_all(&self) -> bool {
        self.read.is_some() && self.denied.is_empty()
    }

    /// Whether no resource of this backend is hidden from it.
    pub(super) fn sees_all_resources(&self, backend: &str) -> bool {
        let denied = |pattern: &Pattern| pattern.may_hide_resources(backend);
        (self.read.is_some() || self.rules.iter().any(|(_, rule)| rule.is_all_of(backend)))
            && !self.denied.iter().any(denied)
    }

    /// Whether it may see an unlisted operation of this backend. If the lists are known, only if a rule may match
    /// one.
    pub(super) fn may_see(&self, backend: &str, unlisted: Unlisted) -> bool {
        let given = || {
            self.rules
                .iter()
                .any(|(_, rule)| rule.may_give(backend, unlisted))
        };
        (self.read.is_some() && unlisted == Unlisted::Anything || given())
            && !self.denied.iter().any(|denied| denied.is_all_of(backend))
    }

    pub fn grant(&self, operation: &Operation) -> Grant {
        self.ruling(operation).grant()
    }

    /// The grant, and the entry that it comes from.
    pub fn ruling(&self, operation: &Operation) -> Ruling<'_> {
        if let Some(denied) = self.denied.iter().find(|denied| denied.matches(operation)) {
            return Ruling::Denied(denied.text());
        }
        let rule = || self.rules.iter().find(|(_, rule)| rule.matches(operation));
        if let Some(at) = self.execute.or_else(|| rule().map(|(at, _)| *at)) {
            return Ruling::Permitted(&self.permissions[at], Grant::FULL);
        }
        match self.read {
            Some(at) => Ruling::Permitted(&self.permissions[at], Grant::SEE),
            None => Ruling::Unmentioned,
        }
    }
}

pub(super) fn rule(text: &str) -> Option<Rule> {
    if let Some(glob) = text.strip_prefix("tool:") {
        return Some(Rule::Tool(Glob::new(glob)));
    }
    let (backend, glob) = text.split_once('.')?;
    Some(Rule::Own(backend.to_owned(), PatternForms::new(glob)))
}

/// All roles by name.
#[derive(Clone, Debug)]
pub struct Roles(Map<Arc<str>, Arc<Role>>);

impl Roles {
    pub fn new(roles: impl IntoIterator<Item = (String, Role)>) -> Self {
        let mut all: Map<Arc<str>, Arc<Role>> = roles
            .into_iter()
            .map(|(name, role)| (name.into(), Arc::new(role)))
            .collect();
        all.entry(ADMIN.into())
            .or_insert_with(|| Arc::new(Role::new(["*"], [])));
        Self(all)
    }

    /// Whether any role has calls to confirm.
    pub(super) fn confirm(&self) -> bool {
        self.0.values().any(|role| !role.confirm.is_empty())
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<(&Arc<str>, &Arc<Role>)> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }

    /// `None` for an unconfigured role: it sees nothing.
    pub fn get(&self, name: &str) -> Option<&Arc<Role>> {
        self.0.get(name)
    }
}

impl Default for Roles {
    fn default() -> Self {
        Self::new([])
    }
}

#[cfg(test)]
mod tests;
