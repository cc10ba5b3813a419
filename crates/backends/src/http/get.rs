//! A plain GET, for asking another gateway whether it is ready.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};

use super::pool::{Address, Pool};

const TIMEOUT: Duration = Duration::from_secs(5);

/// What a URL answers; a body above `bytes_max` is an error.
pub async fn get(url: &Uri, bytes_max: usize) -> io::Result<(StatusCode, Bytes)> {
    tokio::time::timeout(TIMEOUT, ask(url, bytes_max))
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer")))
}

async fn ask(url: &Uri, bytes_max: usize) -> io::Result<(StatusCode, Bytes)> {
    let address = Address::of(url).map_err(io::Error::other)?;
    let host = url.authority().map_or("", |authority| authority.as_str());
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(HOST, host)
        .body(Full::default())
        .map_err(io::Error::other)?;
    let mut wire = Pool::new(address).take().await?;
    let answer = wire.send(request).await;
    let answer = answer.map_err(|e| io::Error::other(e.into_error()))?;
    let (head, mut body) = answer.into_parts();
    let mut read = Vec::new();
    while let Some(frame) = wire.run(body.frame()).await {
        if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
            read.extend_from_slice(&data);
        }
        if read.len() > bytes_max {
            return Err(io::Error::other("the answer is too large"));
        }
    }
    Ok((head.status, read.into()))
}
