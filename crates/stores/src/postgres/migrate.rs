//! Migrations, numbered and recorded as in SQLite.

use tokio_postgres::Client;

use crate::Migrations;
use crate::error::StoreError;

/// Advisory lock: gateways that start together migrate one after the other.
const LOCK: i64 = 0x0053_4761_7564_6974;

pub(super) async fn run(client: &mut Client, components: &[Migrations]) -> Result<(), StoreError> {
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await?;
    transaction
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS schema_version (
                 component text PRIMARY KEY, version integer NOT NULL)",
        )
        .await?;
    for migrations in components {
        let known = migrations.steps.len();
        let found = transaction
            .query_opt(
                "SELECT version FROM schema_version WHERE component = $1",
                &[&migrations.component],
            )
            .await?
            .map_or(0, |row| row.get::<_, i32>(0));
        let found = usize::try_from(found).unwrap_or_default();
        if found > known {
            return Err(StoreError::TooNew {
                component: migrations.component,
                found: found as u32,
                known: known as u32,
            });
        }
        if found == known {
            continue;
        }
        for step in &migrations.steps[found..] {
            transaction.batch_execute(step).await?;
        }
        transaction
            .execute(
                "INSERT INTO schema_version (component, version) VALUES ($1, $2)
                 ON CONFLICT (component) DO UPDATE SET version = excluded.version",
                &[&migrations.component, &(known as i32)],
            )
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}
