//! Drives the real program.
#![allow(
    clippy::disallowed_methods,
    reason = "these tests start the program itself, as a user does"
)]

mod cli;
