//! Development tokens: HS256 with the configured secret.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Map, Value};

/// Signs these claims.
pub fn hs256(secret: &[u8], claims: &Map<String, Value>) -> String {
    let header = URL_SAFE_NO_PAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#);
    let payload =
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).expect("names and values are JSON"));
    let message = format!("{header}.{payload}");
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let tag = URL_SAFE_NO_PAD.encode(hmac::sign(&key, message.as_bytes()));
    format!("{message}.{tag}")
}
