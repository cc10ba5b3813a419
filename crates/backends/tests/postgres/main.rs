//! Functions of a real PostgreSQL as operations of the gateway.
#![allow(clippy::unwrap_used, reason = "in a test it is the assertion")]

#[path = "../../../pg/tests/pool/cluster.rs"]
mod cluster;
mod functions;
mod gateway;
mod registry;
