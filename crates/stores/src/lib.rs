//! Persistent state: our own tables in SQLite or PostgreSQL, the audit spool, and rate limits shared by several gateways
//! in Redis.
//!
//! `Sqlite` is one database file with one writer thread. A component with tables passes its `Migrations` and uses
//! `write` and `read`. A process opens a file once and shares the handle; `Sqlite::with_synchronous` sets the
//! durability per component. `Postgres` is the same for a server, over a pool.
//!
//! Not here: the meaning of records (`sentinel_core::audit`) and reviews (`sentinel_review`), connections to PostgreSQL
//! (`sentinel_pg`).

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
