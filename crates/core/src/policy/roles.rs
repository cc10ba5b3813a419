//! Roles: what each may see and call.
//!
//! `Role::grant` is a role's part of the only predicate, `Policy::grant`; a token's scopes (`scopes`) are
//! the other. Lists show what it lets a caller see, calls pass if it lets the caller call, on every
//! endpoint and in every revision; so the two cannot differ.

use std::sync::Arc;

use crate::catalog::{Glob, Operation, uri};
use crate::map::Map;
use crate::offer::ItemKind;

/// The role that exists without being configured.
pub const ADMIN: &str = "admin";

/// What a role may do with one operation. Callable is always visible.
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

    /// What both give.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            see: self.see && other.see,
            call: self.call && other.call,
        }
    }

    /// What either gives.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            see: self.see || other.see,
            call: self.call || other.call,
        }
    }
}

/// A pattern as it was written and, where it speaks of URIs, in their normal forms.
#[derive(Clone, Debug)]
pub(super) struct Words {
    written: Glob,
    plain: Option<Glob>,
    /// What it means to a reader that takes host and path for one path.
    path: Option<Glob>,
    /// Those forms have stars that were written `%2A`: they mean more than was said, and give nothing.
    is_wider: bool,
}

impl Words {
    pub(super) fn new(text: &str) -> Self {
        let (plain, path) = (uri::plain(text), uri::as_path(text));
        let stars = |text: &str| text.matches('*').count();
        let mut forms = plain.iter().chain(&path);
        Self {
            written: Glob::new(text),
            is_wider: forms.any(|form| stars(form) > stars(text)),
            plain: plain.map(Glob::new),
            path: path.map(Glob::new),
        }
    }

    /// Whether it means this name to whoever reads by the book.
    fn matches(&self, name: &str) -> bool {
        let plain = self.plain.as_ref().filter(|_| !self.is_wider);
        self.written.matches(name) || plain.is_some_and(|glob| glob.matches(name))
    }

    /// Whether it means this name to any reader.
    fn may_mean(&self, name: &str) -> bool {
        let mut all = self.plain.iter().chain(&self.path).chain([&self.written]);
        all.any(|glob| glob.matches(name))
    }

    /// Whether it means this operation to every reader, each of whom reads the pattern as it reads the URI.
    fn means(&self, operation: &Operation) -> bool {
        let path = operation.forms.path.as_deref();
        operation.every_name().all(|name| self.matches(name))
            && path.is_none_or(|name| !self.is_wider && self.may_mean(name))
    }

    /// Whether some URI can match.
    fn may_be_a_uri(&self) -> bool {
        self.written.may_match(|first| {
            let scheme = first.split(':').next().unwrap_or_default();
            let known = first.contains(':');
            let valid = |b: u8| b.is_ascii_alphanumeric() || b"+-.%".contains(&b);
            (known || first.len() == scheme.len()) && scheme.bytes().all(valid)
        })
    }
}

/// A name in a rule that takes away: plain patterns mean merged names, `<backend>.<glob>` own names, both of
/// any kind of operation. Of a URI any spelling will do.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    merged: Words,
    own: Option<(String, Words)>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self {
            merged: Words::new(text),
            own: text
                .split_once('.')
                .map(|(backend, glob)| (backend.to_owned(), Words::new(glob))),
        }
    }

    pub(super) fn matches(&self, operation: &Operation) -> bool {
        let own = |(backend, words): &(String, Words)| {
            **backend == *operation.backend && operation.any_name().any(|n| words.may_mean(n))
        };
        let further = || operation.forms.iter().chain(&operation.also);
        self.own.as_ref().is_some_and(own)
            || self.merged.may_mean(&operation.exposed)
            || further().any(|name| self.merged.may_mean(name))
    }

    /// Whether it takes away all that this backend has.
    fn is_all_of(&self, backend: &str) -> bool {
        let own = |(of, words): &(String, Words)| of == backend && words.written.is_everything();
        self.merged.written.is_everything() || self.own.as_ref().is_some_and(own)
    }

    /// Whether it can take away a resource of this backend.
    fn may_hide_resources(&self, backend: &str) -> bool {
        match &self.own {
            Some((of, words)) if of == backend => words.may_be_a_uri(),
            // About another backend, unless that is no name of one.
            Some((of, _)) if of.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => false,
            _ => self.merged.may_be_a_uri(),
        }
    }
}

/// What a backend may have besides what is in its lists; of its own methods nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unlisted {
    /// Nobody knows its lists, or it is called by names that are in none.
    Anything,
    Resources,
    Methods,
}

#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// `tool:<glob>`
    Tool(Glob),
    /// `<backend>.<glob>`
    Own(String, Words),
}

impl Rule {
    /// Whether it gives this: a URI only if it does in every spelling.
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

    /// Whether it may give something of this backend that is in no list.
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

    /// Whether it gives everything of this backend.
    fn is_all_of(&self, backend: &str) -> bool {
        matches!(self, Self::Own(of, words) if of == backend && words.written.is_everything())
    }
}

#[derive(Clone, Debug, Default)]
pub struct Role {
    read: bool,
    execute: bool,
    admin: bool,
    rules: Vec<Rule>,
    denied: Vec<Pattern>,
}

impl Role {
    /// From `permissions` and `denied_tools` as they are configured. A permission that means nothing
    /// grants nothing; the configuration reports it.
    pub fn new<P: AsRef<str>>(
        permissions: impl IntoIterator<Item = P>,
        denied: impl IntoIterator<Item = P>,
    ) -> Self {
        let mut role = Self {
            denied: denied
                .into_iter()
                .map(|d| Pattern::new(d.as_ref()))
                .collect(),
            ..Self::default()
        };
        for permission in permissions {
            match permission.as_ref() {
                "*" => (role.read, role.execute, role.admin) = (true, true, true),
                "admin" => role.admin = true,
                "tools.read" => role.read = true,
                // Whoever may call a thing sees it: callable is a subset of listed.
                "tools.execute" => (role.read, role.execute) = (true, true),
                other => role.rules.extend(rule(other)),
            }
        }
        role
    }

    /// Whether this role may use the admin API.
    pub fn is_admin(&self) -> bool {
        self.admin
    }

    /// Whether it sees and calls everything, so that nobody needs to look at single operations.
    pub(super) fn is_full(&self) -> bool {
        self.execute && self.denied.is_empty()
    }

    /// Whether no resource of this backend is hidden from it.
    pub(super) fn sees_all_resources(&self, backend: &str) -> bool {
        let denied = |pattern: &Pattern| pattern.may_hide_resources(backend);
        (self.read || self.rules.iter().any(|rule| rule.is_all_of(backend)))
            && !self.denied.iter().any(denied)
    }

    /// Whether it may see something of this backend that is in no list. Where the lists are known, only if a rule may
    /// mean it.
    pub(super) fn may_see(&self, backend: &str, unlisted: Unlisted) -> bool {
        let given = || {
            self.rules
                .iter()
                .any(|rule| rule.may_give(backend, unlisted))
        };
        (self.read && unlisted == Unlisted::Anything || given())
            && !self.denied.iter().any(|denied| denied.is_all_of(backend))
    }

    pub fn grant(&self, operation: &Operation) -> Grant {
        if self.denied.iter().any(|denied| denied.matches(operation)) {
            return Grant::NONE;
        }
        if self.execute || self.rules.iter().any(|rule| rule.matches(operation)) {
            return Grant::FULL;
        }
        if self.read { Grant::SEE } else { Grant::NONE }
    }
}

pub(super) fn rule(text: &str) -> Option<Rule> {
    if let Some(glob) = text.strip_prefix("tool:") {
        return Some(Rule::Tool(Glob::new(glob)));
    }
    let (backend, glob) = text.split_once('.')?;
    Some(Rule::Own(backend.to_owned(), Words::new(glob)))
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

    /// `None` for a role that nobody configured: it sees nothing.
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
mod tests {
    use sentinel_wire::template::Template;

    use super::*;

    fn operation(kind: ItemKind, backend: &str, own: &str, exposed: &str) -> Operation {
        Operation {
            kind: Some(kind),
            index: 0,
            backend: backend.into(),
            own: own.into(),
            exposed: exposed.into(),
            template: None,
            forms: Default::default(),
            also: Vec::new(),
            schema: None,
            mirrored: None,
            needs_task: false,
            tags: Arc::default(),
            held: false,
        }
    }

    fn grant(permissions: &[&str], denied: &[&str], operation: &Operation) -> Grant {
        Role::new(permissions.to_vec(), denied.to_vec()).grant(operation)
    }

    #[test]
    fn g_66_each_permission_means_what_it_says() {
        let echo = operation(ItemKind::Tool, "gamma", "echo", "gamma__echo");
        let page = operation(ItemKind::Resource, "gamma", "test://a", "test://a");
        for (permissions, for_echo, for_page) in [
            (&["*"][..], Grant::FULL, Grant::FULL),
            (&["tools.read"], Grant::SEE, Grant::SEE),
            (&["tools.execute"], Grant::FULL, Grant::FULL),
            (&["tools.read", "tools.execute"], Grant::FULL, Grant::FULL),
            (&["admin"], Grant::NONE, Grant::NONE),
            (&[], Grant::NONE, Grant::NONE),
            (&["gamma.*"], Grant::FULL, Grant::FULL),
            (&["gamma.ec*"], Grant::FULL, Grant::NONE),
            (&["gamma.test://*"], Grant::NONE, Grant::FULL),
            (&["beta.*"], Grant::NONE, Grant::NONE),
            (&["tool:gamma__*"], Grant::FULL, Grant::NONE),
            // The merged name, not the own one.
            (&["tool:echo"], Grant::NONE, Grant::NONE),
            (&["tool:*"], Grant::FULL, Grant::NONE),
            (&["tools.read", "gamma.echo"], Grant::FULL, Grant::SEE),
            (&["nonsense"], Grant::NONE, Grant::NONE),
        ] {
            assert_eq!(grant(permissions, &[], &echo), for_echo, "{permissions:?}");
            assert_eq!(grant(permissions, &[], &page), for_page, "{permissions:?}");
        }
    }

    #[test]
    fn denied_tools_win_over_everything() {
        let echo = operation(ItemKind::Tool, "gamma", "echo", "gamma__echo");
        let prompt = operation(ItemKind::Prompt, "gamma", "gamma__echo", "gamma__echo");
        for denied in ["gamma__echo", "*", "gamma.echo", "gamma.*", "*echo"] {
            for permissions in [
                &["*"][..],
                &["tool:gamma__echo"],
                &["gamma.*", "tools.execute"],
            ] {
                assert_eq!(
                    grant(permissions, &[denied], &echo),
                    Grant::NONE,
                    "{denied}"
                );
            }
        }
        assert_eq!(grant(&["*"], &["echo"], &echo), Grant::FULL);
        assert_eq!(grant(&["*"], &["beta.echo"], &echo), Grant::FULL);
        // Decisions 2 and 3: a pattern is about every kind of operation.
        let page = operation(ItemKind::Resource, "gamma", "test://a", "test://a");
        for denied in ["gamma__echo", "*echo", "gamma.gamma*"] {
            assert_eq!(grant(&["*"], &[denied], &prompt), Grant::NONE, "{denied}");
            assert_eq!(grant(&["*"], &[denied], &page), Grant::FULL, "{denied}");
        }
        for denied in ["test://a", "test://*", "*", "gamma.test://a", "TEST://a"] {
            assert_eq!(grant(&["*"], &[denied], &page), Grant::NONE, "{denied}");
        }
    }

    #[test]
    fn a_uri_found_by_a_template_is_granted_with_it_unless_denied() {
        let mut page = operation(ItemKind::Resource, "gamma", "doc://7", "doc://7");
        page.template = Some("doc://{id}".into());
        assert_eq!(grant(&["gamma.doc://{id}"], &[], &page), Grant::FULL);
        assert_eq!(
            grant(&["gamma.doc://{id}"], &["gamma.doc://7"], &page),
            Grant::NONE
        );
        page.also = vec!["doc://{id}".into()];
        assert_eq!(grant(&["*"], &["gamma.doc://{id}"], &page), Grant::NONE);
        // Without a host as well, and however a denied one is spelt.
        let name: Arc<str> = "doc:///{id}".into();
        let template = Template::parse(&name).expect("a template");
        for (uri, granted, denied) in [
            ("doc:///7", Grant::FULL, Grant::NONE),
            ("doc://7", Grant::NONE, Grant::NONE),
            ("doc:7", Grant::NONE, Grant::NONE),
            ("doc:///7/8", Grant::NONE, Grant::FULL),
            ("doc:///7/../8", Grant::NONE, Grant::NONE),
        ] {
            let page = operation(ItemKind::Resource, "gamma", uri, uri);
            let page = page.spelt_out([(&template, &name)].into_iter());
            assert_eq!(grant(&["gamma.doc:///{id}"], &[], &page), granted, "{uri}");
            assert_eq!(
                grant(&["*"], &["gamma.doc:///{id}"], &page),
                denied,
                "{uri}"
            );
        }
    }

    /// Decision 1: two spellings that a backend may take for one resource are judged so that respelling never passes a
    /// denial, and a permission on URIs without a host is worth what it says.
    #[test]
    fn decision_1_a_uri_without_a_host_is_granted_and_denied_in_every_reading() {
        let page = |uri: &str| {
            operation(ItemKind::Resource, "gamma", uri, uri).spelt_out(std::iter::empty())
        };
        for (permission, denied, uri, wanted) in [
            ("gamma.docs:///*", "", "docs:///a", Grant::FULL),
            ("gamma.docs:///*", "", "docs:///a/b", Grant::FULL),
            ("gamma.docs:///pub/*", "", "docs:///pub/a", Grant::FULL),
            (
                "gamma.docs:///pub/*",
                "",
                "docs:///pub//x/../a",
                Grant::FULL,
            ),
            ("gamma.urn:book:*", "", "urn:book:7", Grant::FULL),
            ("gamma.docs:/a", "", "docs:/a", Grant::FULL),
            // By the book those have a host, which nobody granted.
            ("gamma.docs:///*", "", "docs://a", Grant::NONE),
            ("gamma.docs:///*", "", "docs://a/b", Grant::NONE),
            ("gamma.docs:///*", "", "docs:a", Grant::NONE),
            ("gamma.docs:///pub/*", "", "docs:///pub/../a", Grant::NONE),
            (
                "gamma.docs:///pub/*",
                "",
                "docs:///pub/%2e%2e/a",
                Grant::NONE,
            ),
            ("gamma.docs:///pub/*", "", "docs://pub/a", Grant::NONE),
            ("gamma.docs://pub/*", "", "docs:///pub/a", Grant::NONE),
            // A star that is written so is none that stands for anything.
            ("gamma.docs://a/b%2A", "", "docs://a/bc", Grant::NONE),
            ("*", "gamma.docs://a/b%2A", "docs://a/b*", Grant::NONE),
            // What is denied is so however many slashes either has.
            ("*", "gamma.docs:///a", "docs:///a", Grant::NONE),
            ("*", "gamma.docs:///a", "docs://a", Grant::NONE),
            ("*", "gamma.docs:///a", "docs:/a", Grant::NONE),
            ("*", "gamma.docs:///a", "docs:a/", Grant::NONE),
            ("*", "gamma.docs://a", "docs:///a", Grant::NONE),
            ("*", "gamma.docs://a", "docs:a", Grant::NONE),
            ("*", "docs:///a*", "docs://ab", Grant::NONE),
            ("*", "docs:a", "docs:///%61", Grant::NONE),
            (
                "gamma.docs:///*",
                "gamma.docs://a",
                "docs:///a",
                Grant::NONE,
            ),
            (
                "gamma.docs:///*",
                "gamma.docs://a",
                "docs:////a",
                Grant::NONE,
            ),
            (
                "gamma.docs:///*",
                "gamma.docs://a",
                "docs:///b",
                Grant::FULL,
            ),
            ("*", "gamma.docs:///a", "docs://b", Grant::FULL),
        ] {
            let denied: &[&str] = if denied.is_empty() { &[] } else { &[denied] };
            let given = grant(&[permission], denied, &page(uri));
            assert_eq!(given, wanted, "{permission} without {denied:?}: {uri}");
        }
    }

    #[test]
    fn decision_1_only_patterns_that_can_mean_a_uri_hide_resources() {
        for (permissions, denied, all) in [
            (&["*"][..], &[][..], true),
            (&["tools.read"], &[], true),
            (&["gamma.*"], &[], true),
            (&["gamma.test://*"], &[], false),
            (&["tool:*"], &[], false),
            (&["beta.*"], &[], false),
            (&["*"], &["delete_*", "echo", "gamma.delete_x*"], true),
            (&["*"], &["beta.test://a"], true),
            (&["*"], &["gamma.test://a"], false),
            (&["*"], &["test://*"], false),
            (&["*"], &["*secret"], false),
            (&["*"], &["te*"], false),
        ] {
            let role = Role::new(permissions.to_vec(), denied.to_vec());
            assert_eq!(
                role.sees_all_resources("gamma"),
                all,
                "{permissions:?} {denied:?}"
            );
        }
    }

    #[test]
    fn decision_3_admin_is_built_in_and_may_be_written() {
        assert!(Roles::default().get(ADMIN).is_some_and(|r| r.is_full()));
        let narrow = Roles::new([(ADMIN.to_owned(), Role::new(["tools.read"], []))]);
        assert!(!narrow.get(ADMIN).is_some_and(|r| r.is_full()));
        assert!(narrow.get("nobody").is_none());
    }
}
