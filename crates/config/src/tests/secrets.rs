//! Values from the environment: read once, never shown (G-60, G-61, G-65).

use super::World;
use crate::normalised_toml;
use crate::{BackendKind, Config};

const SECRET: &str = "sk-live-0123456789abcdef";

fn config() -> Config {
    let text = r#"
        [[backends]]
        name = "web"
        type = "http"
        url_env = "WEB_URL"
        headers = { Authorization_ENV = "TOKEN", X-Plain = "yes" }

        [[backends]]
        name = "child"
        type = "stdio"
        command = "npx"
        args = ["--header", "Authorization: Bearer ${TOKEN}", "$${KEPT}", "${ABSENT:-default}"]
        env = { API_KEY_ENV = "TOKEN", MODE = "fast", APP_ENV = { value = "test" } }
    "#;
    World::new(&[
        ("TOKEN", SECRET),
        (
            "WEB_URL",
            "https://example.com/?key=sk-live-0123456789abcdef",
        ),
    ])
    .parse(text)
    .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[test]
fn g_65_variables_reach_the_backend() {
    let config = config();
    let BackendKind::Http(web) = &config.backends[0].kind else {
        panic!("http")
    };
    let headers: Vec<_> = web
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(headers, [("Authorization", SECRET), ("X-Plain", "yes")]);
    assert_eq!(
        web.url.expose().to_string(),
        format!("https://example.com/mcp?key={SECRET}")
    );

    let BackendKind::Stdio(child) = &config.backends[1].kind else {
        panic!("stdio")
    };
    let args: Vec<_> = child.args.iter().map(|arg| arg.expose()).collect();
    assert_eq!(
        args,
        [
            "--header",
            &format!("Authorization: Bearer {SECRET}"),
            "${KEPT}",
            "default"
        ]
    );
    let env: Vec<_> = child
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(
        env,
        [("API_KEY", SECRET), ("APP_ENV", "test"), ("MODE", "fast")]
    );
}

#[test]
fn g_60_nothing_prints_a_secret() {
    let config = config();
    let printed = normalised_toml(&config);
    assert!(
        printed.contains("<from TOKEN>") && printed.contains("<from WEB_URL>"),
        "{printed}"
    );
    assert!(!printed.contains("0123456789abcdef"), "{printed}");
    let debugged = format!("{config:?} {config:#?}");
    assert!(!debugged.contains("0123456789abcdef"), "{debugged}");
}

#[test]
fn a_credential_in_the_file_is_noticed_and_hidden() {
    let text = "[[backends]]\nname = \"a\"\ntype = \"http\"\nurl = \"http://x\"\nheaders = { Authorization = \"Bearer abcdef\" }";
    let config = World::new(&[])
        .parse(text)
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(
        config.notices,
        [
            "backend `a`: `headers.Authorization` looks like a credential written in the file; use Authorization_ENV"
        ]
    );
    assert!(!normalised_toml(&config).contains("abcdef"));
}

#[test]
fn a_mistake_does_not_repeat_a_credential() {
    let text = "[[backends]]\nname = \"a\"\ntype = \"http\"\nurl = \"http://x\"\n\
        headers = { Authorization = \"Bearer abcdef\", Host = \"x\" }\ntimeuot = 3\n\
        [[backends]]\nname = \"b\"\ntype = \"http\"\nurl_env = \"https://u:abcdef@x\"";
    let mistakes = super::mistakes_of(text);
    assert!(
        mistakes.contains("the header Host is set by the gateway"),
        "{mistakes}"
    );
    assert!(
        mistakes.contains("not the name of an environment variable"),
        "{mistakes}"
    );
    assert!(!mistakes.contains("abcdef"), "{mistakes}");
}

#[test]
fn a_backend_that_is_off_may_lack_its_variables() {
    let text = "[[backends]]\nname = \"a\"\ntype = \"http\"\nurl_env = \"NOPE\"\nheaders = { A_ENV = \"NOPE\" }\nenabled = false\n\
        [[backends]]\nname = \"b\"\ntype = \"stdio\"\ncommand = \"x\"\nargs = [\"${NOPE}\"]\nenabled = false";
    let config = super::config_of(text);
    assert!(!config.backends[0].enabled);
}
