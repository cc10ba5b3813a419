//! Functions of a real PostgreSQL over MCP, REST and JSON-RPC.

mod faults;
mod hygiene;
mod registry;
mod standby;
mod streams;
mod tables;
mod tenants;
