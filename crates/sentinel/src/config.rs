//! The configuration (`sentinel-config`), with the parsers of values that only other crates understand.

use std::io;

use sentinel_core::identity::KeySet;
use sentinel_stores::{Postgres, Redis};

pub(crate) use sentinel_config::*;

const VALIDATORS: Validators = Validators {
    key_set: |text| KeySet::public(text).map(drop).map_err(|e| e.to_string()),
    postgres_url: |url| Postgres::check(url).map_err(|e| e.to_string()),
    redis_url: |url| Redis::check(url).map_err(|e| e.to_string()),
};

/// The environment of this process; values are checked by the crates that parse them when they are used.
pub(crate) fn environment() -> io::Result<Environment<'static>> {
    Environment::of_process(VALIDATORS)
}

#[cfg(test)]
mod tests {
    use super::{Environment, Overrides, VALIDATORS, parse};

    fn mistakes_of(text: &str, variable: &str, value: Option<&str>) -> String {
        let home = std::env::temp_dir();
        let environment = Environment {
            variables: &|name: &str| match name {
                "HOME" => Some(home.clone().into()),
                _ if name == variable => value.map(Into::into),
                _ => None,
            },
            cwd: home.clone(),
            validators: VALIDATORS,
        };
        let parsed = parse("x", text, &home, &Overrides::default(), &environment);
        parsed.expect_err("it has mistakes").to_string()
    }

    #[test]
    fn a_database_url_is_checked_and_never_repeated() {
        for (url, words) in [
            (
                "postgres://me:hunter2@host:port/x",
                "DATABASE_URL: not a PostgreSQL URL",
            ),
            (
                "postgres://me:hunter2@host/x?sslmode=maybe",
                "`maybe` is unknown",
            ),
            (
                "postgres://me:hunter2@host/x?sslmode=verify-ca&sslrootcert=/nowhere",
                "need certificates",
            ),
        ] {
            let text = mistakes_of("[postgres]", "DATABASE_URL", Some(url));
            assert!(text.contains(words), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    /// G-85: what `[redis]` names is looked at before anything starts.
    #[test]
    fn g_85_a_redis_url_is_checked_and_never_repeated() {
        for (url, words) in [
            ("http://me:hunter2@host", "REDIS_URL: not a Redis URL"),
            ("redis://me:hunter2@host:port", "the port in the Redis URL"),
            ("redis://me:hunter2@host/x", "no number of a database"),
            ("redis://hunter2@host", "a user and no password"),
        ] {
            let text = mistakes_of("[redis]", "REDIS_URL", Some(url));
            assert!(text.contains(words), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
        let missing = mistakes_of("[redis]", "REDIS_URL", None);
        assert!(missing.contains("REDIS_URL"), "{missing}");
    }
}
