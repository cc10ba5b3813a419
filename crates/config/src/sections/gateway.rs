//! `[gateway]`: where the gateway listens and how it behaves as a program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::Overrides;
use crate::builder::{Builder, Exposure};
use crate::mistake::Mistake;
use crate::section::{seconds, section, shown_or_empty, shown_or_off, words};
use crate::tree::Path;

section! {
    /// Where the gateway listens and how it behaves as a program.
    #[schemars(rename = "Gateway")]
    RawGateway => Gateway {
        /// Address and port of the HTTP listener, or "off" for none; `sentinel stdio` has none.
        Restart listen: String = "127.0.0.1:9200".into();
        /// Permit listening beyond loopback although no `[auth]` is configured: every process that reaches the port
        /// may then call every tool.
        Live allow_unauthenticated_network: bool = false;
        /// error, warn, info, debug, off, or directives as in RUST_LOG. Also --log-level and LOG_LEVEL, which win.
        Live log_level: String = "info".into();
        /// How log lines look.
        Restart log_format: LogFormat = LogFormat::Auto;
        /// Write one audit record per request.
        Restart audit_enabled: bool = true;
        /// Where the gateway keeps its files. Also --data-dir and SENTINEL_DATA_DIR, which win. Empty:
        /// $XDG_DATA_HOME/sentinel or ~/.local/share/sentinel.
        #[schemars(example = &"~/.local/share/sentinel")]
        Restart data_dir: String = String::new();
        /// Role of the caller on stdio.
        Restart stdio_role: String = "admin".into();
        /// Seconds that calls in flight have to finish after a stop was asked for.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0, max = 3600))]
        Live drain_timeout: Duration = Duration::from_secs(30);
        /// Seconds that a list waits for backends that are being asked for the first time; 0 lists what is known.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0, max = 60))]
        Live first_list_timeout: Duration = Duration::from_secs(2);
        /// Host names accepted besides loopback names and the listen address.
        Live allowed_hosts: Vec<String> = Vec::new();
        /// Browser origins accepted besides loopback, such as "https://app.example.com".
        Live allowed_origins: Vec<String> = Vec::new();
        /// A second listener for /health, /ready and /metrics. Empty: they are on the main one.
        Restart health_listen: String = String::new();
    }
}

words! {
    /// How log lines look.
    LogFormat {
        /// Pretty on a terminal, JSON elsewhere.
        #[default] Auto,
        /// For people.
        Pretty,
        /// One JSON object a line.
        Json,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gateway {
    /// None: no HTTP listener.
    #[serde(serialize_with = "shown_or_off")]
    pub listen: Option<SocketAddr>,
    pub allow_unauthenticated_network: bool,
    pub log_level: String,
    pub log_format: LogFormat,
    pub audit_enabled: bool,
    pub data_dir: PathBuf,
    pub stdio_role: String,
    #[serde(with = "seconds")]
    pub drain_timeout: Duration,
    #[serde(with = "seconds")]
    pub first_list_timeout: Duration,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    /// None: health is on the main listener.
    #[serde(serialize_with = "shown_or_empty")]
    pub health_listen: Option<SocketAddr>,
}

impl Builder<'_> {
    pub(crate) fn gateway(
        &mut self,
        raw: &RawGateway,
        exposure: Exposure,
        overrides: &Overrides,
    ) -> Gateway {
        let at = |key: &str| Path::dotted("gateway").key(key);
        let listen = match &overrides.listen {
            Some(listen) => self.address(&Path::dotted("--listen"), listen, exposure),
            None => self.address(&at("listen"), &raw.listen, exposure),
        };
        let health_listen = self.address(&at("health_listen"), &raw.health_listen, exposure);
        if listen.is_some_and(|l| l.port() != 0) && listen == health_listen {
            let message = "`health_listen` is the address of `listen`";
            self.report(&at("health_listen"), message, |m| {
                m.help("use another port")
            });
        }
        Gateway {
            listen,
            health_listen,
            allow_unauthenticated_network: raw.allow_unauthenticated_network,
            log_level: self.log_level(&raw.log_level, overrides),
            log_format: raw.log_format,
            audit_enabled: raw.audit_enabled,
            data_dir: self.data_dir(raw, overrides),
            stdio_role: raw.stdio_role.clone(),
            drain_timeout: raw.drain_timeout,
            first_list_timeout: raw.first_list_timeout,
            allowed_hosts: self.hosts(&at("allowed_hosts"), &raw.allowed_hosts),
            allowed_origins: self.origins(&at("allowed_origins"), &raw.allowed_origins),
        }
    }

    /// --data-dir, SENTINEL_DATA_DIR, the file, then the user's data directory.
    fn data_dir(&mut self, raw: &RawGateway, overrides: &Overrides) -> PathBuf {
        let here = Path::dotted("gateway.data_dir");
        if let Some(dir) = &overrides.data_dir {
            return self.environment.cwd.join(dir);
        }
        if !raw.data_dir.is_empty() {
            return self.path(&here, &raw.data_dir);
        }
        if let Some(dir) = self.environment.directory("XDG_DATA_HOME") {
            return dir.join("sentinel");
        }
        match self.environment.home() {
            Some(home) => home.join(".local/share/sentinel"),
            None => {
                let message = "there is no place for data: neither HOME nor XDG_DATA_HOME is set";
                let help = "set gateway.data_dir or pass --data-dir";
                self.mistakes.push(Mistake::new(None, message).help(help));
                PathBuf::new()
            }
        }
    }
}
