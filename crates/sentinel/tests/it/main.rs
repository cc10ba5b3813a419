//! Drives the real program, as its callers and its backends do.
//!
//! `support` starts processes and speaks to them; the other modules are the tests, in folders by subject.
#![allow(
    clippy::disallowed_methods,
    reason = "these tests start the program itself, as a user does"
)]
#![allow(
    clippy::print_stderr,
    reason = "a test says what it measured, and what the gateway logged before it failed"
)]

mod audit;
mod backends;
mod cli;
mod console;
mod governance;
mod identity;
mod lifecycle;
mod limits;
mod mcp;
mod postgres;
mod rest;
mod support;
mod telemetry;
