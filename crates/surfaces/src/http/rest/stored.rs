//! Answers that are kept to be given later, once or several times.

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Response, StatusCode};

use super::super::body::Body;
use super::{RATE_LIMIT, RATE_LIMIT_POLICY};

/// What an answer's headers take, about; they are few and short.
const HEADERS_BYTES: usize = 512;

/// An answer as it left, or would have left.
#[derive(Clone, Debug)]
pub(crate) struct StoredAnswer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl StoredAnswer {
    /// `None` for a stream, which nobody has whole.
    pub(super) fn of(response: &Response<Body>) -> Option<Self> {
        Some(Self {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.body().ready()?,
        })
    }

    /// Without what is left of a rate limit, which is another when the answer is given again.
    #[must_use]
    pub(super) fn without_figures(mut self) -> Self {
        self.headers.remove(RATE_LIMIT);
        self.headers.remove(RATE_LIMIT_POLICY);
        self
    }

    pub(super) fn respond(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body.clone()));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }

    pub(super) fn is_error(&self) -> bool {
        self.status.is_client_error() || self.status.is_server_error()
    }

    pub(super) fn body_len(&self) -> usize {
        self.body.len()
    }

    /// What it takes in memory.
    pub(super) fn weight(&self) -> usize {
        HEADERS_BYTES + self.body.len()
    }
}
