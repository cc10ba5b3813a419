//! Watches files that other processes of the data directory change.
//!
//! The kernel reports each replaced file (`inotify`), so a kill in one gateway is in force in all within
//! milliseconds. Where it cannot (a network file system, no watches left), polling twice a second is the bound.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

/// Buffer for some hundred events.
const EVENTS_BYTES: usize = 16 * 1024;

/// Calls `act` on a thread of its own whenever a file of the folder with such a name was replaced, until it returns
/// `false`.
pub(crate) fn watch(
    folder: &Path,
    names: &'static [&'static str],
    act: impl Fn() -> bool + Send + 'static,
) -> std::io::Result<()> {
    let watch = inotify::init(CreateFlags::CLOEXEC)?;
    inotify::add_watch(
        &watch,
        folder,
        WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::ONLYDIR,
    )?;
    let listen = move || {
        let mut room = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut events = Reader::new(watch, &mut room);
        loop {
            let Ok(event) = events.next() else { return };
            let name = event.file_name().map(|name| name.to_bytes());
            // Lost events may concern any file.
            let concerns = name.is_none_or(|name| {
                let name = OsStr::from_bytes(name);
                names.iter().any(|known| *known == name)
            });
            if concerns && !act() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("file-watch".to_owned());
    thread.spawn(listen)?;
    Ok(())
}
