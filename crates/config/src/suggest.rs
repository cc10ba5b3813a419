//! "Did you mean …": the nearest known word.

/// The known word nearest to `word`, if it is near enough to be a slip of the finger.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(word);
    // One slip in a short word, a third of a long one.
    let allowed = (folded.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&folded, &fold(candidate)),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `queueSize` and `queue-size` are the same slip as `queue_size`.
fn fold(word: &str) -> String {
    word.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["timeout", "retries", "queue_size"];
        assert_eq!(nearest("timout", known), Some("timeout"));
        assert_eq!(nearest("queueSize", known), Some("queue_size"));
        assert_eq!(nearest("colour", known), None);
    }
}
