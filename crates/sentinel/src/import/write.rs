//! Writes imported backends as a configuration file.

use std::fmt::Write as _;

use toml_edit::{Array, InlineTable, Value};

use super::find::Source;

/// A value of `env` or `headers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setting {
    /// As it stands.
    Literal(String),
    /// From this variable.
    Variable(String),
}

/// How an imported backend is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio {
        command: String,
        args: Vec<String>,
        cwd: Option<String>,
        env: Vec<(String, Setting)>,
    },
    Http {
        url: Setting,
        headers: Vec<(String, Setting)>,
    },
}

/// A backend to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) enabled: bool,
    pub(crate) comments: Vec<String>,
    pub(crate) transport: Transport,
}

/// The whole file.
pub(crate) fn toml(sources: &[Source], backends: &[Entry]) -> String {
    let mut out = String::from("# Written by `sentinel import`");
    let files: Vec<String> = sources
        .iter()
        .map(|source| source.path.display().to_string())
        .collect();
    if !files.is_empty() {
        out.push_str(" from:\n");
        for file in files {
            let _ = writeln!(out, "#   {}", one_line(&file));
        }
    } else {
        out.push('\n');
    }
    out.push_str("# `sentinel check` prints it with every default.\n");
    for backend in backends {
        entry(&mut out, backend);
    }
    out
}

/// One backend's table.
pub(crate) fn one(backend: &Entry) -> String {
    let mut out = String::new();
    entry(&mut out, backend);
    out
}

fn entry(out: &mut String, backend: &Entry) {
    out.push('\n');
    for comment in &backend.comments {
        let _ = writeln!(out, "# {}", one_line(comment));
    }
    out.push_str("[[backends]]\n");
    let mut line = |key: &str, value: Value| {
        let _ = writeln!(out, "{key} = {value}");
    };
    line("name", backend.name.as_str().into());
    match &backend.transport {
        Transport::Stdio {
            command,
            args,
            cwd,
            env,
        } => {
            line("type", "stdio".into());
            line("command", command.as_str().into());
            if !args.is_empty() {
                line(
                    "args",
                    Value::Array(args.iter().map(String::as_str).collect::<Array>()),
                );
            }
            if let Some(cwd) = cwd {
                line("cwd", cwd.as_str().into());
            }
            if !env.is_empty() {
                line("env", table(env));
            }
        }
        Transport::Http { url, headers } => {
            line("type", "http".into());
            match url {
                Setting::Literal(url) => line("url", url.as_str().into()),
                Setting::Variable(name) => line("url_env", name.as_str().into()),
            }
            if !headers.is_empty() {
                line("headers", table(headers));
            }
        }
    }
    if !backend.enabled {
        line("enabled", false.into());
    }
}

fn table(settings: &[(String, Setting)]) -> Value {
    let mut table = InlineTable::new();
    for (name, setting) in settings {
        match setting {
            Setting::Variable(variable) => {
                table.insert(format!("{name}_ENV"), variable.as_str().into())
            }
            // A literal under such a name would be taken for the name of a variable.
            Setting::Literal(text) if name.to_ascii_uppercase().ends_with("_ENV") => {
                let mut literal = InlineTable::new();
                literal.insert("value", text.as_str().into());
                table.insert(name, Value::InlineTable(literal))
            }
            Setting::Literal(text) => table.insert(name, text.as_str().into()),
        };
    }
    Value::InlineTable(table)
}

/// A comment must not end before its text does, and control characters are not TOML.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
