//! The settings of a transaction: who calls, and what the session must not have kept from an earlier call.
//!
//! All of them are set before each call and end with its transaction, so nothing of one caller is left for the next one, whatever a
//! function did to its session. Locks of the session are released with them: another connection may wait for one.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use sentinel_config::Token;
use sentinel_core::Caller;
use sentinel_pg::tokio_postgres::types::ToSql;

/// One statement for all settings and the locks of an earlier call; its parameters are `Settings::params`.
pub(super) const SQL: &str = "SELECT pg_catalog.set_config('auth.user_id', $1, true), \
    pg_catalog.set_config('auth.tenant_id', $2, true), pg_catalog.set_config('auth.user_email', $3, true), \
    pg_catalog.set_config('auth.role', $4, true), pg_catalog.set_config('auth.token', $5, true), \
    pg_catalog.set_config('role', $6, true), pg_catalog.set_config('search_path', $7, true), \
    pg_catalog.set_config('statement_timeout', $8, true), pg_catalog.set_config('lock_timeout', $9, true), \
    pg_catalog.pg_advisory_unlock_all()";

const COUNT: usize = 9;

/// What a transaction is run with, besides the time that its statement may take.
#[derive(Clone, Debug)]
pub(super) struct Settings<'a> {
    fixed: &'a Fixed,
    /// User, tenant, email, role and credential.
    identity: [Cow<'a, str>; 5],
}

/// What is the same for every call of a backend.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    /// `none`: the role that logs in.
    pub(super) role: String,
    pub(super) search_path: String,
    pub(super) lock_timeout_ms: String,
    pub(super) token: Token,
}

impl<'a> Settings<'a> {
    /// The settings of a call. The identity of a caller without a credential is empty.
    pub(super) fn of(caller: &'a Caller, fixed: &'a Fixed) -> Self {
        let identity = match &caller.account {
            None => Default::default(),
            Some(account) => [
                Cow::from(&*caller.subject),
                caller.tenant.as_deref().unwrap_or_default().into(),
                account.email.as_deref().unwrap_or_default().into(),
                (&*caller.role).into(),
                match fixed.token {
                    Token::Digest => account.credential.digest().into(),
                    Token::Full => account.credential.expose().into(),
                    Token::Off => "".into(),
                },
            ],
        };
        Self { fixed, identity }
    }

    /// Tells callers apart: equal for equal identities, and with all likelihood for no others.
    pub(super) fn owner(&self) -> u64 {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        KEYS.hash_one(&self.identity)
    }

    /// The parameters of `SQL`; `statement_timeout` is in milliseconds.
    pub(super) fn params<'b>(
        &'b self,
        statement_timeout: &'b String,
    ) -> [&'b (dyn ToSql + Sync); COUNT] {
        let [user, tenant, email, role, token] = &self.identity;
        [
            user,
            tenant,
            email,
            role,
            token,
            &self.fixed.role,
            &self.fixed.search_path,
            statement_timeout,
            &self.fixed.lock_timeout_ms,
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sentinel_core::Identity;

    use super::*;

    fn fixed() -> Fixed {
        Fixed {
            role: "none".to_owned(),
            search_path: "public".to_owned(),
            lock_timeout_ms: "5000".to_owned(),
            token: Token::Digest,
        }
    }

    #[test]
    fn a_caller_without_a_credential_has_an_empty_identity() {
        let caller = Caller {
            tenant: Some(Arc::from("acme")),
            ..Caller::of(&Identity::local("admin"))
        };
        let fixed = fixed();
        let settings = Settings::of(&caller, &fixed);
        assert_eq!(settings.identity, [""; 5]);
        let places = (1..=COUNT).filter(|place| SQL.contains(&format!("${place}, true")));
        assert_eq!(places.count(), COUNT, "each parameter is a setting");
    }
}
