//! Entry point of a fuzz target (`fuzz/`) to a private reader. Nothing else calls it.

use crate::http::resume::{event_id, parse_id};

/// A parsed event id names the same event when printed.
pub fn last_event_id(data: &[u8]) {
    let Ok(id) = std::str::from_utf8(data) else {
        return;
    };
    if let Some((stream, number)) = parse_id(id) {
        assert_eq!(parse_id(&event_id(stream, number)), Some((stream, number)));
    }
}
