//! Hears what other processes of the data directory change, as soon as they do.
//!
//! The kernel tells of each file that is put in place (`inotify`), so that what one gateway switches off is off in
//! all within milliseconds. Where it cannot tell (a network file system, no watches left) whoever is interested
//! looks by itself twice a second as well, which is the bound.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

/// Room for some hundred events at once.
const EVENTS_BYTES: usize = 16 * 1024;

/// Calls `act` on a thread of its own whenever a file of the folder with such a name was replaced, until it
/// says `false`.
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
            // Events that were lost may have been about anything.
            let concerns = name.is_none_or(|name| {
                let name = OsStr::from_bytes(name);
                names.iter().any(|known| *known == name)
            });
            if concerns && !act() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("neighbours".to_owned());
    thread.spawn(listen)?;
    Ok(())
}
