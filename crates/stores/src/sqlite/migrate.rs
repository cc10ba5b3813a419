//! Migrations: numbered steps per component, all in one transaction.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::error::StoreError;

/// The steps of one component's tables, oldest first. A published step is never changed: version
/// `n` means that the first `n` steps ran.
#[derive(Clone, Copy, Debug)]
pub struct Migrations {
    pub component: &'static str,
    pub steps: &'static [&'static str],
}

/// A file that is up to date is not written: it may be opened while others write, or on a full disk. Foreign keys are off
/// meanwhile, because a step may replace a referenced table.
pub(super) fn run(
    connection: &mut Connection,
    components: &[Migrations],
) -> Result<(), StoreError> {
    if up_to_date(connection, components)? {
        return Ok(());
    }
    connection.pragma_update(None, "foreign_keys", "OFF")?;
    let outcome = run_all(connection, components);
    connection.pragma_update(None, "foreign_keys", "ON")?;
    outcome
}

/// One transaction, so that two processes that start together run each step once.
fn run_all(connection: &mut Connection, components: &[Migrations]) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_version (
             component TEXT PRIMARY KEY,
             version INTEGER NOT NULL
         ) STRICT",
    )?;
    for migrations in components {
        let known = migrations.steps.len() as u32;
        let found = version(&transaction, migrations)?;
        if found > known {
            return Err(StoreError::TooNew {
                component: migrations.component,
                found,
                known,
            });
        }
        for step in &migrations.steps[found as usize..] {
            transaction.execute_batch(step)?;
        }
        transaction.execute(
            "INSERT INTO schema_version (component, version) VALUES (?1, ?2)
             ON CONFLICT (component) DO UPDATE SET version = excluded.version",
            (migrations.component, known),
        )?;
    }
    transaction.commit()?;
    Ok(())
}

/// Whether a file has the tables of a component, in any version.
pub(super) fn holds(connection: &Connection, migrations: &Migrations) -> Result<bool, StoreError> {
    Ok(connection.table_exists(None, "schema_version")? && version(connection, migrations)? > 0)
}

fn up_to_date(connection: &Connection, components: &[Migrations]) -> Result<bool, StoreError> {
    if !connection.table_exists(None, "schema_version")? {
        return Ok(false);
    }
    for migrations in components {
        if version(connection, migrations)? != migrations.steps.len() as u32 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How many steps of a component ran.
fn version(connection: &Connection, migrations: &Migrations) -> Result<u32, StoreError> {
    let found = connection
        .query_row(
            "SELECT version FROM schema_version WHERE component = ?1",
            [migrations.component],
            |row| row.get(0),
        )
        .optional()?;
    Ok(found.unwrap_or(0))
}
