//! Commands that ask a gateway as a caller does.

use std::path::PathBuf;

use clap::Args;

use crate::typed_client::Language;

/// Which gateway a command asks.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// A gateway's MCP endpoint [default: the running gateway of this data directory, else the
    /// backends of the configuration]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Bearer token: to be the caller it names, or for the gateway at --url
    #[arg(
        long,
        env = "SENTINEL_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub(crate) token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Only this backend's, under its own names
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Cost {
    #[command(flatten)]
    pub(crate) list: List,
    /// Warn of each tool that costs more
    #[arg(long, value_name = "TOKENS", default_value_t = 500)]
    pub(crate) warn_above: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The tool
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Its arguments, a JSON object; - reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    pub(crate) arguments: String,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct TypedClient {
    /// The language
    #[arg(value_enum, value_name = "LANGUAGE")]
    pub(crate) language: Language,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Only tools and prompts of such a name; `*` stands for any characters. May be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) only: Vec<String>,
    /// Address of the gateway that the client calls unless it is given another one
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Write it although backends are away
    #[arg(long)]
    pub(crate) partial: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}
