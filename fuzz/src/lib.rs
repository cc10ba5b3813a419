//! The checks that every target runs, shared with the test that replays the seeds.

#[path = "../../crates/wire/tests/corpus/checks.rs"]
pub mod checks;
