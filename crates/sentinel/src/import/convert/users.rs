//! Users in URLs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::config::template::Template;

/// Where the user of a URL stands in it: `user:password` before the last `@` of the authority.
fn user_of(url: &str) -> Option<(usize, usize)> {
    let begin = url.find("://")? + 3;
    let end = url[begin..].find(['/', '?', '#']);
    let end = end.map_or(url.len(), |at| begin + at);
    let at = url[begin..end].rfind('@')?;
    Some((begin, begin + at))
}

pub(super) fn has_user(url: &str) -> bool {
    user_of(url).is_some()
}

/// A URL without the user in it, and the header that says the same; `None` if there is none, or if it is in a variable.
pub(super) fn without_user(template: &Template) -> Option<(String, String)> {
    let url = template.is_plain().then(|| template.text())?;
    let (begin, at) = user_of(&url)?;
    let mut user = unescaped(&url[begin..at]);
    if !user.contains(&b':') {
        user.push(b':');
    }
    let bare = format!("{}{}", &url[..begin], &url[at + 1..]);
    Some((bare, format!("Basic {}", STANDARD.encode(user))))
}

/// Without percent-encoding; what is no escape stays.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let escaped = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        let (one, left) = match escaped.filter(|_| byte == b'%') {
            Some(escaped) => (escaped, &tail[2..]),
            None => (byte, tail),
        };
        out.push(one);
        rest = left;
    }
    out
}
