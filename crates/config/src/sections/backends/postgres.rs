//! `type = "postgres"`: functions of a PostgreSQL database.

use std::time::Duration;

use serde::Serialize;

use super::{Kind, Site};
use crate::builder::Builder;
use crate::secret::Secret;
use crate::section::{seconds, section, words};

section! {
    /// Functions of a PostgreSQL database.
    RawPostgres => PostgresBackend {
        /// Environment variable with the connection URL.
        #[schemars(example = &"SHOP_DATABASE_URL")]
        Replace url_env (url): String = String::new();
        /// The schema whose functions, marked @tool, @resource or @prompt in their comment, are operations.
        Replace schema: String = "api".into();
        /// Whether the gateway functions and route tables are used.
        Replace registry: Registry = Registry::Auto;
        /// Seconds for one statement.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0.1, max = 86_400))]
        Replace statement_timeout: Duration = Duration::from_secs(30);
        /// Largest number of connections.
        #[schemars(range(min = 1, max = 1000))]
        Replace max_connections: u32 = 10;
    }
}

words! {
    /// Whether a PostgreSQL backend's gateway functions and route tables are used.
    Registry {
        /// When they exist.
        #[default] Auto,
        /// They must exist.
        On,
        /// They are ignored.
        Off,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PostgresBackend {
    #[serde(rename = "url_env")]
    pub url: Secret,
    pub schema: String,
    pub registry: Registry,
    #[serde(with = "seconds")]
    pub statement_timeout: Duration,
    pub max_connections: u32,
}

impl Kind for RawPostgres {
    type Built = PostgresBackend;
    const NEEDS: &'static [&'static str] = &["url_env"];
    const PENDING: Option<&'static str> = Some("PostgreSQL backends");

    fn build(&self, builder: &mut Builder<'_>, site: &Site<'_>) -> Option<PostgresBackend> {
        builder
            .needs(site, "url_env", "\"SHOP_DATABASE_URL\"", &self.url_env)
            .then_some(())?;
        let path = site.path.key("url_env");
        Some(PostgresBackend {
            url: builder.backend_variable(&path, &self.url_env, site.enabled)?,
            schema: self.schema.clone(),
            registry: self.registry,
            statement_timeout: self.statement_timeout,
            max_connections: self.max_connections,
        })
    }
}
