//! The gateway's login: a password, what the server keeps of it, and the URL that holds it.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::{digest, hmac, pbkdf2};

/// As PostgreSQL does by itself.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("not zero");
const SALT_BYTES: usize = 16;
const PASSWORD_BYTES: usize = 24;

/// A password that needs no escapes in a URL.
pub(super) fn password() -> String {
    URL_SAFE_NO_PAD.encode(random::<PASSWORD_BYTES>())
}

/// The password's SCRAM-SHA-256 verifier (RFC 5803), which PostgreSQL takes in place of a password.
pub(super) fn verifier(password: &str) -> String {
    verifier_with(password, &random::<SALT_BYTES>())
}

fn verifier_with(password: &str, salt: &[u8]) -> String {
    let mut salted = [0; digest::SHA256_OUTPUT_LEN];
    let password = password.as_bytes();
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA256,
        ITERATIONS,
        salt,
        password,
        &mut salted,
    );
    let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let client = hmac::sign(&key, b"Client Key");
    let stored = digest::digest(&digest::SHA256, client.as_ref());
    let server = hmac::sign(&key, b"Server Key");
    let [salt, stored, server] =
        [salt, stored.as_ref(), server.as_ref()].map(|bytes| STANDARD.encode(bytes));
    format!("SCRAM-SHA-256${ITERATIONS}:{salt}${stored}:{server}")
}

fn random<const N: usize>() -> [u8; N] {
    let filled = ring::rand::generate(&ring::rand::SystemRandom::new());
    filled.expect("the system has random bytes").expose()
}

/// The same database for another login.
pub(super) fn url_for(url: &str, role: &str, password: &str) -> String {
    let is_login = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default().trim();
        matches!(name, "user" | "password")
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        let kept = url.split_whitespace().filter(|pair| !is_login(pair));
        let kept: Vec<&str> = kept.collect();
        return format!("{} user={role} password={password}", kept.join(" "));
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => {
            let kept: Vec<&str> = query.split('&').filter(|pair| !is_login(pair)).collect();
            (rest, kept.join("&"))
        }
        None => (rest, String::new()),
    };
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let query = match query.as_str() {
        "" => query,
        some => format!("?{some}"),
    };
    format!("{scheme}://{role}:{password}@{place}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, whose password is "pencil": its server signature has this key.
    #[test]
    fn verifiers_are_those_of_the_rfc() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = verifier_with("pencil", &salt);
        let (head, keys) = verifier.rsplit_once('$').expect("keys");
        assert_eq!(head, "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==");
        let (_, server) = keys.split_once(':').expect("two keys");
        let key = STANDARD.decode(server).expect("base64");
        let said = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), said.as_bytes());
        assert_eq!(
            STANDARD.encode(signature),
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn the_url_of_another_login_keeps_everything_else() {
        for (url, expected) in [
            ("postgres://h/db", "postgres://gw:pw@h/db"),
            ("postgresql://me@h:1/db", "postgresql://gw:pw@h:1/db"),
            (
                "postgres://me:p%40@ss@h1:1,h2:2/db?sslmode=require",
                "postgres://gw:pw@h1:1,h2:2/db?sslmode=require",
            ),
            (
                "postgres:///db?host=/run/pg&user=me&password=x",
                "postgres://gw:pw@/db?host=/run/pg",
            ),
            (
                "host=h user=me dbname=db password=x",
                "host=h dbname=db user=gw password=pw",
            ),
        ] {
            assert_eq!(url_for(url, "gw", "pw"), expected);
        }
    }
}
