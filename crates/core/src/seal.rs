//! Sealed text: data that callers keep for us and cannot alter.
//!
//! ChaCha20-Poly1305 with a key made at start, so nothing sealed outlives the process; the associated data binds a
//! seal to its use (caller, method, target).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

pub struct Sealer {
    key: LessSafeKey,
    random: SystemRandom,
}

impl Sealer {
    pub fn new() -> Self {
        let random = SystemRandom::new();
        let mut key = [0; 32];
        random.fill(&mut key).expect("the system has randomness");
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key).expect("32 bytes are a key");
        Self {
            key: LessSafeKey::new(key),
            random,
        }
    }

    pub fn seal(&self, plain: &[u8], bound_to: &[u8]) -> String {
        let mut nonce = [0; NONCE_LEN];
        self.random
            .fill(&mut nonce)
            .expect("the system has randomness");
        let mut sealed = plain.to_vec();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(bound_to),
                &mut sealed,
            )
            .expect("messages are far below the cipher's limit");
        sealed.splice(0..0, nonce);
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// `None` unless we sealed it for exactly this use.
    pub fn open(&self, sealed: &str, bound_to: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        if sealed.len() < NONCE_LEN {
            return None;
        }
        let mut text = sealed.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&sealed).ok()?;
        let len = self
            .key
            .open_in_place(nonce, Aad::from(bound_to), &mut text)
            .ok()?
            .len();
        text.truncate(len);
        Some(text)
    }
}

impl Default for Sealer {
    fn default() -> Self {
        Self::new()
    }
}

/// Random bytes as visible ASCII, for unguessable ids.
pub fn random_id() -> String {
    let mut bytes = [0; 24];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system has randomness");
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_for_this_use_opens() {
        let sealer = Sealer::new();
        let sealed = sealer.seal(b"state", b"alice");
        assert_eq!(
            sealer.open(&sealed, b"alice").as_deref(),
            Some(&b"state"[..])
        );
        assert_eq!(sealer.open(&sealed, b"bob"), None);
        assert_eq!(sealer.open(&format!("{sealed}A"), b"alice"), None);
        assert_eq!(Sealer::new().open(&sealed, b"alice"), None);
        for text in ["", "AAAA", "***"] {
            assert_eq!(sealer.open(text, b"alice"), None);
        }
    }
}
