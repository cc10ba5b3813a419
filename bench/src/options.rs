//! The command line, and the plan that follows from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::cell::warm_up;
use crate::load::Speech;
use crate::{audit, postgres, surfaces};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Debug)]
pub(crate) enum Contender {
    /// The load straight to the backend
    Direct,
    /// Through a plain nginx
    Nginx,
    /// Through the gateway to the same backend
    SentinelHttp,
    /// Through the gateway to a child process
    SentinelStdio,
    /// As sentinel-http with everything on: tokens, roles, limits, arguments, admission, audit
    Governed,
    /// The same without audit
    Unaudited,
    /// One call over MCP 2026-07-28, REST and JSON-RPC, each through a gateway of its own
    Mcp,
    Rest,
    Rpc,
    /// Functions of PostgreSQL, beside pgbench with the same statement
    Postgres,
}

impl Contender {
    pub(crate) const ALL: [Self; 6] = [
        Self::Direct,
        Self::Nginx,
        Self::SentinelHttp,
        Self::SentinelStdio,
        Self::Governed,
        Self::Unaudited,
    ];

    /// How its callers speak; those of the table in the era that is asked for.
    pub(crate) fn speech(self, era: Era) -> Speech {
        match self {
            Self::Rest => Speech::Rest,
            Self::Rpc => Speech::Rpc,
            _ => Speech::Mcp(era),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::SentinelHttp => "sentinel-http",
            Self::SentinelStdio => "sentinel-stdio",
            Self::Governed => "governed",
            Self::Unaudited => "unaudited",
            Self::Mcp => "mcp",
            Self::Rest => "rest",
            Self::Rpc => "rpc",
            Self::Postgres => "postgres",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum Era {
    /// 2025-11-25: one session per connection
    Legacy,
    /// 2026-07-28: no session, metadata in every request
    Modern,
}

impl Era {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

#[derive(Parser, Clone)]
#[command(
    name = "sentinel-bench",
    about = "Measures the gateway against nginx and a direct connection, in one run"
)]
pub(crate) struct Options {
    /// Two minutes: 16 callers, short windows
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these contenders
    #[arg(long, value_enum, value_delimiter = ',')]
    contender: Vec<Contender>,
    /// Numbers of concurrent callers
    #[arg(long, value_delimiter = ',')]
    callers: Vec<usize>,
    /// Sizes of the results in bytes
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Which era callers and backend speak
    #[arg(long, value_enum, default_value = "legacy")]
    pub(crate) era: Era,
    /// Windows per cell and contender
    #[arg(long)]
    rounds: Option<usize>,
    /// How often the audited and the unaudited gateway are started anew to compare them; 0 leaves that out
    #[arg(long)]
    sittings: Option<usize>,
    /// Milliseconds that a window is measured
    #[arg(long)]
    window_ms: Option<u64>,
    /// The gateway under test; the one beside this program unless given
    #[arg(long)]
    sentinel: Option<PathBuf>,
    /// TOML that is added to the gateway's generated configuration
    #[arg(long)]
    pub(crate) sentinel_config: Option<PathBuf>,
    /// The backend; the one beside this program unless given
    #[arg(long)]
    fixture: Option<PathBuf>,
    /// JSON on stdout; the table then goes to stderr
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// The contenders of the table; the surfaces and PostgreSQL are measured apart from it.
    pub(crate) fn contenders(&self) -> Vec<Contender> {
        let all = match self.contender.is_empty() {
            true => Contender::ALL.to_vec(),
            false => self.contender.clone(),
        };
        let is_apart = |one: &Contender| surfaces::ALL.contains(one) || *one == Contender::Postgres;
        all.into_iter().filter(|one| !is_apart(one)).collect()
    }

    pub(crate) fn wants(&self, contender: Contender) -> bool {
        self.contenders().contains(&contender)
    }

    /// Whether the surfaces are to be compared.
    pub(crate) fn wants_surfaces(&self) -> bool {
        let is_surface = |one: &Contender| surfaces::ALL.contains(one);
        self.contender.is_empty() || self.contender.iter().any(is_surface)
    }

    /// Whether functions of PostgreSQL are to be measured.
    pub(crate) fn wants_postgres(&self) -> bool {
        self.contender.is_empty() || self.contender.contains(&Contender::Postgres)
    }

    /// The numbers of callers that were asked for.
    pub(crate) fn callers_given(&self) -> Option<Vec<usize>> {
        (!self.callers.is_empty()).then(|| self.callers.clone())
    }

    pub(crate) fn callers(&self) -> Vec<usize> {
        match (self.callers_given(), self.quick) {
            (Some(given), _) => given,
            (None, true) => vec![16],
            (None, false) => vec![1, 16, 128],
        }
    }

    pub(crate) fn sizes(&self) -> Vec<usize> {
        if self.sizes.is_empty() {
            vec![64, 14 << 10, 1 << 20]
        } else {
            self.sizes.clone()
        }
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds
            .unwrap_or(if self.quick { 3 } else { 15 })
            .max(1)
    }

    pub(crate) fn sittings(&self) -> usize {
        self.sittings.unwrap_or(if self.quick { 1 } else { 8 })
    }

    pub(crate) fn window(&self) -> Duration {
        Duration::from_millis(self.window_ms.unwrap_or(if self.quick { 200 } else { 300 }))
    }

    /// How long all windows take together.
    pub(crate) fn planned(&self) -> Duration {
        let windows =
            self.contenders().len() * self.callers().len() * self.sizes().len() * self.rounds();
        let table =
            (self.window() + warm_up(self.window())) * u32::try_from(windows).unwrap_or(u32::MAX);
        table + audit::planned(self) + surfaces::planned(self) + postgres::planned(self)
    }

    pub(crate) fn sentinel(&self) -> PathBuf {
        self.sentinel.clone().unwrap_or_else(|| beside("sentinel"))
    }

    pub(crate) fn fixture(&self) -> PathBuf {
        self.fixture
            .clone()
            .unwrap_or_else(|| beside("sentinel-fixture"))
    }
}

fn beside(name: &str) -> PathBuf {
    std::env::current_exe()
        .unwrap_or_default()
        .with_file_name(name)
}
