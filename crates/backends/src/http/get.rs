//! A plain exchange with another gateway, outside MCP: whether it is ready, or an operator's wish.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};

use super::pool::{Address, Pool};

const TIMEOUT: Duration = Duration::from_secs(5);

/// What is sent, and by which way.
#[derive(Clone, Copy)]
pub struct Plain<'a> {
    pub url: &'a Uri,
    /// A socket of this machine by which the URL is reached.
    pub socket: Option<&'a Path>,
    /// `Authorization`, where somebody wants to see it.
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
    let plain = Plain {
        url,
        socket,
        credential: None,
        json: None,
        answer_bytes_max: bytes_max,
        timeout: TIMEOUT,
    };
    plain.send().await
}

impl Plain<'_> {
    pub async fn send(&self) -> io::Result<(StatusCode, Bytes)> {
        tokio::time::timeout(self.timeout, self.exchange())
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer")))
    }

    async fn exchange(&self) -> io::Result<(StatusCode, Bytes)> {
        let address = Address::of(self.url).map_err(io::Error::other)?;
        let host = self.url.authority().map_or("", |a| a.as_str());
        let path = self.url.path_and_query().map_or("/", |path| path.as_str());
        let mut request = match self.json {
            Some(_) => Request::post(path).header(CONTENT_TYPE, "application/json"),
            None => Request::get(path),
        }
        .header(HOST, host);
        if let Some(credential) = self.credential {
            request = request.header(AUTHORIZATION, credential);
        }
        let body = Bytes::copy_from_slice(self.json.unwrap_or_default().as_bytes());
        let request = request.body(Full::new(body)).map_err(io::Error::other)?;
        let mut wire = Pool::new(address.by(self.socket)).take().await?;
        let answer = wire.send(request).await;
        let answer = answer.map_err(|e| io::Error::other(e.into_error()))?;
        let (head, mut body) = answer.into_parts();
        let mut read = Vec::new();
        while let Some(frame) = wire.run(body.frame()).await {
            if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
                read.extend_from_slice(&data);
            }
            if read.len() > self.answer_bytes_max {
                return Err(io::Error::other("the answer is too large"));
            }
        }
        Ok((head.status, read.into()))
    }
}
