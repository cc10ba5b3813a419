//! Triggers of a reload: SIGHUP, a changed file, and an operator's command.
//!
//! One task performs reloads one at a time. A file with mistakes changes nothing; all of them are logged and
//! reported.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use sentinel_core::audit::AuditStore;
use sentinel_core::identity::KeyStore;
use sentinel_core::state_file::Version;
use sentinel_core::{Fault, Kind};
use sentinel_surfaces::http::admin::audit::verify::Verified;
use sentinel_surfaces::http::admin::config_file::{Checked, ConfigFile, ReplaceRequest};
use sentinel_surfaces::http::admin::import::{FoundServers, ImportAnswer, ImportRequest};
use sentinel_surfaces::http::admin::reload::Reloaded;
use sentinel_surfaces::{Control, Gateway};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::config::mistake::Mistakes;
use crate::config::{self, Loaded, Place};
use crate::key_file::KeyFile;
use crate::visits;
use crate::wiring::Running;

/// Polling interval of the file. It is read when it was unchanged for one interval, so that a partially written file
/// is not read.
const LOOK: Duration = Duration::from_millis(500);
/// Operators waiting for an answer.
const WISHES_MAX: usize = 64;

/// Longest time for reading the file; a hanging disk is given up.
const READ_MAX: Duration = Duration::from_secs(5);

/// Reads the configuration like the command that was started.
pub(crate) type Load = Arc<dyn Fn(Place) -> anyhow::Result<Loaded> + Send + Sync>;

type Answer = Result<Reloaded, Fault>;

pub(crate) struct Reloader {
    running: Arc<Running>,
    load: Load,
    /// A read that took too long, and may still go on.
    late: Option<oneshot::Receiver<anyhow::Result<Loaded>>>,
    wishes: mpsc::Receiver<oneshot::Sender<Answer>>,
    hangup: Signal,
    file: Option<(PathBuf, Version)>,
}

/// The operators' handle.
struct Handle {
    running: Arc<Running>,
    wishes: mpsc::Sender<oneshot::Sender<Answer>>,
}

impl Reloader {
    /// Starts from the configuration that was just read from `file`.
    pub(crate) fn new(
        running: Arc<Running>,
        load: Load,
        file: Option<PathBuf>,
    ) -> std::io::Result<Self> {
        let (sender, wishes) = mpsc::channel(WISHES_MAX);
        running.gateway.controlled_by(Arc::new(Handle {
            running: running.clone(),
            wishes: sender,
        }));
        Ok(Self {
            running,
            load,
            late: None,
            wishes,
            hangup: signal(SignalKind::hangup())?,
            file: file.map(|file| {
                let version = Version::at(&file);
                (file, version)
            }),
        })
    }

    /// Reloads on every trigger; never ends.
    pub(crate) async fn run(mut self) {
        let mut seen = self.version();
        loop {
            tokio::select! {
                _ = self.hangup.recv() => {
                    let _ = self.reload("SIGHUP").await;
                }
                Some(wish) = self.wishes.recv() => {
                    let _ = wish.send(self.reload("an operator").await);
                }
                () = tokio::time::sleep(LOOK) => {
                    let now = self.version();
                    let settled = std::mem::replace(&mut seen, now) == now;
                    if settled && self.file.as_ref().is_some_and(|(_, taken)| *taken != now) {
                        let _ = self.reload("the file changed").await;
                    }
                }
            }
        }
    }

    fn version(&self) -> Version {
        let file = self.file.as_ref();
        file.map_or_else(Version::default, |(path, _)| Version::at(path))
    }

    /// If the file is missing, no other default location is used: its roles would be unrelated.
    fn same_file(&self, found: Option<&PathBuf>) -> anyhow::Result<()> {
        match &self.file {
            Some((file, _)) if found != Some(file) => {
                anyhow::bail!(
                    "{} is gone; put it back, or start again to take another configuration",
                    file.display()
                )
            }
            _ => Ok(()),
        }
    }

    /// An emptied file is about to be written, or the disk is full: it does not remove all backends, roles and
    /// limits. One that was empty at the start may stay so.
    fn not_emptied(&self, loaded: &Loaded) -> anyhow::Result<()> {
        let in_force = || config::normalised(&self.running.config());
        if loaded.is_empty && config::normalised(&loaded.config) != in_force() {
            anyhow::bail!(
                "the file is empty, which would take everything away; write it again, or start again to run on the defaults"
            );
        }
        Ok(())
    }

    /// Reads the file on a thread that the end of the process does not wait for.
    async fn read(&mut self) -> anyhow::Result<Loaded> {
        if let Some(late) = &mut self.late
            && matches!(late.try_recv(), Err(TryRecvError::Empty))
        {
            anyhow::bail!("the file is still being read for an earlier reload");
        }
        let (done, mut read) = oneshot::channel();
        let load = self.load.clone();
        std::thread::Builder::new()
            .name("configuration".to_owned())
            .spawn(move || drop(done.send(load(Place::RegularFile))))?;
        match tokio::time::timeout(READ_MAX, &mut read).await {
            Ok(loaded) => loaded?,
            Err(_) => {
                self.late = Some(read);
                anyhow::bail!("the file could not be read within {READ_MAX:?}")
            }
        }
    }

    async fn reload(&mut self, why: &str) -> Answer {
        let now = self.version();
        if let Some((_, taken)) = &mut self.file {
            *taken = now;
        }
        let outcome = self.read().await.and_then(|loaded| {
            self.same_file(loaded.file.as_ref())?;
            self.not_emptied(&loaded)?;
            self.running.apply(loaded.config)
        });
        match outcome {
            Ok(applied) => {
                tell(why, &applied);
                Ok(applied)
            }
            Err(error) => Err(complain(why, &error)),
        }
    }
}

fn tell(why: &str, applied: &Reloaded) {
    tracing::info!(
        added = ?applied.added, removed = ?applied.removed, replaced = ?applied.replaced,
        kept = applied.kept.len(), changed = ?applied.changed,
        "the configuration was reloaded: {why}"
    );
    if !applied.restart_needed.is_empty() {
        tracing::warn!(keys = ?applied.restart_needed, "these need a restart to take effect");
    }
    for notice in &applied.notices {
        tracing::warn!("{notice}");
    }
}

fn complain(why: &str, error: &anyhow::Error) -> Fault {
    let (text, mistakes) = match error.downcast_ref::<Mistakes>() {
        Some(mistakes) => (mistakes.to_string(), mistakes.to_json()),
        None => (
            format!("{error:#}"),
            json!([{ "message": format!("{error:#}") }]),
        ),
    };
    tracing::error!("not reloaded ({why}), the configuration stays as it is:\n{text}");
    Fault::new(Kind::Unprocessable, text).with_data(format!(r#""mistakes":{mistakes}"#))
}

fn not_yet<T: Send + 'static>() -> BoxFuture<'static, Result<T, Fault>> {
    let fault = Fault::new(Kind::NotFound, "this gateway does not do that yet");
    std::future::ready(Err(fault)).boxed()
}

impl Control for Handle {
    fn reload(&self) -> BoxFuture<'static, Answer> {
        let wishes = self.wishes.clone();
        async move {
            let gone = || Fault::new(Kind::GoingDown, "the gateway is going down");
            let (wish, answer) = oneshot::channel();
            wishes.send(wish).await.map_err(|_| gone())?;
            answer.await.unwrap_or_else(|_| Err(gone()))
        }
        .boxed()
    }

    fn config(&self) -> Value {
        config::normalised(&self.running.config())
    }

    fn visit(&self, url: &str, bearer: Option<&str>) -> Result<Arc<Gateway>, Fault> {
        let running = &self.running;
        let home = tokio::runtime::Handle::current();
        visits::open(&running.config(), &running.gateway, &home, url, bearer)
    }

    fn config_file(&self) -> BoxFuture<'static, Result<ConfigFile, Fault>> {
        not_yet()
    }

    fn check_config(&self, _: String) -> BoxFuture<'static, Result<Checked, Fault>> {
        not_yet()
    }

    fn replace_config(&self, _: ReplaceRequest) -> BoxFuture<'static, Answer> {
        not_yet()
    }

    fn found_servers(&self) -> BoxFuture<'static, Result<FoundServers, Fault>> {
        not_yet()
    }

    fn import(&self, _: ImportRequest) -> BoxFuture<'static, Result<ImportAnswer, Fault>> {
        not_yet()
    }

    fn stop_backend(&self, _: String, _: String) -> BoxFuture<'static, Result<(), Fault>> {
        not_yet()
    }

    fn start_backend(&self, _: String) -> BoxFuture<'static, Result<(), Fault>> {
        not_yet()
    }

    fn records(&self) -> Option<Arc<dyn AuditStore>> {
        self.running.records.clone()
    }

    fn verify_records(&self) -> BoxFuture<'static, Result<Verified, Fault>> {
        let data_dir = self.running.config().gateway.data_dir.clone();
        let records = self.records();
        async move {
            let none = || Fault::new(Kind::NotFound, "this gateway keeps no records");
            crate::audit::verified(records.ok_or_else(none)?, data_dir).await
        }
        .boxed()
    }

    fn key_store(&self) -> Arc<dyn KeyStore> {
        Arc::new(KeyFile::new(&self.running.config().gateway.data_dir))
    }
}
