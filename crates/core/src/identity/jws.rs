//! Signed tokens in their compact form: `header.payload.signature`.
//!
//! Only four members of the header are read: `alg`, `kid`, `crit` and `typ`. Keys and key URLs inside a token (`jwk`,
//! `jku`, `x5c`, `x5u`) are ignored.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sentinel_wire::json::{self, Object, Rules};

use super::jwk::{Algorithm, KeySet, Thumbprint};
use super::{CREDENTIAL_BYTES_MAX, Reject};

const DEPTH_MAX: u32 = 16;

/// A payload with a valid signature.
#[derive(Debug)]
pub struct Signed {
    pub payload: Vec<u8>,
    /// The token's `typ`.
    pub typ: Option<String>,
    pub key: Thumbprint,
}

/// Verifies a token's signature. Its claims are checked by the caller.
pub fn verify(token: &str, keys: &KeySet) -> Result<Signed, Reject> {
    if token.len() > CREDENTIAL_BYTES_MAX {
        return Err(Reject::TooLong);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(Reject::Shape)?;
    let (header, payload) = message.split_once('.').ok_or(Reject::Shape)?;
    if payload.contains('.') || header.is_empty() || signature.is_empty() {
        return Err(Reject::Shape);
    }
    // Strict base64: no padding, no other characters, no trailing bits.
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Reject::Shape);
    let header = Header::read(&decode(header)?)?;
    let payload = decode(payload)?;
    let signature = decode(signature)?;
    let key = keys.choose(header.algorithm, header.kid.as_deref())?;
    debug_assert_eq!(key.algorithm(), header.algorithm);
    if !key.verify(message.as_bytes(), &signature) {
        return Err(Reject::Signature);
    }
    Ok(Signed {
        payload,
        typ: header.typ,
        key: key.thumbprint(),
    })
}

struct Header {
    algorithm: Algorithm,
    kid: Option<String>,
    typ: Option<String>,
}

impl Header {
    fn read(text: &[u8]) -> Result<Self, Reject> {
        let object = Object::parse(text, Rules::caller(DEPTH_MAX))
            .map_err(|_| Reject::Header("it is no JSON object, or repeats a name"))?;
        let string = |name: &str, wrong: &'static str| match object.get(text, name) {
            None => Ok(None),
            Some(span) => json::decode_string(span.of(text))
                .map(|s| Some(s.into_owned()))
                .ok_or(Reject::Header(wrong)),
        };
        // Extensions marked critical, or changing what is signed: none is supported.
        if object.get(text, "crit").is_some() || object.get(text, "b64").is_some() {
            return Err(Reject::Header("it asks for an extension"));
        }
        let name = string("alg", "`alg` is no string")?.ok_or(Reject::Header("it has no `alg`"))?;
        Ok(Self {
            algorithm: Algorithm::parse(&name)
                .ok_or(Reject::Header("its algorithm is not accepted"))?,
            kid: string("kid", "`kid` is no string")?,
            typ: string("typ", "`typ` is no string")?,
        })
    }
}
