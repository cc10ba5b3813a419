//! A database with a registry of handlers, written from its contract (`registry/*.sql`), behind the gateway's core.

mod deployment;
mod mcp;
mod reading;
mod rest;
mod rpc;
