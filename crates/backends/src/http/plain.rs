//! A plain HTTP exchange with another gateway, outside MCP: readiness, or an operator's command.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, StatusCode, Uri};

use super::pool::{Address, Pool};
use super::wire::Request;

const TIMEOUT: Duration = Duration::from_secs(5);

/// One request and how to reach its target.
#[derive(Clone, Copy)]
pub struct PlainRequest<'a> {
    pub url: &'a Uri,
    /// A Unix socket of this machine through which the URL is reached.
    pub socket: Option<&'a Path>,
    /// `Authorization`, where the target requires it.
    pub credential: Option<&'a HeaderValue>,
    /// The JSON of a POST; `None` is a GET.
    pub json: Option<&'a str>,
    pub answer_bytes_max: usize,
    pub timeout: Duration,
}

/// What a URL answers to a GET; a body above `bytes_max` is an error.
pub async fn get(
    url: &Uri,
    socket: Option<&Path>,
    bytes_max: usize,
) -> io::Result<(StatusCode, Bytes)> {
    let plain = PlainRequest {
        url,
        socket,
        credential: None,
        json: None,
        answer_bytes_max: bytes_max,
        timeout: TIMEOUT,
    };
    plain.send().await
}

impl PlainRequest<'_> {
    pub async fn send(&self) -> io::Result<(StatusCode, Bytes)> {
        tokio::time::timeout(self.timeout, self.exchange())
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer")))
    }

    async fn exchange(&self) -> io::Result<(StatusCode, Bytes)> {
        let address = Address::of(self.url).map_err(io::Error::other)?;
        let host = self.url.authority().map_or("", |a| a.as_str());
        let host = HeaderValue::from_str(host).map_err(io::Error::other)?;
        let verb = self.json.map_or(Method::GET, |_| Method::POST);
        let mut request = Request::new(&verb, self.url);
        request.field(&HOST, &host);
        if let Some(credential) = self.credential {
            request.field(&AUTHORIZATION, credential);
        }
        let request = match self.json {
            Some(json) => {
                request.field(&CONTENT_TYPE, &HeaderValue::from_static("application/json"));
                request.with(Bytes::copy_from_slice(json.as_bytes()))
            }
            None => request.end(),
        };
        let mut wire = Pool::new(address.by(self.socket)).take().await?;
        let head = wire.send(&request).await?;
        let status = StatusCode::from_u16(head.status).map_err(io::Error::other)?;
        let body = wire.whole(self.answer_bytes_max).await?;
        let body = body.ok_or_else(|| io::Error::other("the answer is too large"))?;
        Ok((status, body))
    }
}
