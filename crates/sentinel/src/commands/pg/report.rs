//! What `sentinel pg check` found, for people and for programs.

use anstyle::{AnsiColor, Style};
use sentinel_backends::postgres::{Exposed, Finding};
use sentinel_core::{ItemKind, Reach};
use serde_json::{Map, Value, json};

use super::super::{one_line, plain};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();

pub(super) struct Report {
    /// Without `[auth]`: every caller is `admin` and has no identity.
    pub(super) is_open: bool,
    /// The role of callers without a credential; empty: there are none.
    pub(super) anonymous: Option<String>,
    /// A backend that cannot be read is its name, and why.
    pub(super) backends: Vec<Result<Looked, (String, String)>>,
}

pub(super) struct Looked {
    pub(super) name: String,
    pub(super) login: String,
    pub(super) role: String,
    pub(super) database: String,
    pub(super) version: String,
    pub(super) operations: Vec<Offered>,
    pub(super) left_out: Vec<String>,
    pub(super) findings: Vec<Finding>,
    pub(super) hints: Vec<Finding>,
}

/// An operation, and the roles of the gateway that may use it.
pub(super) struct Offered {
    pub(super) exposed: Exposed,
    /// In the merged catalog; `None`: the backend's `tools` hide it.
    pub(super) name: Option<String>,
    pub(super) roles: Vec<(String, Access)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    See,
    Call,
}

impl Access {
    fn word(self) -> &'static str {
        match self {
            Self::See => "see",
            Self::Call => "call",
        }
    }
}

fn kind(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "tool",
        ItemKind::Resource => "resource",
        ItemKind::Template => "template",
        ItemKind::Prompt => "prompt",
    }
}

impl Report {
    pub(super) fn is_safe(&self) -> bool {
        let mut looked = self.backends.iter().flatten();
        looked.all(|one| one.findings.is_empty())
    }

    pub(super) fn to_json(&self) -> Value {
        let backends = self.backends.iter().map(|one| match one {
            Ok(looked) => looked.to_json(),
            Err((name, problem)) => json!({"name": name, "reachable": false, "problem": problem}),
        });
        json!({
            "ok": self.backends.iter().all(Result::is_ok) && self.is_safe(),
            "authentication": !self.is_open,
            "anonymous_role": self.anonymous.as_deref().filter(|role| !role.is_empty()),
            "backends": backends.collect::<Vec<_>>(),
        })
    }

    pub(super) fn to_text(&self) -> String {
        let mut out = String::new();
        if self.is_open {
            out.push_str(
                "There is no [auth]: every caller has the role admin and is nobody to the database (auth.* is empty).\n\n",
            );
        } else if let Some(role) = self.anonymous.as_deref().filter(|role| !role.is_empty()) {
            out.push_str(&format!(
                "Callers without a credential have the role {} and are nobody to the database (auth.* is empty).\n\n",
                one_line(role)
            ));
        }
        for one in &self.backends {
            match one {
                Ok(looked) => looked.write(&mut out),
                Err((name, problem)) => {
                    out.push_str(&format!("{RED}FAIL{RED:#}  {BOLD}{name}{BOLD:#}\n"));
                    out.push_str(&format!("      {}\n\n", plain(problem)));
                }
            }
        }
        out
    }
}

impl Looked {
    fn to_json(&self) -> Value {
        let findings = |findings: &[Finding]| -> Vec<Value> {
            let findings = findings.iter().map(|finding| {
                json!({
                    "rule": finding.rule,
                    "object": finding.object,
                    "problem": finding.problem,
                    "advice": finding.advice,
                })
            });
            findings.collect()
        };
        json!({
            "name": self.name,
            "reachable": true,
            "database": self.database,
            "server_version": self.version,
            "login": self.login,
            "role": self.role,
            "operations": self.operations.iter().map(Offered::to_json).collect::<Vec<_>>(),
            "left_out": self.left_out,
            "findings": findings(&self.findings),
            "hints": findings(&self.hints),
        })
    }

    fn write(&self, out: &mut String) {
        let (style, sign) = match self.findings.is_empty() {
            true => (GREEN, "ok  "),
            false => (RED, "FAIL"),
        };
        let role = match self.role == self.login {
            true => String::new(),
            false => format!(", role {}", one_line(&self.role)),
        };
        out.push_str(&format!(
            "{style}{sign}{style:#}  {BOLD}{}{BOLD:#}  database {}, login {}{role}, PostgreSQL {}\n",
            self.name,
            one_line(&self.database),
            one_line(&self.login),
            one_line(&self.version),
        ));
        heading(out, "Offered", self.operations.is_empty());
        for one in &self.operations {
            one.write(out);
        }
        heading(out, "Left out", self.left_out.is_empty());
        for notice in &self.left_out {
            out.push_str(&format!("    {}\n", one_line(notice)));
        }
        heading(out, "Unsafe", self.findings.is_empty());
        write_findings(out, RED, &self.findings);
        if !self.hints.is_empty() {
            heading(out, "Perhaps unsafe", false);
            write_findings(out, YELLOW, &self.hints);
        }
        out.push('\n');
    }
}

fn write_findings(out: &mut String, style: Style, findings: &[Finding]) {
    for finding in findings {
        let object = one_line(&finding.object);
        out.push_str(&format!(
            "    {style}{}{style:#}  {BOLD}{object}{BOLD:#}\n",
            finding.rule
        ));
        out.push_str(&format!("        {}\n", one_line(&finding.problem)));
        out.push_str(&format!(
            "        {DIM}try{DIM:#}  {}\n",
            one_line(&finding.advice)
        ));
    }
}

fn heading(out: &mut String, words: &str, is_empty: bool) {
    let none = if is_empty { ": nothing" } else { "" };
    out.push_str(&format!("  {words}{none}\n"));
}

impl Offered {
    fn to_json(&self) -> Value {
        let Exposed { hints, .. } = self.exposed;
        let roles = self.roles.iter();
        let roles: Map<String, Value> = roles
            .map(|(role, access)| (role.clone(), access.word().into()))
            .collect();
        json!({
            "kind": kind(self.exposed.kind),
            "own": self.exposed.key,
            "name": self.name,
            "by": match self.exposed.reach {
                Reach::ByName => "name",
                Reach::ByRpc => "rpc",
                Reach::ByRoute => "route",
            },
            "routes": self.exposed.routes,
            "read_only": hints.read_only,
            "idempotent": hints.idempotent,
            "destructive": hints.destructive,
            "needs_identity": self.exposed.needs_identity,
            "roles": roles,
        })
    }

    fn write(&self, out: &mut String) {
        let hints = self.exposed.hints;
        let words = [
            (hints.read_only, "read-only"),
            (hints.idempotent, "idempotent"),
            (hints.destructive, "destructive"),
            (self.exposed.needs_identity, "needs identity"),
            (self.exposed.reach == Reach::ByRoute, "by its route only"),
            (self.exposed.reach == Reach::ByRpc, "by RPC only"),
        ];
        let words = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word);
        let facts: Vec<&str> = words
            .chain(self.exposed.routes.iter().map(String::as_str))
            .collect();
        let key = one_line(&self.exposed.key);
        out.push_str(&format!(
            "    {:8}  {BOLD}{key}{BOLD:#}  {DIM}{}{DIM:#}\n",
            kind(self.exposed.kind),
            one_line(&facts.join(", ")),
        ));
        let of = |wanted: Access| {
            let roles = self.roles.iter().filter(|(_, access)| *access == wanted);
            let roles: Vec<&str> = roles.map(|(role, _)| role.as_str()).collect();
            one_line(&roles.join(", "))
        };
        let (call, see) = (of(Access::Call), of(Access::See));
        let mut line = match (&self.name, call.is_empty() && see.is_empty()) {
            (None, _) => "hidden by `tools` of this backend".to_owned(),
            (_, true) => "nobody".to_owned(),
            _ => String::new(),
        };
        if !call.is_empty() {
            line = format!("called by {call}");
        }
        if !see.is_empty() {
            line.push_str(if call.is_empty() { "" } else { "; " });
            line.push_str(&format!("only seen by {see}"));
        }
        if let Some(name) = self.name.as_ref().filter(|name| **name != self.exposed.key) {
            line.push_str(&format!("; its name is {}", one_line(name)));
        }
        out.push_str(&format!("              {line}\n"));
    }
}
