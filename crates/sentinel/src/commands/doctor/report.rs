//! A report: what was found, for people and for programs.

use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use sentinel_core::ItemKind;
use sentinel_wire::{Era, Revision};
use serde_json::{Value, json};

use super::super::plain;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const RED: Style = AnsiColor::Red.on_default();
/// The end of what a program said is where the reason stands.
const STDERR_LINES_MAX: usize = 8;
/// Two servers of the same make collide in every name.
const REMARKS_MAX: usize = 12;

#[derive(Default)]
pub(super) struct Report {
    /// None: a gateway elsewhere was looked at.
    pub(super) configuration: Option<Checked>,
    pub(super) data_dir: Option<DataDir>,
    /// None: rate limits are each gateway's own.
    pub(super) shared_limits: Option<SharedLimits>,
    /// None: no gateway runs on this data directory.
    pub(super) gateway: Option<Found>,
    pub(super) backends: Vec<Examined>,
    pub(super) collisions: Vec<String>,
    pub(super) deviations: Vec<String>,
    /// Tools that nobody can use until they are approved.
    pub(super) held: Vec<String>,
    /// Tools whose arguments nobody checks.
    pub(super) unchecked: Vec<String>,
    pub(super) notices: Vec<String>,
}

/// A configuration without mistakes.
pub(super) struct Checked {
    pub(super) file: Option<PathBuf>,
}

pub(super) struct DataDir {
    pub(super) path: PathBuf,
    pub(super) problem: Option<String>,
}

/// Where rate limits are shared.
pub(super) struct SharedLimits {
    pub(super) place: String,
    pub(super) problem: Option<String>,
}

/// A gateway that runs.
pub(super) struct Found {
    pub(super) url: String,
    pub(super) pid: Option<u32>,
    pub(super) state: String,
}

#[derive(Default)]
pub(super) struct Examined {
    pub(super) name: String,
    /// Empty where only the gateway knows.
    pub(super) kind: &'static str,
    pub(super) health: String,
    pub(super) reachable: bool,
    pub(super) revision: Option<Revision>,
    pub(super) start_up: Option<Duration>,
    /// In the order of `ItemKind::ALL`.
    pub(super) counts: [usize; 4],
    pub(super) problem: Option<String>,
    pub(super) advice: Option<String>,
    pub(super) stderr: Vec<String>,
}

impl Examined {
    pub(super) fn failed(&self) -> bool {
        !self.reachable && self.health != "disabled"
    }

    fn count(&self, kind: ItemKind) -> usize {
        self.counts[kind as usize]
    }

    fn to_json(&self) -> Value {
        let era = self.revision.map(|revision| match revision.era() {
            Era::Modern => "modern",
            Era::Legacy => "legacy",
        });
        json!({
            "name": self.name,
            "type": self.kind,
            "health": self.health,
            "reachable": self.reachable,
            "revision": self.revision.map(Revision::as_str),
            "era": era,
            "start_up_ms": self.start_up.map(|time| time.as_millis() as u64),
            "tools": self.count(ItemKind::Tool),
            "resources": self.count(ItemKind::Resource),
            "resource_templates": self.count(ItemKind::Template),
            "prompts": self.count(ItemKind::Prompt),
            "problem": self.problem,
            "advice": self.advice,
            "stderr": self.stderr,
        })
    }

    fn to_text(&self, width: usize) -> String {
        let (style, sign) = match (self.reachable, self.failed()) {
            (true, _) => (GREEN, "ok  "),
            (_, true) => (RED, "FAIL"),
            _ => (DIM, "off "),
        };
        let mut facts = vec![format!("{:8}", self.health)];
        if let Some(revision) = self.revision {
            facts.push(revision.as_str().to_owned());
        }
        if self.reachable {
            facts.push(self.counted());
        }
        if let Some(time) = self.start_up {
            let shown = match time.as_millis() {
                ms @ 0..1000 => format!("{ms} ms"),
                ms => format!("{:.1} s", ms as f64 / 1000.0),
            };
            facts.push(format!("{DIM}in {shown}{DIM:#}"));
        }
        let facts = facts.join("  ");
        let mut out = format!(
            "  {style}{sign}{style:#}  {:width$}  {}\n",
            self.name,
            facts.trim_end()
        );
        let mut detail = |label: &str, text: &str| {
            for line in plain(text).lines() {
                out.push_str(&format!("        {DIM}{label:8}{DIM:#} {line}\n"));
            }
        };
        self.problem.iter().for_each(|text| detail("problem", text));
        self.advice.iter().for_each(|text| detail("try", text));
        let last = self.stderr.len().saturating_sub(STDERR_LINES_MAX);
        self.stderr[last..]
            .iter()
            .for_each(|line| detail("stderr", line));
        out
    }

    /// "2 tools, 1 prompt"
    fn counted(&self) -> String {
        let nouns = [
            (ItemKind::Tool, "tool"),
            (ItemKind::Resource, "resource"),
            (ItemKind::Template, "template"),
            (ItemKind::Prompt, "prompt"),
        ];
        let some: Vec<String> = nouns
            .iter()
            .filter(|(kind, _)| self.count(*kind) > 0)
            .map(|(kind, noun)| match self.count(*kind) {
                1 => format!("1 {noun}"),
                n => format!("{n} {noun}s"),
            })
            .collect();
        if some.is_empty() {
            "offers nothing".into()
        } else {
            some.join(", ")
        }
    }
}

impl Report {
    pub(super) fn is_well(&self) -> bool {
        self.dir_fine()
            && self.limits_fine()
            && self.held.is_empty()
            && !self.backends.iter().any(Examined::failed)
    }

    fn limits_fine(&self) -> bool {
        let shared = self.shared_limits.as_ref();
        shared.is_none_or(|shared| shared.problem.is_none())
    }

    fn dir_fine(&self) -> bool {
        let dir = self.data_dir.as_ref();
        dir.is_none_or(|dir| dir.problem.is_none())
    }

    pub(super) fn to_json(&self) -> Value {
        let mut answer = json!({ "ok": self.is_well() });
        if let Some(checked) = &self.configuration {
            answer["configuration"] = json!({ "ok": true, "file": checked.file });
        }
        if let Some(dir) = &self.data_dir {
            answer["data_dir"] = json!({ "path": dir.path, "writable": dir.problem.is_none(), "problem": dir.problem });
        }
        if let Some(shared) = &self.shared_limits {
            answer["shared_limits"] = json!({ "at": shared.place, "ok": shared.problem.is_none(), "problem": shared.problem });
        }
        answer["gateway"] = match &self.gateway {
            Some(found) => json!({ "url": found.url, "pid": found.pid, "state": found.state }),
            None => Value::Null,
        };
        answer["backends"] = self.backends.iter().map(Examined::to_json).collect();
        answer["collisions"] = json!(self.collisions);
        answer["deviations"] = json!(self.deviations);
        answer["held"] = json!(self.held);
        answer["unchecked"] = json!(self.unchecked);
        answer["notices"] = json!(self.notices);
        answer
    }

    pub(super) fn to_text(&self) -> String {
        let mut out = String::new();
        let mut fact = |label: &str, text: String| {
            out.push_str(&format!("{BOLD}{label:15}{BOLD:#} {text}\n"));
        };
        if let Some(checked) = &self.configuration {
            fact(
                "Configuration",
                match &checked.file {
                    Some(file) => format!("{}: no mistakes", file.display()),
                    None => "no file; built-in defaults".into(),
                },
            );
        }
        if let Some(dir) = &self.data_dir {
            fact(
                "Data directory",
                match &dir.problem {
                    None => format!("{}: writable", dir.path.display()),
                    Some(problem) => format!(
                        "{RED}{}: not writable: {problem}{RED:#}; catalogs are not remembered and other commands do not find the gateway",
                        dir.path.display()
                    ),
                },
            );
        }
        if let Some(shared) = &self.shared_limits {
            fact(
                "Shared limits",
                match &shared.problem {
                    None => format!("Redis at {}: answers", shared.place),
                    Some(problem) => format!(
                        "{RED}Redis at {} cannot be used: {}{RED:#}; each gateway counts alone",
                        shared.place,
                        plain(problem)
                    ),
                },
            );
        }
        fact(
            "Gateway",
            match &self.gateway {
                Some(Found {
                    url,
                    pid: Some(pid),
                    state,
                }) => format!("{url} (pid {pid}): {state}"),
                Some(Found { url, state, .. }) => format!("{url}: {state}"),
                None => "not running; `sentinel serve` starts it".into(),
            },
        );
        let width = self
            .backends
            .iter()
            .map(|b| b.name.chars().count())
            .max()
            .unwrap_or(0);
        match self.backends.is_empty() {
            true => out.push_str(&format!("\n{BOLD}Backends{BOLD:#}\n  none; `sentinel import` takes over the servers of an MCP client\n")),
            false => out.push_str(&format!("\n{BOLD}Backends{BOLD:#}\n")),
        }
        for backend in &self.backends {
            out.push_str(&backend.to_text(width));
        }
        let remarks = [
            ("Names and lists", &self.collisions),
            ("Less safe than the defaults", &self.deviations),
            ("Held back", &self.held),
            ("Arguments that are not checked", &self.unchecked),
            ("Notices", &self.notices),
        ];
        for (title, lines) in remarks.iter().filter(|(_, lines)| !lines.is_empty()) {
            out.push_str(&format!("\n{BOLD}{title}{BOLD:#}\n"));
            for line in lines.iter().take(REMARKS_MAX) {
                out.push_str(&format!("  {YELLOW}-{YELLOW:#} {}\n", plain(line)));
            }
            if let Some(more @ 1..) = lines.len().checked_sub(REMARKS_MAX) {
                out.push_str(&format!("  - and {more} more; --json lists them all\n"));
            }
        }
        let failed = self
            .backends
            .iter()
            .filter(|backend| backend.failed())
            .count();
        let verdict = match (failed, self.held.len()) {
            (0, 0) if self.is_well() => format!("{GREEN}all well{GREEN:#}"),
            (0, _) if !self.dir_fine() => {
                format!("{RED}the data directory cannot be used{RED:#}")
            }
            (0, 0) => format!("{RED}rate limits are not shared{RED:#}"),
            (0, 1) => format!("{RED}1 tool is held back until it is approved{RED:#}"),
            (0, n) => format!("{RED}{n} tools are held back until they are approved{RED:#}"),
            (1, _) => format!("{RED}1 backend cannot be used{RED:#}"),
            (n, _) => format!("{RED}{n} backends cannot be used{RED:#}"),
        };
        out.push_str(&format!("\n{verdict}\n"));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_like_one() {
        let report = Report {
            configuration: Some(Checked {
                file: Some("sentinel.toml".into()),
            }),
            data_dir: Some(DataDir {
                path: "/data".into(),
                problem: None,
            }),
            gateway: Some(Found {
                url: "http://127.0.0.1:9200/mcp".into(),
                pid: Some(7),
                state: "ready".into(),
            }),
            backends: vec![
                Examined {
                    name: "time".into(),
                    kind: "stdio",
                    health: "up".into(),
                    reachable: true,
                    revision: Some(Revision::V2026_07_28),
                    start_up: Some(Duration::from_millis(812)),
                    counts: [2, 0, 0, 1],
                    ..Examined::default()
                },
                Examined {
                    name: "broken".into(),
                    kind: "stdio",
                    health: "failing".into(),
                    problem: Some("it exited with code 1".into()),
                    advice: Some("run it by hand".into()),
                    stderr: vec!["first".into(), "\u{1b}[31mlast".into()],
                    ..Examined::default()
                },
                Examined {
                    name: "off".into(),
                    health: "disabled".into(),
                    ..Examined::default()
                },
            ],
            collisions: vec!["`x` is taken".into()],
            ..Report::default()
        };
        let text = anstream::adapter::strip_str(&report.to_text()).to_string();
        insta::assert_snapshot!(text, @"
        Configuration   sentinel.toml: no mistakes
        Data directory  /data: writable
        Gateway         http://127.0.0.1:9200/mcp (pid 7): ready

        Backends
          ok    time    up        2026-07-28  2 tools, 1 prompt  in 812 ms
          FAIL  broken  failing
                problem  it exited with code 1
                try      run it by hand
                stderr   first
                stderr   �[31mlast
          off   off     disabled

        Names and lists
          - `x` is taken

        1 backend cannot be used
        ");
        let json = report.to_json();
        assert_eq!(json["ok"], false);
        assert_eq!(json["backends"][0]["era"], "modern");
        assert_eq!(json["backends"][0]["start_up_ms"], 812);
    }
}
