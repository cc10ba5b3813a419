//! Functions of a real PostgreSQL over MCP, REST and JSON-RPC.

mod faults;
mod hygiene;
mod streams;
mod tables;
mod tenants;
