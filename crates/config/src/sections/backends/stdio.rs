//! `type = "stdio"`: a program that the gateway starts, MCP on its standard streams.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::json;

use super::entries::{RawEntry, pairs};
use super::{Kind, Revision, Site};
use crate::builder::Builder;
use crate::secret::{Origin, Secret};
use crate::section::{seconds, section, words};
use crate::template;
use crate::tree::Path;

section! {
    /// A program that the gateway starts.
    RawStdio => StdioBackend {
        /// The program.
        #[schemars(example = &"npx")]
        Replace command: String = String::new();
        /// Its arguments. `${VAR}` and `${VAR:-default}` are replaced from the gateway's environment; write `$${VAR}`
        /// for a literal one.
        #[schemars(example = json!(["-y", "@upstash/context7-mcp"]))]
        Replace args: Vec<String> = Vec::new();
        /// Its environment. `NAME_ENV = "VAR"` passes the value of VAR as NAME, any other name is literal. For a
        /// literal variable whose own name ends in _ENV: `NODE_ENV = { value = "x" }`.
        #[schemars(example = json!({ "API_KEY_ENV": "CONTEXT7_KEY", "LOG_LEVEL": "warn", "NODE_ENV": { "value": "production" } }))]
        Replace env: BTreeMap<String, RawEntry> = BTreeMap::new();
        /// Its working directory. Empty: the gateway's.
        Replace cwd: String = String::new();
        /// Pass the gateway's whole environment, not only PATH, HOME, the locale and `env`.
        Replace inherit_env: bool = false;
        /// Run it as the first process of a PID namespace, where the system allows it. Everything in it ends with it,
        /// and it sees no other process; some programs notice.
        Replace pid_namespace: bool = false;
        /// Start it again when it ends.
        Replace restart_on_exit: bool = true;
        /// Restarts in a row before its operations leave the lists; 0 is no limit.
        #[schemars(range(min = 0, max = 1_000_000))]
        Replace max_restarts: u32 = 5;
        /// Most children at the same time, with isolation.
        #[schemars(range(min = 1, max = 10_000))]
        Replace max_children: u32 = 32;
        /// When it is started.
        Replace start: Start = Start::Eager;
        /// Seconds without a call after which the child is stopped; 0 never.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0, max = 2_592_000))]
        Replace idle_stop: Duration = Duration::ZERO;
        /// Which callers share a child.
        Replace isolation: Isolation = Isolation::Shared;
        /// Whether a shared child may ask its callers.
        Replace interactive: Interactive = Interactive::Off;
        /// The MCP revision that is spoken with it. Auto: 2025-11-25 or older if the server speaks one of them, else
        /// 2026-07-28.
        Replace revision: Revision = Revision::Auto;
        /// What each of its processes may use; 0 is no limit.
        Replace limits: ChildLimits = ChildLimits::default();
    }
}

section! {
    /// What each process of a stdio backend may use; 0 is no limit.
    ChildLimits {
        /// Memory of its own, in MiB (RLIMIT_DATA).
        #[schemars(range(min = 0, max = 16_777_216))]
        Replace memory_mb: u32 = 0;
        /// Address space, in MiB (RLIMIT_AS). Node.js reserves many gigabytes and does not start with less.
        #[schemars(range(min = 0, max = 16_777_216))]
        Replace address_space_mb: u32 = 0;
        /// Processes and threads of the user it runs as, also those of other programs (RLIMIT_NPROC).
        #[schemars(range(min = 0, max = 4_194_304))]
        Replace processes: u32 = 0;
        /// Open files (RLIMIT_NOFILE).
        #[schemars(range(min = 0, max = 1_048_576))]
        Replace open_files: u32 = 0;
        /// Seconds of computing after which it is killed (RLIMIT_CPU).
        #[schemars(range(min = 0, max = 31_536_000))]
        Replace cpu_seconds: u32 = 0;
    }
}

words! {
    /// When a stdio backend is started.
    Start {
        /// With the gateway.
        #[default] Eager,
        /// At the first call; until then its remembered catalog is listed.
        Lazy,
    }
}
words! {
    /// Which callers share a stdio child.
    Isolation {
        /// All of them.
        #[default] Shared,
        /// One child for each session.
        Session,
        /// One child for each caller.
        Caller,
    }
}
words! {
    /// Whether a shared child may ask its callers (elicitation, sampling, roots).
    Interactive {
        /// It may not.
        #[default] Off,
        /// It may; its calls run one at a time so that the question finds its caller.
        Serialize,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StdioBackend {
    pub command: String,
    /// An argument may hold a variable's value.
    pub args: Vec<Secret>,
    /// None: the gateway's own directory.
    #[serde(serialize_with = "path_or_empty")]
    pub cwd: Option<PathBuf>,
    pub inherit_env: bool,
    pub pid_namespace: bool,
    pub restart_on_exit: bool,
    /// 0 is no limit.
    pub max_restarts: u32,
    pub max_children: u32,
    pub start: Start,
    /// Zero: never.
    #[serde(with = "seconds")]
    pub idle_stop: Duration,
    pub isolation: Isolation,
    pub interactive: Interactive,
    pub revision: Revision,
    #[serde(serialize_with = "pairs")]
    pub env: Vec<(String, Secret)>,
    pub limits: ChildLimits,
}

fn path_or_empty<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => path.serialize(serializer),
        None => serializer.serialize_str(""),
    }
}

impl Kind for RawStdio {
    type Built = StdioBackend;
    const NEEDS: &'static [&'static str] = &["command"];

    fn build(&self, builder: &mut Builder<'_>, site: &Site<'_>) -> Option<StdioBackend> {
        let env = builder.env(site, self);
        let args = builder.args(site, self);
        let cwd = (!self.cwd.is_empty()).then(|| builder.path(&site.path.key("cwd"), &self.cwd));
        if self.interactive == Interactive::Serialize && self.isolation != Isolation::Shared {
            builder.wrong(
                &site.path.key("interactive"),
                "`interactive` is for a shared child",
                "isolation = \"shared\", or leave it out",
            );
        }
        builder
            .needs(site, "command", "\"npx\"", &self.command)
            .then_some(())?;
        Some(StdioBackend {
            command: builder.command(site, &self.command)?,
            args,
            env,
            cwd,
            inherit_env: self.inherit_env,
            pid_namespace: self.pid_namespace,
            restart_on_exit: self.restart_on_exit,
            max_restarts: self.max_restarts,
            max_children: self.max_children,
            limits: self.limits.clone(),
            start: self.start,
            idle_stop: self.idle_stop,
            isolation: self.isolation,
            interactive: self.interactive,
            revision: self.revision,
        })
    }
}

impl Builder<'_> {
    /// A bare name is looked for in PATH later; anything with a slash is a path of the file.
    fn command(&mut self, site: &Site<'_>, command: &str) -> Option<String> {
        let path = site.path.key("command");
        if let Some((program, rest)) = command_line(command) {
            let args: Vec<_> = rest
                .split_whitespace()
                .map(|arg| format!("\"{arg}\""))
                .collect();
            let args = args.join(", ");
            let help = format!("write command = \"{program}\", args = [{args}]");
            let message = "`command` is one program; there is no shell";
            self.report(&path, message, |m| m.help(help));
        } else if command.contains('/') || command.starts_with('~') {
            return self.path(&path, command).to_str().map(str::to_owned);
        }
        Some(command.to_owned())
    }

    fn args(&mut self, site: &Site<'_>, raw: &RawStdio) -> Vec<Secret> {
        let mut args = Vec::with_capacity(raw.args.len());
        let mut before = "";
        for (index, arg) in raw.args.iter().enumerate() {
            let template = template::parse(arg);
            if template.is_plain() {
                let secret = Secret::from_file(before.trim_matches('-'), &template.text());
                if *secret.origin() == Origin::FileHidden {
                    self.credential_in_file(site.name, "args", "${VAR} in the argument");
                }
                args.push(secret);
            } else {
                let path = site.path.key("args").index(index);
                let environment = self.environment;
                let filled = template.fill(|name| environment.variable(name).and_then(Result::ok));
                for name in filled.missing.iter().filter(|_| site.enabled) {
                    let message = format!("the environment variable {name} is not set");
                    let literal = format!("$${{{name}}} if the text is meant as it stands");
                    let help = format!("export {name}=…, or write {literal}");
                    self.report(&path, message, |m| m.help(help));
                }
                args.push(Secret::from_template(arg, &filled.text));
            }
            before = if arg.starts_with('-') { arg } else { "" };
        }
        args
    }

    fn env(&mut self, site: &Site<'_>, raw: &RawStdio) -> Vec<(String, Secret)> {
        let mut env = BTreeMap::new();
        for (key, value) in &raw.env {
            let path = site.path.key("env").key(key);
            let (name, secret) = match (key.strip_suffix("_ENV"), value) {
                (Some(name), RawEntry::Plain(variable)) => {
                    (name, self.env_variable(&path, key, variable, site.enabled))
                }
                (_, RawEntry::Plain(text)) => (
                    key.as_str(),
                    Some(self.literal(site.name, "env", key, text)),
                ),
                (_, RawEntry::Literal(literal)) => (
                    key.as_str(),
                    Some(self.literal(site.name, "env", key, &literal.value)),
                ),
            };
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = format!("`{key}` cannot name a variable");
                self.wrong(&path, message, "a name such as API_KEY");
            } else if let Some(secret) = secret
                && env.insert(name.to_owned(), secret).is_some()
            {
                self.wrong(&path, format!("the variable {name} is given twice"), "");
            }
        }
        env.into_iter().collect()
    }

    /// `NODE_ENV = "production"` means the variable `production`, which is rarely what was meant.
    fn env_variable(
        &mut self,
        path: &Path,
        key: &str,
        variable: &str,
        enabled: bool,
    ) -> Option<Secret> {
        let mistakes = self.mistakes.len();
        let secret = self.backend_variable(path, variable, enabled);
        let lower = variable.chars().any(|c| c.is_ascii_lowercase());
        if let Some(mistake) = self.mistakes.get_mut(mistakes)
            && lower
        {
            let help = format!(
                "if {key} is the variable's own name, write {key} = {{ value = \"{variable}\" }}"
            );
            *mistake = mistake.clone().help(help);
        }
        secret
    }
}

/// A program and its arguments in one string, as a shell would have it; a path may have spaces.
pub fn command_line(command: &str) -> Option<(&str, &str)> {
    command
        .split_once(' ')
        .filter(|(program, _)| !program.is_empty() && !program.contains(['/', '\\', '~']))
}
