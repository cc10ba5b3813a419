//! Arguments as recorded: omitted, hashed, redacted or whole.

use serde_json::Value;

use crate::digest::sha256;

/// `audit.arguments`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arguments {
    /// Not recorded.
    Off,
    /// Their SHA-256, as they were sent.
    #[default]
    Digest,
    /// The digest and the arguments; secrets are redacted by the names of their keys, and in URLs.
    Redacted,
    /// The digest and the arguments as they were sent.
    Full,
}

/// Longer arguments are not recorded; their digest is.
const KEPT_LEN_MAX: usize = 256 * 1024;

/// Replaces a secret.
pub const REDACTED: &str = "[redacted]";
const BLANK: &str = REDACTED;

/// A key that contains one of these, ignoring case and separators, holds a secret.
const SECRET: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "authorization",
    "bearer",
    "credential",
    "cookie",
    "privatekey",
    "accesskey",
    "sessionid",
    "signature",
];
/// Common inside other words, so they must be the whole key.
const WHOLE: &[&str] = &[
    "pin", "pass", "pw", "auth", "xauth", "cred", "creds", "jwt", "otp",
];

/// The recorded form of a call's arguments.
#[derive(Default)]
pub(super) struct RecordedArguments {
    pub(super) digest: Option<[u8; 32]>,
    pub(super) text: Option<String>,
}

impl Arguments {
    /// The recorded form of these arguments.
    pub(super) fn of(self, raw: Option<&[u8]>) -> RecordedArguments {
        let Some(raw) = raw.filter(|_| self != Self::Off) else {
            return RecordedArguments::default();
        };
        let text = match self {
            Self::Off | Self::Digest => None,
            _ if raw.len() > KEPT_LEN_MAX => Some(r#"{"left_out":"too long"}"#.to_owned()),
            Self::Full => Some(String::from_utf8_lossy(raw).into_owned()),
            Self::Redacted => Some(redacted(raw)),
        };
        RecordedArguments {
            digest: Some(sha256(raw)),
            text,
        }
    }
}

fn redacted(raw: &[u8]) -> String {
    match serde_json::from_slice::<Value>(raw) {
        Ok(mut value) => {
            blank(&mut value);
            value.to_string()
        }
        Err(_) => r#"{"left_out":"unreadable"}"#.to_owned(),
    }
}

fn blank(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, inner) in members {
                if is_secret(key) {
                    *inner = Value::from(BLANK);
                } else {
                    blank(inner);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        Value::String(text) => {
            if let Some(blanked) = without_userinfo(text) {
                *text = blanked;
            }
        }
        _ => {}
    }
}

/// The text with user and password removed from its URLs (`https://user:secret@host`), if it has any. One look at
/// each byte, since texts may be long.
pub(super) fn without_userinfo(text: &str) -> Option<String> {
    const SIGN: &str = "://";
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(SIGN) {
        let (before, authority) = rest.split_at(at + SIGN.len());
        let ends = |c: char| c.is_whitespace() || c.is_control() || "/?#\\\"'<>`|".contains(c);
        let end = authority.find(ends).unwrap_or(authority.len());
        out.push_str(before);
        // A password may contain `@`.
        if let Some(user) = authority[..end].rfind('@').filter(|user| *user > 0) {
            out.push_str(BLANK);
            rest = &authority[user..];
        } else {
            rest = authority;
        }
    }
    if !out.contains(BLANK) {
        return None;
    }
    out.push_str(rest);
    Some(out)
}

fn is_secret(key: &str) -> bool {
    let plain: String = key
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    WHOLE.contains(&&*plain) || SECRET.iter().any(|word| plain.contains(word))
}
