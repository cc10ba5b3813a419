//! A webhook: posts JSON to a URL once; nothing waits for the answer.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use super::pool::{Address, Pool};
use super::wire::{Request, written};

/// A slower receiver misses the message.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Webhook {
    pool: Pool,
    path: Uri,
    fixed: Vec<u8>,
}

impl Webhook {
    pub fn new(url: &Uri) -> Result<Self, String> {
        let authority = url.authority().ok_or("the URL has no host")?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|error| error.to_string())?;
        let fields = HeaderMap::from_iter([
            (HOST, host),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]);
        Ok(Self {
            pool: Pool::new(Address::of(url)?),
            path: url.clone(),
            fixed: written(&fields),
        })
    }

    /// Posts one JSON text; the connection is used once.
    pub async fn post(&self, json: Bytes) -> io::Result<StatusCode> {
        let mut request = Request::new(&Method::POST, &self.path);
        request.fields(&self.fixed);
        let request = request.with(json);
        let sent = async {
            let mut wire = self.pool.take().await?;
            let head = wire.send(&request).await?;
            StatusCode::from_u16(head.status).map_err(io::Error::other)
        };
        match tokio::time::timeout(WEBHOOK_TIMEOUT, sent).await {
            Ok(answer) => answer,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        }
    }
}
