//! The arguments of a prompt: an object of texts. No schema says so, and not every server looks.

use std::collections::BTreeMap;

use sentinel_wire::json::Kind;
use serde_json::value::RawValue;

use super::{ISSUES_MAX, Issue};

/// What is wrong with them; `arguments` is JSON.
pub(crate) fn check(arguments: &[u8]) -> Vec<Issue> {
    let Ok(members) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(arguments) else {
        return vec![issue("", "object")];
    };
    let is_text = |value: &RawValue| Kind::of(value.get().as_bytes()) == Some(Kind::String);
    let wrong = members.iter().filter(|(_, value)| !is_text(value));
    let issues = wrong.map(|(name, _)| issue(name, "string"));
    issues.take(ISSUES_MAX).collect()
}

/// `name` is empty for the arguments as a whole.
fn issue(name: &str, wanted: &str) -> Issue {
    Issue {
        pointer: match name {
            "" => String::new(),
            name => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        },
        message: format!("is no {wanted}"),
        keyword: Some("type".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_of_texts_are_arguments_of_a_prompt() {
        for (arguments, pointers) in [
            ("{}", vec![]),
            (r#"{"a":"b","c":""}"#, vec![]),
            ("[null]", vec![""]),
            ("null", vec![""]),
            ("\"text\"", vec![""]),
            (r#"{"a":5,"b":"x","c/d":null}"#, vec!["/a", "/c~1d"]),
        ] {
            let issues = check(arguments.as_bytes());
            let found: Vec<&str> = issues.iter().map(|issue| issue.pointer.as_str()).collect();
            assert_eq!(found, pointers, "{arguments}");
        }
    }
}
