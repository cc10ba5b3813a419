//! Random ids.

use std::cell::Cell;

use ring::rand::{SecureRandom, SystemRandom};

/// A version 4 UUID in its usual spelling.
pub fn uuid() -> String {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system has randomness");
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// SplitMix64 with a random seed per thread, at a few nanoseconds each: for ids that must differ but may be guessed, and for jitter.
pub fn fast_u64() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = {
            let mut seed = [0; 8];
            let filled = SystemRandom::new().fill(&mut seed);
            filled.expect("the system has randomness");
            Cell::new(u64::from_le_bytes(seed))
        };
    }
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Whether a text has the form of a UUID in lower case.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_says_that_it_is_random_and_differs() {
        let (one, two) = (uuid(), uuid());
        assert!(is_uuid(&one) && one != two);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(matches!(one.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert!(!is_uuid("../../etc/passwd") && !is_uuid(&one.to_uppercase()));
    }
}
