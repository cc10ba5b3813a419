//! Tokens, keys and claims one at a time (G-37, G-38, P-S03, P-S07).

mod vectors;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Map, Value, json};

use super::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: u64 = 1_800_000_000;

fn rules() -> Rules {
    Rules {
        issuer: "sentinel-gateway".into(),
        audiences: vec!["sentinel-api".into(), "https://gw.example/mcp".into()],
        role_claim: "role".into(),
        default_role: String::new(),
        tenant_claim: "tenant_id".into(),
        leeway: 60,
    }
}

fn authenticator() -> Arc<Authenticator> {
    Authenticator::new(Config {
        secret: Some(SECRET.to_vec()),
        rules: rules(),
        api_keys: None,
        anonymous_role: String::new(),
        has_key_source: true,
    })
}

fn good() -> Map<String, Value> {
    let claims = json!({
        "iss": "sentinel-gateway", "aud": "sentinel-api", "sub": "alice", "role": "developer",
        "exp": NOW + 600, "iat": NOW,
    });
    claims.as_object().cloned().expect("an object")
}

fn with(changes: Value) -> Map<String, Value> {
    let mut claims = good();
    for (name, value) in changes.as_object().expect("an object") {
        claims.insert(name.clone(), value.clone());
    }
    claims
}

fn judge(claims: &Map<String, Value>) -> Result<Arc<Identity>, Reject> {
    authenticator().verify_at(&mint::hs256(SECRET, claims), NOW)
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[test]
fn g_38_a_good_token_is_an_identity() {
    let identity = judge(&with(json!({
        "tenant_id": "acme", "scope": "mcp:tools  mcp:read", "scp": ["mcp:read", "extra"],
    })))
    .expect("good");
    assert_eq!(
        (
            &*identity.subject,
            &*identity.role,
            identity.tenant.as_deref()
        ),
        ("alice", "developer", Some("acme"))
    );
    let scopes: Vec<&str> = identity.scopes.iter().map(|s| &**s).collect();
    assert_eq!(scopes, ["mcp:tools", "mcp:read", "extra"]);
    for audience in [
        json!(["other", "sentinel-api"]),
        json!("https://gw.example/mcp"),
    ] {
        judge(&with(json!({"aud": audience}))).expect("one of ours");
    }
}

#[test]
fn g_38_claims_that_are_wrong_are_refused() {
    let rows = [
        (json!({"exp": NOW - 60}), Reject::Expired),
        (json!({"exp": 0}), Reject::Expired),
        (json!({"nbf": NOW + 61}), Reject::TooEarly),
        (json!({"iat": NOW + 61}), Reject::TooEarly),
        (json!({"iss": "other"}), Reject::Issuer),
        (json!({"iss": "sentinel-gateway "}), Reject::Issuer),
        (json!({"aud": "other"}), Reject::Audience),
        (json!({"aud": []}), Reject::Audience),
        (json!({"aud": "Sentinel-API"}), Reject::Audience),
    ];
    for (changes, why) in rows {
        assert_eq!(judge(&with(changes.clone())), Err(why), "{changes}");
    }
    let odd = [
        json!({"exp": (NOW + 600).to_string()}),
        json!({"exp": true}),
        json!({"exp": null}),
        json!({"exp": [NOW + 600]}),
        json!({"exp": -1}),
        json!({"exp": 1e300}),
        json!({"nbf": "0"}),
        json!({"iat": {}}),
        json!({"iss": ["sentinel-gateway"]}),
        json!({"aud": {"sentinel-api": true}}),
        json!({"aud": ["sentinel-api", 7]}),
        json!({"sub": ""}),
        json!({"sub": 7}),
        json!({"sub": " alice"}),
        json!({"sub": "al\nice"}),
        json!({"sub": "x".repeat(257)}),
        json!({"sub": "local"}),
        json!({"sub": "anonymous"}),
        json!({"sub": "key:0123"}),
        json!({"role": ["admin"]}),
        json!({"role": ""}),
        json!({"role": null}),
        json!({"tenant_id": 7}),
        json!({"scope": ["a"]}),
        json!({"scp": [1]}),
    ];
    for changes in odd {
        let verdict = judge(&with(changes.clone()));
        assert!(
            matches!(verdict, Err(Reject::Claims(_))),
            "{changes}: {verdict:?}"
        );
    }
    for missing in ["exp", "iss", "aud", "sub", "role"] {
        let mut claims = good();
        claims.remove(missing);
        assert!(judge(&claims).is_err(), "without {missing}");
    }
}

#[test]
fn decision_4_a_default_role_stands_in_for_a_missing_one() {
    let mut claims = good();
    claims.remove("role");
    assert_eq!(judge(&claims), Err(Reject::NoRole));
    let lenient = Rules {
        default_role: "viewer".into(),
        ..rules()
    };
    let key = KeySet::new(vec![Key::hs256(SECRET)]);
    let signed = jws::verify(&mint::hs256(SECRET, &claims), &key).expect("signed");
    assert_eq!(&*lenient.read(&signed, NOW).expect("good").role, "viewer");
}

/// Signs a header and a payload unchanged, with the right secret.
fn signed(header: &str, payload: &str) -> String {
    let message = format!("{}.{}", b64(header), b64(payload));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET);
    format!(
        "{message}.{}",
        b64(ring::hmac::sign(&key, message.as_bytes()))
    )
}

#[test]
fn p_s03_a_right_signature_does_not_excuse_a_wrong_header_or_repeated_names() {
    let payload = serde_json::to_string(&good()).expect("JSON");
    let verdict =
        |header: &str, payload: &str| authenticator().verify_at(&signed(header, payload), NOW);
    verdict(r#"{"alg":"HS256"}"#, &payload).expect("good");
    verdict(r#"{"alg":"HS256","typ":"at+JWT","kid":"any"}"#, &payload).expect("good");
    for header in [
        r#"{"alg":"HS256","alg":"HS256"}"#,
        r#"{"alg":"none"}"#,
        r#"{"alg":"None"}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"alg":"HS384"}"#,
        r#"{"alg":["HS256"]}"#,
        r#"{"alg":null}"#,
        r#"{"typ":"JWT"}"#,
        r#"{"alg":"HS256","crit":["exp"],"exp":1}"#,
        r#"{"alg":"HS256","crit":[]}"#,
        r#"{"alg":"HS256","b64":false}"#,
        r#"{"alg":"HS256","typ":"oauth-id-jag+jwt"}"#,
        r#"{"alg":"HS256","typ":7}"#,
        r#"{"alg":"HS256","kid":7}"#,
        r#"["HS256"]"#,
        r#"{"alg":"HS256"} {}"#,
        r#"{"alg":"HS256""#,
        "",
    ] {
        assert!(verdict(header, &payload).is_err(), "{header}");
    }
    let doubled = payload.replacen('{', r#"{"role":"admin","#, 1);
    assert!(verdict(r#"{"alg":"HS256"}"#, &doubled).is_err());
    let escaped = payload.replacen('{', r#"{"r\u006fle":"admin","#, 1);
    assert!(verdict(r#"{"alg":"HS256"}"#, &escaped).is_err());
    assert!(verdict(r#"{"alg":"HS256"}"#, &format!("{payload} {payload}")).is_err());
    assert!(verdict(r#"{"alg":"HS256"}"#, &b64(&payload)).is_err());
}

/// A set with an EC and an Ed25519 key, and what signs for them.
struct Pair {
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
    random: SystemRandom,
}

impl Pair {
    fn new() -> Self {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let ec = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        let ed = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
        Self {
            ec: EcdsaKeyPair::from_pkcs8(kind, ec.as_ref(), &random).expect("ours"),
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).expect("ours"),
            random,
        }
    }

    fn jwks(&self) -> Vec<u8> {
        let point = self.ec.public_key().as_ref();
        json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig",
             "x": b64(&point[1..33]), "y": b64(&point[33..])},
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": b64(self.ed.public_key())},
            {"kty": "EC", "crv": "P-521", "kid": "large", "x": "AA", "y": "AA"},
        ]})
        .to_string()
        .into_bytes()
    }

    fn sign(&self, header: Value, claims: &Map<String, Value>) -> String {
        let claims = serde_json::to_vec(claims).expect("JSON");
        let message = format!("{}.{}", b64(header.to_string()), b64(claims));
        let signature = if header["alg"] == "ES256" {
            let made = self.ec.sign(&self.random, message.as_bytes());
            made.expect("a signature").as_ref().to_vec()
        } else {
            self.ed.sign(message.as_bytes()).as_ref().to_vec()
        };
        format!("{message}.{}", b64(signature))
    }
}

#[test]
fn public_keys_have_one_algorithm_each_and_are_found_by_name() {
    let pair = Pair::new();
    let auth = authenticator();
    let (keys, skipped) = KeySet::public(&pair.jwks()).expect("a set");
    assert_eq!(
        (keys.len(), skipped),
        (2, vec![(2, jwk::Unusable::Algorithm)])
    );
    auth.replace_public_keys(keys);
    let verdict = |header: Value| auth.verify_at(&pair.sign(header, &good()), NOW).map(|_| ());
    assert_eq!(verdict(json!({"alg": "ES256", "kid": "ec"})), Ok(()));
    assert_eq!(verdict(json!({"alg": "EdDSA", "kid": "ed"})), Ok(()));
    // Without a name, the only key of that algorithm.
    assert_eq!(verdict(json!({"alg": "EdDSA"})), Ok(()));
    assert_eq!(
        verdict(json!({"alg": "EdDSA", "kid": "ec"})),
        Err(Reject::Algorithm)
    );
    assert_eq!(
        verdict(json!({"alg": "ES256", "kid": "who"})),
        Err(Reject::UnknownKey)
    );
    // The secret still works beside them, and the public key is no secret.
    auth.verify_at(&mint::hs256(SECRET, &good()), NOW)
        .expect("good");
    let point = pair.ec.public_key().as_ref();
    for secret in [point, &pair.jwks()[..], b""] {
        assert!(auth.verify_at(&mint::hs256(secret, &good()), NOW).is_err());
    }
}

#[test]
fn sets_that_are_ambiguous_or_symmetric_are_refused_whole() {
    let oct = json!({"kty": "oct", "k": b64([7; 32]), "kid": "a"});
    let set = |keys: Value| json!({"keys": keys}).to_string().into_bytes();
    assert_eq!(
        KeySet::public(&set(json!([oct.clone()]))).err(),
        Some(jwk::InvalidKeySet::Symmetric)
    );
    let ed = json!({"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": b64([1; 32])});
    let other = json!({"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": b64([2; 32])});
    assert_eq!(
        KeySet::public(&set(json!([ed.clone(), other]))).err(),
        Some(jwk::InvalidKeySet::Ambiguous("a".into()))
    );
    let twice = KeySet::public(&set(json!([ed.clone(), ed.clone()])));
    assert_eq!(twice.map(|(keys, _)| keys.len()).ok(), Some(1));
    let mut private = ed;
    private["d"] = json!(b64([1; 32]));
    assert!(matches!(
        KeySet::public(&set(json!([private]))),
        Err(jwk::InvalidKeySet::Useless(_))
    ));
    assert_eq!(
        KeySet::public(br#"{"keys":[]}"#).err(),
        Some(jwk::InvalidKeySet::Empty)
    );
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[],"keys":[]}"#] {
        assert!(KeySet::public(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn p_s07_a_replaced_key_ends_its_tokens_at_once() {
    let (old, new) = (Pair::new(), Pair::new());
    let auth = authenticator();
    auth.replace_public_keys(KeySet::public(&old.jwks()).expect("a set").0);
    let claims = with(json!({"exp": now() + 600, "iat": now()}));
    let token = old.sign(json!({"alg": "ES256", "kid": "ec"}), &claims);
    let identity = auth.verify(&token).expect("good");
    assert_eq!(auth.remembered_len(), 1);
    assert!(Arc::ptr_eq(
        &identity,
        &auth.verify(&token).expect("remembered")
    ));
    assert!(auth.holds(&identity));
    auth.replace_public_keys(KeySet::public(&new.jwks()).expect("a set").0);
    assert_eq!(auth.verify(&token), Err(Reject::Signature));
    assert!(!auth.holds(&identity));
    assert_eq!(auth.remembered_len(), 0);
}

#[test]
fn p_s07_a_set_that_is_only_written_otherwise_has_the_same_keys() {
    let pair = Pair::new();
    let auth = authenticator();
    auth.replace_public_keys(KeySet::public(&pair.jwks()).expect("a set").0);
    let claims = with(json!({"exp": now() + 600, "iat": now()}));
    let token = pair.sign(json!({"alg": "ES256", "kid": "ec"}), &claims);
    let identity = auth.verify(&token).expect("good");
    let point = pair.ec.public_key().as_ref();
    let (x, y) = (b64(&point[1..33]), b64(&point[33..]));
    let anew = |kid: &str| {
        let set = format!(
            r#"{{ "keys": [ {{"y":"{y}", "x":"{x}", "x5t":"new", "kid":"{kid}", "crv":"P-256", "kty":"EC"}} ] }}"#
        );
        KeySet::public(set.as_bytes()).expect("a set").0
    };
    auth.replace_public_keys(anew("ec"));
    assert!(auth.holds(&identity), "nothing was taken back");
    auth.replace_public_keys(anew("other"));
    assert!(!auth.holds(&identity), "nobody is called that any more");
}

#[test]
fn a_remembered_token_is_refused_once_it_expires() {
    let auth = authenticator();
    let token = mint::hs256(SECRET, &good());
    auth.verify_at(&token, NOW).expect("good");
    auth.verify_at(&token, NOW + 659)
        .expect("within the leeway");
    assert_eq!(auth.verify_at(&token, NOW + 660), Err(Reject::Expired));
}

/// Keys in memory, with the rules of any other store.
#[derive(Default)]
struct InMemory(Mutex<Vec<KeyRecord>>);

impl KeyStore for InMemory {
    fn find(&self, id: &str) -> Option<KeyRecord> {
        self.0.lock().iter().find(|r| r.id == id).cloned()
    }

    fn list(&self) -> Result<Vec<KeyRecord>, StoreProblem> {
        Ok(self.0.lock().clone())
    }

    fn add(&self, record: KeyRecord) -> Result<(), StoreProblem> {
        self.0.lock().push(record);
        Ok(())
    }

    fn revoke(&self, id: &str, now: u64) -> Result<bool, StoreProblem> {
        let mut all = self.0.lock();
        let record = all
            .iter_mut()
            .find(|r| r.id == id && r.revoked_at.is_none());
        Ok(record.map(|r| r.revoked_at = Some(now)).is_some())
    }
}

#[tokio::test]
async fn p_s07_an_api_key_is_good_until_it_is_revoked() {
    let store = Arc::new(InMemory::default());
    let auth = Authenticator::new(Config {
        secret: None,
        rules: rules(),
        api_keys: Some(store.clone()),
        anonymous_role: String::new(),
        has_key_source: true,
    });
    let (record, text) = KeyRecord::create("ci", "developer", NOW, Some(NOW + 10));
    let id = record.id.clone();
    let (_, secret) = api_key::split(&text).expect("parts");
    assert!(!format!("{record:?}").contains(secret));
    store.add(record).expect("kept");
    let identity = auth.verify_at(&text, NOW).expect("good");
    assert_eq!(
        (&*identity.subject, &*identity.role),
        (&*format!("key:{id}"), "developer")
    );
    assert_eq!(auth.verify_at(&text, NOW + 10), Err(Reject::ApiKey));
    let (last, rest) = (text.chars().last().expect("text"), &text[..text.len() - 1]);
    let other = if last == 'A' { 'B' } else { 'A' };
    for forged in [
        format!("{rest}{other}"),
        rest.to_owned(),
        format!("{text}A"),
        format!("sk_{id}_"),
        "sk_".into(),
        format!("sk__{}", text.len()),
        format!("sk_000000000000_{rest}"),
    ] {
        assert_eq!(
            auth.verify_at(&forged, NOW),
            Err(Reject::ApiKey),
            "{forged}"
        );
    }

    let (record, text) = KeyRecord::create("ci", "developer", now(), None);
    let id = record.id.clone();
    store.add(record).expect("kept");
    let identity = auth.verify(&text).expect("good");
    let ended = auth.ended(&identity);
    tokio::pin!(ended);
    let moment = Duration::from_millis(10);
    assert!(tokio::time::timeout(moment, &mut ended).await.is_err());
    assert!(store.revoke(&id, now()).expect("written"));
    assert_eq!(auth.verify(&text), Err(Reject::ApiKey));
    auth.look_again();
    ended.await;
}

/// P-S07: a stream ends when the API key behind it expires, not at the next look.
#[tokio::test]
async fn p_s07_an_api_key_ends_when_it_expires() {
    let store = Arc::new(InMemory::default());
    let auth = Authenticator::new(Config {
        secret: None,
        rules: rules(),
        api_keys: Some(store.clone()),
        anonymous_role: String::new(),
        has_key_source: false,
    });
    let (record, text) = KeyRecord::create("ci", "developer", now(), Some(now() + 3));
    store.add(record).expect("kept");
    let identity = auth.verify(&text).expect("good");
    // Half of what it took before, and far more than a busy machine needs.
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, auth.ended(&identity))
        .await
        .expect("it ends in time");
    assert_eq!(auth.verify(&text), Err(Reject::ApiKey));
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_share_a_fetch_and_do_not_wait_for_a_fetcher_that_rests() {
    let auth = authenticator();
    let asks = Arc::new(AtomicU64::new(0));
    let fetcher = tokio::spawn({
        let (auth, asks) = (auth.clone(), asks.clone());
        async move {
            loop {
                auth.keys_wanted().await;
                asks.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
                auth.set_fetcher_ready(false);
                auth.fetch_ended();
                tokio::time::sleep(Duration::from_secs(5)).await;
                auth.set_fetcher_ready(true);
            }
        }
    });
    tokio::task::yield_now().await;
    // All who come together wait for the one fetch.
    let waiting = (0..50).map(|_| auth.ask_for_keys());
    let waited = futures_util::future::join_all(waiting).await;
    assert!(waited.iter().all(|fresh| *fresh));
    assert_eq!(asks.load(Ordering::Relaxed), 1);
    let began = tokio::time::Instant::now();
    for _ in 0..1000 {
        assert!(!auth.ask_for_keys().await);
    }
    assert!(began.elapsed().is_zero(), "nobody waited");
    assert_eq!(asks.load(Ordering::Relaxed), 1);
    // What was asked meanwhile is one wish, and nobody has to ask again.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(asks.load(Ordering::Relaxed), 2);
    assert!(auth.ask_for_keys().await);
    assert_eq!(asks.load(Ordering::Relaxed), 3);
    fetcher.abort();
}

/// Where there is nobody to ask, an unknown key is refused at once.
#[tokio::test(start_paused = true)]
async fn an_unknown_key_waits_for_nobody_where_there_is_no_source() {
    let auth = Authenticator::new(Config {
        secret: Some(SECRET.to_vec()),
        rules: rules(),
        api_keys: None,
        anonymous_role: String::new(),
        has_key_source: false,
    });
    let began = tokio::time::Instant::now();
    assert!(!auth.ask_for_keys().await);
    assert!(began.elapsed().is_zero());
}
