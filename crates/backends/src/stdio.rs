//! MCP servers as supervised child processes.

pub mod supervisor;
