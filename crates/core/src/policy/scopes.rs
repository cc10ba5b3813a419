//! Scopes of a token: they narrow its role and never widen it.
//!
//! A scope is written like a permission. Others (`openid`, `mcp:use`) are somebody else's and say nothing;
//! a token without any of ours has its whole role. `<name>.<glob>` is ours if there is a backend of that
//! name, so that `User.Read` of an identity provider takes nothing away.

use std::sync::Arc;

use super::roles::{Grant, rule};
use crate::catalog::{Operation, Registry};

/// What one scope lets through; `None` if it is not ours.
fn one(scope: &str, operation: &Operation, registry: &Registry) -> Option<Grant> {
    match scope {
        "*" | "tools.execute" => return Some(Grant::FULL),
        "tools.read" => return Some(Grant::SEE),
        "admin" => return Some(Grant::NONE),
        _ => {}
    }
    if !is_ours(scope, registry) {
        return None;
    }
    let matches = rule(scope).is_some_and(|rule| rule.matches(operation));
    Some(if matches { Grant::FULL } else { Grant::NONE })
}

/// Whether a scope speaks of what is here.
pub(super) fn is_ours(scope: &str, registry: &Registry) -> bool {
    matches!(scope, "*" | "tools.execute" | "tools.read" | "admin")
        || scope.starts_with("tool:")
        || scope
            .split_once('.')
            .is_some_and(|(name, _)| registry.index_of(name).is_some())
}

/// What a token's scopes let through.
pub(super) fn grant(scopes: &[Arc<str>], operation: &Operation, registry: &Registry) -> Grant {
    let ours = scopes.iter().filter_map(|s| one(s, operation, registry));
    ours.reduce(Grant::or).unwrap_or(Grant::FULL)
}

/// Whether a token's scopes leave anything of a backend that is in no list.
pub(super) fn may_see(scopes: &[Arc<str>], backend: &str, registry: &Registry) -> bool {
    let mut ours = scopes.iter().filter(|s| is_ours(s, registry)).peekable();
    let leaves = |scope: &Arc<str>| match &**scope {
        "*" | "tools.execute" | "tools.read" => true,
        other => rule(other).is_some_and(|rule| rule.is_of(backend)),
    };
    ours.peek().is_none() || ours.any(leaves)
}

/// Whether a token's scopes leave the admin API to a role that may use it.
pub(super) fn leave_admin(scopes: &[Arc<str>], registry: &Registry) -> bool {
    let mut ours = scopes.iter().filter(|s| is_ours(s, registry)).peekable();
    ours.peek().is_none() || ours.any(|s| matches!(&**s, "*" | "admin"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Listing;
    use crate::offer::ItemKind;
    use crate::policy::Role;

    #[test]
    fn scopes_narrow_a_role_and_never_widen_it() {
        let registry = Registry::new(vec![Listing::new("gamma"), Listing::new("beta")]);
        let echo = Operation {
            kind: Some(ItemKind::Tool),
            index: 0,
            backend: "gamma".into(),
            own: "echo".into(),
            exposed: "gamma__echo".into(),
            template: None,
            forms: Vec::new(),
            also: Vec::new(),
            schema: None,
            mirrored: None,
            needs_task: false,
            tags: Arc::default(),
            held: false,
        };
        for (permissions, scopes, wanted) in [
            (&["*"][..], &[][..], Grant::FULL),
            (&["*"], &["openid", "mcp:use", "User.Read"], Grant::FULL),
            (&["*"], &["tools.read"], Grant::SEE),
            (&["*"], &["openid", "tools.read"], Grant::SEE),
            (&["*"], &["tools.read", "tools.execute"], Grant::FULL),
            (&["*"], &["gamma.*"], Grant::FULL),
            (&["*"], &["gamma.other"], Grant::NONE),
            (&["*"], &["beta.*"], Grant::NONE),
            (&["*"], &["beta.*", "tool:gamma__e*"], Grant::FULL),
            (&["*"], &["tool:echo"], Grant::NONE),
            (&["*"], &["admin"], Grant::NONE),
            (&["tools.read"], &["*"], Grant::SEE),
            (&["tools.read"], &["tools.execute", "gamma.*"], Grant::SEE),
            (&["beta.*"], &["gamma.*"], Grant::NONE),
            (&[], &["*"], Grant::NONE),
        ] {
            let scopes: Vec<Arc<str>> = scopes.iter().map(|s| (*s).into()).collect();
            let role = Role::new(permissions.to_vec(), vec![]);
            let given = role.grant(&echo).and(grant(&scopes, &echo, &registry));
            assert_eq!(given, wanted, "{permissions:?} {scopes:?}");
        }
        for (scopes, wanted) in [
            (&[][..], true),
            (&["openid"], true),
            (&["admin", "tools.read"], true),
            (&["*"], true),
            (&["tools.execute"], false),
            (&["gamma.*"], false),
        ] {
            let scopes: Vec<Arc<str>> = scopes.iter().map(|s| (*s).into()).collect();
            assert_eq!(leave_admin(&scopes, &registry), wanted, "{scopes:?}");
        }
    }
}
