//! Tokens, good and forged, and requests that carry them.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::support::http::{self, Answer};
use crate::support::setup::{Gateway, SECRET};

pub(crate) const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
pub(crate) const JSON_BODY: (&str, &str) = ("Content-Type", "application/json");

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

pub(crate) fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Claims that are good as they are, with changes; `null` removes one.
pub(crate) fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": "sentinel-gateway", "aud": "sentinel-api", "sub": "alice", "role": "admin",
        "iat": now(), "exp": now() + 600,
    });
    for (name, value) in changes.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    let kept = claims.as_object_mut().expect("an object");
    kept.retain(|_, value| !value.is_null());
    claims
}

/// Signs any header and payload with HMAC.
pub(crate) fn hmac_token(secret: &[u8], header: &str, payload: &str) -> String {
    let message = format!("{}.{}", b64(header), b64(payload));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let tag = hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", b64(tag))
}

/// A good token with these changes to its claims.
pub(crate) fn token(changes: Value) -> String {
    let header = r#"{"alg":"HS256","typ":"JWT"}"#;
    hmac_token(SECRET.as_bytes(), header, &claims(changes).to_string())
}

/// A key on a curve, as providers have them.
pub(crate) struct Signer(EcdsaKeyPair, SystemRandom);

impl Signer {
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).expect("ours");
        Self(key, random)
    }

    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let point = self.0.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": kid,
               "x": b64(&point[1..33]), "y": b64(&point[33..])})
    }

    pub(crate) fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    pub(crate) fn token(&self, header: &Value, payload: &str) -> String {
        let message = format!("{}.{}", b64(header.to_string()), b64(payload));
        let signature = self.0.sign(&self.1, message.as_bytes());
        format!("{message}.{}", b64(signature.expect("a signature")))
    }
}

/// A ping with these headers besides its type.
pub(crate) fn ping(gateway: &Gateway, headers: &[(&str, &str)]) -> Answer {
    ping_at(gateway, "/mcp", headers)
}

pub(crate) fn ping_at(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Answer {
    let headers: Vec<_> = headers.iter().copied().chain([JSON_BODY]).collect();
    http::send(&gateway.address, "POST", path, &headers, PING).finish()
}

/// A ping with this credential.
pub(crate) fn ping_as(gateway: &Gateway, credential: &str) -> Answer {
    ping(
        gateway,
        &[("Authorization", &format!("Bearer {credential}"))],
    )
}
