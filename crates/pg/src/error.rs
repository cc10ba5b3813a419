//! Why the pool or a query failed.

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum PgError {
    #[error("connecting to PostgreSQL took too long")]
    ConnectTimeout,
    #[error("PostgreSQL did not answer in time")]
    AnswerTimeout,
    /// The runtime that drives the connections has ended.
    #[error("the connection pool is closed")]
    Closed,
    /// `PoolOptions::on_connect` refused the connection.
    #[error("a new connection could not be set up")]
    Setup(#[source] BoxError),
    /// No server took the connection.
    #[error("cannot connect to PostgreSQL")]
    Connect(#[source] tokio_postgres::Error),
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
}
