//! Keys for verifying tokens: each has one algorithm, independent of the token.
//!
//! `KeySet::public` reads a JSON Web Key Set. Keys for other purposes are left out, as the standard requires; an
//! ambiguous or symmetric set is rejected as a whole.

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Context, SHA256};
use ring::{hmac, signature};
use sentinel_wire::json::{self, Kind, Object, Rules};

use super::Reject;

/// Bound on the keys of one set; providers publish two or three.
const KEYS_MAX: usize = 64;
const DEPTH_MAX: u32 = 8;
/// RFC 7518 3.2: at least as many bits as the hash.
pub const HS256_SECRET_BYTES_MIN: usize = 32;

/// Identifies a key for the life of the process.
pub type Thumbprint = [u8; 32];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Hs256,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "HS256" => Self::Hs256,
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }
}

#[derive(Clone)]
enum Material {
    Secret(hmac::Key),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A curve point, or an Ed25519 key.
    Point(Vec<u8>),
}

/// One key. Without `Debug`, since it may hold a secret.
#[derive(Clone)]
pub struct Key {
    kid: Option<Arc<str>>,
    algorithm: Algorithm,
    material: Material,
    thumbprint: Thumbprint,
}

/// Why a key of a set is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("it is no JSON object with the members of a key")]
    Malformed,
    #[error("it is not for signatures")]
    OtherUse,
    #[error("its algorithm is unknown here or does not belong to its type")]
    Algorithm,
    #[error("it holds a private key")]
    Private,
    #[error("it is too weak")]
    Weak,
}

impl Key {
    /// The configured secret; it has no name, so it matches any `kid`.
    pub fn hs256(secret: &[u8]) -> Self {
        Self {
            kid: None,
            algorithm: Algorithm::Hs256,
            material: Material::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret)),
            thumbprint: thumbprint(&[b"HS256", secret]),
        }
    }

    /// Reads one JSON Web Key.
    pub fn from_jwk(text: &[u8]) -> Result<Self, Unusable> {
        let object =
            Object::parse(text, Rules::caller(DEPTH_MAX)).map_err(|_| Unusable::Malformed)?;
        let string = |name: &str| match object.get(text, name) {
            None => Ok(None),
            Some(span) => json::decode_string(span.of(text))
                .map(|s| Some(s.into_owned()))
                .ok_or(Unusable::Malformed),
        };
        let bytes = |name: &str| {
            let text = string(name)?.ok_or(Unusable::Malformed)?;
            URL_SAFE_NO_PAD
                .decode(text)
                .map_err(|_| Unusable::Malformed)
        };
        if string("use")?.is_some_and(|usage| usage != "sig") {
            return Err(Unusable::OtherUse);
        }
        if let Some(span) = object.get(text, "key_ops") {
            check_operations(span.of(text))?;
        }
        let kind = string("kty")?.ok_or(Unusable::Malformed)?;
        if kind != "oct" && object.get(text, "d").is_some() {
            return Err(Unusable::Private);
        }
        let named = match string("alg")? {
            None => None,
            Some(name) => Some(Algorithm::parse(&name).ok_or(Unusable::Algorithm)?),
        };
        let curve = string("crv")?;
        let (algorithm, material) = match (kind.as_str(), curve.as_deref()) {
            ("oct", _) => {
                let secret = bytes("k")?;
                if secret.len() < HS256_SECRET_BYTES_MIN {
                    return Err(Unusable::Weak);
                }
                let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
                (Algorithm::Hs256, Material::Secret(key))
            }
            // Some providers do not name the algorithm of their RSA keys; all of them mean this one.
            ("RSA", _) => (
                named.unwrap_or(Algorithm::Rs256),
                rsa(bytes("n")?, bytes("e")?)?,
            ),
            ("EC", Some("P-256")) => (Algorithm::Es256, point(bytes("x")?, bytes("y")?, 32)?),
            ("EC", Some("P-384")) => (Algorithm::Es384, point(bytes("x")?, bytes("y")?, 48)?),
            ("OKP", Some("Ed25519")) => {
                let x = bytes("x")?;
                if x.len() != signature::ED25519_PUBLIC_KEY_LEN {
                    return Err(Unusable::Malformed);
                }
                (Algorithm::EdDsa, Material::Point(x))
            }
            _ => return Err(Unusable::Algorithm),
        };
        if named.is_some_and(|named| named != algorithm) || !algorithm.fits(&material) {
            return Err(Unusable::Algorithm);
        }
        let kid = string("kid")?;
        // Independent of spelling: a reformatted set has the same keys.
        let members = ["n", "e", "x", "y", "k"].map(|name| string(name).ok().flatten());
        let [n, e, x, y, k] = members
            .each_ref()
            .map(|member| member.as_deref().unwrap_or_default().as_bytes());
        let name = kid.as_deref().unwrap_or_default().as_bytes();
        let kind = [algorithm as u8];
        Ok(Self {
            thumbprint: thumbprint(&[b"JWK", &kind, name, n, e, x, y, k]),
            kid: kid.map(Into::into),
            algorithm,
            material,
        })
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(super) fn thumbprint(&self) -> Thumbprint {
        self.thumbprint
    }

    pub(super) fn verify(&self, message: &[u8], tag: &[u8]) -> bool {
        let params: &dyn signature::VerificationAlgorithm = match &self.material {
            Material::Secret(key) => return hmac::verify(key, message, tag).is_ok(),
            Material::Rsa { n, e } => {
                let params = match self.algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                let key = signature::RsaPublicKeyComponents { n, e };
                return key.verify(params, message, tag).is_ok();
            }
            Material::Point(_) => match self.algorithm {
                Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
                Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
                Algorithm::EdDsa => &signature::ED25519,
                _ => return false,
            },
        };
        let Material::Point(point) = &self.material else {
            return false;
        };
        signature::UnparsedPublicKey::new(params, point)
            .verify(message, tag)
            .is_ok()
    }
}

impl Algorithm {
    fn fits(self, material: &Material) -> bool {
        match material {
            Material::Secret(_) => self == Self::Hs256,
            Material::Rsa { .. } => matches!(
                self,
                Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512
            ),
            Material::Point(_) => matches!(self, Self::Es256 | Self::Es384 | Self::EdDsa),
        }
    }
}

/// A key that lists operations must list `verify`.
fn check_operations(value: &[u8]) -> Result<(), Unusable> {
    let spans = json::elements(value, Rules::caller(DEPTH_MAX)).map_err(|_| Unusable::Malformed)?;
    let verifies = spans
        .iter()
        .any(|span| json::decode_string(span.of(value)).is_some_and(|op| op == "verify"));
    if verifies {
        Ok(())
    } else {
        Err(Unusable::OtherUse)
    }
}

fn rsa(n: Vec<u8>, e: Vec<u8>) -> Result<Material, Unusable> {
    // Some libraries write the sign byte of a positive integer; ring rejects it.
    let bare = |bytes: Vec<u8>| {
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        bytes[zeros..].to_vec()
    };
    let (n, e) = (bare(n), bare(e));
    let bits = n.len() * 8 - n.first().map_or(0, |b| b.leading_zeros() as usize);
    let exponent_is_weak = e.len() == 1 && e[0] < 3 || e.is_empty();
    if !(2048..=8192).contains(&bits) || exponent_is_weak || is_roca(&n) {
        return Err(Unusable::Weak);
    }
    Ok(Material::Rsa { n, e })
}

fn point(x: Vec<u8>, y: Vec<u8>, len: usize) -> Result<Material, Unusable> {
    if x.len() != len || y.len() != len {
        return Err(Unusable::Malformed);
    }
    Ok(Material::Point([&[4], &x[..], &y[..]].concat()))
}

/// Moduli of a broken generator (CVE-2017-15361) can be factored; they are recognised as powers of 65537 modulo every
/// small prime. By chance that happens once in some hundred million keys.
fn is_roca(n: &[u8]) -> bool {
    const PRIMES: [u32; 38] = [
        3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89,
        97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
    ];
    PRIMES.iter().all(|&p| {
        let residue = n.iter().fold(0, |r, &byte| (r * 256 + u32::from(byte)) % p);
        let mut power = 1;
        (0..p).any(|_| {
            let here = power == residue;
            power = power * 65537 % p;
            here
        })
    })
}

fn name_of(jwk: &[u8]) -> Option<String> {
    let object = Object::parse(jwk, Rules::caller(DEPTH_MAX)).ok()?;
    let kid = json::decode_string(object.get(jwk, "kid")?.of(jwk))?;
    Some(kid.into_owned())
}

fn thumbprint(parts: &[&[u8]]) -> Thumbprint {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let digest = context.finish();
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Why a set of keys is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeySet {
    #[error("this is no JSON object with an array `keys`")]
    Malformed,
    #[error("there are more than {KEYS_MAX} keys")]
    TooMany,
    #[error("two keys are called {0:?}")]
    Ambiguous(String),
    #[error("it holds a symmetric key, which whoever can read the set could sign with")]
    Symmetric,
    #[error("it holds no keys")]
    Empty,
    #[error("none of its keys can be used: {0}")]
    Useless(String),
}

/// The trusted keys at one moment.
#[derive(Clone, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

impl KeySet {
    pub fn new(keys: Vec<Key>) -> Self {
        Self { keys }
    }

    /// Reads a set of public keys; also returns which keys were left out and why.
    pub fn public(text: &[u8]) -> Result<(Self, Vec<(usize, Unusable)>), InvalidKeySet> {
        let (set, skipped) = Self::parse(text)?;
        if set.has_secrets() {
            return Err(InvalidKeySet::Symmetric);
        }
        Ok((set, skipped))
    }

    /// Reads a set of either kind, but not of both: a public key must never be used as a secret.
    pub fn parse(text: &[u8]) -> Result<(Self, Vec<(usize, Unusable)>), InvalidKeySet> {
        let object =
            Object::parse(text, Rules::caller(DEPTH_MAX)).map_err(|_| InvalidKeySet::Malformed)?;
        let list = object
            .get(text, "keys")
            .ok_or(InvalidKeySet::Malformed)?
            .of(text);
        if Kind::of(list) != Some(Kind::Array) {
            return Err(InvalidKeySet::Malformed);
        }
        let spans =
            json::elements(list, Rules::caller(DEPTH_MAX)).map_err(|_| InvalidKeySet::Malformed)?;
        if spans.len() > KEYS_MAX {
            return Err(InvalidKeySet::TooMany);
        }
        let mut set = Self::default();
        let mut skipped = Vec::new();
        let mut names = HashSet::new();
        for (n, span) in spans.iter().enumerate() {
            let key = Key::from_jwk(span.of(list));
            if key.as_ref().is_ok_and(|key| set.has(&key.thumbprint)) {
                continue;
            }
            // An invalid key must not make another key of its name usable.
            if key.as_ref().err() != Some(&Unusable::OtherUse)
                && let Some(kid) = name_of(span.of(list))
                && !names.insert(kid.clone())
            {
                return Err(InvalidKeySet::Ambiguous(kid));
            }
            match key {
                Ok(key) => set.keys.push(key),
                Err(why) => skipped.push((n, why)),
            }
        }
        if spans.is_empty() {
            return Err(InvalidKeySet::Empty);
        }
        if set.keys.is_empty() {
            let why = skipped.iter().map(|(n, why)| format!("key {n}: {why}"));
            return Err(InvalidKeySet::Useless(why.collect::<Vec<_>>().join(", ")));
        }
        if set.has_secrets() && set.keys.iter().any(|k| k.algorithm != Algorithm::Hs256) {
            return Err(InvalidKeySet::Symmetric);
        }
        Ok((set, skipped))
    }

    fn has_secrets(&self) -> bool {
        self.keys.iter().any(|k| k.algorithm == Algorithm::Hs256)
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn into_keys(self) -> Vec<Key> {
        self.keys
    }

    pub(super) fn has(&self, thumbprint: &Thumbprint) -> bool {
        self.keys.iter().any(|key| key.thumbprint == *thumbprint)
    }

    /// The key for a token: by name, or the only one of its algorithm.
    pub(super) fn choose(&self, algorithm: Algorithm, kid: Option<&str>) -> Result<&Key, Reject> {
        if let Some(kid) = kid
            && let Some(key) = self.keys.iter().find(|k| k.kid.as_deref() == Some(kid))
        {
            return if key.algorithm == algorithm {
                Ok(key)
            } else {
                Err(Reject::Algorithm)
            };
        }
        let mut fitting = self
            .keys
            .iter()
            .filter(|k| k.algorithm == algorithm && (kid.is_none() || k.kid.is_none()));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(key),
            _ => Err(Reject::UnknownKey),
        }
    }
}
