//! An entrance for a fuzz target (`fuzz/`) to a reader that is private otherwise. Nothing else calls it.

use crate::http::resume::{event_id, parse_id};

/// What is read names the same event when it is written.
pub fn last_event_id(data: &[u8]) {
    let Ok(id) = std::str::from_utf8(data) else {
        return;
    };
    if let Some((stream, number)) = parse_id(id) {
        assert_eq!(parse_id(&event_id(stream, number)), Some((stream, number)));
    }
}
