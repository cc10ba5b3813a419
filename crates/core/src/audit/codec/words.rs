//! Words that the gateway chooses, by number: what nearly every record says. A word that is not here is spelt out.
//!
//! Hashes rest on these lists, on what they have and on what they lack: with one word more, a record that spells it would
//! have other bytes. So they stay as they are as long as there are records of this form; another list is another form.

/// The number of a word that has none.
pub(super) const SPELT: u8 = 0;

/// Surfaces, revisions, methods, decisions, outcomes, kinds; what is common stands first, for it is found first.
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

/// Inlined, so that the length of the word that stands first is known, and it is compared without a call.
#[inline(always)]
pub(super) fn code(words: &[&str], word: &str) -> u8 {
    match words.first() {
        Some(first) if *first == word => 1,
        _ => searched(words, word),
    }
}

fn searched(words: &[&str], word: &str) -> u8 {
    let place = words.iter().position(|known| *known == word);
    place.map_or(SPELT, |place| place as u8 + 1)
}

pub(super) fn word(words: &[&'static str], code: u8) -> Option<&'static str> {
    words.get(usize::from(code).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever makes this fail has made `audit verify` call stored records altered.
    #[test]
    fn p_a05_the_lists_stay_as_they_are() {
        let all = WORDS.map(|words| words.join(" ")).join("\n");
        let digest = crate::digest::sha256(all.as_bytes());
        assert_eq!(digest[..8], [38, 108, 130, 247, 192, 108, 87, 227], "{all}");
    }

    #[test]
    fn a_word_has_one_number() {
        for words in WORDS {
            for (place, word) in words.iter().enumerate() {
                assert_eq!(usize::from(code(words, word)), place + 1, "{word}");
                assert_eq!(super::word(words, place as u8 + 1), Some(*word));
            }
            assert_eq!(code(words, "made up"), SPELT);
        }
    }
}
