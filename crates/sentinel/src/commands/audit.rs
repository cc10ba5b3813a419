//! `sentinel audit`: read, export and verify the audit records of this data directory's store.
//!
//! The commands open the store themselves; a gateway need not run. What a gateway that died left in
//! its spool is brought into the store first.

mod show;

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use sentinel_core::audit::{AuditStore, Filter, Query, RecordKey, StoreFailure, Stored};
use sentinel_stores::audit::{Ingest, adopt_all, verify};

use super::{print, say};
use crate::audit::recorder;
use crate::cli::{Audit, AuditAction, AuditFilter, Global};
use crate::config::{self, Config};
use crate::database::Database;

/// Read at once.
const PAGE_LEN: usize = 1000;
const FLUSH_MAX: Duration = Duration::from_secs(10);
/// How often `tail` looks for more.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Records arrive in the store late and out of order between processes: `tail` looks back so far.
const LATE_MS: u64 = 10_000;

pub(crate) fn run(global: &Global, args: &Audit) -> anyhow::Result<ExitCode> {
    let config = config::load(&global.overrides(), &config::environment()?)?.config;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let store = Database::open(&config)?.records();
        bring_orphans(&config, &store).await;
        let print_one = show::printer(global.json);
        match &args.action {
            AuditAction::Tail {
                filter,
                lines,
                stop,
            } => tail(&*store, filter, *lines, !*stop, print_one).await,
            AuditAction::Search { filter, limit } => {
                search(&*store, filter, *limit, print_one).await
            }
            AuditAction::Export { filter } => each(&*store, query(filter), show::json_line).await,
            AuditAction::Verify => check(&*store, &config, global.json).await,
        }
    })
}

fn failed(error: StoreFailure) -> anyhow::Error {
    anyhow::anyhow!(error).context("reading the audit store")
}

/// Only where there are any: otherwise reading would leave records of its own.
async fn bring_orphans(config: &Config, store: &Arc<dyn AuditStore>) {
    if !sentinel_stores::spool::has_orphans(&config.gateway.data_dir) {
        return;
    }
    let brought = async {
        let recorder = recorder(config, Arc::default())?;
        let data_dir = &config.gateway.data_dir;
        let adopted = adopt_all(data_dir, &**store, &recorder).await;
        // What had to be said about them is in a spool of our own now.
        let ingest = Ingest::start(recorder, store.clone(), data_dir, None)?;
        ingest.finish(FLUSH_MAX).await;
        adopted.map_err(failed)
    };
    match brought.await {
        Ok(adopted) => say(&format!(
            "{} records of gateways that are gone were brought into the store",
            adopted.records
        )),
        Err(error) => say(&format!("records left in a spool stay there: {error:#}")),
    }
}

fn query(filter: &AuditFilter) -> Query {
    Query {
        filter: Filter {
            caller: filter.caller.clone(),
            operation: filter.tool.clone(),
            backend: filter.backend.clone(),
            outcome: filter.outcome.clone(),
            since_ms: filter.since,
            until_ms: filter.until,
            ..Filter::default()
        },
        limit: PAGE_LEN,
        ..Query::default()
    }
}

async fn search(
    store: &dyn AuditStore,
    filter: &AuditFilter,
    limit: usize,
    show: fn(&Stored) -> String,
) -> anyhow::Result<ExitCode> {
    let query = Query {
        newest: true,
        limit,
        ..query(filter)
    };
    let found = store.find(query).await.map_err(failed)?;
    print(&found.iter().rev().map(show).collect::<String>())
}

/// Everything that matches, page by page.
async fn each(
    store: &dyn AuditStore,
    mut query: Query,
    show: fn(&Stored) -> String,
) -> anyhow::Result<ExitCode> {
    loop {
        let page = store.find(query.clone()).await.map_err(failed)?;
        let Some(last) = page.last() else {
            return Ok(ExitCode::SUCCESS);
        };
        query.after = Some((last.record.at_ms, last.key.clone()));
        print(&page.iter().map(show).collect::<String>())?;
    }
}

async fn tail(
    store: &dyn AuditStore,
    filter: &AuditFilter,
    lines: usize,
    follow: bool,
    show: fn(&Stored) -> String,
) -> anyhow::Result<ExitCode> {
    let query = query(filter);
    let newest = Query {
        newest: true,
        limit: lines.max(1),
        ..query.clone()
    };
    let mut page = store.find(newest).await.map_err(failed)?;
    page.reverse();
    let mut at_ms = page.last().map_or(0, |last| last.record.at_ms);
    let shown = page.len().min(lines);
    print(
        &page[page.len() - shown..]
            .iter()
            .map(show)
            .collect::<String>(),
    )?;
    // What is newer than the look-back was shown already, or is older than what was asked for.
    let recent = Query {
        filter: Filter {
            since_ms: Some(at_ms.saturating_sub(LATE_MS)),
            ..query.filter.clone()
        },
        limit: usize::MAX >> 1,
        ..query.clone()
    };
    let known = store.find(recent).await.map_err(failed)?;
    let mut seen: HashSet<RecordKey> = known.into_iter().map(|s| s.key).collect();
    if !follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let since = at_ms.saturating_sub(LATE_MS);
        let more = Query {
            filter: Filter {
                since_ms: Some(since),
                ..query.filter.clone()
            },
            limit: usize::MAX >> 1,
            ..query.clone()
        };
        let found = store.find(more).await.map_err(failed)?;
        let fresh: Vec<&Stored> = found
            .iter()
            .filter(|stored| !seen.contains(&stored.key))
            .collect();
        print(&fresh.iter().map(|stored| show(stored)).collect::<String>())?;
        at_ms = found.last().map_or(at_ms, |last| last.record.at_ms);
        seen = found.into_iter().map(|s| s.key).collect();
    }
}

async fn check(store: &dyn AuditStore, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let verdict = verify(store, &config.gateway.data_dir)
        .await
        .map_err(failed)?;
    print(&show::verdict(&verdict, json))?;
    Ok(if verdict.broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
