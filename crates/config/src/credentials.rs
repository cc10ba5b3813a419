//! Guesses whether a value is a credential, by the name it goes by and by its shape.
//!
//! `check` hides such a literal and warns about it; `import` moves it into a variable. A wrong "yes" is
//! a nuisance, a wrong "no" leaks: in doubt it is one.

use super::template::is_name;

/// Words in a name that make its value a credential.
#[rustfmt::skip]
const SECRET_WORDS: &[&str] = &[
    "token", "secret", "password", "passwd", "pwd", "passphrase", "apikey", "api_key", "accesskey",
    "access_key", "privatekey", "private_key", "auth", "authorization", "credential", "credentials",
    "cookie", "bearer", "jwt", "pat", "dsn", "signature", "key",
];

/// Beginnings that well-known services give their credentials.
#[rustfmt::skip]
const SECRET_PREFIXES: &[&str] = &[
    "sk-", "sk_", "pk_live_", "rk_live_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
    "glpat-", "xoxb-", "xoxp-", "xoxa-", "xoxs-", "xapp-", "AKIA", "ASIA", "AIza", "ya29.", "eyJ",
    "npm_", "pypi-", "hf_", "fc-", "tvly-", "lin_api_", "ntn_", "secret_", "shpat_", "dop_v1_",
    "SG.", "Bearer ", "bearer ", "Basic ", "basic ", "Token ", "token ", "-----BEGIN",
];

/// Whether the value under this name looks like a credential.
pub fn looks_secret(name: &str, value: &str) -> bool {
    let value = &without_references(value);
    !value.trim().is_empty()
        && (name_says_so(name) && !plainly_harmless(value) || shape_says_so(value))
}

/// Whether a name such as `GITHUB_TOKEN`, `X-Api-Key` or `--access-token` announces a credential.
pub fn name_says_so(name: &str) -> bool {
    let words = split_words(name);
    let has = |wanted: &str| {
        let wanted: Vec<&str> = wanted.split('_').collect();
        words
            .windows(wanted.len())
            .any(|window| window == wanted.as_slice())
    };
    SECRET_WORDS.iter().any(|word| has(word))
}

/// Whether the value alone gives it away, wherever it stands: by a well-known beginning, as random text,
/// as a URL with a password, or because it names a credential inside, as JSON or connection strings do.
pub fn shape_says_so(value: &str) -> bool {
    let value = &without_references(value);
    known_beginning(value)
        || url_credential(value)
        || random_looking(value)
        || says_so_inside(value)
}

/// Whether this cannot be the name of a variable because it is a credential itself.
pub fn is_no_name(value: &str) -> bool {
    let mixed = value.contains(|c: char| c.is_ascii_digit()) && value.contains(char::is_lowercase);
    random_looking(value) || known_beginning(value) && mixed
}

fn known_beginning(value: &str) -> bool {
    SECRET_PREFIXES
        .iter()
        .any(|prefix| value.starts_with(prefix) && value.len() >= prefix.len() + 6)
}

/// `{"Authorization": "Bearer …"}`, `Server=db;Password=…`, `token: …`.
fn says_so_inside(value: &str) -> bool {
    let tokens = tokens(value);
    let pairs = tokens.windows(3).any(|window| match window {
        [name, ":" | "=", value] => name_says_so(name) && !plainly_harmless(value),
        _ => false,
    });
    let parts = || tokens.iter().filter(|_| tokens.len() > 1);
    pairs
        || parts().any(|part| known_beginning(part) || random_looking(part))
        || tokens
            .windows(2)
            .any(|pair| is_scheme(pair[0]) && pair[1].len() >= 6)
}

fn is_scheme(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic")
}

fn without_scheme(text: &str) -> &str {
    let text = text.trim_end();
    let at = text
        .rfind(|c: char| !c.is_ascii_alphabetic())
        .map_or(0, |at| at + 1);
    match text.get(at..) {
        Some(word) if is_scheme(word) => &text[..at],
        _ => text,
    }
}

/// A value without its `${NAME}` and the scheme before one: a credential that is looked up when it is needed does not
/// stand there.
fn without_references(value: &str) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        let name = from[2..].split_once('}').filter(|(name, _)| is_name(name));
        let (kept, after) = match name {
            // One that is escaped for us is for whoever reads it next.
            Some((_, after)) => (without_scheme(before.trim_end_matches('$')), after),
            None => (&rest[..at + 2], &from[2..]),
        };
        out.push_str(kept);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Words, with `:` and `=` standing for themselves.
fn tokens(value: &str) -> Vec<&str> {
    let quoting = |c: char| c.is_whitespace() || ",;&\"'{}[]()\\".contains(c);
    let words = value.split(quoting).filter(|word| !word.is_empty());
    words
        .flat_map(|word| word.split_inclusive([':', '=']).flat_map(split_sign))
        .collect()
}

/// `name:` as `name` and `:`.
fn split_sign(piece: &str) -> impl Iterator<Item = &str> {
    let cut = piece.strip_suffix([':', '=']).map_or(piece.len(), str::len);
    [&piece[..cut], &piece[cut..]]
        .into_iter()
        .filter(|part| !part.is_empty())
}

/// Whether a line of a configuration file holds a credential, in any of its strings.
pub fn line_has_secret(line: &str) -> bool {
    let mut parts = line.split(['"', '\'']);
    let mut before = parts.next().unwrap_or_default();
    while let Some(value) = parts.next() {
        let name = before.trim_end_matches(|c: char| c.is_whitespace() || c == '=');
        let name = name.rsplit([' ', '{', ',', '[']).next().unwrap_or_default();
        let names_variable = name.to_ascii_lowercase().ends_with("_env");
        if shape_says_so(value) || !names_variable && looks_secret(name, value) {
            return true;
        }
        before = parts.next().unwrap_or_default();
        // A flag announces the argument that follows it.
        if value.starts_with('-') && before.trim() == "," {
            before = value;
        }
    }
    false
}

/// Values that a name like `AUTH_MODE` or `KEY_FILE` often holds and that keep no secret.
fn plainly_harmless(value: &str) -> bool {
    let short_word = value.len() <= 5 && value.chars().all(|c| c.is_ascii_alphanumeric());
    short_word
        || value.len() <= 7 && value.parse::<f64>().is_ok()
        || value.starts_with(['/', '~', '.'])
        || value.starts_with("http") && !url_credential(value)
        || matches!(
            value,
            "bearer" | "enabled" | "disabled" | "required" | "optional"
        )
}

/// `scheme://user:password@host` or `?api_key=…`.
pub fn url_credential(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let in_authority = authority
        .split_once('@')
        .is_some_and(|(user, _)| user.contains(':'));
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let in_query = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .any(|(k, v)| {
            !v.is_empty() && !v.starts_with('$') && (name_says_so(k) || random_looking(v))
        });
    let in_path = rest.split(['/', '?', '#']).skip(1).any(random_looking);
    in_authority || in_query || in_path
}

/// A long run of letters and digits, mixed as no word is.
fn random_looking(value: &str) -> bool {
    let alphabet =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '=' | '.' | '/');
    let path = value.starts_with(['/', '~', '.']);
    if path
        || value.len() < 24
        || !value.chars().all(alphabet)
        || value.contains('/') && value.contains('.')
    {
        return false;
    }
    // Names and paths consist of words; random text changes class every few characters.
    let class = |c: char| match c {
        'a'..='z' => 0,
        'A'..='Z' => 1,
        '0'..='9' => 2,
        _ => 3,
    };
    let letters: Vec<char> = value
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .collect();
    let changes = letters
        .windows(2)
        .filter(|pair| class(pair[0]) != class(pair[1]))
        .count();
    let digits = letters.iter().filter(|c| c.is_ascii_digit()).count();
    digits * 10 >= letters.len() && changes * 4 >= letters.len()
}

/// `githubToken`, `GITHUB_TOKEN` and `x-github-token` as lower-case words.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let boundary =
            !c.is_ascii_alphanumeric() || c.is_ascii_uppercase() && before.is_ascii_lowercase();
        if boundary {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric() {
            words
                .last_mut()
                .expect("there is always a word")
                .push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::{line_has_secret, looks_secret, name_says_so, url_credential};

    /// G-65: credentials are named by variable, never written.
    #[test]
    fn credentials_are_recognised_by_name_and_by_shape() {
        for (name, value) in [
            ("GITHUB_TOKEN", "abcdef123"),
            ("Authorization", "Bearer abc.def"),
            ("X-Api-Key", "0123456789"),
            ("openaiApiKey", "whatever-it-is"),
            ("DB_PASSWORD", "hunter2"),
            ("ANYTHING", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
            ("ANYTHING", "sk-ant-api03-AbCdEf"),
            ("ANYTHING", "postgres://user:pw@db/x"),
            (
                "HEADERS",
                r#"{"X-Mode": "a", "Authorization": "Bearer ntn_1"}"#,
            ),
            ("CONFIG", r#"{"region": "us", "apiKey": "abcdefgh"}"#),
            ("CONNECTION", "Server=db;User=me;Password=hunter22"),
            ("HEADER", "Authorization: Bearer abcdefgh"),
            ("HEADER", "Authorization: Bearer ${SCHEME}abcdefgh"),
            ("TOKEN", "${NAME}abcdefgh"),
            ("ANYTHING", "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c"),
        ] {
            assert!(looks_secret(name, value), "{name}={value}");
        }
    }

    #[test]
    fn ordinary_settings_are_not() {
        for (name, value) in [
            ("LOG_LEVEL", "debug"),
            ("NODE_ENV", "production"),
            ("KEY_FILE", "/etc/keys/one.pem"),
            ("AUTH_MODE", "none"),
            ("AUTH_URL", "https://example.com/auth"),
            ("MONKEY", "see"),
            ("OPTIONS", r#"{"region": "us", "depth": 3}"#),
            ("ADDRESS", "db.example.com:5432"),
            ("GREETING", "Hello, nice to see you: welcome"),
            ("ROOT", "/home/me/a-long-directory-name/with-more-words"),
            ("ROOT", "/srv/d1/d2/d3/d4/d5/d6/d7/d8"),
            ("PACKAGE", "@modelcontextprotocol/server-filesystem"),
            ("TOKEN", ""),
            ("Authorization", "${AUTH_HEADER}"),
            ("HEADER", "Authorization:${AUTH_HEADER}"),
            ("HEADER", "Authorization: Bearer $${AUTH_TOKEN}"),
        ] {
            assert!(!looks_secret(name, value), "{name}={value}");
        }
    }

    #[test]
    fn a_url_may_hold_a_credential() {
        assert!(url_credential(
            "https://mcp.example.com/mcp/?exampleApiKey=tvly-123456"
        ));
        assert!(url_credential("https://me:pw@example.com/"));
        assert!(!url_credential("https://example.com/mcp?version=2"));
        assert!(!url_credential("https://example.com/mcp?key=${KEY}"));
    }

    #[test]
    fn a_line_is_searched_in_all_its_strings() {
        assert!(line_has_secret(
            r#"headers = { Authorization = "Bearer abcdef", Host = "x" }"#
        ));
        assert!(line_has_secret(r#"args = ["-y", "--api-key", "abcdefgh"]"#));
        assert!(line_has_secret(r#"url = 'postgres://me:pw@db/x'"#));
        assert!(!line_has_secret(
            r#"headers = { Authorization_ENV = "N8N_TOKEN", Host = "x" }"#
        ));
        assert!(!line_has_secret(
            r#"args = ["-y", "@upstash/context7-mcp"]"#
        ));
    }

    #[test]
    fn a_word_inside_a_word_says_nothing() {
        assert!(!name_says_so("monkey") && !name_says_so("PATH") && !name_says_so("tokenizer"));
        assert!(name_says_so("--api-key") && name_says_so("accessToken"));
    }
}
