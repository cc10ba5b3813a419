//! `type = "postgres"`: functions of a PostgreSQL database.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

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
        /// Environment variable with the connection URL of standby servers, for read-only operations. Empty: none.
        #[schemars(example = &"SHOP_REPLICAS_URL")]
        Replace replicas_env (replicas): String = String::new();
        /// The schema whose functions are operations.
        Replace schema: String = "api".into();
        /// Which of its functions: those marked @tool, @resource, @prompt or @route in their comment, or all.
        Replace expose: Expose = Expose::Marked;
        /// Tables and views offered as read-only operations, as "table" or "schema.table"; globs are allowed.
        #[schemars(example = json!(["orders", "reporting.*"]))]
        Replace select: Vec<String> = Vec::new();
        /// Whether the gateway functions and route tables are used.
        Replace registry: Registry = Registry::Auto;
        /// Database role that calls run with. Empty: the role that logs in.
        Replace role: String = String::new();
        /// Whether the login may be a superuser or bypass row-level security: everything is then open to every caller.
        Replace allow_superuser: bool = false;
        /// What functions find in the setting auth.token.
        Replace token: Token = Token::Digest;
        /// First part of x-user-id for registry functions. Empty: the issuer of the caller's token.
        Replace provider: String = String::new();
        /// Seconds for one statement.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0.1, max = 86_400))]
        Replace statement_timeout: Duration = Duration::from_secs(30);
        /// Seconds that a statement waits for a lock.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0.001, max = 86_400))]
        Replace lock_timeout: Duration = Duration::from_secs(5);
        /// Largest number of connections, to each of the two URLs.
        #[schemars(range(min = 1, max = 1000))]
        Replace max_connections: u32 = 10;
        /// Connections that one operation may hold at a time, so that a slow one leaves some to the others; 0 is three quarters.
        #[schemars(range(min = 0, max = 1000))]
        Replace max_per_operation: u32 = 0;
        /// Rows of a set in one answer; further ones are left out. Streams of rows have no such bound.
        #[schemars(range(min = 1, max = 1_000_000))]
        Replace max_rows: u32 = 1000;
        /// Seconds after which the catalog of functions is read again; `NOTIFY sentinel_catalog` does so at once. 0 is only then.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0, max = 604_800))]
        Replace refresh: Duration = Duration::from_secs(60);
    }
}

words! {
    /// Which functions of a PostgreSQL backend's schema are operations.
    Expose {
        /// Those marked in their comment.
        #[default] Marked,
        /// All.
        All,
    }
}

words! {
    /// What functions of a PostgreSQL backend learn of the caller's credential.
    Token {
        /// Its SHA-256, in hexadecimal.
        #[default] Digest,
        /// The credential itself.
        Full,
        /// Nothing.
        Off,
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
    #[serde(rename = "replicas_env")]
    pub replicas: Option<Secret>,
    pub schema: String,
    pub expose: Expose,
    pub select: Vec<String>,
    pub registry: Registry,
    pub role: String,
    pub allow_superuser: bool,
    pub token: Token,
    pub provider: String,
    #[serde(with = "seconds")]
    pub statement_timeout: Duration,
    #[serde(with = "seconds")]
    pub lock_timeout: Duration,
    pub max_connections: u32,
    pub max_per_operation: u32,
    pub max_rows: u32,
    /// Zero: only when the database says so.
    #[serde(with = "seconds")]
    pub refresh: Duration,
}

impl Kind for RawPostgres {
    type Built = PostgresBackend;
    const NEEDS: &'static [&'static str] = &["url_env"];

    fn build(&self, builder: &mut Builder<'_>, site: &Site<'_>) -> Option<PostgresBackend> {
        builder
            .needs(site, "url_env", "\"SHOP_DATABASE_URL\"", &self.url_env)
            .then_some(())?;
        let check = builder.environment.validators.postgres_url;
        let mut url = |key: &str, name: &str| {
            let path = site.path.key(key);
            let url = builder.backend_variable(&path, name, site.enabled)?;
            if let Err(why) = check(url.expose()) {
                let expected = "postgres://user:password@host/database";
                builder.wrong(&path, format!("{name}: {why}"), expected);
                return None;
            }
            Some(url)
        };
        let replicas = match self.replicas_env.as_str() {
            "" => None,
            name => Some(url("replicas_env", name)?),
        };
        Some(PostgresBackend {
            url: url("url_env", &self.url_env)?,
            replicas,
            schema: self.schema.clone(),
            expose: self.expose,
            select: self.select.clone(),
            registry: self.registry,
            role: self.role.clone(),
            allow_superuser: self.allow_superuser,
            token: self.token,
            provider: self.provider.clone(),
            statement_timeout: self.statement_timeout,
            lock_timeout: self.lock_timeout,
            max_connections: self.max_connections,
            max_per_operation: self.max_per_operation,
            max_rows: self.max_rows,
            refresh: self.refresh,
        })
    }
}
