//! What must hold for any input (P-R19): one function for each reader of bytes that others wrote.
//!
//! `tests/replay.rs` runs each on its seeds, `seeds/<target>/`, and `fuzz/run` on inputs that the fuzzer makes from
//! them. A finding becomes a regression test when its file is copied to the seeds.
// The tests of `import` run in the binary it belongs to; there are none here.
#![cfg(not(test))]

mod identity;
mod imports;
mod policy;
mod wire;

/// Parts of the binary, which is no library.
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the command uses more of it"
)]
#[path = "../../crates/sentinel/src"]
mod program {
    pub(crate) mod import;
}
/// What `import` finds under this name in the binary.
mod config {
    pub(crate) use sentinel_config::*;
}

/// A check panics if what it promises does not hold.
pub type Check = fn(&[u8]);

/// Every target by the name of its seeds.
pub const TARGETS: &[(&str, Check)] = &[
    ("envelope", wire::envelope),
    ("header", wire::header),
    ("http1", wire::http1),
    ("lines", wire::lines),
    ("passing", wire::passing),
    ("sse", wire::sse),
    ("template", wire::template),
    ("jws", identity::jws),
    ("jwk", identity::jwk),
    ("claims", identity::claims),
    ("traceparent", identity::traceparent),
    ("import", imports::client_file),
    ("policy-uri", policy::uri),
    ("openapi", sentinel_backends::openapi::fuzzing::description),
    ("multipart", sentinel_backends::openapi::fuzzing::multipart),
    ("pg-comment", sentinel_backends::postgres::fuzzing::comment),
    (
        "pg-check",
        sentinel_backends::postgres::fuzzing::domain_check,
    ),
    ("spool-frame", sentinel_stores::fuzzing::spool_frames),
    ("redis-reply", sentinel_stores::fuzzing::redis_reply),
    ("last-event-id", sentinel_surfaces::fuzzing::last_event_id),
    (
        "idempotency-key",
        sentinel_surfaces::fuzzing::idempotency_key,
    ),
    ("prefer", sentinel_surfaces::fuzzing::prefer),
    ("query", sentinel_surfaces::fuzzing::query),
    ("form", sentinel_surfaces::fuzzing::form),
    ("tool-schema", sentinel_surfaces::fuzzing::tool_schema),
];

/// The check of a target.
pub fn target(name: &str) -> Option<Check> {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, check)| *check)
}
