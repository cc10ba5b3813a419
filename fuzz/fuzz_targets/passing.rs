#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sentinel_fuzz::checks::passing(data));
