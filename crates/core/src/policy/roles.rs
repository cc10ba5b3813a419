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
    merged: PatternForms,
    own: Option<(String, PatternForms)>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self {
            merged: PatternForms::new(text),
            own: text
                .split_once('.')
                .map(|(backend, glob)| (backend.to_owned(), PatternForms::new(glob))),
        }
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
    read: bool,
    execute: bool,
    admin: bool,
    rules: Vec<Rule>,
    denied: Vec<Pattern>,
    /// Tools whose calls it has to confirm.
    confirm: Vec<Pattern>,
}

impl Role {
    /// Built from `permissions` and `denied_tools`. An invalid permission grants nothing; the configuration reports
    /// it.
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
                // Callable implies visible.
                "tools.execute" => (role.read, role.execute) = (true, true),
                other => role.rules.extend(rule(other)),
            }
        }
        role
    }

    /// The role with tools whose calls it has to confirm.
    #[must_use]
    pub fn confirming<P: AsRef<str>>(mut self, tools: impl IntoIterator<Item = P>) -> Self {
        let tools = tools.into_iter();
        self.confirm = tools.map(|t| Pattern::new(t.as_ref())).collect();
        self
    }

    pub(super) fn must_confirm(&self, tool: &Operation) -> bool {
        self.confirm.iter().any(|pattern| pattern.matches(tool))
    }

    /// Whether this role may use the admin API.
    pub fn is_admin(&self) -> bool {
        self.admin
    }

    /// Whether it may see and call everything, so that single operations need no check.
    pub(super) fn is_full(&self) -> bool {
        self.execute && self.denied.is_empty()
    }

    /// Whether nothing is hidden from it.
    pub(super) fn sees_all(&self) -> bool {
        self.read && self.denied.is_empty()
    }

    /// Whether no resource of this backend is hidden from it.
    pub(super) fn sees_all_resources(&self, backend: &str) -> bool {
        let denied = |pattern: &Pattern| pattern.may_hide_resources(backend);
        (self.read || self.rules.iter().any(|rule| rule.is_all_of(backend)))
            && !self.denied.iter().any(denied)
    }

    /// Whether it may see an unlisted operation of this backend. If the lists are known, only if a rule may match
    /// one.
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
mod tests {
    use proptest::prelude::*;
    use sentinel_wire::template::Template;

    use super::*;

    fn operation(kind: ItemKind, backend: &str, own: &str, exposed: &str) -> Operation {
        Operation {
            exposed: exposed.into(),
            ..Operation::unlisted(Some(kind), 0, &backend.into(), own)
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

    fn page(uri: &str) -> Operation {
        operation(ItemKind::Resource, "be", uri, uri).spelt_out(std::iter::empty())
    }

    /// Decision 1: each line a denial, and URIs that some server takes for what it denies. They differ in what is done
    /// first: decoding, splitting, resolving dots.
    #[test]
    fn decision_1_a_denial_holds_in_whatever_order_a_uri_is_read() {
        for (denied, uris) in [
            (
                "be.docs://host/secret",
                &[
                    "docs://u%23@host/secret",
                    "docs://u%3f@host/secret",
                    "docs://u%2f@host/secret",
                    "docs://u%5c@host/secret",
                    "docs://u%2523@host/secret",
                    "docs://u\\@host/secret",
                    "docs://u\\@host/x\\..\\secret",
                    "docs://u@v@host/secret",
                    "docs://host/%23/../secret",
                    "docs://host/x?/../secret",
                    "docs://host/x#/../secret",
                    "docs://x?/../host/secret",
                    "docs://host/secret%23",
                    "docs://host/secret%3f",
                    "docs://host/secret%23s",
                ][..],
            ),
            (
                "be.https://h/secret*",
                &[
                    "https://u%23@h/secret",
                    "https://u%2f@h/secret/x",
                    "https:u%23@h/secret",
                    "https:///u%3f@h:443/secret",
                ],
            ),
            ("be.https://*.internal/*", &["https://a%2f@x.internal/a"]),
            (
                "be.file:///secret/*",
                &[
                    "file:///x%23/../secret/a",
                    "file:///x%3f/../secret/a",
                    "file:///x%253f/../secret/a",
                    "file:///x?/../secret/a",
                    "file:///x#/../secret/a",
                    "file:///x?/../secret/a#/../../x",
                    "file:///x#/../secret/a?/../../x",
                    "file:///%73ecret/x\\..\\..\\pub",
                    "file:///%73ecret/..?x",
                    "file://127.0.0.1/secret/a",
                    "file://[::1]/secret/a",
                ],
            ),
            ("be.docs:///secret1", &["docs:///a%3f/../secret1"]),
        ] {
            for uri in uris {
                let given = grant(&["*"], &[denied], &page(uri));
                assert_eq!(given, Grant::NONE, "without {denied}: {uri}");
            }
        }
        for (denied, uri) in [
            ("be.docs://host/secret", "docs://host/a?next=/secret"),
            ("be.docs://b/*", "docs://search?mail=a@b/"),
            ("be.file:///secret/*", "file:///pub/a%23b"),
            ("be.file:///secret/*", "file:///pub/a?x=../y"),
        ] {
            let given = grant(&["*"], &[denied], &page(uri));
            assert_eq!(given, Grant::FULL, "without {denied}: {uri}");
        }
    }

    /// Decision 1: a permission leads nowhere else in any reading, and still gives what is ordinary.
    #[test]
    fn decision_1_a_permission_holds_in_whatever_order_a_uri_is_read() {
        for (permission, given, refused) in [
            (
                "be.file:///pub/*",
                &[
                    "file:///pub/a%20b",
                    "file:///pub/a%23b",
                    "file:///pub/a%3Fb",
                    "file:///pub/a%25b",
                    "file:///pub/a#top",
                    "file:///pub/a?v=2",
                    "file:///pub/x/../a",
                ][..],
                &[
                    "file:///pub/x%23/../../secret/a",
                    "file:///pub/x%3f/../../secret/a",
                    "file:///pub/x?/../../secret/a",
                    "file:///pub/x#/../../secret/a",
                    "file:///pub/x%5c..%5c..%5csecret",
                ][..],
            ),
            (
                "be.docs://host/*",
                &[
                    "docs://host/a?x=1",
                    "docs://host/a?to=https://x.example/y",
                    "docs://host/a?mail=a@b.example",
                    "docs://host/a?q=%23%3F%2F",
                    "docs://host/a?x=1#top",
                ],
                &[
                    "docs://host/x%3f/../../../b/a",
                    "docs://host%3f@evil/a",
                    "docs://host%23@evil/a",
                    "docs://host\\@evil/a",
                ],
            ),
            (
                "be.docs://host/a*",
                &["docs://host/a?x=1", "docs://host/a%23b"],
                &["docs://host/a?/../b", "docs://host/a%23/../b"],
            ),
            (
                "be.docs://search?*",
                &["docs://search?mail=a@b.example", "docs://search?q=a%40b"],
                &["docs://search", "docs://search?/../b"],
            ),
            (
                "be.https://api.h/*",
                &["https://api.h/a", "https://api.h/a?u=https://x/y"],
                &["https://api.h/%23/../../../x", "https://api.h%2f@evil/"],
            ),
        ] {
            for uri in given {
                let found = grant(&[permission], &[], &page(uri));
                assert_eq!(found, Grant::FULL, "{permission}: {uri}");
                // One that is named as it is listed is given, whatever it looks like.
                let found = grant(&[&*format!("be.{uri}")], &[], &page(uri));
                assert_eq!(found, Grant::FULL, "{uri}");
            }
            for uri in refused {
                let found = grant(&[permission], &[], &page(uri));
                assert_eq!(found, Grant::NONE, "{permission}: {uri}");
            }
        }
    }

    /// A URI that has too many readings to look at all of them passes no rule about URIs.
    #[test]
    fn decision_1_what_is_too_long_to_be_read_passes_no_rule_about_uris() {
        let long = page(&format!("file:///pub/{}", "%23".repeat(10_000)));
        for (permission, denied, wanted) in [
            ("*", &[][..], Grant::FULL),
            ("be.*", &[], Grant::FULL),
            ("be.*", &["be.delete_x", "other.file:///a"], Grant::FULL),
            ("be.*", &["be.file:///secret/*"], Grant::NONE),
            ("be.file:///pub/*", &[], Grant::NONE),
        ] {
            assert_eq!(grant(&[permission], denied, &long), wanted, "{denied:?}");
        }
    }

    /// A mark, encoded up to three times.
    fn mark() -> impl Strategy<Value = String> {
        let plain = prop::sample::select(vec!["%23", "%3f", "%3F", "%2f", "%5C"]);
        (plain, 0..3_usize)
            .prop_map(|(mark, times)| format!("%{}{}", "25".repeat(times), &mark[1..]))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Decision 1, for a server that splits, decodes and then resolves dots; and one that knows no query.
        #[test]
        fn decision_1_no_respelling_passes_a_denial(
            scheme in prop::sample::select(vec!["docs", "https", "DOCS"]),
            user in prop::option::of(prop::collection::vec(mark(), 0..3)),
            detour in prop::option::of((mark(), prop::sample::select(vec!["", "?", "#", "?#"]))),
            encoded in prop::collection::vec(0..3_usize, 6),
            end in prop::sample::select(vec!["", "/", "?", "#x", "/."]),
        ) {
            let user = user.map(|marks| format!("u{}@", marks.concat())).unwrap_or_default();
            let detour = match detour {
                // A slash in the name of a folder makes two of it.
                Some((mark, _)) if mark.ends_with("2f") || mark.ends_with("5C") => String::new(),
                Some((mark, raw)) => format!("x{mark}{raw}/../"),
                None => String::new(),
            };
            let secret: String = "secret".chars().zip(encoded).map(|(c, times)| match times {
                0 => c.to_string(),
                times => format!("%{}{:x}", "25".repeat(times - 1), u32::from(c)),
            }).collect();
            // Behind a raw mark an end with another one is read as part of the name by who cuts neither.
            let end = if detour.contains(['?', '#']) { "" } else { end };
            let uri = format!("{scheme}://{user}host/{detour}{secret}{end}");
            let denied = format!("be.{}://host/secret", scheme.to_lowercase());
            prop_assert_eq!(grant(&["*"], &[&*denied], &page(&uri)), Grant::NONE, "{}", uri);
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
