//! `sentinel token`: a development token, signed with the configured secret.

use std::process::ExitCode;

use sentinel_core::identity::{self, mint};
use serde_json::{Map, Value, json};

use super::{Misuse, print, warn};
use crate::cli::{Global, Token};
use crate::config;

pub(crate) fn run(global: &Global, args: &Token) -> anyhow::Result<ExitCode> {
    let config = config::load(&global.overrides(), &config::environment()?)?.config;
    let Some(auth) = &config.auth else {
        anyhow::bail!("there is no [auth] in the configuration: callers need no token");
    };
    let Some(secret) = &auth.jwt_secret else {
        anyhow::bail!(
            "there is no secret to sign with: set auth.jwt_secret_env and the variable that it names"
        );
    };
    if !config.rbac.roles.contains_key(&args.role) {
        warn(&format!("the configuration has no role \"{}\"", args.role));
    }
    let now = identity::now();
    let mut claims = Map::new();
    let mut claim = |name: &str, value: Value| claims.insert(name.to_owned(), value);
    if let Some(tenant) = &args.tenant {
        claim(&auth.tenant_claim, json!(tenant));
    }
    if !args.scope.is_empty() {
        claim("scope", json!(args.scope.join(" ")));
    }
    claim(&auth.role_claim, json!(args.role));
    claim("iss", json!(auth.jwt_issuer));
    claim("aud", json!(auth.jwt_audience));
    claim("sub", json!(args.subject));
    claim("iat", json!(now));
    claim("exp", json!(now + args.expires));
    let token = mint::hs256(secret.expose().as_bytes(), &claims);
    if let Err(why) = crate::identity::judge(auth, &config, &token)? {
        return Err(Misuse(format!("the gateway would refuse such a token: {why}")).into());
    }
    if global.json {
        return print(&format!(
            "{:#}\n",
            json!({"token": token, "claims": claims})
        ));
    }
    print(&format!("{token}\n"))
}
