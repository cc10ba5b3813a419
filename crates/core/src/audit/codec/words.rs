//! Codes for the texts that nearly every record repeats. A text without a code is stored as it is.
//!
//! Hashes depend on these lists, on what they have and on what they lack: a record that spells out a
//! text would encode differently once that text had a code. A changed list is a new `FORMAT`.

/// The code of a text that is in no list.
pub(super) const NO_CODE: u8 = 0;

/// Surfaces, revisions, methods, decisions, outcomes, kinds; frequent ones first, since the search is linear.
pub(super) const WORDS: [&[&str]; 6] = [
    &["http", "stdio", "admin", "gateway", ""],
    &[
        "2026-07-28",
        "2025-11-25",
        "",
        "2025-06-18",
        "2025-03-26",
        "2024-11-05",
    ],
    &[
        "tools/call",
        "audit/anchor",
        "tools/list",
        "ping",
        "initialize",
        "server/discover",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "resources/subscribe",
        "resources/unsubscribe",
        "logging/setLevel",
        "subscriptions/listen",
        "tasks/get",
        "tasks/update",
        "tasks/cancel",
        "",
        "audit/start",
        "audit/end",
        "audit/gap",
    ],
    &["allow", "deny", ""],
    &[
        "success",
        "error",
        "denied",
        "rate_limited",
        "killed",
        "circuit_open",
        "overloaded",
        "cancelled",
        "input_required",
        "intent",
        "unknown",
        "",
    ],
    &[
        "",
        "backend_error",
        "unknown_name",
        "unknown_resource",
        "invalid_arguments",
        "forbidden",
        "unauthorized",
        "disabled",
        "rate_limited",
        "overloaded",
        "circuit_open",
        "backend_unavailable",
        "backend_busy",
        "backend_timeout",
        "backend_bad_reply",
        "cancelled",
        "method_not_found",
        "invalid_params",
        "invalid_request",
        "parse_error",
        "bad_state",
        "not_initialized",
        "missing_capability",
        "too_large",
        "audit_unavailable",
        "internal",
        "crash",
        "going_down",
        "too_many_sessions",
        "not_found",
        "method_not_allowed",
        "not_acceptable",
        "unsupported_media_type",
        "timeout",
        "unavailable",
        "header_mismatch",
        "unsupported_version",
    ],
];

/// Inlined, so that the length of the first word is a constant and comparing it needs no `memcmp` call.
#[inline(always)]
pub(super) fn code(words: &[&str], word: &str) -> u8 {
    match words.first() {
        Some(first) if *first == word => 1,
        _ => searched(words, word),
    }
}

fn searched(words: &[&str], word: &str) -> u8 {
    let place = words.iter().position(|known| *known == word);
    place.map_or(NO_CODE, |place| place as u8 + 1)
}

pub(super) fn word(words: &[&'static str], code: u8) -> Option<&'static str> {
    words.get(usize::from(code).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, `audit verify` reports stored records as altered.
    #[test]
    fn p_a05_the_lists_stay_as_they_are() {
        let all = WORDS.map(|words| words.join(" ")).join("\n");
        let digest = crate::digest::sha256(all.as_bytes());
        assert_eq!(digest[..8], [38, 108, 130, 247, 192, 108, 87, 227], "{all}");
    }

    #[test]
    fn a_word_has_one_code() {
        for words in WORDS {
            for (place, word) in words.iter().enumerate() {
                assert_eq!(usize::from(code(words, word)), place + 1, "{word}");
                assert_eq!(super::word(words, place as u8 + 1), Some(*word));
            }
            assert_eq!(code(words, "made up"), NO_CODE);
        }
    }
}
