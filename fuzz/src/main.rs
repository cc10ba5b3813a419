//! One target under libFuzzer: `FUZZ_TARGET` says which, the arguments are libFuzzer's.
#![no_main]

use std::sync::LazyLock;

use sentinel_fuzz::{Check, target};

static CHECK: LazyLock<Check> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET names no target: {name:?}"))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| CHECK(data));
