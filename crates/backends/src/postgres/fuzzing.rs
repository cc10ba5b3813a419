//! What must hold for any text that a database declares, for `fuzz/`.

/// The comment of a function.
pub fn comment(data: &[u8]) {
    super::functions::fuzzing::comment(data);
}

/// The CHECK of a domain.
pub fn domain_check(data: &[u8]) {
    super::functions::fuzzing::domain_check(data);
}
