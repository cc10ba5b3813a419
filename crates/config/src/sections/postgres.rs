//! `[postgres]`: PostgreSQL as the store.

use serde::Serialize;

use super::RawConfig;
use crate::builder::Builder;
use crate::secret::Secret;
use crate::section::section;

section! {
    /// Present: PostgreSQL is the store.
    #[schemars(rename = "Postgres", extend("x-off" = true))]
    RawPostgres => Postgres {
        /// Environment variable with the connection URL.
        Restart url_env (url): String = "DATABASE_URL".into();
        /// Largest number of connections.
        #[schemars(range(min = 1, max = 1000))]
        Restart max_connections: u32 = 10;
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Postgres {
    #[serde(rename = "url_env")]
    pub url: Secret,
    pub max_connections: u32,
}

impl Builder<'_> {
    pub(crate) fn postgres(&mut self, raw: &RawConfig) -> Option<Postgres> {
        let expected = "postgres://user:password@host/database";
        let check = self.environment.validators.postgres_url;
        Some(Postgres {
            url: self.store_url("postgres", &raw.postgres.url_env, check, expected)?,
            max_connections: raw.postgres.max_connections,
        })
    }
}
