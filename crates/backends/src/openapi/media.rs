//! Media types: which are JSON, which are texts, and which of several a body is sent as.

/// JSON before forms, forms before texts, bytes last.
pub(super) fn preference(media_type: &str) -> u8 {
    let bare = bare(media_type);
    match bare.as_str() {
        "application/x-www-form-urlencoded" => 1,
        "multipart/form-data" => 2,
        "*/*" | "application/*" => 0,
        name if is_json(name) => 0,
        name if is_text(name) => 3,
        _ => 4,
    }
}

/// A media type without its parameters.
pub(super) fn bare(media_type: &str) -> String {
    media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

pub(super) fn is_json(media_type: &str) -> bool {
    let bare = bare(media_type);
    bare == "application/json" || bare == "text/json" || bare.ends_with("+json")
}

pub(super) fn is_text(media_type: &str) -> bool {
    let bare = bare(media_type);
    bare.starts_with("text/")
        || bare.ends_with("+xml")
        || bare.ends_with("+yaml")
        || [
            "xml",
            "yaml",
            "x-yaml",
            "javascript",
            "x-ndjson",
            "jsonl",
            "x-www-form-urlencoded",
            "graphql",
            "sql",
            "toml",
        ]
        .iter()
        .any(|name| bare.strip_prefix("application/") == Some(name))
}
