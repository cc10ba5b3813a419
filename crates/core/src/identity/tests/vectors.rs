//! JOSE vectors at their stated verdicts (P-S03): our own (`tests/vectors/jose.json`), and those of C2SP/wycheproof where
//! they are there. No registry has the latter: SENTINEL_VECTORS names their folder, else `../shared/vectors`.

use std::path::PathBuf;

use serde_json::Value;

use super::super::jwk::{Algorithm, KeySet};
use super::super::jws;

const WYCHEPROOF: [&str; 3] = [
    "json_web_signature_test",
    "json_web_key_test",
    "json_web_crypto_test",
];

/// Stated as valid, refused here on purpose: 346 and 350 are signed with another algorithm than their
/// key names, 372 and 373 have a `?` in their base64, which RFC 7515 section 2 does not allow.
const STRICTER: [(&str, u64); 4] = [
    ("json_web_signature_test", 346),
    ("json_web_signature_test", 350),
    ("json_web_signature_test", 372),
    ("json_web_signature_test", 373),
];

/// Stated as invalid, but byte for byte the token of 357, which is stated as valid.
const CONTRADICTED: [(&str, u64); 2] = [
    ("json_web_signature_test", 367),
    ("json_web_signature_test", 370),
];

fn read(path: PathBuf) -> Option<Value> {
    let text = std::fs::read(path).ok()?;
    Some(serde_json::from_slice(&text).expect("JSON"))
}

/// Every file of vectors that is there, by its name.
fn files() -> Vec<(&'static str, Value)> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let own = read(root.join("tests/vectors/jose.json")).expect("our own vectors");
    let others = std::env::var_os("SENTINEL_VECTORS")
        .map_or(root.join("../shared/vectors"), PathBuf::from)
        .join("jose");
    let named = |name: &'static str| Some((name, read(others.join(format!("{name}.json")))?));
    [("own", own)]
        .into_iter()
        .chain(WYCHEPROOF.into_iter().filter_map(named))
        .collect()
}

/// The keys of a group, as a set.
fn keys(group: &Value) -> Option<KeySet> {
    let key = group.get("public").or(group.get("private"))?;
    let set = if key.get("keys").is_some() {
        key.clone()
    } else {
        serde_json::json!({ "keys": [key] })
    };
    KeySet::parse(set.to_string().as_bytes())
        .ok()
        .map(|(keys, _)| keys)
}

/// Whether a token is signed with an algorithm that we know at all.
fn is_ours(token: &str) -> bool {
    use base64::Engine;
    let header = token.split('.').next().unwrap_or_default();
    let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(header);
    let header = header
        .ok()
        .and_then(|h| serde_json::from_slice::<Value>(&h).ok());
    let name = header.as_ref().and_then(|h| h["alg"].as_str());
    name.is_none_or(|name| Algorithm::parse(name).is_some())
}

#[test]
fn p_s03_every_vector_gets_its_stated_verdict() {
    let (mut refused, mut accepted, mut unknown, mut all) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for (name, file) in files() {
        all += file["numberOfTests"].as_u64().expect("a number");
        for group in file["testGroups"].as_array().expect("groups") {
            let keys = keys(group);
            for test in group["tests"].as_array().expect("tests") {
                let number = test["tcId"].as_u64().expect("a number");
                // Encrypted ones have no signature to check; they go through as they are.
                let token = test.get("jws").or(test.get("jwe")).expect("a token");
                let token = token
                    .as_str()
                    .map_or_else(|| token.to_string(), str::to_owned);
                let good = keys
                    .as_ref()
                    .is_some_and(|keys| jws::verify(&token, keys).is_ok());
                let stated = test["result"] == "valid";
                match (good, stated) {
                    (true, true) => accepted += 1,
                    (false, false) => refused += 1,
                    (false, true) if test.get("jwe").is_some() || !is_ours(&token) => unknown += 1,
                    (false, true) if STRICTER.contains(&(name, number)) => unknown += 1,
                    (true, false) if CONTRADICTED.contains(&(name, number)) => unknown += 1,
                    _ => wrong.push(format!(
                        "{name} {number}: accepted {good}, stated {stated}: {test}"
                    )),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "JOSE vectors: {refused} refused, {accepted} accepted, {unknown} of other algorithms or disputed"
    );
    assert_eq!(refused + accepted + unknown, all);
    assert!(
        accepted >= 30,
        "too few were accepted to mean anything: {accepted}"
    );
}
