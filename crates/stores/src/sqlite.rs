//! One SQLite file: one writer thread, a few readers.
//!
//! The writer thread owns the only connection that writes in this process; closures reach it over
//! a bounded queue and run inside `BEGIN IMMEDIATE`, several to a transaction when they waited
//! together. A closure that returns an error leaves nothing behind. A write is acknowledged after
//! its commit, never before. When the last handle is dropped the thread finishes its queue and ends.
//!
//! Other processes may use the same file: they wait for each other up to `BUSY_MAX`.

mod migrate;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle, OpenFlags};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::error::StoreError;
use crate::private;
pub use migrate::Migrations;
use writer::{Job, Writer};

/// Longest wait of a write for another process.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// Writes queued for the writer; further callers wait in `send`, without memory here.
const QUEUE_LEN_MAX: usize = 256;
/// Reader connections: reads are short, and each connection costs a page cache.
const READERS_MAX: usize = 4;

/// Prepared statements per connection: more than all components together use.
const STATEMENTS_MAX: usize = 64;

/// When a commit is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// Survives kill -9 of this process, but not a power failure.
    Normal,
    /// Survives a power failure.
    Full,
}

/// A handle on the database; cheap to clone.
#[derive(Clone)]
pub struct Sqlite {
    inner: Arc<Inner>,
    synchronous: Synchronous,
}

struct Inner {
    path: PathBuf,
    jobs: mpsc::Sender<Job>,
    readers: Arc<Readers>,
}

struct Readers {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Sqlite {
    /// Opens the file, creating it and its folder if missing, and migrates every component's tables. Blocks; call it
    /// while starting.
    pub fn open(
        path: &Path,
        synchronous: Synchronous,
        migrations: &[Migrations],
    ) -> Result<Self, StoreError> {
        let cannot = |path: &Path, error| {
            StoreError::Io(format!("cannot create {}: {error}", path.display()))
        };
        if let Some(folder) = path.parent() {
            private::make_folder(folder).map_err(|error| cannot(folder, error))?;
        }
        // SQLite gives its other files the mode of this one.
        private::touch(path).map_err(|error| cannot(path, error))?;
        let mut connection = open_writing(path)?;
        migrate::run(&mut connection, migrations)?;
        let (jobs, queue) = mpsc::channel(QUEUE_LEN_MAX);
        let writer = Writer::new(path.to_owned(), connection, queue);
        std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::Io(error.to_string()))?;
        let readers = Arc::new(Readers {
            permits: Arc::new(Semaphore::new(READERS_MAX)),
            idle: Mutex::new(Vec::with_capacity(READERS_MAX)),
        });
        let inner = Arc::new(Inner {
            path: path.to_owned(),
            jobs,
            readers,
        });
        Ok(Self { inner, synchronous })
    }

    /// Whether there is a database with the tables of a component. Changes nothing.
    pub fn holds(path: &Path, migrations: &Migrations) -> Result<bool, StoreError> {
        migrate::holds(&open_reading(path)?, migrations)
    }

    /// The same database with another durability for writes through this handle.
    #[must_use]
    pub fn with_synchronous(&self, synchronous: Synchronous) -> Self {
        Self {
            inner: self.inner.clone(),
            synchronous,
        }
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Runs `work` in a transaction and returns once it is committed. An error of `work` rolls back its changes.
    /// Dropping the future does not stop a queued closure.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = Job::new(self.synchronous, work, answer);
        if self.inner.jobs.send(job).await.is_err() {
            return Err(StoreError::Closed.into());
        }
        answered
            .await
            .unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// Runs `work` on a read-only connection. It sees every acknowledged write.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
        let readers = self.inner.readers.clone();
        let Ok(permit) = readers.permits.clone().acquire_owned().await else {
            return Err(StoreError::Closed.into());
        };
        let path = self.inner.path.clone();
        let task = tokio::task::spawn_blocking(move || {
            let taken = readers.lock().pop();
            let connection = match taken {
                Some(connection) => connection,
                None => open_reading(&path)?,
            };
            let outcome = work(&connection);
            // A closure that panicked or left a transaction open loses the connection.
            if connection.is_autocommit() {
                readers.lock().push(connection);
            }
            drop(permit);
            outcome
        });
        task.await
            .unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}

impl Sqlite {
    /// Like `read`, with a time limit, and interrupted when the future is dropped: for queries that may scan
    /// everything.
    pub async fn read_within<T, E, F>(&self, limit: Duration, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let mut begun = Begun {
            told,
            handle: None,
            is_over: false,
        };
        let mut reading = pin!(self.read(move |connection| {
            // The caller may have left before it began.
            let told = tell.send(connection.get_interrupt_handle());
            told.map_err(|_| StoreError::Busy)?;
            work(connection)
        }));
        let mut limit = limit;
        loop {
            if let Ok(done) = timeout(limit, &mut reading).await {
                begun.is_over = true;
                return done;
            }
            begun.interrupt();
            limit = INTERRUPT_AGAIN;
        }
    }
}

/// An interrupt just before a statement begins has no effect, so it is repeated.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(50);

/// A read that may be interrupted.
struct Begun {
    told: oneshot::Receiver<InterruptHandle>,
    handle: Option<InterruptHandle>,
    is_over: bool,
}

impl Begun {
    /// Interrupts it if it has begun; otherwise it will not begin.
    fn interrupt(&mut self) {
        self.told.close();
        self.handle = self.told.try_recv().ok().or(self.handle.take());
        self.handle.iter().for_each(InterruptHandle::interrupt);
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.is_over {
            self.interrupt();
        }
    }
}

impl Readers {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_writing(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_MAX)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn open_reading(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_MAX)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "foreign_keys", "ON")?;
    Ok(connection)
}
