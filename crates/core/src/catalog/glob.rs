//! Patterns over names: `*` matches any run of characters, everything else itself.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Whether a name that begins with the part before the first star may match; `could` says whether such a name
    /// exists. Without a star it is called with the whole pattern.
    pub(crate) fn may_match(&self, could: impl Fn(&str) -> bool) -> bool {
        match self.0.split_once('*') {
            Some((first, _)) => could(first),
            None => self.0.contains(':') && could(&self.0),
        }
    }

    /// Whether it may match a name with a slash: methods have one, names of tools and prompts rarely do.
    pub(crate) fn may_match_a_method(&self) -> bool {
        self.is_everything() || self.0.contains('/') && !self.0.contains(':')
    }

    /// Whether it matches every name.
    pub(crate) fn is_everything(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|b| b == b'*')
    }

    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else {
            return false;
        };
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else {
            return rest.is_empty();
        };
        // Leftmost matches suffice: later parts only need text further to the right.
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.len() >= last.len() && rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run() {
        for (pattern, name, want) in [
            ("*", "", true),
            ("*", "x", true),
            ("echo", "echo", true),
            ("echo", "echo2", false),
            ("read_*", "read_file", true),
            ("read_*", "write_file", false),
            ("*_file", "read_file", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(
                Glob::new(pattern).matches(name),
                want,
                "{pattern} on {name}"
            );
        }
    }
}
