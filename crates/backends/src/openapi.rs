//! HTTP APIs described by OpenAPI 3.0, 3.1 or Swagger 2.0: each operation is a tool.
//!
//! `OpenapiBackend` is what the core calls. Its `run` reads the description, publishes the tools, and reads it again from time to
//! time until `stop`. A description that cannot be read, or that moves the API to another place while credentials would go there,
//! leaves what was offered last as it is. Dropping a call closes its connection.
//!
//! The parts: `source` and `document` read, `tools`, `operation`, `schema` and `swagger` translate, `request`, `style`, `body` and
//! `auth` write requests, `client` sends them, `answer` and `paging` read what comes back.
//!
//! Not here: policy, limits and records of calls (`core`), which keys there are (`sentinel_config`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use sentinel_core::catalog::{Change, Publisher};
use sentinel_core::{Backend, Call, Description, Fault, Kind, Reply, Status};
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Payload};

mod answer;
mod auth;
mod body;
mod client;
mod document;
pub mod fuzzing;
mod kind;
mod media;
mod operation;
mod paging;
mod request;
mod schema;
mod select;
mod source;
mod style;
mod swagger;
mod tools;

use client::Client;
use source::{Location, Reader};
use tools::{Api, Wishes};

use crate::causes::with_causes;
use crate::loaded::Loaded;

/// The `type` of these backends in the configuration.
pub const TYPE: &str = "openapi";

/// First and longest pause between attempts to read a description that cannot be read.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// What the settings come to.
struct Config {
    name: String,
    /// The description and the API as operators may see them.
    target: String,
    location: Location,
    /// The configuration says where the API is.
    is_placed: bool,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Of the first document, where it is at the API itself.
    document_fields: Vec<u8>,
    document_bytes_max: usize,
    timeout: Duration,
    /// Zero: only at the start.
    refresh: Duration,
    unhealthy_after: u32,
    reply_bytes_max: usize,
    wishes: Arc<Wishes>,
}

struct Inner {
    config: Config,
    client: Client,
    publisher: Publisher,
    loaded: Loaded<Api>,
    /// Digest of the description that is offered. A reading holds the lock, so readings happen one at a time.
    known: tokio::sync::Mutex<Option<[u8; 32]>>,
}

/// Why a description is not put in force.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error(transparent)]
    Source(#[from] source::SourceError),
    #[error("the description cannot be used")]
    Document(#[from] document::DocumentError),
    #[error("the description was not read within {0:?}")]
    TimedOut(Duration),
    #[error(
        "the description now says that the API is at {0}; credentials are not sent there: set base_url if that is right"
    )]
    Moved(String),
    #[error("the description could not be worked on")]
    Lost(#[from] tokio::task::JoinError),
}

#[derive(Clone)]
pub(crate) struct OpenapiBackend(Arc<Inner>);

impl OpenapiBackend {
    fn new(config: Config, client: Client, publisher: Publisher) -> Self {
        Self(Arc::new(Inner {
            config,
            client,
            publisher,
            loaded: Loaded::starting(),
            known: tokio::sync::Mutex::default(),
        }))
    }

    /// Keeps the description fresh. Ends after `stop`.
    async fn run(self) {
        let inner = &*self.0;
        tokio::select! {
            () = inner.loaded.stopped() => {}
            () = inner.keep() => {}
            () = inner.client.tidy() => {}
        }
    }
}

impl Inner {
    async fn keep(&self) {
        let mut pause = RETRY_MIN;
        let mut failures = 0;
        loop {
            let wait = match self.load().await {
                Ok(()) => {
                    (failures, pause) = (0, RETRY_MIN);
                    self.config.refresh
                }
                Err(error) => {
                    failures += 1;
                    self.failed(&error, failures);
                    let now = pause;
                    pause = (pause * 2).min(RETRY_MAX);
                    // What is offered is good; nothing is gained by asking more often than usual.
                    match self.loaded.current() {
                        Some(_) if !self.config.refresh.is_zero() => {
                            self.config.refresh.min(RETRY_MAX)
                        }
                        _ => now,
                    }
                }
            };
            if wait.is_zero() {
                return std::future::pending().await;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Reads the description and puts it in force if it changed.
    async fn load(&self) -> Result<(), LoadError> {
        let config = &self.config;
        let mut known = self.known.lock().await;
        let reader = Reader {
            client: &self.client,
            fields: &config.document_fields,
            bytes_max: config.document_bytes_max,
        };
        let reading = tokio::time::timeout(config.timeout, reader.read(&config.location));
        let read = reading
            .await
            .map_err(|_| LoadError::TimedOut(config.timeout))??;
        if *known == Some(read.digest) {
            self.loaded.note_up(None);
            return Ok(());
        }
        let wishes = config.wishes.clone();
        // Some seconds of work for a large one, which calls of this worker need not wait for.
        let made =
            tokio::task::spawn_blocking(move || tools::api(read.root, &read.location, &wishes));
        let api = Arc::new(made.await??);
        let before = self.loaded.current();
        if let Some(before) = &before
            && before.home != api.home
            && !config.is_placed
            && self.has_credentials()
        {
            let place = api
                .home
                .as_ref()
                .map_or_else(|| "nowhere".to_owned(), ToString::to_string);
            return Err(LoadError::Moved(place));
        }
        for notice in &api.notices.kept {
            tracing::warn!(backend = %config.name, "{notice}");
        }
        let (count, left_out) = (api.offer.tools.len(), api.notices.total);
        tracing::info!(backend = %config.name, tools = count, notices = left_out, "the description was read");
        // Before calls may go by it: the catalog holds back what must be approved first.
        match before {
            Some(_) => self
                .publisher
                .publish_changed(api.offer.clone(), &[Change::Tools]),
            None => self.publisher.publish(api.offer.clone()),
        }
        *known = Some(read.digest);
        self.loaded.set_notices(api.notices.kept.clone());
        self.loaded.replace(api);
        self.loaded.note_up(None);
        Ok(())
    }

    fn has_credentials(&self) -> bool {
        let auth = &self.config.wishes.auth;
        let named = [&auth.bearer, &auth.basic, &auth.api_key];
        let any = named.into_iter().any(Option::is_some) || !auth.schemes.is_empty();
        any || !self.config.headers.is_empty()
    }

    fn failed(&self, error: &LoadError, failures: u32) {
        let problem = with_causes(error);
        tracing::warn!(backend = %self.config.name, "{problem}");
        if self.loaded.current().is_some() {
            return self.loaded.note_up(Some(format!(
                "what was read before stays in force: {problem}"
            )));
        }
        self.loaded.give_up_starting();
        let is_down = failures >= self.config.unhealthy_after;
        self.loaded.note_failure(problem, is_down);
        match is_down {
            true => self.publisher.withdraw(),
            false => self.publisher.tried(),
        }
    }

    /// The API, waiting while its description is read for the first time.
    async fn ready(&self) -> Result<Arc<Api>, Fault> {
        self.loaded.ready().await.ok_or_else(|| {
            let text = format!(
                "the description of backend `{}` cannot be read",
                self.config.name
            );
            Fault::new(Kind::BackendUnavailable, text).retry_after_ms(1000)
        })
    }

    fn timed_out(&self) -> Fault {
        let text = format!("backend `{}` did not answer in time", self.config.name);
        Fault::new(Kind::BackendTimeout, text)
    }

    async fn call(&self, call: &Call) -> Result<Reply, Fault> {
        if call.method != Method::ToolsCall {
            let text = format!("unknown method: {}", call.method.as_str());
            return Err(Fault::new(Kind::MethodNotFound, text));
        }
        let api = self.ready().await?;
        let own = call
            .target
            .as_ref()
            .and_then(|target| target.own_name.as_deref());
        let name = match own {
            Some(own) => own.to_owned(),
            None => call.params.string("name").unwrap_or_default().into_owned(),
        };
        let Some(operation) = api.operations.get(&name) else {
            return Err(Fault::new(
                Kind::UnknownName,
                format!("unknown tool: {name}"),
            ));
        };
        let raw = call
            .params
            .get_bytes("arguments")
            .unwrap_or_else(|| Bytes::from_static(b"{}"));
        let arguments = Payload::parse(raw, Rules::backend()).map_err(|error| {
            Fault::new(Kind::InvalidParams, "`arguments` must be an object").because(error)
        })?;
        let is_home = api.home.as_ref() == Some(&operation.base.origin);
        let built = request::build(operation, &arguments, &self.config.headers, is_home);
        let outgoing = match built {
            Ok(outgoing) => outgoing,
            Err(why) => return Ok(answer::unsendable(&why.to_string())),
        };
        // The description may have changed since the call was resolved.
        self.publisher
            .confirm(call)
            .map_err(|held| call.turned_back(held))?;
        let response = self
            .client
            .send(&outgoing, self.config.reply_bytes_max)
            .await?;
        Ok(answer::reply(operation, &arguments, &response))
    }
}

impl Backend for OpenapiBackend {
    fn name(&self) -> &str {
        &self.0.config.name
    }

    fn describe(&self) -> Description {
        Description {
            kind: TYPE,
            target: self.0.config.target.clone(),
        }
    }

    fn call(&self, call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let timed = tokio::time::timeout(inner.config.timeout, inner.call(&call)).await;
            timed.unwrap_or_else(|_| Err(inner.timed_out()))
        })
    }

    fn look(&self) -> BoxFuture<'static, Result<(), Fault>> {
        let inner = self.0.clone();
        Box::pin(async move {
            inner.load().await.map_err(|error| {
                let text = format!(
                    "the description of backend `{}` cannot be read",
                    inner.config.name
                );
                Fault::new(Kind::BackendUnavailable, text).because(error)
            })
        })
    }

    fn restart(&self) -> BoxFuture<'static, Result<(), Fault>> {
        self.look()
    }

    fn status(&self) -> Status {
        self.0.loaded.status()
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        self.0.loaded.stop();
        Box::pin(std::future::ready(()))
    }
}
