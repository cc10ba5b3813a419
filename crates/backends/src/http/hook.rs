//! A URL that is told about something: JSON posted once, and nothing waits for the answer.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::Full;

use super::pool::{Address, Pool};

/// Whoever takes longer to listen is not told.
const HOOK_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Hook {
    pool: Pool,
    target: String,
    host: HeaderValue,
}

impl Hook {
    pub fn new(url: &Uri) -> Result<Self, String> {
        let authority = url.authority().ok_or("the URL has no host")?;
        Ok(Self {
            pool: Pool::new(Address::of(url)?),
            target: url
                .path_and_query()
                .map_or("/".to_owned(), |path| path.to_string()),
            host: HeaderValue::from_str(authority.as_str()).map_err(|error| error.to_string())?,
        })
    }

    /// Posts one JSON text; the connection is used once.
    pub async fn post(&self, json: Bytes) -> io::Result<StatusCode> {
        let request = Request::post(&self.target)
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(json))
            .map_err(io::Error::other)?;
        let sent = async {
            let mut wire = self.pool.take().await?;
            let answer = wire.send(request).await;
            Ok(answer
                .map_err(|e| io::Error::other(e.into_error()))?
                .status())
        };
        match tokio::time::timeout(HOOK_TIMEOUT, sent).await {
            Ok(answer) => answer,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        }
    }
}
