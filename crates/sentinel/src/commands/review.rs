//! `sentinel review`: the broker alone, and what people see of it in a terminal.
//!
//! All but `serve` open the store beside whoever else has it open; none but `serve` writes reviews, and none but `purge`
//! removes any.

mod look;
mod paint;
mod purge;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use sentinel_review::store::ReviewStore;
use sentinel_stores::{Sqlite, review};
use tokio::runtime::Runtime;

use crate::cli::{Global, Review, ReviewCommand};
use crate::config::{self, Config, Loaded, Place};
use crate::database::Database;

const NICENESS_MAX: i32 = 19;

pub(crate) fn run(global: &Global, args: &Review) -> anyhow::Result<ExitCode> {
    let db = args.db.as_ref().map(std::path::absolute).transpose()?;
    let overrides = global.overrides();
    let load = move |place| {
        let environment = config::environment()?;
        let mut loaded = config::load_from(place, &overrides, &environment)?;
        if let Some(db) = &db {
            loaded.config.sqlite.path.clone_from(db);
            loaded.config.postgres = None;
        }
        anyhow::Ok(loaded)
    };
    if let ReviewCommand::Serve { port } = args.command {
        return serve(load, port);
    }
    let config = load(Place::Anything)?.config;
    match &args.command {
        ReviewCommand::Serve { .. } => unreachable!("served above"),
        ReviewCommand::List {
            status,
            project,
            limit,
        } => {
            let (store, runtime) = open_to_look(&config)?;
            let list = look::list(
                &*store,
                status.as_deref(),
                project.clone(),
                *limit,
                global.json,
            );
            super::print(&runtime.block_on(list)?)
        }
        ReviewCommand::Show { id } => {
            let (store, runtime) = open_to_look(&config)?;
            super::print(&runtime.block_on(look::show(&*store, id, global.json))?)
        }
        ReviewCommand::Watch { id } => {
            let (store, runtime) = open_to_look(&config)?;
            runtime.block_on(look::watch(&*store, id.as_deref(), global.json))
        }
        ReviewCommand::Backup { to } => {
            // Whoever writes meanwhile comes first (P-B08). Threads take it over from this one.
            let _ = rustix::process::setpriority_process(None, NICENESS_MAX);
            let (store, runtime) = open_to_look(&config)?;
            let to = std::path::absolute(to)?;
            runtime.block_on(store.backup(to.clone()))?;
            super::say(&format!("wrote {}", to.display()));
            Ok(ExitCode::SUCCESS)
        }
        ReviewCommand::Verify => {
            let (store, runtime) = open_to_look(&config)?;
            let verified = runtime.block_on(store.verify())?;
            super::print(&look::verified(&verified, global.json))
        }
        ReviewCommand::Purge {
            closed_before,
            dry_run,
            yes,
        } => {
            let (store, runtime) = open_to_look(&config)?;
            let purge = purge::Purge {
                closed_before,
                dry_run: *dry_run,
                yes: *yes,
                json: global.json,
            };
            purge.run(&*store, &runtime)
        }
    }
}

/// The gateway with nothing but the review tools.
fn serve(
    load: impl Fn(Place) -> anyhow::Result<Loaded> + Send + Sync + 'static,
    port: Option<u16>,
) -> anyhow::Result<ExitCode> {
    let load = move |place| {
        let mut loaded = load(place)?;
        let config = &mut loaded.config;
        let mut address = config
            .review
            .listen
            .context("review.listen is \"off\": nothing to serve")?;
        if let Some(port) = port {
            address = ([127, 0, 0, 1], port).into();
        }
        config.gateway.listen = Some(address);
        config.review.enabled = true;
        config.review.alone = true;
        config.backends.clear();
        config.listeners.clear();
        Ok(loaded)
    };
    // Opened again by the gateway; a broker without its store must not start at all.
    let (store, runtime) = open(&load(Place::Anything)?.config)?;
    runtime
        .block_on(store.changes(u64::MAX))
        .context("the store of reviews does not answer")?;
    drop((store, runtime));
    super::serve::listen(Arc::new(load))
}

fn open(config: &Config) -> anyhow::Result<(Arc<dyn ReviewStore>, Runtime)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let store = {
        let _inside = runtime.enter();
        Database::open(config)?.reviews()
    };
    Ok((store, runtime))
}

/// The store for somebody who only looks.
fn open_to_look(config: &Config) -> anyhow::Result<(Arc<dyn ReviewStore>, Runtime)> {
    if config.postgres.is_none() {
        exists(&config.sqlite.path)?;
    }
    open(config)
}

/// Reading reviews must neither create an empty database for a mistyped name nor add tables to a database of another
/// program.
fn exists(path: &Path) -> anyhow::Result<()> {
    if !path.exists() {
        anyhow::bail!("there is no database at {} yet", path.display());
    }
    let ours = Sqlite::holds(path, &review::MIGRATIONS)
        .with_context(|| format!("opening {}", path.display()))?;
    if !ours {
        anyhow::bail!("{} holds no reviews", path.display());
    }
    Ok(())
}
