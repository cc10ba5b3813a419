//! Triggers of a reload: SIGHUP, a changed file, an operator's command, and an operator's new text for the file.
//!
//! One task performs reloads and replacements one at a time. A file with mistakes changes nothing; all of them are logged
//! and reported.
//!
//! Not here: how a file is replaced (`config_file`), what else operators wish (`control`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sentinel_core::state_file::Version;
use sentinel_core::{Fault, Kind};
use sentinel_surfaces::http::admin::config_file::{ConfigMistake, ReplaceRequest, TEXT_BYTES_MAX};
use sentinel_surfaces::http::admin::reload::Reloaded;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::config::mistake::{Mistakes, PlacedMistake};
use crate::config::{self, Config, Loaded, Place};
use crate::config_file;
use crate::control::Handle;
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

pub(crate) type Answer = Result<Reloaded, Fault>;

/// What an operator wishes.
pub(crate) enum Wish {
    Reload,
    /// Another text for the file.
    Replace(ReplaceRequest),
}

/// A wish, and where its answer goes.
pub(crate) type Wished = (Wish, oneshot::Sender<Answer>);

/// Where the configuration comes from.
pub(crate) struct Source {
    pub(crate) running: Arc<Running>,
    load: Load,
    /// Keys whose values the command line gave.
    pub(crate) overridden: Vec<&'static str>,
    /// `None`: there was no file, and nobody made one yet.
    file: Mutex<Option<PathBuf>>,
}

pub(crate) struct Reloader {
    source: Arc<Source>,
    /// A read that took too long, and may still go on.
    late: Option<oneshot::Receiver<anyhow::Result<Loaded>>>,
    wishes: mpsc::Receiver<Wished>,
    hangup: Signal,
    /// The version of the file that was read last.
    taken: Version,
}

impl Source {
    /// The file, or where it would be made.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let known = self.file.lock().clone();
        known.or_else(|| config::default_file(&config::environment().ok()?))
    }

    /// What a reload of this text would do; an error says why it would do nothing. Blocks on the disk.
    pub(crate) fn examine(&self, text: &str) -> anyhow::Result<(Config, Reloaded)> {
        let loaded = (self.load)(Place::Given(text.into()))?;
        self.not_emptied(&loaded)?;
        let plan = self.running.plan(loaded.config.clone())?;
        Ok((loaded.config, plan))
    }

    /// If the file is missing, no other default location is used: its roles would be unrelated.
    fn same_file(&self, found: Option<&PathBuf>) -> anyhow::Result<()> {
        match &*self.file.lock() {
            Some(file) if found != Some(file) => {
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

    /// Puts another text in the place of the one that has this digest. A text with mistakes, and one that cannot be
    /// applied, is refused before anything is written. Blocks on the disk.
    fn replace(&self, request: &ReplaceRequest) -> Result<ReplacedFile, Fault> {
        if !self.running.config().console.edit {
            let text = "console.edit is false: the file is not edited from here";
            return Err(Fault::new(Kind::Forbidden, text));
        }
        if request.text.len() > TEXT_BYTES_MAX {
            let text =
                format!("a configuration of more than {TEXT_BYTES_MAX} bytes is not edited here");
            return Err(Fault::new(Kind::TooLarge, text));
        }
        let none = || {
            Fault::new(
                Kind::Unprocessable,
                "there is no place for a configuration file",
            )
        };
        let path = self.path().ok_or_else(none)?;
        let failed = |what: &str, error: std::io::Error| {
            let text = format!("{} cannot be {what}: {error}", path.display());
            tracing::error!("{text}");
            Fault::new(Kind::Unprocessable, text)
        };
        let before = config_file::read(&path).map_err(|error| failed("read", error))?;
        if config_file::digest_of(before.as_deref().unwrap_or_default()) != request.digest {
            let text = "the file is another by now: read it again";
            return Err(Fault::new(Kind::Conflict, text));
        }
        self.examine(&request.text)
            .map_err(|error| complain("an operator's text", &error))?;
        config_file::replace(&path, &request.text).map_err(|error| failed("written", error))?;
        tracing::warn!(file = %path.display(), "replaced by an operator");
        let was_known = self.file.lock().replace(path.clone()).is_some();
        Ok(ReplacedFile {
            path,
            before,
            was_known,
        })
    }

    /// Undoes a replacement that could not be applied.
    fn put_back(&self, replaced: ReplacedFile) {
        let path = &replaced.path;
        let done = match &replaced.before {
            Some(text) => config_file::replace(path, text),
            None => std::fs::remove_file(path),
        };
        if !replaced.was_known {
            *self.file.lock() = None;
        }
        if let Err(error) = done {
            tracing::error!("{} could not be put back: {error}", path.display());
        }
    }

    fn version(&self) -> Version {
        let file = self.file.lock();
        file.as_ref()
            .map_or_else(Version::default, |path| Version::at(path))
    }
}

/// What was in the place of a new text.
struct ReplacedFile {
    path: PathBuf,
    /// `None`: there was no file.
    before: Option<String>,
    /// It was the file that is read.
    was_known: bool,
}

impl Reloader {
    /// Starts from the configuration that was just read from `file`.
    pub(crate) fn new(
        running: Arc<Running>,
        load: Load,
        file: Option<PathBuf>,
        overridden: Vec<&'static str>,
    ) -> std::io::Result<Self> {
        let (sender, wishes) = mpsc::channel(WISHES_MAX);
        let source = Arc::new(Source {
            running,
            load,
            overridden,
            file: Mutex::new(file),
        });
        let gateway = &source.running.gateway;
        gateway.controlled_by(Arc::new(Handle::new(source.clone(), sender)));
        Ok(Self {
            taken: source.version(),
            source,
            late: None,
            wishes,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Reloads on every trigger; never ends.
    pub(crate) async fn run(mut self) {
        let mut seen = self.source.version();
        loop {
            tokio::select! {
                _ = self.hangup.recv() => {
                    let _ = self.reload("SIGHUP").await;
                }
                Some((wish, answer)) = self.wishes.recv() => {
                    let _ = answer.send(match wish {
                        Wish::Reload => self.reload("an operator").await,
                        Wish::Replace(request) => self.replace(request).await,
                    });
                }
                () = tokio::time::sleep(LOOK) => {
                    let now = self.source.version();
                    let settled = std::mem::replace(&mut seen, now) == now;
                    if settled && self.taken != now {
                        let _ = self.reload("the file changed").await;
                    }
                }
            }
        }
    }

    /// Replaces the file and applies it, or leaves both as they were.
    async fn replace(&mut self, request: ReplaceRequest) -> Answer {
        let source = self.source.clone();
        let replaced = blocking(move || source.replace(&request)).await??;
        let answer = self.reload("an operator replaced the file").await;
        if answer.is_err() {
            let source = self.source.clone();
            blocking(move || source.put_back(replaced)).await?;
            self.taken = self.source.version();
        }
        answer
    }

    /// Reads the file on a thread that the end of the process does not wait for.
    async fn read(&mut self) -> anyhow::Result<Loaded> {
        if let Some(late) = &mut self.late
            && matches!(late.try_recv(), Err(TryRecvError::Empty))
        {
            anyhow::bail!("the file is still being read for an earlier reload");
        }
        let (done, mut read) = oneshot::channel();
        let load = self.source.load.clone();
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
        self.taken = self.source.version();
        let source = self.source.clone();
        let outcome = self.read().await.and_then(|loaded| {
            source.same_file(loaded.file.as_ref())?;
            source.not_emptied(&loaded)?;
            source.running.apply(loaded.config)
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

/// Each mistake of a configuration, or the one reason why it cannot be applied.
pub(crate) fn mistakes_of(error: &anyhow::Error) -> Vec<ConfigMistake> {
    let Some(mistakes) = error.downcast_ref::<Mistakes>() else {
        return vec![ConfigMistake {
            message: format!("{error:#}"),
            key: None,
            line: None,
            column: None,
            suggestion: None,
        }];
    };
    let one = |mistake: PlacedMistake<'_>| {
        let expected = mistake
            .expected
            .map(|expected| format!("expected {expected}"));
        ConfigMistake {
            message: mistake.message.to_owned(),
            key: mistake.key,
            line: mistake.line,
            column: mistake.column,
            suggestion: mistake.help.map(str::to_owned).or(expected),
        }
    };
    mistakes.placed().map(one).collect()
}

/// Runs what waits for the disk away from this task.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|panic| Fault::new(Kind::Internal, "it failed: see the log").because(panic))
}
