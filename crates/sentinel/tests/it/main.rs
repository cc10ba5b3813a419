//! Drives the real program, as its callers and its backends do.
//!
//! `house` starts processes, `http`, `callers` and `pipe` speak to them, `processes` watches the
//! machine; the other modules are the tests, each about one thing the gateway must do.
#![allow(
    clippy::disallowed_methods,
    reason = "these tests start the program itself, as a user does"
)]
#![allow(
    clippy::print_stderr,
    reason = "a test says what it measured, and what the gateway logged before it failed"
)]

mod callers;
mod cli;
mod house;
mod http;
mod pipe;
mod processes;

mod asks;
mod children;
mod doors;
mod ids;
mod in_flight;
mod lazy;
mod names;
mod orphans;
mod others;
#[path = "../../../stores/src/audit/tests/cluster.rs"]
mod postgres;
mod quadrants;
mod records;
mod revisions;
mod schemas;
mod servers;
mod sessions;
mod shutdown;
mod starting;
