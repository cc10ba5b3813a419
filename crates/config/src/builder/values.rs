//! Single values: addresses, URLs, paths, variables, log levels.

use std::net::SocketAddr;
use std::path::PathBuf;

use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing_subscriber::EnvFilter;

use super::{Builder, Exposure};
use crate::Overrides;
use crate::credentials;
use crate::mistake::Mistake;
use crate::secret::Secret;
use crate::suggest::nearest;
use crate::tree::Path;

/// Everything that a directive may ask for; `trace` means all there is, which in a release is `debug`.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

impl Builder<'_> {
    /// Reports that the value at this path cannot be used.
    pub(crate) fn wrong(&mut self, path: &Path, message: impl Into<String>, expected: &str) {
        self.report(path, message, |mistake| match expected {
            "" => mistake,
            _ => mistake.expected(expected),
        });
    }

    /// Reports a mistake at the value of this path; `more` says what was expected and what to do.
    pub(crate) fn report(
        &mut self,
        path: &Path,
        message: impl Into<String>,
        more: impl FnOnce(Mistake) -> Mistake,
    ) {
        let mistake = Mistake::new(self.tree.value_span(path), message);
        self.mistakes.push(more(mistake));
    }

    /// An address to listen on. Beyond loopback only if callers are authenticated, or if the file says
    /// in words that they need not be (P-S15).
    pub(crate) fn address(
        &mut self,
        path: &Path,
        text: &str,
        exposure: Exposure,
    ) -> Option<SocketAddr> {
        const EXPECTED: &str = "an address and a port such as \"127.0.0.1:9200\", or \"off\"";
        if text.is_empty() || text == "off" {
            return None;
        }
        let spelled = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        let Ok(address) = spelled.parse::<SocketAddr>() else {
            let help = if text.starts_with([':', '*']) {
                Some(format!(
                    "for every interface write \"0.0.0.0:{}\"",
                    text.trim_start_matches([':', '*'])
                ))
            } else if text.parse::<std::net::IpAddr>().is_ok() {
                Some(format!("add a port: \"{text}:9200\""))
            } else if text.parse::<u16>().is_ok() {
                Some(format!("add an address: \"127.0.0.1:{text}\""))
            } else {
                None
            };
            let message = format!("\"{text}\" is no address to listen on");
            self.report(path, message, |m| m.expected(EXPECTED).maybe_help(help));
            return None;
        };
        if !address.ip().is_loopback() {
            self.network_address(path, address, exposure);
        }
        Some(address)
    }

    fn network_address(&mut self, path: &Path, address: SocketAddr, exposure: Exposure) {
        let message =
            format!("{address} can be reached from the network, and callers are not authenticated");
        match exposure {
            Exposure::Authenticated => {}
            Exposure::Allowed => self.notices.push(message),
            Exposure::Refused => self.report(path, message, |m| {
                m.expected("a loopback address such as 127.0.0.1, or an [auth] section")
                    .help("if everybody who reaches it may call every tool, set gateway.allow_unauthenticated_network = true")
            }),
        }
    }

    pub(crate) fn optional_url(&mut self, path: &Path, text: &str) -> Option<http::Uri> {
        if text.is_empty() {
            None
        } else {
            self.web_url(path, text)
        }
    }

    /// An http or https URL with a host, written in the file.
    pub(crate) fn web_url(&mut self, path: &Path, text: &str) -> Option<http::Uri> {
        match parse_url(text) {
            Ok(uri) => Some(uri),
            Err(problem) => {
                self.report(path, problem.message, |m| {
                    let m = m.expected("a URL such as \"https://example.com/mcp\"");
                    match credentials::url_credential(text) {
                        true => m.maybe_help(problem.help).hide_line(),
                        false => m.maybe_help(problem.help),
                    }
                });
                None
            }
        }
    }

    /// A path of the file: `~` is the home directory, and what is relative starts at the file.
    pub(crate) fn path(&mut self, path: &Path, text: &str) -> PathBuf {
        let Some(rest) = text.strip_prefix('~') else {
            return self.base.join(text);
        };
        if !rest.is_empty() && !rest.starts_with('/') {
            self.wrong(
                path,
                format!("\"{text}\": another user's home is not looked up"),
                "a path",
            );
            return PathBuf::new();
        }
        match self.environment.home() {
            Some(home) if rest.len() > 1 => home.join(rest.trim_start_matches('/')),
            Some(home) => home,
            None => {
                self.wrong(
                    path,
                    "`~` cannot be expanded: HOME is not set",
                    "an absolute path",
                );
                PathBuf::new()
            }
        }
    }

    /// The value of the variable that this key names.
    pub(crate) fn variable(&mut self, path: &Path, name: &str) -> Option<Secret> {
        self.check_variable_name(path, name).then_some(())?;
        match self.environment.variable(name) {
            Some(Ok(value)) => Some(Secret::from_variable(name, &value)),
            Some(Err(_)) => {
                let message = format!("the environment variable {name} is not valid UTF-8");
                self.wrong(path, message, "");
                None
            }
            None => {
                let message = format!("the environment variable {name} is not set");
                let help = format!("export {name}=… before starting");
                self.report(path, message, |m| m.help(help));
                None
            }
        }
    }

    /// Catches the value itself written where the name of its variable belongs.
    pub(crate) fn check_variable_name(&mut self, path: &Path, name: &str) -> bool {
        let first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.starts_with(first) && name.chars().all(rest) && !credentials::is_no_name(name) {
            return true;
        }
        let message = "this is not the name of an environment variable";
        self.report(path, message, |m| {
            m.expected("the name of the variable, not its value")
                .hide_line()
        });
        false
    }

    /// --log-level and LOG_LEVEL win over the file.
    pub(crate) fn log_level(&mut self, configured: &str, overrides: &Overrides) -> String {
        let level = overrides.log_level.as_deref().unwrap_or(configured);
        let directives = log_directives(level);
        if directives.is_none() {
            let span = self.tree.value_span(&Path::dotted("gateway.log_level"));
            let from_outside = overrides.log_level.is_some();
            let what = if from_outside {
                "--log-level (or LOG_LEVEL)"
            } else {
                "`log_level`"
            };
            let mistake = Mistake::new(
                span.filter(|_| !from_outside),
                format!("{what} cannot be \"{level}\""),
            )
            .expected("error, warn, info, debug, off, or directives as in RUST_LOG")
            .maybe_help(nearest(level, LEVELS).map(|near| format!("did you mean \"{near}\"?")));
            self.mistakes.push(mistake);
        }
        directives.unwrap_or_default()
    }

    /// Host names as a Host header has them.
    pub(crate) fn hosts(&mut self, path: &Path, hosts: &[String]) -> Vec<String> {
        for (index, host) in hosts.iter().enumerate() {
            let good = host
                .parse::<http::uri::Authority>()
                .is_ok_and(|a| !a.as_str().contains('@'));
            if !good || host.is_empty() {
                self.wrong(
                    &path.index(index),
                    format!("\"{host}\" is no host"),
                    "a name such as \"example.com\" or \"example.com:8443\"",
                );
            }
        }
        hosts.iter().map(|host| host.to_ascii_lowercase()).collect()
    }

    /// Origins as an Origin header has them: a scheme, a host, perhaps a port, nothing else.
    pub(crate) fn origins(&mut self, path: &Path, origins: &[String]) -> Vec<String> {
        for (index, origin) in origins.iter().enumerate() {
            let host = origin
                .split_once("://")
                .filter(|(scheme, _)| !scheme.is_empty())
                .map(|(_, host)| host);
            let good = host.is_some_and(|h| !h.is_empty() && !h.contains(['/', '?', '#', '@']));
            if !good {
                self.wrong(
                    &path.index(index),
                    format!("\"{origin}\" is no origin"),
                    "a scheme and a host without a path, such as \"https://app.example.com\"",
                );
            }
        }
        origins
            .iter()
            .map(|origin| origin.to_ascii_lowercase())
            .collect()
    }
}

/// Why a URL cannot be used.
pub(crate) struct UrlProblem {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// An http or https URL with a host and without a user or fragment.
pub(crate) fn parse_url(text: &str) -> Result<http::Uri, UrlProblem> {
    let problem = |message: &str, help: Option<String>| {
        Err(UrlProblem {
            message: message.into(),
            help,
        })
    };
    let Some((scheme, rest)) = text.split_once("://") else {
        return problem(
            "this is no URL: it has no scheme",
            Some("begin it with http:// or https://".into()),
        );
    };
    if !matches!(scheme, "http" | "https") {
        let near =
            nearest(scheme, ["http", "https"]).map(|near| format!("did you mean {near}://?"));
        return problem("this URL is neither http nor https", near);
    }
    if rest
        .split(['/', '?'])
        .next()
        .is_some_and(|authority| authority.contains('@'))
    {
        return problem(
            "this URL has a user in it",
            Some("send credentials with `headers`".into()),
        );
    }
    if rest.contains('#') {
        return problem("this URL has a fragment", None);
    }
    match text.parse::<http::Uri>() {
        Ok(uri) if uri.host().is_some_and(|host| !host.is_empty()) && good_port(&uri) => Ok(uri),
        Ok(_) => problem("this URL has no usable host and port", None),
        Err(error) => problem(&format!("this is no URL: {error}"), None),
    }
}

/// What the logs go by, if each directive of a text names a level. A word that is none would be taken for a module
/// whose every line is wanted, and the filter writes to standard error about levels that were left out of the program.
fn log_directives(text: &str) -> Option<String> {
    let one = |part: &str| {
        let (target, level) = match part.rsplit_once('=') {
            Some((target, level)) => (Some(target), level),
            None => (None, part),
        };
        let level = match level.to_ascii_lowercase() {
            // Other programs' word for the same.
            warning if warning == "warning" => "warn".to_owned(),
            trace if trace == "trace" && STATIC_MAX_LEVEL < LevelFilter::TRACE => {
                "debug".to_owned()
            }
            level => level,
        };
        let known = LEVELS.contains(&level.as_str());
        known.then(|| match target {
            Some(target) => format!("{target}={level}"),
            None => level,
        })
    };
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let directives = parts.map(one).collect::<Option<Vec<_>>>()?.join(",");
    let good = !directives.is_empty() && EnvFilter::builder().parse(&directives).is_ok();
    good.then_some(directives)
}

fn good_port(uri: &http::Uri) -> bool {
    let text = uri.authority().map_or("", |a| a.as_str());
    let after_host = text.rsplit_once(']').map_or(text, |(_, rest)| rest);
    match after_host.rsplit_once(':') {
        Some((_, port)) => port.parse::<u16>().is_ok_and(|port| port != 0),
        None => true,
    }
}
