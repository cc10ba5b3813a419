//! A call whose request and answer are HTTP's own: the backend sees the request as it came, and its status, headers and body
//! are the answer.
//!
//! It takes the walk of every call; the result that comes back through the walk is then empty, and the answer lies here. Not
//! here: which requests are such calls (`Route::is_whole`), what of the headers may pass (surfaces and the backend).

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;

/// Headers of one connection, and what HTTP itself writes to frame a message.
const OF_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

/// Whether a header, in lower case, belongs to a connection and not to the message.
pub fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.contains(&name)
}

/// A request and the place for its answer.
pub struct HttpCall {
    pub verb: Box<str>,
    /// Path and query as they were sent.
    pub url: Box<str>,
    /// In lower case, in the order in which they came. Credentials are left out.
    pub headers: Vec<(Box<str>, Box<str>)>,
    pub body: Bytes,
    answer: OnceLock<HttpAnswer>,
}

/// The backend's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl HttpCall {
    pub fn new(verb: &str, url: &str, headers: Vec<(Box<str>, Box<str>)>, body: Bytes) -> Self {
        Self {
            verb: verb.into(),
            url: url.into(),
            headers,
            body,
            answer: OnceLock::new(),
        }
    }

    /// Leaves the answer for the surface; the first one stands.
    pub fn answer(&self, answer: HttpAnswer) {
        let _ = self.answer.set(answer);
    }

    pub fn answered(&self) -> Option<&HttpAnswer> {
        self.answer.get()
    }
}

impl fmt::Debug for HttpCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpCall({} {})", self.verb, self.url)
    }
}
