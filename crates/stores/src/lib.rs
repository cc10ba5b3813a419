//! Where the gateway keeps what must survive: SQL of our own tables, in SQLite or PostgreSQL; and what many gateways
//! share, in Redis.
//!
//! `Sqlite` is one database file with one writer thread; whoever needs tables brings a numbered
//! list of migrations and gets `write` and `read`. A process opens a file once and shares the
//! handle: `Sqlite::with_synchronous` gives each room the durability it promised. `Postgres` is the same
//! for a server, with a few connections.
//!
//! Not here: what a record or a review means (`sentinel_core`), the PostgreSQL *backend*
//! (`sentinel_backends`).

pub mod audit;
#[cfg(test)]
#[path = "../../pg/tests/pool/cluster.rs"]
mod cluster;
pub mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod postgres;
mod private;
pub mod redis;
pub mod review;
pub mod spool;
pub mod sqlite;

pub use error::StoreError;
pub use postgres::Postgres;
pub use private::{create as create_file, make_folder};
pub use redis::Redis;
pub use review::{PostgresReviews, SqliteReviews};
pub use rusqlite;
pub use sqlite::{Migrations, Sqlite, Synchronous};
