//! The PostgreSQL client of the gateway: a bounded pool over `tokio_postgres`, with TLS on rustls.
//!
//! - `Pool` lends a `Session` (one connection) to a closure. Connections are opened on demand,
//!   bounded by `max_connections`, and replaced when they break or reach `AGE_MAX`.
//! - `Session` keeps prepared statements per connection and runs queries, pipelines and transactions.
//! - A closure that is dropped or exceeds the time-out loses its connection: the query is cancelled on
//!   the server, and the permit is returned only then, so the bound holds on the server too.
//! - `PoolOptions::new` reads libpq's URL or key-value form. Several hosts are tried in order;
//!   `target_session_attrs` chooses a primary (`read-write`) or a standby (`read-only`).
//!
//! Not here: any table or SQL of ours (`sentinel_stores`), MCP.

mod error;
mod pool;
mod session;
pub mod tls;
mod url;

pub use error::{BoxError, PgError};
pub use pool::{OnConnect, Pool, PoolOptions};
pub use session::{Params, RowSink, Session};
pub use tokio_postgres;
pub use url::{BadUrl, check};
