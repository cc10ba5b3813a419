//! Real child processes: nothing of them is left, however they or the gateway end (P-R11, P-R12, G-76),
//! and calls reach and leave them as they should.
#![allow(clippy::unwrap_used, reason = "in a test it is the assertion")]
#![allow(
    clippy::print_stderr,
    reason = "the figures of the promises, for --nocapture"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "tests start, kill and time processes themselves"
)]

mod gateway;
mod lives;
mod orphans;
mod proc;
mod processes;
mod serving;
mod starting;
