//! A PID namespace for one child, where a backend asks for it and the system allows it.
//!
//! The child is the first process there: when it ends, the kernel ends everything else in it, and nothing in
//! it sees or signals a process outside. It notices: its number is 1, a SIGTERM that it does not handle is
//! ignored (the shim's SIGKILL is not), and whoever loses his parent becomes its child.
//!
//! Root may make one; anybody else gets a user namespace around it, in which he is himself.

use std::fs;
use std::io;

use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

/// Whoever this process starts next begins a namespace; `false` where that is forbidden.
pub(super) fn enter() -> io::Result<bool> {
    let (user, group) = (getuid(), getgid());
    if unshare(UnshareFlags::NEWPID).is_ok() {
        return Ok(true);
    }
    if unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWPID).is_err() {
        return Ok(false);
    }
    // From here on there is no way back: without its numbers the child would be nobody.
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
