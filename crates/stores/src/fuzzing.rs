//! Entrances for the fuzz targets (`fuzz/`) to readers that are private otherwise. Nothing else calls them.

use crate::redis::resp;
use crate::spool::frame::{self, Found, HEADER_LEN, Kind, Start};

/// The segment that the frames among the seeds belong to.
const SEGMENT: u64 = 1;

/// A frame lies within what was read, a reader gets past everything, and no changed byte goes unnoticed.
pub fn spool_frames(data: &[u8]) {
    let (mut rest, mut frames) = (data, 0);
    while let Found::Frame(found) = frame::look(rest, SEGMENT) {
        assert!(found.len >= HEADER_LEN + found.payload.len() && found.len.is_multiple_of(8));
        match found.kind {
            Kind::Segment => drop(Start::read(found.payload)),
            Kind::Record => drop(frame::split_record(found.payload)),
        }
        rest = &rest[found.len..];
        frames += 1;
    }
    assert_eq!(frame::count(data, SEGMENT), frames);
    // Where a reader takes up again behind something else.
    for at in (0..data.len()).step_by(8) {
        frame::look(&data[at..], SEGMENT);
    }
    if let Some(start) = Start::read(data) {
        let mut written = Vec::new();
        start.write(&mut written);
        assert_eq!(written, data);
    }
    let mut written = Vec::new();
    frame::put(&mut written, Kind::Record, 7, SEGMENT, [data, b""]);
    assert!(matches!(frame::look(&written, SEGMENT), Found::Frame(found) if found.payload == data));
    let changed = data.first().map_or(0, |byte| usize::from(*byte)) % (HEADER_LEN + data.len());
    written[changed] ^= 1;
    assert!(
        !matches!(frame::look(&written, SEGMENT), Found::Frame(_)),
        "byte {changed}"
    );
}

/// A reply is read only when it is whole, and nothing behind it is taken.
pub fn redis_reply(data: &[u8]) {
    let Ok(Some((reply, used))) = resp::parse(data) else {
        return;
    };
    assert_eq!(resp::parse(&data[..used]), Ok(Some((reply, used))));
    for cut in 0..used {
        assert_eq!(resp::parse(&data[..cut]), Ok(None), "cut at {cut}");
    }
}
