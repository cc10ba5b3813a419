//! `[postgres]`: PostgreSQL as the store.

use serde::Serialize;

use super::RawConfig;
use crate::builder::Builder;
use crate::mistake::Mistake;
use crate::secret::Secret;
use crate::section::section;
use crate::tree::Path;

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
        let here = Path::dotted("postgres");
        if !self.tree.has(&here) {
            return None;
        }
        let url = self.variable_in(&here, "url_env", &raw.postgres.url_env)?;
        if let Err(why) = (self.environment.validators.postgres_url)(url.expose()) {
            let span = self.tree.value_span(&here.key("url_env"));
            let span = span.or_else(|| self.tree.key_span(&here));
            let message = format!("{}: {why}", raw.postgres.url_env);
            self.mistakes.push(
                Mistake::new(span, message).expected("postgres://user:password@host/database"),
            );
        }
        Some(Postgres {
            url,
            max_connections: raw.postgres.max_connections,
        })
    }
}
