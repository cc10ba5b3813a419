//! `sentinel kill` and `sentinel revive`.

use clap::{Args, ValueEnum};

use super::Target;

/// What a switch is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KillScope {
    /// A tool by the name callers use, or `<backend>.<pattern>`
    Tool,
    /// Everything of one backend
    Backend,
    /// Everything that one caller does
    Caller,
    /// Everything
    All,
}

#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// What kind of thing; nothing prints what is off
    #[arg(value_enum, value_name = "WHAT")]
    pub(crate) scope: Option<KillScope>,
    /// Which one
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Why, for whoever finds it off
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Revive {
    /// What kind of thing
    #[arg(value_enum, value_name = "WHAT")]
    pub(crate) scope: KillScope,
    /// Which one
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) target: Target,
}
