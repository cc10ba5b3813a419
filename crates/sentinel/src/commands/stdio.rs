//! `sentinel stdio`: the gateway for one client on standard input and output.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use sentinel_backends::child;

use super::serve::Signals;
use crate::audit::Audit;
use crate::cli::Global;
use crate::config::{self, Loaded, Place};
use crate::reload::{Load, Reloader};
use crate::runfile::RunFile;
use crate::{identity, logging, operator, wiring};

const STOP_MAX: Duration = Duration::from_secs(10);

pub(crate) fn run(global: &Global) -> anyhow::Result<ExitCode> {
    let overrides = global.overrides();
    let load: Load = Arc::new(move |place| {
        let environment = config::environment()?;
        Ok(config::load_from(place, &overrides, &environment)?)
    });
    // One caller: one thread is enough for it and its backends.
    let main = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Before anything else happens, as in `serve`.
    let mut signals = main.block_on(async { Signals::new() })?;
    let Loaded {
        config,
        file,
        overridden,
        ..
    } = load(Place::Anything)?;
    logging::begin(&config)?;
    for notice in &config.notices {
        tracing::warn!("{notice}");
    }
    child::become_subreaper().context("becoming a subreaper")?;
    main.block_on(async {
        let handle = tokio::runtime::Handle::current();
        // Before any child starts: a caller that is refused starts nothing.
        let caller_is = tokio::select! {
            known = identity::of_stdio(&config) => known?,
            () = signals.next() => return Ok(ExitCode::SUCCESS),
        };
        let audit = Audit::start(&config)?;
        let home = handle.clone();
        let running = wiring::build(&config, move |_| home.clone(), &audit)?;
        let gateway = running.gateway.clone();
        tokio::spawn(Reloader::new(running.clone(), load, file, overridden)?.run());
        let data_dir = &config.gateway.data_dir;
        let announced = operator::open(data_dir, &gateway, &handle)
            .and_then(|()| RunFile::announce(data_dir, None, None, Vec::new()));
        if let Err(error) = &announced {
            tracing::warn!("other commands will not find this gateway: {error:#}");
        }
        let mut caller = tokio::spawn(sentinel_surfaces::stdio::serve(
            gateway.clone(),
            caller_is,
            tokio::io::stdin(),
            tokio::io::stdout(),
        ));
        tokio::select! {
            _ = &mut caller => {}
            () = signals.next() => {
                gateway.drain();
                let limit = running.config().gateway.drain_timeout;
                let in_time = tokio::select! {
                    ended = tokio::time::timeout(limit, &mut caller) => ended.is_ok(),
                    () = signals.next() => std::process::exit(1),
                };
                if !in_time {
                    // What still runs ends here, and with it its records.
                    caller.abort();
                    let _ = caller.await;
                }
            }
        }
        tokio::select! {
            _ = tokio::time::timeout(STOP_MAX, wiring::stop(&gateway)) => {}
            () = signals.next() => std::process::exit(1),
        }
        tokio::select! {
            () = audit.finish() => {}
            () = signals.next() => std::process::exit(1),
        }
        drop(announced);
        // Standard input is read by a thread that cannot be woken.
        std::process::exit(0)
    })
}
