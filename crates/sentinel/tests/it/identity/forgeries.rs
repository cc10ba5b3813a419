//! Nothing forged gets in by the front door (P-S03), and no token makes the gateway connect anywhere.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::setup::{Gateway, SECRET, Setup};
use crate::support::tokens::{Signer, b64, claims, hmac_token, now, ping, ping_as, ping_at, token};

const HS256: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
/// A public key of somebody's; the private one was thrown away.
const RSA_N: &str = "rx3cDPe6_hD9HBEB4XTrp5xQSk2WhcyfNnLBesAwFYEEcf1V66eWQ-tDrJ1qzMOMk_ryl3Vsfdi-BduDPFTUPoFFIUiwbmIKEOSfZyBaHRkK2UmE1S2ZhzpwipQiuuMO2BOS9ZErWQCu2FKNK1qN_HC1CEErG6o8wqQePHhpy9b--J-8PHxOf6CuyqN6QLWp0maq_BpedQpSEtwFwh-8H9-H_nJjELQvQdMmmVzHRGV8TX4bjD8Xu2oBna4wgao9YooGRS5_HvXN229hm2Xw0y3cnaZRf9PGHD4V_wa8S1saTwSTqgluRkCMBSKgqTzBsbtPwWAjRhqe0XzPmRV-tw";

struct World {
    gateway: Gateway,
    provider: Signer,
    jwks: String,
}

impl World {
    fn new() -> Self {
        let provider = Signer::new();
        let rsa = json!({"kty": "RSA", "kid": "rsa", "alg": "RS256", "n": RSA_N, "e": "AQAB"});
        let jwks = json!({"keys": [provider.jwk("ec"), rsa]}).to_string();
        let setup = Setup::new("[auth]\njwks = \"keys.json\"\n");
        let beside = setup.data().with_file_name("keys.json");
        std::fs::write(beside, &jwks).expect("a file");
        let gateway = Gateway::start_in(setup);
        Self {
            gateway,
            provider,
            jwks,
        }
    }

    fn good(&self) -> [String; 2] {
        let named = json!({"alg": "ES256", "kid": "ec"});
        [
            token(json!({})),
            self.provider.token(&named, &claims(json!({})).to_string()),
        ]
    }

    #[track_caller]
    fn still_works(&self) {
        for good in self.good() {
            assert_eq!(ping_as(&self.gateway, &good).status, 200);
        }
    }
}

/// Forged tokens, each with what is wrong with it.
fn forged(world: &World, canary: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut add = |what: &str, token: String| all.push((what.to_owned(), token));
    let payload = claims(json!({})).to_string();
    let good = token(json!({}));
    let parts: Vec<&str> = good.split('.').collect();
    let (head, body, tag) = (parts[0], parts[1], parts[2]);

    // No signature, or somebody else's.
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let header = json!({"alg": name, "typ": "JWT"}).to_string();
        let message = format!("{}.{}", b64(&header), b64(&payload));
        add("alg none, no signature", format!("{message}."));
        add("alg none, a signature", format!("{message}.{tag}"));
        add("alg none, two parts", message);
        add(
            "alg none, signed",
            hmac_token(SECRET.as_bytes(), &header, &payload),
        );
    }
    add("stripped signature", format!("{head}.{body}."));
    add("two parts", format!("{head}.{body}"));
    add("one part", body.to_owned());
    add("four parts", format!("{good}.{tag}"));
    add("an empty fourth part", format!("{good}."));
    add("five parts", format!("{head}.{body}.{tag}.{tag}.{tag}"));
    add("dots", "...".into());
    let stronger = b64(claims(json!({"role": "root"})).to_string());
    add("another payload", format!("{head}.{stronger}.{tag}"));
    add(
        "another header",
        format!("{}.{body}.{tag}", b64(r#"{"alg":"HS256"}"#)),
    );
    add("a shorter tag", format!("{head}.{body}.{}", &tag[..20]));
    add("tag of zeros", format!("{head}.{body}.{}", b64([0; 32])));
    for (what, secret) in [
        ("no secret", &b""[..]),
        ("a guess", b"secret"),
        ("half the secret", &SECRET.as_bytes()[..16]),
        (
            "the secret and a line break",
            &[SECRET.as_bytes(), b"\n"].concat(),
        ),
    ] {
        add(what, hmac_token(secret, HS256, &payload));
    }

    // Public keys as secrets.
    let rsa = base64_of(RSA_N);
    let key: Value = serde_json::from_str(&world.jwks).expect("JSON");
    for (what, secret) in [
        ("the set", world.jwks.clone().into_bytes()),
        ("the first key", key["keys"][0].to_string().into_bytes()),
        ("the point", world.provider.public().to_vec()),
        ("the modulus", rsa),
        ("its text", RSA_N.as_bytes().to_vec()),
        ("x", base64_of(key["keys"][0]["x"].as_str().expect("x"))),
    ] {
        for header in [
            json!({"alg": "HS256"}),
            json!({"alg": "HS256", "kid": "ec"}),
            json!({"alg": "HS256", "kid": "rsa"}),
            json!({"alg": "RS256", "kid": "rsa"}),
            json!({"alg": "ES256", "kid": "ec"}),
        ] {
            let what = format!("HMAC by {what}, {header}");
            add(&what, hmac_token(&secret, &header.to_string(), &payload));
        }
    }

    // Keys that the token brings along, or says where to find.
    let mallory = Signer::new();
    let jwk = mallory.jwk("ec");
    for header in [
        json!({"alg": "ES256"}),
        json!({"alg": "ES256", "kid": "ec"}),
        json!({"alg": "ES256", "jwk": jwk}),
        json!({"alg": "ES256", "kid": "ec", "jwk": jwk}),
        json!({"alg": "ES256", "kid": "ec", "jku": format!("{canary}/keys")}),
        json!({"alg": "ES256", "jku": format!("{canary}/keys")}),
        json!({"alg": "ES256", "x5u": format!("{canary}/cert")}),
        json!({"alg": "ES256", "x5c": ["AAAA"], "x5t": "AAAA"}),
        json!({"alg": "ES256", "kid": format!("{canary}/keys")}),
        json!({"alg": "ES256", "kid": "../../keys.json"}),
        json!({"alg": "ES256", "kid": "' OR 1=1 --"}),
        json!({"alg": "ES256", "kid": "/dev/null"}),
        json!({"alg": "ES256", "kid": ""}),
        json!({"alg": "ES256", "kid": "unknown"}),
        json!({"alg": "ES256", "kid": "rsa"}),
        json!({"alg": "ES256", "kid": 7}),
        json!({"alg": "ES384", "kid": "ec"}),
        json!({"alg": "ES512", "kid": "ec"}),
        json!({"alg": "EdDSA", "kid": "ec"}),
        json!({"alg": "PS256", "kid": "rsa"}),
        json!({"alg": "RS256", "kid": "ec"}),
    ] {
        add(
            &format!("mallory's, {header}"),
            mallory.token(&header, &payload),
        );
    }
    let named = json!({"alg": "ES256", "kid": "ec"});
    let message = format!("{}.{}", b64(named.to_string()), b64(&payload));
    add("r and s are zero", format!("{message}.{}", b64([0; 64])));
    add("r and s are large", format!("{message}.{}", b64([255; 64])));
    add("an empty curve signature", format!("{message}."));

    // Signed as they should be, with headers that nobody should accept.
    for header in [
        r#"{"alg":"HS256","crit":["exp"]}"#,
        r#"{"alg":"HS256","crit":["x"],"x":1}"#,
        r#"{"alg":"HS256","b64":false,"crit":["b64"]}"#,
        r#"{"alg":"HS256","alg":"none"}"#,
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256","\u0061lg":"HS256"}"#,
        r#"{"alg":["HS256"]}"#,
        r#"{"alg":"HS256 "}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"alg":"HS512"}"#,
        r#"{"alg":"HS256","typ":"dpop+jwt"}"#,
        r#"{"alg":"HS256","typ":"oauth-id-jag+jwt"}"#,
        r#"{"typ":"JWT"}"#,
        r#"["HS256"]"#,
        r#"{"alg":"HS256"}{}"#,
        "\u{feff}{\"alg\":\"HS256\"}",
        "HS256",
        "",
    ] {
        let what = format!("signed, header {header}");
        add(&what, hmac_token(SECRET.as_bytes(), header, &payload));
    }

    // Signed as they should be, with claims that are not for us, or not now.
    for changes in [
        json!({"exp": now() - 61}),
        json!({"exp": 0}),
        json!({"exp": null}),
        json!({"exp": (now() + 600).to_string()}),
        json!({"exp": true}),
        json!({"exp": -1}),
        json!({"exp": 1e30}),
        json!({"exp": [now() + 600]}),
        json!({"nbf": now() + 3600}),
        json!({"nbf": "0"}),
        json!({"iat": now() + 3600}),
        json!({"iat": "now"}),
        json!({"iss": null}),
        json!({"iss": "somebody"}),
        json!({"iss": ["sentinel-gateway"]}),
        json!({"iss": "sentinel-gateway\u{0}"}),
        json!({"aud": null}),
        json!({"aud": "another-api"}),
        json!({"aud": ["another-api"]}),
        json!({"aud": {"sentinel-api": 1}}),
        json!({"aud": "sentinel-api another"}),
        json!({"aud": ["sentinel-api", 1]}),
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": 1}),
        json!({"sub": "local"}),
        json!({"sub": "key:1"}),
        json!({"sub": "a\r\nb"}),
        json!({"role": null}),
        json!({"role": ["admin"]}),
        json!({"role": {"admin": true}}),
        json!({"tenant_id": 1}),
        json!({"scope": 1}),
    ] {
        add(&format!("signed, {changes}"), token(changes.clone()));
    }
    let twice = payload.replacen('{', r#"{"role":"viewer","#, 1);
    let hidden = payload.replacen('{', r#"{"\u0065xp":9999999999,"#, 1);
    let deep = format!(
        r#"{{"x":{}{},{}"#,
        "[".repeat(100),
        "]".repeat(100),
        &payload[1..]
    );
    for odd in [
        twice,
        hidden,
        deep,
        format!("{payload}{payload}"),
        format!("{payload},"),
        format!("[{payload}]"),
        b64(&payload),
        good.clone(),
        "null".into(),
        String::new(),
        payload.replace(':', "="),
    ] {
        let what = format!("signed, payload {odd:.60}");
        add(&what, hmac_token(SECRET.as_bytes(), HS256, &odd));
    }

    // The right bytes, written differently.
    for (what, text) in [
        ("padding", format!("{head}.{body}.{tag}=")),
        ("padded body", format!("{head}.{body}==.{tag}")),
        ("trailing byte", format!("{good}A")),
        ("question mark", format!("{head}?.{body}.{tag}")),
        ("standard alphabet", format!("{head}.{body}.+{}", &tag[1..])),
        ("percent", format!("{head}.{body}.%{}", &tag[1..])),
        ("tab", format!("{head}.{body}.\t{tag}")),
        ("space inside", format!("{head}. {body}.{tag}")),
        ("nested", b64(&good)),
        ("nested twice", b64(b64(&good))),
        ("comma", format!("{good},{good}")),
        ("quotes", format!("\"{good}\"")),
        ("scheme twice", format!("Bearer {good}")),
        (
            "JSON form",
            json!({"protected": head, "payload": body, "signature": tag}).to_string(),
        ),
        ("encrypted", format!("{head}..{body}.{tag}.{tag}")),
        ("lower case", good.to_ascii_lowercase()),
        ("too long", format!("{good}{}", "A".repeat(16 * 1024))),
        (
            "API key",
            "sk_000000000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".into(),
        ),
        ("API key prefix", format!("sk_{good}")),
        ("session id", "0123456789abcdefghijklmn".into()),
        ("the secret itself", SECRET.replace(' ', "")),
    ] {
        add(what, text);
    }
    all
}

fn base64_of(text: &str) -> Vec<u8> {
    use base64::Engine;
    let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    engine.decode(text).expect("base64")
}

#[test]
fn p_s03_no_forged_token_gets_in_and_none_makes_us_connect() {
    let world = World::new();
    let canary = TcpListener::bind("127.0.0.1:0").expect("a port");
    canary.set_nonblocking(true).expect("a socket");
    let url = format!("http://{}", canary.local_addr().expect("bound"));
    world.still_works();
    let all = forged(&world, &url);
    let distinct: BTreeSet<&String> = all.iter().map(|(_, token)| token).collect();
    assert!(
        distinct.len() >= 150,
        "only {} distinct forgeries",
        distinct.len()
    );
    for (what, token) in &all {
        let answer = ping_as(&world.gateway, token);
        assert_eq!(answer.status, 401, "{what}: {token}: {answer:?}");
        assert_eq!(
            answer.json()["error"]["data"]["kind"],
            "unauthorized",
            "{what}"
        );
        assert!(
            answer.header("www-authenticate").starts_with("Bearer "),
            "{what}"
        );
    }
    assert!(canary.accept().is_err(), "a token made the gateway connect");
    world.still_works();
    assert!(!world.gateway.setup.log().contains("panicked"));
    eprintln!("{} forged tokens, none accepted", distinct.len());
}

#[test]
fn p_s03_one_credential_in_one_header_and_nowhere_else() {
    let world = World::new();
    let gateway = &world.gateway;
    let good = token(json!({}));
    let bearer = format!("Bearer {good}");
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
        let value = format!("{scheme} {good}");
        assert_eq!(
            ping(gateway, &[("Authorization", &value)]).status,
            200,
            "{scheme}"
        );
    }
    let basic = format!("Basic {good}");
    let both = format!("Bearer {good}, Bearer {good}");
    let bare = good.as_str();
    let refused: &[&[(&str, &str)]] = &[
        &[("Authorization", &bearer), ("Authorization", &bearer)],
        &[("Authorization", &bearer), ("authorization", "Bearer x")],
        &[("Authorization", &basic), ("Authorization", &bearer)],
        &[("Authorization", &basic)],
        &[("Authorization", bare)],
        &[("Authorization", &both)],
        &[("Authorization", "Bearer")],
        &[("Authorization", "")],
        &[("Proxy-Authorization", &bearer)],
        &[("X-Authorization", &bearer)],
        &[("Cookie", bare)],
        &[("X-Api-Key", bare)],
        &[("X-Forwarded-User", "alice"), ("X-User-Id", "alice")],
        &[("Mcp-Session-Id", bare)],
        &[],
    ];
    for headers in refused {
        assert_eq!(ping(gateway, headers).status, 401, "{headers:?}");
    }
    for path in [
        format!("/mcp?access_token={good}"),
        format!("/mcp?token={good}"),
        format!("/mcp?Authorization=Bearer%20{good}"),
    ] {
        assert_eq!(ping_at(gateway, &path, &[]).status, 401, "{path}");
    }
    world.still_works();
}

/// See `sentinel_core::identity::tests::vectors` for these and their verdicts: ours, and others' where they are there.
#[test]
fn p_s03_every_jose_vector_is_refused_at_the_door() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let others = std::env::var_os("SENTINEL_VECTORS")
        .map_or(PathBuf::from(root).join("../shared/vectors"), PathBuf::from)
        .join("jose");
    let own = PathBuf::from(root).join("tests/vectors/jose.json");
    let others = std::fs::read_dir(others).into_iter().flatten();
    let others = others.map(|entry| entry.expect("a folder").path());
    let world = World::new();
    let mut sent = 0;
    for path in [own].into_iter().chain(others) {
        let text = std::fs::read(&path).expect("the file");
        let file: Value = serde_json::from_slice(&text).expect("JSON");
        let groups = file["testGroups"].as_array().expect("groups");
        for test in groups
            .iter()
            .flat_map(|g| g["tests"].as_array().expect("tests"))
        {
            let given = test.get("jws").or(test.get("jwe")).expect("a token");
            let given = given
                .as_str()
                .map_or_else(|| given.to_string(), str::to_owned);
            let answer = ping_as(&world.gateway, &given.replace(['\r', '\n'], " "));
            assert_eq!(answer.status, 401, "{path:?} {}: {answer:?}", test["tcId"]);
            sent += 1;
        }
    }
    eprintln!("{sent} JOSE vectors were refused");
    assert!(sent >= 250, "only {sent} vectors");
    world.still_works();
}
