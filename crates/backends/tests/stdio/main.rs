//! Real child processes: nothing of them is left, however they or the gateway end (P-R11, P-R12, G-76),
//! and calls reach and leave them as they should.
// The figures of the promises are printed for whoever runs with --nocapture.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod house;
mod lives;
mod orphans;
mod processes;
mod serving;
mod starting;
