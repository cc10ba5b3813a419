//! SHA-256 on the way of every call.

use sha2::{Digest, Sha256};

/// Three times for each call, of a few hundred bytes at most: whatever a digest costs besides its blocks counts here. Not
/// inlined, so that the three share what they need of the caches.
#[inline(never)]
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
