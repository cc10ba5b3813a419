//! What the admin API asks of the program around the gateway.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use sentinel_core::audit::AuditStore;
use sentinel_core::identity::KeyStore;
use sentinel_core::{Fault, Kind};
use sentinel_surfaces::http::admin::audit::verify::Verified;
use sentinel_surfaces::http::admin::config_file::{Checked, ConfigFile, ReplaceRequest};
use sentinel_surfaces::http::admin::import::{FoundServers, ImportAnswer, ImportRequest};
use sentinel_surfaces::{Control, Gateway};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::adding;
use crate::key_file::KeyFile;
use crate::reload::{Answer, Source, Wish, Wished, blocking, mistakes_of};
use crate::{config, config_file, visits, wiring};

/// The operators' handle.
pub(crate) struct Handle {
    source: Arc<Source>,
    wishes: mpsc::Sender<Wished>,
}

impl Handle {
    pub(crate) fn new(source: Arc<Source>, wishes: mpsc::Sender<Wished>) -> Self {
        Self { source, wishes }
    }

    /// Has the reloader do something, and waits for what came of it.
    fn wish(&self, wish: Wish) -> impl Future<Output = Answer> + Send + 'static {
        let wishes = self.wishes.clone();
        async move {
            let gone = || Fault::new(Kind::GoingDown, "the gateway is going down");
            let (sender, answer) = oneshot::channel();
            wishes.send((wish, sender)).await.map_err(|_| gone())?;
            answer.await.unwrap_or_else(|_| Err(gone()))
        }
    }
}

impl Control for Handle {
    fn reload(&self) -> BoxFuture<'static, Answer> {
        self.wish(Wish::Reload).boxed()
    }

    fn config(&self) -> Value {
        config::normalised(&self.source.running.config())
    }

    fn config_file(&self) -> BoxFuture<'static, Result<ConfigFile, Fault>> {
        let source = self.source.clone();
        blocking(move || {
            let path = source
                .path()
                .and_then(|path| std::path::absolute(path).ok());
            let config = source.running.config();
            config_file::shown(path.as_deref(), &config, &source.overridden)
        })
        .boxed()
    }

    fn check_config(&self, text: String) -> BoxFuture<'static, Result<Checked, Fault>> {
        let source = self.source.clone();
        blocking(move || match source.examine(&text) {
            Ok((config, mut plan)) => {
                plan.notices.extend(wiring::unknown_names(&config));
                Checked {
                    mistakes: Vec::new(),
                    plan: Some(plan),
                }
            }
            Err(error) => Checked {
                mistakes: mistakes_of(&error),
                plan: None,
            },
        })
        .boxed()
    }

    fn replace_config(&self, new: ReplaceRequest) -> BoxFuture<'static, Answer> {
        self.wish(Wish::Replace(new)).boxed()
    }

    fn found_servers(&self) -> BoxFuture<'static, Result<FoundServers, Fault>> {
        let source = self.source.clone();
        async move { blocking(move || adding::found(&source.running.config())).await? }.boxed()
    }

    fn import(&self, request: ImportRequest) -> BoxFuture<'static, Result<ImportAnswer, Fault>> {
        let source = self.source.clone();
        let apply = request.apply;
        let path = self.source.path();
        let planned = blocking(move || {
            let config = source.running.config();
            adding::plan(&request, &config, path.as_deref())
        });
        let wishes = Self::new(self.source.clone(), self.wishes.clone());
        async move {
            let mut planned = planned.await??;
            if apply {
                let reloaded = wishes.wish(Wish::Replace(planned.replacement)).await?;
                planned.answer.reloaded = Some(reloaded);
            }
            Ok(planned.answer)
        }
        .boxed()
    }

    fn stop_backend(&self, name: String, reason: String) -> BoxFuture<'static, Result<(), Fault>> {
        let running = self.source.running.clone();
        async move {
            let stopped = blocking(move || running.stop_backend(&name, &reason)).await?;
            if let Some(retired) = stopped.map_err(unprocessable)? {
                retired.end_now().await;
            }
            Ok(())
        }
        .boxed()
    }

    fn start_backend(&self, name: String) -> BoxFuture<'static, Result<(), Fault>> {
        let running = self.source.running.clone();
        async move {
            let started = blocking(move || running.start_backend(&name)).await?;
            started.map_err(unprocessable)
        }
        .boxed()
    }

    fn visit(&self, url: &str, bearer: Option<&str>) -> Result<Arc<Gateway>, Fault> {
        let running = &self.source.running;
        let home = tokio::runtime::Handle::current();
        visits::open(&running.config(), &running.gateway, &home, url, bearer)
    }

    fn records(&self) -> Option<Arc<dyn AuditStore>> {
        self.source.running.records.clone()
    }

    fn verify_records(&self) -> BoxFuture<'static, Result<Verified, Fault>> {
        let data_dir = self.source.running.config().gateway.data_dir.clone();
        let records = self.records();
        async move {
            let none = || Fault::new(Kind::NotFound, "this gateway keeps no records");
            crate::audit::verified(records.ok_or_else(none)?, data_dir).await
        }
        .boxed()
    }

    fn key_store(&self) -> Arc<dyn KeyStore> {
        Arc::new(KeyFile::new(&self.source.running.config().gateway.data_dir))
    }
}

fn unprocessable(error: anyhow::Error) -> Fault {
    Fault::new(Kind::Unprocessable, format!("{error:#}"))
}
