//! The commands that ask, and what a gateway prints: the real program, with real servers behind it.
#![allow(
    clippy::disallowed_methods,
    reason = "these tests start the program itself, as a user does"
)]

mod asking;
mod doctor;
mod printing;
mod setup;
