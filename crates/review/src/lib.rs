//! The review broker: two agents and a person review code through the gateway.
//!
//! A proposer submits an intent and a diff, a reviewer claims it, they talk, the reviewer gives a
//! verdict, the proposer applies and closes. `machine` is the rules, pure; `service` runs them
//! against a `ReviewStore` (`store`) and lets callers wait for changes; `tools` declares what agents see.
//!
//! Diffs are text here: nothing is applied, nothing touches the file system. Roles are for
//! attribution, unless they are enforced (`roles`); access to the tools is checked earlier, by policy.
//!
//! Not here: SQL (`sentinel_stores`), HTTP, processes.

pub mod diff;
pub mod machine;
pub mod roles;
pub mod service;
pub mod store;
pub mod tools;

pub use roles::Actor;
pub use service::{Service, Settings};
pub use tools::backend;
