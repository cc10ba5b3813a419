//! How fast is the gateway? Measured in one run against the same load sent straight to the backend
//! and through a plain nginx.
//!
//! Every cell (callers x result size) is measured in short windows that go round robin over the
//! contenders, so that a slow moment of the machine hits all of them; the figures are medians over
//! the windows. The first figure is CPU time per call: it is stable where latency is not. Functions of
//! PostgreSQL are measured beside pgbench (`postgres`).
//!
//! It speaks its own small HTTP and shares no code with the gateway. All processes that it starts
//! end with it (`leash`).

#![allow(
    clippy::disallowed_methods,
    reason = "the bans keep promises of the product, which this program is not part of"
)]

mod audit;
mod cell;
mod contenders;
mod gateway;
mod leash;
mod load;
mod options;
mod postgres;
mod report;
mod response;
mod surfaces;
mod usage;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::cell::Cell;
use crate::contenders::Stage;
use crate::options::Options;
use crate::report::Report;

// One thread: the generator must leave the machine to those it measures.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    match bounded(&options).await {
        Ok(report) => match report.print(&options) {
            Ok(()) => judged(&report),
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "sentinel-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A surface that costs more than it may is a failure of the run.
fn judged(report: &Report) -> ExitCode {
    let beyond: Vec<_> = report
        .surfaces
        .iter()
        .filter(|one| one.is_beyond())
        .collect();
    for one in &beyond {
        let _ = writeln!(std::io::stderr(), "sentinel-bench: beyond its bound: {one}");
    }
    match beyond.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// The run, ended early by a signal or when it takes far longer than it should.
async fn bounded(options: &Options) -> anyhow::Result<Report> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let limit = options.planned() * 2 + Duration::from_secs(30);
    tokio::select! {
        report = run(options) => report,
        () = tokio::time::sleep(limit) => bail!("gave up after {limit:?}"),
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn run(options: &Options) -> anyhow::Result<Report> {
    if options.wants_postgres() {
        // Not after minutes of other cells.
        postgres::check_installed()?;
    }
    let mut report = Report::new(options);
    if !options.contenders().is_empty() {
        table(options, &mut report).await?;
    }
    if audit::is_wanted(options) {
        report.audit = audit::costs(options).await?;
    }
    if options.wants_surfaces() {
        report.surfaces = surfaces::costs(options).await?;
    }
    if options.wants_postgres() {
        let functions = postgres::functions(options).await;
        report.functions = Some(functions.context("functions of PostgreSQL")?);
    }
    Ok(report)
}

/// Every cell for every contender.
async fn table(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let stage = Stage::set(options, &options.contenders()).await?;
    for size in options.sizes() {
        for callers in options.callers() {
            let cell = Cell { callers, size };
            let rows = cell
                .measure(&stage, options)
                .await
                .with_context(|| format!("in the cell {cell}"))?;
            report.add(cell, rows, options)?;
        }
    }
    report.ingestion = stage.ingestion().await?;
    report.idle = stage.idle(options).await?;
    Ok(())
}
