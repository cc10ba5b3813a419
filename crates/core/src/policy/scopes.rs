//! Scopes of a token: they narrow its role and never widen it.
//!
//! A scope has the form of a permission. Others (`openid`, `mcp:use`) are ignored; a token without any of ours has
//! the whole role. `<name>.<glob>` is ours if a backend could have that name, whether or not it exists: a token for a
//! removed backend must not become one for all others. So `User.Read` of an identity provider takes nothing away.

use std::sync::Arc;

use super::roles::{Grant, Unlisted, rule};
use crate::operation::Operation;

/// The grant of one scope; `None` if it is not ours.
fn one(scope: &str, operation: &Operation) -> Option<Grant> {
    match scope {
        "*" | "tools.execute" => return Some(Grant::FULL),
        "tools.read" => return Some(Grant::SEE),
        "admin" => return Some(Grant::NONE),
        _ => {}
    }
    if !is_ours(scope) {
        return None;
    }
    let matches = rule(scope).is_some_and(|rule| rule.matches(operation));
    Some(if matches { Grant::FULL } else { Grant::NONE })
}

/// Whether a scope has the form of a permission.
pub(super) fn is_ours(scope: &str) -> bool {
    matches!(scope, "*" | "tools.execute" | "tools.read" | "admin")
        || scope.starts_with("tool:")
        || scope
            .split_once('.')
            .is_some_and(|(name, _)| could_name_a_backend(name))
}

/// `[a-z0-9][a-z0-9-]{0,31}`
fn could_name_a_backend(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 32
        && name.bytes().next().is_some_and(plain)
        && name.bytes().all(|byte| plain(byte) || byte == b'-')
}

/// The grant of a token's scopes.
pub(super) fn grant(scopes: &[Arc<str>], operation: &Operation) -> Grant {
    let ours = scopes.iter().filter_map(|s| one(s, operation));
    ours.reduce(Grant::or).unwrap_or(Grant::FULL)
}

/// Whether a token's scopes allow an unlisted operation of a backend.
pub(super) fn may_see(scopes: &[Arc<str>], backend: &str, unlisted: Unlisted) -> bool {
    let mut ours = scopes.iter().filter(|s| is_ours(s)).peekable();
    let leaves = |scope: &Arc<str>| match &**scope {
        "*" | "tools.execute" | "tools.read" => true,
        other => rule(other).is_some_and(|rule| rule.may_give(backend, unlisted)),
    };
    ours.peek().is_none() || ours.any(leaves)
}

/// Whether a token's scopes allow the admin API to a role that may use it.
pub(super) fn leave_admin(scopes: &[Arc<str>]) -> bool {
    let mut ours = scopes.iter().filter(|s| is_ours(s)).peekable();
    ours.peek().is_none() || ours.any(|s| matches!(&**s, "*" | "admin"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::ItemKind;
    use crate::policy::Role;

    #[test]
    fn scopes_narrow_a_role_and_never_widen_it() {
        let echo = Operation {
            exposed: "gamma__echo".into(),
            ..Operation::unlisted(Some(ItemKind::Tool), 0, &"gamma".into(), "echo")
        };
        for (permissions, scopes, wanted) in [
            (&["*"][..], &[][..], Grant::FULL),
            (&["*"], &["openid", "mcp:use", "User.Read"], Grant::FULL),
            (&["*"], &["https://api.example/all"], Grant::FULL),
            // No such backend, now or any more.
            (&["*"], &["delta.*"], Grant::NONE),
            (&["*"], &["openid", "gone-2.echo"], Grant::NONE),
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
            let given = role.grant(&echo).and(grant(&scopes, &echo));
            assert_eq!(given, wanted, "{permissions:?} {scopes:?}");
        }
        for (scopes, wanted) in [
            (&[][..], true),
            (&["openid"], true),
            (&["admin", "tools.read"], true),
            (&["*"], true),
            (&["tools.execute"], false),
            (&["gamma.*"], false),
            (&["delta.*"], false),
        ] {
            let scopes: Vec<Arc<str>> = scopes.iter().map(|s| (*s).into()).collect();
            assert_eq!(leave_admin(&scopes), wanted, "{scopes:?}");
        }
    }
}
