//! PostgreSQL as a store: a few connections, made when they are needed.
//!
//! `Postgres` knows where the server is and how many connections it may hold; `with` lends one. A
//! connection that ended, took too long or grew old is dropped, and the next call makes another: whoever
//! needs its work done tries again. Each new connection brings every component's tables up to date
//! first, so a gateway may start before its database does.
//!
//! A closure that wants a transaction begins it with `Client::transaction`, which rolls back when it is
//! dropped: the connection goes back to the others afterwards, whatever the closure returned.
//!
//! Not here: the SQL of records and reviews (`audit`, `review`), the PostgreSQL *backend*
//! (`sentinel_backends`).

mod migrate;
mod tls;
mod url;

#[cfg(test)]
pub(crate) mod cluster;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_postgres::{Client, Config};

use crate::Migrations;
use crate::error::StoreError;
use tls::Tls;
pub use url::BadUrl;

/// A server that does not answer by then is treated as gone.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// After this a connection is made anew, so that a server that moved or changed its role is noticed.
const AGE_MAX: Duration = Duration::from_secs(600);

/// A handle on the database; cheap to clone. All clones share the connections.
#[derive(Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    tls: Tls,
    migrations: Vec<Migrations>,
    permits: Semaphore,
    /// The one used last is used next; the others grow old and go.
    idle: Mutex<Vec<Connected>>,
}

struct Connected {
    client: Client,
    since: Instant,
}

impl Connected {
    fn is_good(&self) -> bool {
        !self.client.is_closed() && self.since.elapsed() < AGE_MAX
    }
}

impl Postgres {
    /// Reads the URL and connects to nothing yet. `migrations` are those of everybody who will use
    /// this handle or a clone of it.
    pub fn new(
        url: &str,
        max_connections: usize,
        migrations: &[Migrations],
    ) -> Result<Self, BadUrl> {
        let (config, tls) = url::read(url)?;
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                tls,
                migrations: migrations.to_vec(),
                permits: Semaphore::new(max_connections.max(1)),
                idle: Mutex::default(),
            }),
        })
    }

    /// Lends a connection to `work`, for as long as a server may take to answer.
    pub async fn with<T, E>(
        &self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<StoreError>,
    {
        let inner = &*self.inner;
        let Ok(_permit) = inner.permits.acquire().await else {
            return Err(StoreError::Closed.into());
        };
        // Held by this future while it works: whoever drops it, or takes too long, drops the connection.
        let mut connected = inner.connected().await?;
        let done = timeout(ANSWER_MAX, work(&mut connected.client))
            .await
            .map_err(|_| StoreError::Io("PostgreSQL did not answer in time".to_owned()))?;
        if connected.is_good() {
            inner.idle.lock().push(connected);
        }
        done
    }
}

impl Inner {
    async fn connected(&self) -> Result<Connected, StoreError> {
        loop {
            let idle = self.idle.lock().pop();
            match idle {
                Some(connected) if connected.is_good() => return Ok(connected),
                Some(_) => {}
                None => break,
            }
        }
        let late = |_| StoreError::Io("connecting to PostgreSQL took too long".to_owned());
        timeout(CONNECT_MAX, self.connect()).await.map_err(late)?
    }

    async fn connect(&self) -> Result<Connected, StoreError> {
        let (mut client, connection) = self.config.connect(self.tls.clone()).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("the connection to PostgreSQL ended: {error}");
            }
        });
        migrate::run(&mut client, &self.migrations).await?;
        Ok(Connected {
            client,
            since: Instant::now(),
        })
    }
}
