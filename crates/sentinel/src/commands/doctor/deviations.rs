//! Where a configuration is less safe than no configuration (P-S15).

use serde_json::Value;

use crate::config::{self, Config, Environment, Overrides};
use crate::data_dir;

/// Every setting that takes a protection away, in words.
pub(super) fn of(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    let gateway = &config.gateway;
    let beyond = |at: Option<std::net::SocketAddr>| at.filter(|at| !at.ip().is_loopback());
    if let Some(at) = beyond(gateway.listen) {
        let who = match &config.auth {
            None => "whoever reaches it may call every tool",
            Some(_) => "callers are authenticated",
        };
        found.push(format!(
            "gateway.listen = \"{at}\" can be reached from the network; {who}"
        ));
    }
    if let Some(at) = beyond(gateway.health_listen) {
        found.push(format!(
            "gateway.health_listen = \"{at}\" can be reached from the network; it tells the names and health of backends"
        ));
    }
    for host in &gateway.allowed_hosts {
        found.push(format!(
            "gateway.allowed_hosts has \"{host}\": the gateway answers to that name, too"
        ));
    }
    for origin in &gateway.allowed_origins {
        found.push(format!(
            "gateway.allowed_origins has \"{origin}\": its pages may call every tool"
        ));
    }
    if !gateway.audit_enabled {
        found.push("gateway.audit_enabled = false: calls leave no record".into());
    }
    if data_dir::is_open_to_others(&gateway.data_dir) {
        let path = gateway.data_dir.display();
        found.push(format!(
            "{path} is open to other users of this machine, records and reviews included: chmod 700 {path}"
        ));
    }
    if config.rate_limits.default_rpm == 0 {
        found.push("rate_limits.default_rpm = 0: a caller may call as often as it likes".into());
    }
    if let Some(role) = config.auth.as_ref().map(|auth| &auth.anonymous_role)
        && !role.is_empty()
    {
        found.push(format!(
            "auth.anonymous_role = \"{role}\": callers without credentials have that role"
        ));
    }
    found.extend(limits(config));
    for backend in config.backends.iter().filter(|backend| backend.enabled) {
        found.extend(backend_deviations(backend));
    }
    found
}

/// Limits above their defaults.
fn limits(config: &Config) -> Vec<String> {
    let nothing = Environment {
        validators: config::Validators::default(),
        variables: &|_| None,
        cwd: std::path::PathBuf::from("/"),
    };
    let defaults = config::parse(
        "",
        "",
        &nothing.cwd,
        &Overrides {
            data_dir: Some("/".into()),
            ..Overrides::default()
        },
        &nothing,
    );
    let Ok(defaults) = defaults else {
        return Vec::new();
    };
    let table = |config: &Config| config::normalised(config)["limits"].as_object().cloned();
    let (now, usual) = (
        table(config).unwrap_or_default(),
        table(&defaults).unwrap_or_default(),
    );
    let number = |table: &serde_json::Map<String, Value>, key: &str| table.get(key)?.as_f64();
    now.keys()
        .filter_map(|key| {
            let (is, was) = (number(&now, key), number(&usual, key));
            // Less than this many kilobytes a second is too slow: here the smaller number allows more.
            let (more, side) = match key.as_str() {
                "body_min_kb_per_s" => (is < was, "below"),
                _ => (is > was, "above"),
            };
            more.then(|| format!("limits.{key} = {} is {side} the default of {}: callers can make the gateway hold more", now[key], usual[key]))
        })
        .collect()
}

fn backend_deviations(backend: &config::Backend) -> Vec<String> {
    let name = &backend.name;
    let mut found = Vec::new();
    for weakness in sentinel_backends::kind_of(&backend.kind).weakened() {
        found.push(format!("backend `{name}`: {weakness}"));
    }
    if backend.pin == config::Pin::Off {
        found.push(format!(
            "backend `{name}`: pin = \"off\": changes of its tools are not detected"
        ));
    }
    if backend.health_interval.is_zero() {
        found.push(format!(
            "backend `{name}`: health_interval = 0: a backend that hangs stays listed"
        ));
    }
    if backend.circuit_breaker.threshold == 0 {
        found.push(format!("backend `{name}`: circuit_breaker.threshold = 0: a failing backend is called all the same"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deviations(text: &str) -> Vec<String> {
        let environment = Environment {
            validators: config::Validators::default(),
            variables: &|_| None,
            cwd: "/".into(),
        };
        let overrides = Overrides {
            data_dir: Some("/d".into()),
            ..Overrides::default()
        };
        let config = config::parse("x", text, &environment.cwd, &overrides, &environment);
        of(&config.unwrap_or_else(|mistakes| panic!("{}", mistakes.render())))
    }

    #[test]
    fn p_s15_the_defaults_deviate_from_nothing() {
        assert_eq!(deviations(""), Vec::<String>::new());
        let plain = "[[backends]]\nname = \"a\"\ntype = \"stdio\"\ncommand = \"x\"\n[[backends]]\nname = \"b\"\ntype = \"http\"\nurl = \"http://127.0.0.1:1\"";
        assert_eq!(deviations(plain), Vec::<String>::new());
    }

    #[test]
    fn p_s15_every_deviation_is_named() {
        let check = |text: &str, words: &str| {
            let found = deviations(text);
            assert!(
                found.len() == 1 && found[0].contains(words),
                "{text}: {found:?}"
            );
        };
        check(
            "[gateway]\nlisten = \"0.0.0.0:1\"\nallow_unauthenticated_network = true",
            "gateway.listen",
        );
        check(
            "[gateway]\nhealth_listen = \"0.0.0.0:1\"\nallow_unauthenticated_network = true",
            "health_listen",
        );
        check(
            "[gateway]\nallowed_hosts = [\"x.example\"]",
            "allowed_hosts",
        );
        check(
            "[gateway]\nallowed_origins = [\"https://x.example\"]",
            "allowed_origins",
        );
        check("[gateway]\naudit_enabled = false", "audit_enabled");
        check("[limits]\nbody_mb = 100", "limits.body_mb = 100");
        check("[rate_limits]\ndefault_rpm = 0", "default_rpm");
        let stdio = "[[backends]]\nname = \"a\"\ntype = \"stdio\"\ncommand = \"x\"\n";
        check(&format!("{stdio}inherit_env = true"), "inherit_env");
        check(&format!("{stdio}max_restarts = 0"), "max_restarts");
        check(&format!("{stdio}pin = \"off\""), "pin");
        check(&format!("{stdio}health_interval = 0"), "health_interval");
        check(
            &format!("{stdio}circuit_breaker = {{ threshold = 0 }}"),
            "threshold",
        );
        check(
            "[[backends]]\nname = \"b\"\ntype = \"http\"\nurl = \"http://x.example\"",
            "plain http",
        );
    }
}
