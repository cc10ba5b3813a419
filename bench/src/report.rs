//! The table for people, the lines that notes quote, and the same as JSON.

use std::fmt::Write as _;
use std::io::Write as _;

use serde::Serialize;

use crate::audit::Cost;
use crate::cell::{Cell, Row};
use crate::contenders::{Idle, Ingestion};
use crate::options::Options;
use crate::postgres::Functions;
use crate::surfaces::Beside;

/// CPU per call with everything on, as a multiple of nginx's.
const RATIO_MAX: f64 = 1.8;

#[derive(Serialize)]
pub(crate) struct Report {
    era: &'static str,
    rounds: usize,
    window_ms: u128,
    cells: Vec<Measured>,
    pub(crate) idle: Option<Idle>,
    pub(crate) ingestion: Option<Ingestion>,
    pub(crate) audit: Vec<Cost>,
    pub(crate) surfaces: Vec<Beside>,
    pub(crate) functions: Option<Functions>,
}

#[derive(Serialize)]
struct Measured {
    cell: String,
    callers: usize,
    bytes: usize,
    rows: Vec<Row>,
    /// Each gateway contender beside nginx.
    ratios: Vec<Ratio>,
}

#[derive(Serialize)]
struct Ratio {
    contender: &'static str,
    cpu: f64,
    per_second: f64,
    p50: f64,
    p99: f64,
}

impl Report {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            era: options.era.name(),
            rounds: options.rounds(),
            window_ms: options.window().as_millis(),
            cells: Vec::new(),
            idle: None,
            ingestion: None,
            audit: Vec::new(),
            surfaces: Vec::new(),
            functions: None,
        }
    }

    /// Takes a measured cell and says its line at once, since a run takes minutes.
    pub(crate) fn add(
        &mut self,
        cell: Cell,
        rows: Vec<Row>,
        options: &Options,
    ) -> anyhow::Result<()> {
        let ratios = ratios(&rows);
        let measured = Measured {
            cell: cell.to_string(),
            callers: cell.callers,
            bytes: cell.size,
            rows,
            ratios,
        };
        say(options, &measured.lines())?;
        self.cells.push(measured);
        Ok(())
    }

    pub(crate) fn print(&self, options: &Options) -> anyhow::Result<()> {
        if !self.cells.is_empty() {
            say(options, &self.table()?)?;
        }
        for audit in &self.audit {
            say(options, &format!("{audit}\n"))?;
        }
        for surface in &self.surfaces {
            say(options, &format!("{surface}\n"))?;
        }
        if let Some(functions) = &self.functions {
            say(options, &format!("{functions}\n"))?;
        }
        if let Some(ingestion) = &self.ingestion {
            let text = format!(
                "ingestion into the store, apart from the calls: {:.2} us of CPU a record, {} records\n",
                ingestion.us_per_record, ingestion.records
            );
            say(options, &text)?;
        }
        if let Some(idle) = &self.idle {
            let (own, children) = (
                idle.gateway_kb as f64 / 1024.0,
                idle.children_kb as f64 / 1024.0,
            );
            say(
                options,
                &format!(
                    "idle with {} backends: sentinel {own:.1} MiB (its children {children:.1} MiB)\n",
                    idle.backends
                ),
            )?;
        }
        if options.json {
            let mut stdout = std::io::stdout();
            serde_json::to_writer_pretty(&mut stdout, self)?;
            writeln!(stdout)?;
        }
        Ok(())
    }

    fn table(&self) -> anyhow::Result<String> {
        let mut out = format!(
            "\n{} callers, medians over {} windows of {} ms; CPU in us per call, ratios by round\n",
            self.era, self.rounds, self.window_ms
        );
        writeln!(
            out,
            "{:<10} {:<15} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9}",
            "cell",
            "contender",
            "calls/s",
            "p50 us",
            "p99 us",
            "proxy cpu",
            "backend",
            "generator",
            "peak MiB",
            "vs nginx"
        )?;
        for cell in &self.cells {
            for row in &cell.rows {
                let ratio = cell
                    .ratios
                    .iter()
                    .find(|ratio| ratio.contender == row.contender);
                let ratio =
                    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.2}", ratio.cpu));
                writeln!(
                    out,
                    "{:<10} {:<15} {:>9.0} {:>9.0} {:>9.0} {:>10.1} {:>10.1} {:>10.1} {:>9.1} {:>9}",
                    cell.cell,
                    row.contender,
                    row.per_second,
                    row.p50_us,
                    row.p99_us,
                    row.proxy_us,
                    row.backend_us,
                    row.generator_us,
                    row.peak_kb as f64 / 1024.0,
                    ratio
                )?;
            }
        }
        Ok(out)
    }
}

impl Measured {
    /// One line per comparison; a proxy without a rival still says its cost.
    fn lines(&self) -> String {
        let row = |name: &str| self.rows.iter().find(|row| row.contender == name);
        let mut out = String::new();
        for (label, name) in [("http", "sentinel-http"), ("stdio", "sentinel-stdio")] {
            let line = match (row(name), row("nginx")) {
                (Some(ours), Some(nginx)) => format!(
                    "{label} {}: sentinel {:.1} us/call, nginx {:.1} us/call, ratio {:.2}\n",
                    self.cell,
                    ours.proxy_us,
                    nginx.proxy_us,
                    ours.cpu_ratio(nginx)
                ),
                (Some(ours), None) => format!(
                    "{label} {}: sentinel {:.1} us/call\n",
                    self.cell, ours.proxy_us
                ),
                (None, Some(nginx)) if label == "http" && row("sentinel-stdio").is_none() => {
                    format!(
                        "{label} {}: nginx {:.1} us/call\n",
                        self.cell, nginx.proxy_us
                    )
                }
                _ => String::new(),
            };
            out.push_str(&line);
        }
        out + &self.governed()
    }

    /// What governing costs; what of that is audit is measured apart (`audit`).
    fn governed(&self) -> String {
        let row = |name: &str| self.rows.iter().find(|row| row.contender == name);
        let (Some(governed), Some(nginx)) = (row("governed"), row("nginx")) else {
            return String::new();
        };
        format!(
            "governed {}: sentinel {:.1} us/call, nginx {:.1} us/call, ratio {:.2} (bound {RATIO_MAX:.2})\n",
            self.cell,
            governed.proxy_us,
            nginx.proxy_us,
            governed.cpu_ratio(nginx)
        )
    }
}

fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let Some(nginx) = rows.iter().find(|row| row.contender == "nginx") else {
        return Vec::new();
    };
    let ours = rows
        .iter()
        .filter(|row| !matches!(row.contender, "direct" | "nginx"));
    ours.map(|row| Ratio {
        contender: row.contender,
        cpu: row.cpu_ratio(nginx),
        per_second: row.per_second / nginx.per_second,
        p50: row.p50_us / nginx.p50_us,
        p99: row.p99_us / nginx.p99_us,
    })
    .collect()
}

/// To people: stdout, unless that is taken by JSON.
pub(crate) fn say(options: &Options, text: &str) -> anyhow::Result<()> {
    if options.json {
        std::io::stderr().write_all(text.as_bytes())?;
    } else {
        std::io::stdout().write_all(text.as_bytes())?;
    }
    Ok(())
}
