//! `sentinel token` and `sentinel key`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Token {
    /// Role of the bearer
    #[arg(long)]
    pub(crate) role: String,
    /// Who the bearer is
    #[arg(long)]
    pub(crate) subject: String,
    /// Tenant of the bearer
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// A scope; may be given several times
    #[arg(long)]
    pub(crate) scope: Vec<String>,
    /// How long it is good, such as 90s, 15m, 1h or 30d
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = lifetime)]
    pub(crate) expires: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Key {
    #[command(subcommand)]
    pub(crate) action: KeyAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyAction {
    /// Make a key and print it, once
    Create {
        /// What to call it
        #[arg(value_name = "NAME")]
        name: String,
        /// Role of the bearer
        #[arg(long)]
        role: String,
        /// How long it is good, such as 12h or 30d [default: until it is revoked]
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        expires: Option<u64>,
    },
    /// List the keys, without their secrets
    List,
    /// Refuse a key from now on
    Revoke {
        /// The key's id, as `key list` shows it
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// A time such as `90s`, `15m`, `12h` or `30d`, in seconds.
fn lifetime(text: &str) -> Result<u64, String> {
    let unit = text.chars().last().unwrap_or_default();
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err("expected a number with s, m, h or d, such as 30d".into()),
    };
    let number: u64 = text[..text.len() - unit.len_utf8()]
        .parse()
        .map_err(|_| "expected a number with s, m, h or d, such as 30d")?;
    match number.checked_mul(seconds) {
        // A century is as good as for ever, and no date overflows.
        Some(time @ 1..=3_155_760_000) => Ok(time),
        _ => Err("expected a time between 1s and a hundred years".into()),
    }
}
