//! SHA-256 for the path of every call.

use sha2::{Digest, Sha256};

/// Called three times per call with a few hundred bytes at most, so fixed costs matter. Not inlined, so that the
/// three callers share the instruction cache.
#[inline(never)]
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
