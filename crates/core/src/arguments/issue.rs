//! One thing that is wrong with a call's arguments, and how a caller is told of all of them.

use std::fmt::{self, Write};

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use sentinel_wire::json::encode_string;

use super::ISSUE_CHARS_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// A JSON Pointer into the arguments; empty for all of them.
    pub pointer: String,
    pub message: String,
    /// The schema's keyword that they do not satisfy; `None` where the check itself had to end.
    pub keyword: Option<String>,
}

impl Issue {
    /// Something about the value as a whole, found without a keyword of the schema.
    pub(crate) fn whole(message: impl Into<String>) -> Self {
        Self {
            pointer: String::new(),
            message: message.into(),
            keyword: None,
        }
    }

    pub(super) fn of(error: &ValidationError<'_>) -> Self {
        Self {
            pointer: error.instance_path().to_string(),
            message: words(error).chars().take(ISSUE_CHARS_MAX).collect(),
            keyword: Some(error.kind().keyword().to_owned()),
        }
    }
}

/// Where, and what: `/a/0: ...`.
impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.pointer, &self.keyword) {
            ("", None) => f.write_str(&self.message),
            ("", Some(_)) => write!(f, "arguments: {}", self.message),
            (pointer, _) => write!(f, "{pointer}: {}", self.message),
        }
    }
}

/// All of them as text, for people and models.
pub(super) fn text(tool: &str, issues: &[Issue]) -> String {
    let mut text = format!("invalid arguments for {tool}:");
    for issue in issues {
        let _ = write!(text, "\n- {issue}");
    }
    text
}

/// All of them as the member `issues` of an error's data.
pub(super) fn member(issues: &[Issue]) -> String {
    let mut out = b"\"issues\":[".to_vec();
    for (at, issue) in issues.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"pointer\":");
        encode_string(&issue.pointer, &mut out);
        out.extend_from_slice(b",\"message\":");
        encode_string(&issue.message, &mut out);
        if let Some(keyword) = &issue.keyword {
            out.extend_from_slice(b",\"keyword\":");
            encode_string(keyword, &mut out);
        }
        out.push(b'}');
    }
    out.push(b']');
    String::from_utf8(out).expect("encoded from text")
}

/// What is wrong, for a model to mend: where a value is one of several it needs all of them, which the crate cuts.
fn words(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Enum { options } => match options.as_array() {
            Some(options) if options.len() > 2 => {
                let options: Vec<String> = options.iter().map(ToString::to_string).collect();
                format!("{} is not one of {}", error.instance(), options.join(", "))
            }
            _ => error.to_string(),
        },
        _ => error.to_string(),
    }
}
