//! Functions of a real PostgreSQL over MCP, REST and JSON-RPC.

mod faults;
mod following;
mod hygiene;
mod registry;
mod standby;
mod stdio;
mod streams;
mod tables;
mod tenants;
