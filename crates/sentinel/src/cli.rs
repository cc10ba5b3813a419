//! The command line: every command and flag, with its help.
//!
//! Not here: what the commands do (`commands`).

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::config::Overrides;
use crate::import::Client;

mod audit;
mod calls;
mod keys;
mod kill;
mod pg;
mod pin;
mod review;

pub(crate) use audit::{Audit, AuditAction, AuditFilter};
pub(crate) use calls::{Call, Cost, List, Target, TypedClient};
pub(crate) use keys::{Key, KeyAction, Token};
pub(crate) use kill::{Kill, KillScope, Revive};
pub(crate) use pg::{Pg, PgCheck, PgCommand, PgInit};
pub(crate) use pin::{Pin, PinAction};
pub(crate) use review::{Review, ReviewCommand};

/// One gateway in front of many MCP servers.
///
/// Agents connect to Sentinel; Sentinel connects to the servers named in its configuration, starts the
/// local ones, and offers all their tools, resources and prompts as one.
#[derive(Debug, Parser)]
#[command(
    name = "sentinel",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  sentinel import              take over the servers of an MCP client
  sentinel check               say what is wrong with the configuration
  sentinel serve               run the gateway on http://127.0.0.1:9200/mcp
  sentinel stdio               run it for one client on standard input and output
  sentinel tools               list what callers see
  sentinel doctor              find out what is wrong, and what to do about it
  sentinel kill tool NAME      switch a tool off, now

Exit codes: 0 success, 1 failure, 2 configuration, 3 backend unreachable."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Configuration file [default: ./sentinel.toml, then sentinel/sentinel.toml in the user's
    /// configuration directory, then built-in defaults]
    #[arg(
        long,
        short,
        global = true,
        env = "SENTINEL_CONFIG",
        value_parser = path_or_nothing(),
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Where the gateway keeps its files [default: gateway.data_dir]
    #[arg(
        long,
        global = true,
        env = "SENTINEL_DATA_DIR",
        value_parser = path_or_nothing(),
        value_name = "DIR",
        help_heading = "Global options"
    )]
    pub(crate) data_dir: Option<PathBuf>,
    /// error, warn, info, debug, off, or directives as in RUST_LOG [default: gateway.log_level]
    #[arg(
        long,
        global = true,
        env = "LOG_LEVEL",
        value_name = "LEVEL",
        help_heading = "Global options"
    )]
    pub(crate) log_level: Option<String>,
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        help_heading = "Global options"
    )]
    pub(crate) color: Color,
}

/// A path, or the nothing of an empty variable, which clap's own parser refuses.
fn path_or_nothing() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

impl Global {
    pub(crate) fn overrides(&self) -> Overrides {
        // An empty variable is an unset one.
        let filled =
            |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        Overrides {
            listen: None,
            config: filled(&self.config),
            data_dir: filled(&self.data_dir),
            log_level: self.log_level.clone().filter(|level| !level.is_empty()),
        }
    }
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also in pipes and files
    Always,
    /// Not at all
    Never,
}

impl Color {
    /// Decides for everything that is printed from now on.
    pub(crate) fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway and listen for callers over HTTP
    #[command(after_help = "\
Examples:
  sentinel serve
  sentinel serve --listen 127.0.0.1:0      any free port; the log says which
  sentinel serve --config gateway.toml --log-level debug")]
    Serve(Serve),

    /// Run the gateway for one client on standard input and output
    #[command(after_help = "\
Examples:
  sentinel stdio
  claude mcp add sentinel -- sentinel stdio --config ~/sentinel.toml

Logs go to standard error. The gateway ends when the client closes standard input.")]
    Stdio,

    /// Validate the configuration and print it with every value explicit
    #[command(after_help = "\
Examples:
  sentinel check
  sentinel check --config gateway.toml --json

All mistakes are reported together on standard error, with exit code 2. Values from environment
variables are printed as <from NAME>.")]
    Check,

    /// Take over the servers of an MCP client's configuration
    #[command(after_help = "\
Examples:
  sentinel import                                     look in the usual places
  sentinel import .vscode/mcp.json --output -         print what would be written
  sentinel import --from claude-desktop --env-file sentinel.env
  sentinel import servers.json --from generic --force

Credentials are not written to the configuration: it names environment variables, and their
`export` lines are printed, or written to --env-file with mode 0600.")]
    Import(Import),

    /// Print the JSON Schema of the configuration file
    #[command(after_help = "\
Examples:
  sentinel schema > sentinel.schema.json

Then begin the file with `#:schema ./sentinel.schema.json`, which TOML editors understand.")]
    Schema,

    /// Print an example of the configuration file with every key, its meaning and its default
    #[command(after_help = "\
Examples:
  sentinel example > sentinel.toml")]
    Example,

    /// List the tools that callers see
    #[command(after_help = "\
Examples:
  sentinel tools
  sentinel tools --backend github --json
  sentinel tools --url https://gateway.example.com/mcp --token \"$TOKEN\"")]
    Tools(List),

    /// List the resources that callers see
    #[command(after_help = "Examples:\n  sentinel resources\n  sentinel resources --json")]
    Resources(List),

    /// List the prompts that callers see
    #[command(after_help = "Examples:\n  sentinel prompts\n  sentinel prompts --json")]
    Prompts(List),

    /// Show what the definitions that callers see cost a model, dearest first
    #[command(after_help = "Examples:\n  sentinel cost\n  sentinel cost --warn-above 300 --json")]
    Cost(Cost),

    /// Call a tool and print its result
    #[command(after_help = "\
Examples:
  sentinel call echo '{\"message\": \"hello\"}'
  sentinel call list_tables
  echo '{\"query\": \"rust\"}' | sentinel call search -")]
    Call(Call),

    /// Write a typed client of the operations that callers see
    #[command(after_help = "\
Examples:
  sentinel client typescript -o src/sentinel.ts
  sentinel client python --only 'github_*' --only search -o sentinel_client.py
  sentinel client ts --url https://gateway.example.com/mcp --token \"$TOKEN\" --base-url https://gateway.example.com

One file with types for the input and output of every operation, which needs only fetch or httpx. Equal
catalogs give equal files. The file holds no token, and an address only with --base-url. Nothing is written
while a backend is away (exit code 3).")]
    Client(TypedClient),

    /// Find out what is wrong: configuration, backends, environment
    #[command(after_help = "\
Examples:
  sentinel doctor
  sentinel doctor --json
  sentinel doctor --url http://127.0.0.1:9200/mcp")]
    Doctor(Doctor),

    /// Read, export and verify the audit records
    #[command(after_help = "\
Examples:
  sentinel audit tail                                 what happens, as it happens
  sentinel audit search --tool echo --outcome denied --since 1h
  sentinel audit export --since 2026-07-28 > audit.jsonl
  sentinel audit verify                               exit code 1 if a record was changed or removed")]
    Audit(Audit),

    /// Review code between agents: serve, list, show, watch, back up
    #[command(after_help = "\
Examples:
  sentinel review serve                      the broker alone, on http://127.0.0.1:8321/mcp
  sentinel review list --status created
  sentinel review show 1f0c                  the beginning of an id is enough
  sentinel review watch
  sentinel review backup reviews-today.db")]
    Review(Review),

    /// PostgreSQL backends: an example to begin with, and what a database offers to whom
    #[command(after_help = "\
Examples:
  sentinel pg init                                    print the SQL of an example
  sentinel pg init --apply DATABASE_URL               run it in that database
  sentinel pg check                                   what callers may reach, and what is unsafe")]
    Pg(Pg),

    /// Mint a development token with the configured secret
    #[command(after_help = "\
Examples:
  sentinel token --role admin --subject alice
  curl -H \"Authorization: Bearer $(sentinel token --role viewer --subject ci --expires 15m)\" ...

The token is signed with HS256 and the secret that auth.jwt_secret_env names. Whoever has the secret can
make any token; give people and programs tokens of an identity provider, or API keys.")]
    Token(Token),

    /// Create, list and revoke API keys
    #[command(after_help = "\
Examples:
  sentinel key create ci --role developer --expires 30d
  sentinel key list
  sentinel key revoke 3f9c0a61b2d4

A key is shown once, when it is created; only its hash is kept. A revoked key is refused at once by every
gateway of this data directory.")]
    Key(Key),

    /// Switch off a tool, a backend, a caller or everything, at once
    #[command(after_help = "\
Examples:
  sentinel kill                                       what is off
  sentinel kill tool execute_workflow --reason \"runs wild\"
  sentinel kill tool 'github.delete_*'                own names of one backend
  sentinel kill backend n8n
  sentinel kill caller alice
  sentinel kill all

In force for every call once this returns, calls in flight included, and after restarts. It applies to
every gateway of the data directory; without one, to the next that starts.")]
    Kill(Kill),

    /// Switch on again what was switched off
    #[command(after_help = "\
Examples:
  sentinel revive tool execute_workflow
  sentinel revive all                                 undoes `kill all` and nothing else

What the configuration switches off ([kill_switch]) is switched on there.")]
    Revive(Revive),

    /// Show and approve what backends say about their tools
    #[command(after_help = "\
Examples:
  sentinel pin list                      what differs from what was first seen or approved
  sentinel pin list --all
  sentinel pin approve github            everything as it is now
  sentinel pin approve github create_issue

The definitions of all tools are remembered. With pin = \"enforce\" a tool whose description or schema
changed, or that is new, is hidden and refused until it is approved.")]
    Pin(Pin),

    /// Make running gateways read their configuration again
    #[command(after_help = "\
Examples:
  sentinel reload
  sentinel reload --url https://gateway.example.com/mcp --token \"$TOKEN\"

The same as SIGHUP, with an answer. A running gateway also looks at its file by itself. A file with mistakes
changes nothing, with exit code 2. Backends that are the same keep their programs and connections.")]
    Reload(Reload),

    /// Start a backend anew
    #[command(after_help = "\
Examples:
  sentinel restart github
  sentinel restart github --url https://gateway.example.com/mcp --token \"$TOKEN\"

A program is ended and started again, also one that failed too often (max_restarts) and waits for its next
attempt; a server over HTTP is looked for at once. Says whether it is up, with exit code 3 if it is not.")]
    Restart(Restart),

    /// Open the console of the running gateway in a browser
    #[command(after_help = "\
Examples:
  sentinel open
  sentinel open traffic            one page of it
  sentinel open --print            the address only

The browser is what BROWSER names, else xdg-open finds it. With [auth] the page asks for a token or an API
key: `sentinel key create me --role admin` makes one.")]
    Open(Open),

    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  sentinel completions bash > ~/.local/share/bash-completion/completions/sentinel
  sentinel completions zsh > ~/.zfunc/_sentinel
  sentinel completions fish > ~/.config/fish/completions/sentinel.fish")]
    Completions(Completions),
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address and port to listen on, in place of gateway.listen
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// File to read [default: the files of the known clients]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Client that the file belongs to [default: by its name and content]
    #[arg(long, value_enum, value_name = "CLIENT")]
    pub(crate) from: Option<Client>,
    /// File to write, or - for standard output
    #[arg(long, short, default_value = "sentinel.toml", value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Write the export lines of credentials to this file, mode 0600, and do not print them
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// The backend, by its name in the configuration
    #[arg(value_name = "NAME")]
    pub(crate) backend: String,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Open {
    /// The page: catalog, traffic, backends, config, ... [default: the overview]
    #[arg(value_name = "PAGE", default_value = "")]
    pub(crate) page: String,
    /// Print the address and open nothing
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}
