//! Tokens, keys, claims and trace contexts: what callers and identity providers send.

use sentinel_core::identity::claims::Rules;
use sentinel_core::identity::jws::{self, Signed};
use sentinel_core::identity::{Key, KeySet};
use sentinel_core::trace::Context;

/// What the tokens among the seeds are signed with.
const SECRET: &[u8] = b"a secret of seeds, of 32 bytes..";
/// Between `nbf` and `exp` of the seeds.
const NOW: u64 = 1_800_000_000;

/// A signature holds for the bytes it was made for and for no others.
pub(crate) fn jws(data: &[u8]) {
    let Ok(token) = std::str::from_utf8(data) else {
        return;
    };
    let keys = KeySet::new(vec![Key::hs256(SECRET)]);
    if jws::verify(token, &keys).is_ok() {
        let (message, signature) = token.rsplit_once('.').expect("it was accepted");
        for other in [
            format!("{message}A.{signature}"),
            format!("{message}.{signature}A"),
            format!(" {token}"),
            format!("{token}."),
        ] {
            assert!(jws::verify(&other, &keys).is_err(), "{other} was accepted");
        }
        let others = KeySet::new(vec![Key::hs256(b"another secret, also of 32 bytes")]);
        assert!(jws::verify(token, &others).is_err(), "by another key");
    }
}

/// A set of public keys holds no secret, so it is read in the same way where both kinds may be.
pub(crate) fn jwk(data: &[u8]) {
    let (public, either) = (KeySet::public(data), KeySet::parse(data));
    if let (Ok((_, left_out)), Ok((_, of_either))) = (public, either) {
        assert!(
            of_either.len() <= left_out.len(),
            "a key for either is one for public"
        );
    }
}

/// Claims that are accepted name their subject, and hold until they expire.
pub(crate) fn claims(data: &[u8]) {
    let rules = Rules {
        issuer: "sentinel-gateway".to_owned(),
        audiences: vec!["sentinel-api".to_owned()],
        leeway: 60,
        role_claim: "role".to_owned(),
        tenant_claim: "tenant".to_owned(),
        default_role: "reader".to_owned(),
    };
    let signed = Signed {
        payload: data.to_vec(),
        typ: None,
        key: [0; 32],
    };
    if let Ok(claims) = rules.read(&signed, NOW) {
        assert!(!claims.subject.is_empty() && !claims.role.is_empty());
        assert!(claims.until > NOW);
        assert!(rules.read(&signed, claims.until).is_err(), "it has expired");
    }
}

/// What is read can be written and read again.
pub(crate) fn traceparent(data: &[u8]) {
    if let Some(context) = Context::parse(data) {
        let written = context.traceparent();
        assert_eq!(Context::parse(written.as_bytes()), Some(context));
        assert_ne!(context.child().span, context.span);
    }
}
