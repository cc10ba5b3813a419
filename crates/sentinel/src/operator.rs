//! The operator's door: a socket in the data directory that only the gateway's own user can open.
//!
//! Whoever can open it could as well read the gateway's memory, so nobody is asked for a token there.
//! `knock` is the other side: how commands reach the gateways of a data directory, or a remote one.

use std::fs::{self, Permissions};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http::{HeaderValue, StatusCode, Uri};
use sentinel_backends::http::Plain;
use sentinel_surfaces::Gateway;
use sentinel_surfaces::http::Door;
use serde_json::Value;
use tokio::net::UnixListener;
use tokio::runtime::Handle;

use crate::commands::{Unreachable, plain};
use crate::runfile;

/// After an accept that failed, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// A reload may have to wait for programs to start.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The name under which a gateway is addressed through its socket.
pub(crate) const HERE: &str = "http://localhost/mcp";

/// Opens the door on `home`. A gateway without one still serves.
pub(crate) fn open(data_dir: &Path, gateway: &Arc<Gateway>, home: &Handle) -> anyhow::Result<()> {
    let path = runfile::own_socket(data_dir)?;
    let _inside = home.enter();
    let listener =
        UnixListener::bind(&path).with_context(|| format!("opening {}", path.display()))?;
    // The folder lets nobody else in meanwhile.
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let door = Door::operator(gateway.clone());
    home.spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(
                    door.clone().serve(stream, Ipv4Addr::LOCALHOST.into()),
                )),
                Err(error) => {
                    tracing::warn!("an operator could not be let in: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    Ok(())
}

/// A gateway's admin API, and how it is reached.
pub(crate) struct Reach {
    /// `<...>/admin/api/`
    base: Uri,
    socket: Option<PathBuf>,
    credential: Option<HeaderValue>,
}

impl Reach {
    /// A gateway of this machine, by its socket.
    pub(crate) fn socket(path: PathBuf) -> Self {
        Self {
            base: Uri::from_static("http://localhost/admin/api/"),
            socket: Some(path),
            credential: None,
        }
    }

    /// The gateway whose MCP endpoint this is.
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
        })
    }

    /// Asks with a GET, or a POST of `json`. Whatever the gateway says is an answer.
    pub(crate) async fn ask(
        &self,
        what: &str,
        json: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let url: Uri = format!("{}{what}", self.base).parse()?;
        let body = json.map(Value::to_string);
        let request = Plain {
            url: &url,
            socket: self.socket.as_deref(),
            credential: self.credential.as_ref(),
            json: body.as_deref(),
            answer_bytes_max: ANSWER_BYTES_MAX,
            timeout: ANSWER_MAX,
        };
        let (status, body) = request
            .send()
            .await
            .map_err(|error| Unreachable(format!("{} cannot be asked: {error}", self.place())))?;
        let answer = serde_json::from_slice(&body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).trim().to_owned()));
        Ok((status, answer))
    }

    /// Asks, and takes anything but success for a failure.
    pub(crate) async fn wish(&self, what: &str, json: Option<&Value>) -> anyhow::Result<Value> {
        let (status, answer) = self.ask(what, json).await?;
        if status.is_success() {
            return Ok(answer);
        }
        let said = answer["error"]["message"]
            .as_str()
            .or(answer["detail"].as_str())
            .or(answer.as_str())
            .unwrap_or_default();
        let help = match status {
            StatusCode::UNAUTHORIZED => "; name a token with --token or SENTINEL_TOKEN",
            StatusCode::FORBIDDEN => "; the role needs the permission \"admin\"",
            _ => "",
        };
        anyhow::bail!(
            "{} refuses ({}): {}{help}",
            self.place(),
            status.as_u16(),
            plain(said)
        )
    }

    fn place(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None => self.base.to_string(),
        }
    }
}
