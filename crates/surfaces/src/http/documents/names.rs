//! Names for generated code: operation ids and component names that no generator maps to one identifier.

use std::collections::HashSet;

use ring::digest::{SHA256, digest};

/// Longer ones are cut: some generators make file names of them.
const NAME_CHARS_MAX: usize = 80;

/// Names that differ even after case and underscores are taken away, which is what generators do to them.
#[derive(Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// This name, or one that begins like it if something else has it. `of` is what it is the name of: two things of one
    /// name keep their own endings whoever comes first.
    pub(super) fn unique(&mut self, wanted: &str, of: &str) -> String {
        if self.0.insert(folded(wanted)) {
            return wanted.to_owned();
        }
        let hash = digest(&SHA256, of.as_bytes());
        let hash: String = hash.as_ref().iter().map(|b| format!("{b:02x}")).collect();
        let with_hash = (4..=hash.len()).map(|len| format!("{wanted}_{}", &hash[..len]));
        let numbered = (2u64..).map(|n| format!("{wanted}_{hash}_{n}"));
        let mut all = with_hash.chain(numbered);
        all.find(|name| self.0.insert(folded(name)))
            .expect("there are more numbers than names")
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(&folded(name))
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(&folded(name));
    }
}

fn folded(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// An identifier of most languages that reads like this name; `op` where nothing of it is left.
pub(super) fn identifier(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars().take(NAME_CHARS_MAX) {
        match c {
            c if c.is_ascii_alphanumeric() => out.push(c),
            _ if out.ends_with('_') => {}
            _ => out.push('_'),
        }
    }
    let out = out.trim_matches('_');
    match out.as_bytes().first() {
        None => "op".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("op_{out}"),
        Some(_) => out.to_owned(),
    }
}

/// The same in the form of a type's name.
pub(super) fn type_name(name: &str) -> String {
    let identifier = identifier(name);
    let mut out = String::with_capacity(identifier.len());
    for word in identifier.split('_') {
        let mut chars = word.chars();
        out.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        out.push_str(chars.as_str());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, id, of_type) in [
            ("echo", "echo", "Echo"),
            ("n8n__list-all", "n8n_list_all", "N8nListAll"),
            ("a.b/c d", "a_b_c_d", "ABCD"),
            ("7zip", "op_7zip", "Op7zip"),
            ("日本", "op", "Op"),
            ("__x__", "x", "X"),
        ] {
            assert_eq!(
                (identifier(name), type_name(name)),
                (id.into(), of_type.into())
            );
        }
    }

    #[test]
    fn names_that_generators_would_merge_are_told_apart() {
        let mut names = Names::default();
        assert_eq!(names.unique("list_files", "list_files"), "list_files");
        let second = names.unique("listFiles", "listFiles");
        assert!(second.starts_with("listFiles_"), "{second}");
        assert_ne!(names.unique("listFiles", "list-files"), second);
        assert_ne!(names.unique("listFiles", "listFiles"), second);
    }
}
