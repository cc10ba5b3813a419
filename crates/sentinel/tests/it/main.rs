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
mod hidden;
mod house;
mod http;
mod pipe;
mod processes;
mod tokens;
mod traces;

mod admin;
mod asks;
mod audit_faults;
mod bounds;
mod caching;
mod canaries;
mod children;
mod crowd;
mod doors;
mod eras;
mod following;
mod forgeries;
mod govern;
mod identity;
mod ids;
mod in_flight;
mod killing;
mod large;
mod lazy;
mod load;
mod matrix;
mod metrics;
mod names;
mod old_server;
mod operator;
mod order;
mod orphans;
mod others;
mod overload;
mod pins;
#[path = "../../../stores/src/postgres/cluster.rs"]
mod postgres;
mod purging;
mod quadrants;
mod records;
#[path = "../../../stores/src/redis/server.rs"]
mod redis;
mod reload;
mod resume;
mod revisions;
mod rug_pulls;
mod schemas;
mod servers;
mod sessions;
mod sharing;
mod shutdown;
mod slow_peers;
mod sse2024;
mod starting;
mod tags;
mod taken_back;
mod tasks;
mod visits;
