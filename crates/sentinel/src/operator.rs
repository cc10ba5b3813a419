//! The operator socket in the data directory, which only the gateway's own user can open.
//!
//! A user who can open it could also read the gateway's memory, so it requires no token. `Reach` is the client side:
//! it connects commands to the gateways of a data directory, or to a remote one.

use std::fs::{self, Permissions};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http::{HeaderValue, StatusCode, Uri};
use sentinel_backends::http::PlainRequest;
use sentinel_core::Kind;
use sentinel_surfaces::Gateway;
use sentinel_surfaces::http::HttpServer;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixListener;
use tokio::runtime::Handle;

use crate::commands::{Unreachable, plain};
use crate::progress::Progress;
use crate::runfile;

/// Pause after a failed accept, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Polling interval for showing the progress line.
const PROGRESS: Duration = Duration::from_millis(250);
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Deadline of a command, the same as for `tools`.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// An approval asks the backend for its tools, so its program may have to start first.
pub(crate) const APPROVED_MAX: Duration = Duration::from_secs(60);
/// The URL by which a gateway is addressed through its socket.
pub(crate) const HERE: &str = "http://localhost/mcp";

/// Opens the socket on `home`. A gateway without one still serves.
pub(crate) fn open(data_dir: &Path, gateway: &Arc<Gateway>, home: &Handle) -> anyhow::Result<()> {
    let path = runfile::own_socket(data_dir)?;
    let _inside = home.enter();
    let listener =
        UnixListener::bind(&path).with_context(|| format!("opening {}", path.display()))?;
    // The permissions of the folder protect the socket until its own are set.
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let server = HttpServer::operator(gateway.clone());
    home.spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(server.clone().serve(
                    stream,
                    Ipv4Addr::LOCALHOST.into(),
                    None,
                ))),
                Err(error) => {
                    tracing::warn!("an operator could not be let in: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    Ok(())
}

/// The admin API of a gateway, and how to connect to it.
#[derive(Clone)]
pub(crate) struct Reach {
    /// `<...>/admin/api/`
    base: Uri,
    socket: Option<PathBuf>,
    credential: Option<HeaderValue>,
    answer_max: Duration,
}

impl Reach {
    /// A gateway of this machine, by its socket.
    pub(crate) fn socket(path: PathBuf) -> Self {
        Self {
            base: Uri::from_static("http://localhost/admin/api/"),
            socket: Some(path),
            credential: None,
            answer_max: ANSWER_MAX,
        }
    }

    /// The gateway of an MCP endpoint.
    pub(crate) fn remote(endpoint: &Uri, token: Option<&str>) -> anyhow::Result<Self> {
        let path = endpoint.path();
        let beside = path.rfind("/mcp").map_or("", |at| &path[..at]);
        let mut parts = endpoint.clone().into_parts();
        parts.path_and_query = Some(format!("{beside}/admin/api/").parse()?);
        let credential = token.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .ok()
                .context("the token has characters that a header cannot carry")?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        });
        Ok(Self {
            base: Uri::from_parts(parts)?,
            socket: None,
            credential: credential.transpose()?,
            answer_max: ANSWER_MAX,
        })
    }

    /// The same gateway with a longer deadline.
    #[must_use]
    pub(crate) fn patient(&self, answer_max: Duration) -> Self {
        Self {
            answer_max,
            ..self.clone()
        }
    }

    /// Sends a GET, or a POST of `json`. Any response of the gateway counts as an answer.
    pub(crate) async fn ask(
        &self,
        what: &str,
        json: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let url: Uri = format!("{}{what}", self.base).parse()?;
        let body = json.map(Value::to_string);
        let request = PlainRequest {
            url: &url,
            socket: self.socket.as_deref(),
            credential: self.credential.as_ref(),
            json: body.as_deref(),
            answer_bytes_max: ANSWER_BYTES_MAX,
            timeout: self.answer_max,
        };
        let mut progress = Progress::begin();
        let mut sent = pin!(request.send());
        let sent = loop {
            let line = format!("waiting for {} to answer `{what}`", self.place());
            tokio::select! {
                sent = &mut sent => break sent,
                () = tokio::time::sleep(PROGRESS) => progress.show(&line),
            }
        };
        drop(progress);
        let (status, body) = sent.map_err(|error| self.silent(what, &error))?;
        let answer = serde_json::from_slice(&body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).trim().to_owned()));
        Ok((status, answer))
    }

    fn silent(&self, what: &str, error: &io::Error) -> Unreachable {
        let why = match error.kind() {
            io::ErrorKind::TimedOut => {
                let seconds = self.answer_max.as_secs();
                format!("no answer to `{what}` came within {seconds} s")
            }
            _ => error.to_string(),
        };
        Unreachable(format!("{} cannot be asked: {why}", self.place()))
    }

    /// Sends a request; any response other than a gateway's own answer is an error.
    pub(crate) async fn wish<T: DeserializeOwned>(
        &self,
        what: &str,
        json: Option<&Value>,
    ) -> anyhow::Result<T> {
        let (status, answer) = self.ask(what, json).await?;
        self.granted(status, answer)
    }

    /// The content of a successful answer of a gateway.
    pub(crate) fn granted<T: DeserializeOwned>(
        &self,
        status: StatusCode,
        answer: Value,
    ) -> anyhow::Result<T> {
        if status.is_success() || status.is_redirection() {
            // Redirections and other responses are no answers of a gateway. A list would be decoded as the members of
            // an object in order.
            let is_own = |answer: &Value| match answer {
                Value::Array(items) => items.iter().all(Value::is_object),
                answer => answer.is_object(),
            };
            let own = Some(answer).filter(|answer| status.is_success() && is_own(answer));
            let read = own.and_then(|answer| serde_json::from_value(answer).ok());
            return read.ok_or_else(|| self.stranger().into());
        }
        let said = answer["detail"]
            .as_str()
            .or(answer["title"].as_str())
            .or(answer.as_str())
            .filter(|said| !said.is_empty())
            .or(status.canonical_reason())
            .unwrap_or("it does not say why");
        let by_role = answer["kind"] == Kind::Forbidden.as_str();
        let help = match status {
            StatusCode::UNAUTHORIZED => "; name a token with --token or SENTINEL_TOKEN",
            StatusCode::FORBIDDEN if by_role => "; the role needs the permission \"admin\"",
            _ => "",
        };
        anyhow::bail!(
            "{} refuses ({}): {}{help}",
            self.place(),
            status.as_u16(),
            plain(said)
        )
    }

    fn stranger(&self) -> Unreachable {
        Unreachable(format!(
            "{} does not answer like a Sentinel gateway: is the URL right? Is there a login page in front of it?",
            self.place()
        ))
    }

    fn place(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None => self.base.to_string(),
        }
    }
}
