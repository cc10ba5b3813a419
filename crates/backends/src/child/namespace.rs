//! A PID namespace for one child, where a backend asks for it and the system allows it.
//!
//! The child is PID 1 in its namespace: when it ends, the kernel ends all other processes there, and none of them
//! sees or signals a process outside. Visible differences for the child: its number is 1, a SIGTERM that it does not
//! handle is ignored (the shim's SIGKILL is not), and orphaned processes become its children.
//!
//! Creating one requires root; other users get a user namespace around it that maps their own ids.

use std::fs;
use std::io;

use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

/// The next process that this one starts begins a namespace; `false` where that is forbidden.
pub(super) fn enter() -> io::Result<bool> {
    let (user, group) = (getuid(), getgid());
    if unshare(UnshareFlags::NEWPID).is_ok() {
        return Ok(true);
    }
    if unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWPID).is_err() {
        return Ok(false);
    }
    // Irreversible from here: without mapped ids the child would run as the overflow user.
    let (user, group) = (user.as_raw(), group.as_raw());
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(true)
}

#[expect(
    deprecated,
    reason = "what makes it unsafe is unsharing descriptors, and these flags share them"
)]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}
