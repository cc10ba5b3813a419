//! What a definition costs a model that is given it.

use serde_json::Value;

/// Characters of JSON that make a token, about: models differ, and this one is the same everywhere.
const CHARS_PER_TOKEN: usize = 4;

/// The tokens of an entry of a list, written without spaces.
pub fn tokens(entry: &Value) -> usize {
    entry.to_string().chars().count().div_ceil(CHARS_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e_6_four_characters_are_a_token_and_a_part_of_one_counts() {
        for (entry, cost) in [
            ("{}", 1),
            ("\"ab\"", 1),
            ("\"abc\"", 2),
            ("\"é\u{1F600}\"", 1),
            ("{ \"a\" : 1 }", 2),
        ] {
            let entry: Value = serde_json::from_str(entry).expect("JSON");
            assert_eq!(tokens(&entry), cost, "{entry}");
        }
    }
}
