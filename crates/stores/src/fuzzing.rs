//! Entry points of the fuzz targets (`fuzz/`) to private readers. Nothing else calls them.

use crate::redis::resp;
use crate::spool::frame::{self, Found, HEADER_LEN, Kind, Start};

/// The segment of the frames among the seeds.
const SEGMENT: u64 = 1;

/// Frames lie within the input, readers make progress, and changed bytes are detected.
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

/// A reply is parsed only when it is complete, and nothing behind it is consumed.
pub fn redis_reply(data: &[u8]) {
    let Ok(Some((reply, used))) = resp::parse(data) else {
        return;
    };
    assert_eq!(resp::parse(&data[..used]), Ok(Some((reply, used))));
    for cut in 0..used {
        assert_eq!(resp::parse(&data[..cut]), Ok(None), "cut at {cut}");
    }
}
