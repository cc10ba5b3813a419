//! The database of reviews and audit records: opened once by a process, shared by both.

use std::sync::Arc;

use anyhow::Context;
use sentinel_core::audit::AuditStore;
use sentinel_core::clock::SystemClock;
use sentinel_review::machine;
use sentinel_review::store::ReviewStore;
use sentinel_stores::audit::{PostgresAudit, SqliteAudit};
use sentinel_stores::{
    Postgres, PostgresReviews, Sqlite, SqliteReviews, Synchronous, audit, review,
};

use crate::config::Config;
use crate::data_dir;

/// A handle; cheap to clone.
#[derive(Clone)]
pub(crate) enum Database {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Database {
    /// Opens the configured database, within a runtime. PostgreSQL is connected when it becomes reachable; the start
    /// does not wait for it.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Self> {
        if let Some(postgres) = &config.postgres {
            let connections = postgres.max_connections as usize;
            let migrations = [review::POSTGRES_MIGRATIONS, audit::POSTGRES_MIGRATIONS];
            let db = Postgres::new(postgres.url.expose(), connections, &migrations)
                .context("the URL in the variable that postgres.url_env names")?;
            return Ok(Self::Postgres(db));
        }
        let path = &config.sqlite.path;
        data_dir::make(&config.gateway.data_dir)
            .with_context(|| format!("making {}", config.gateway.data_dir.display()))?;
        let migrations = [review::MIGRATIONS, audit::MIGRATIONS];
        let db = Sqlite::open(path, Synchronous::Full, &migrations)
            .with_context(|| format!("opening {}", path.display()))?;
        Ok(Self::Sqlite(db))
    }

    pub(crate) fn records(&self) -> Arc<dyn AuditStore> {
        match self {
            Self::Sqlite(db) => Arc::new(SqliteAudit::new(db)),
            Self::Postgres(db) => Arc::new(PostgresAudit::new(db)),
        }
    }

    pub(crate) fn reviews(&self) -> Arc<dyn ReviewStore> {
        match self {
            Self::Sqlite(db) => {
                let clock = Arc::new(SystemClock::new());
                Arc::new(SqliteReviews::new(db, clock, machine::expire))
            }
            Self::Postgres(db) => Arc::new(PostgresReviews::new(db, machine::expire)),
        }
    }
}
