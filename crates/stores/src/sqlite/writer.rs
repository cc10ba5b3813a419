//! The thread that writes.
//!
//! Group commit: queued jobs share a transaction and its fsync, each in its own savepoint, and are acknowledged after
//! the commit. After an I/O error nothing is acknowledged, and the file is reopened before the next write.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{Synchronous, open_writing};
use crate::error::StoreError;

/// Jobs in one transaction: enough to share an fsync, few enough that none waits long.
const GROUP_LEN_MAX: usize = 32;

pub(super) struct Job {
    synchronous: Synchronous,
    work: Box<dyn Work>,
}

impl Job {
    pub(super) fn new<T, E, F>(
        synchronous: Synchronous,
        work: F,
        answer: oneshot::Sender<Result<T, E>>,
    ) -> Self
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
        let work = Closure {
            work: Some(work),
            outcome: None,
            answer,
        };
        Self {
            synchronous,
            work: Box::new(work),
        }
    }
}

trait Work: Send {
    /// Runs the closure; `true` to keep its changes.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Sends the outcome. `lost`: why the transaction failed.
    fn finish(self: Box<Self>, lost: Option<StoreError>);
}

struct Closure<T, E, F> {
    work: Option<F>,
    outcome: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

impl<T, E, F> Work for Closure<T, E, F>
where
    T: Send,
    E: From<StoreError> + Send,
    F: FnOnce(&Connection) -> Result<T, E> + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        let Some(work) = self.work.take() else {
            return false;
        };
        // After a panic the savepoint is rolled back and the thread continues.
        self.outcome = catch_unwind(AssertUnwindSafe(|| work(connection))).ok();
        matches!(self.outcome, Some(Ok(_)))
    }

    fn finish(self: Box<Self>, lost: Option<StoreError>) {
        let outcome = match (self.outcome, lost) {
            (Some(Err(own)), _) => Err(own),
            (_, Some(lost)) => Err(lost.into()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(StoreError::Closed.into()),
        };
        let _ = self.answer.send(outcome);
    }
}

pub(super) struct Writer {
    path: PathBuf,
    /// `None` after an I/O error, until the file is reopened.
    connection: Option<Connection>,
    queue: mpsc::Receiver<Job>,
    set: Option<Synchronous>,
}

impl Writer {
    pub(super) fn new(path: PathBuf, connection: Connection, queue: mpsc::Receiver<Job>) -> Self {
        Self {
            path,
            connection: Some(connection),
            queue,
            set: None,
        }
    }

    pub(super) fn run(mut self) {
        let mut next = None;
        while let Some(first) = next.take().or_else(|| self.queue.blocking_recv()) {
            let synchronous = first.synchronous;
            let mut group = vec![first.work];
            while group.len() < GROUP_LEN_MAX {
                match self.queue.try_recv() {
                    Ok(job) if job.synchronous == synchronous => group.push(job.work),
                    Ok(other) => {
                        next = Some(other);
                        break;
                    }
                    Err(_) => break,
                }
            }
            let lost = self.transact(synchronous, &mut group).err();
            if matches!(lost, Some(StoreError::Io(_) | StoreError::Corrupt(_))) {
                self.connection = None;
            }
            for work in group {
                work.finish(lost.clone());
            }
        }
    }

    fn transact(
        &mut self,
        synchronous: Synchronous,
        group: &mut [Box<dyn Work>],
    ) -> Result<(), StoreError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.set = None;
                open_writing(&self.path)?
            }
        };
        let connection = self.connection.insert(connection);
        if self.set != Some(synchronous) {
            let word = match synchronous {
                Synchronous::Normal => "NORMAL",
                Synchronous::Full => "FULL",
            };
            connection.pragma_update(None, "synchronous", word)?;
            self.set = Some(synchronous);
        }
        let outcome = run_group(connection, group);
        if outcome.is_err() && !connection.is_autocommit() {
            // If the rollback fails, the next BEGIN reports it.
            let _ = connection.execute_batch("ROLLBACK");
        }
        outcome
    }
}

fn run_group(connection: &Connection, group: &mut [Box<dyn Work>]) -> Result<(), StoreError> {
    run(connection, "BEGIN IMMEDIATE")?;
    // A single job rolls back the whole transaction and needs no savepoint.
    let alone = group.len() == 1;
    for work in group {
        if !alone {
            run(connection, "SAVEPOINT job")?;
        }
        let keep = work.run(connection);
        if connection.is_autocommit() {
            // A full disk or a failing device makes SQLite roll back the whole transaction.
            return Err(StoreError::StorageFull);
        }
        match (alone, keep) {
            (false, true) => run(connection, "RELEASE job")?,
            (false, false) => connection.execute_batch("ROLLBACK TO job; RELEASE job")?,
            (true, true) => {}
            (true, false) => return run(connection, "ROLLBACK"),
        }
    }
    run(connection, "COMMIT")
}

/// A statement that every transaction needs, parsed once.
fn run(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
