//! One bounded GET of a URL that the configuration names: public keys, documents.
//!
//! Targets come from the configuration only: redirects are not followed, and no input of a caller gets here. One
//! connection per fetch; the component that fetches decides how often.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderValue, Method, StatusCode, Uri};

use crate::http::pool::{Address, Pool};
use crate::http::wire::Request;

const AGENT: &str = concat!("sentinel/", env!("CARGO_PKG_VERSION"));

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the URL cannot be used: {0}")]
    Url(String),
    #[error("nothing came within {0:?}")]
    TimedOut(Duration),
    #[error("the server could not be reached")]
    Unreachable(#[source] std::io::Error),
    #[error("the answer could not be read")]
    Broken(#[source] std::io::Error),
    #[error("the server answered {0}")]
    Status(u16),
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
}

/// The body of a 200 answer, if it comes whole within the bounds.
pub async fn get(url: &Uri, bytes_max: usize, time_max: Duration) -> Result<Bytes, FetchError> {
    tokio::time::timeout(time_max, Box::pin(get_unbounded(url, bytes_max)))
        .await
        .unwrap_or(Err(FetchError::TimedOut(time_max)))
}

async fn get_unbounded(url: &Uri, bytes_max: usize) -> Result<Bytes, FetchError> {
    let bad = |why: &str| FetchError::Url(why.to_owned());
    let address = Address::of(url).map_err(FetchError::Url)?;
    let authority = url.authority().ok_or_else(|| bad("it has no host"))?;
    let host = HeaderValue::from_str(authority.as_str()).map_err(|_| bad("it has an odd host"))?;
    let mut request = Request::new(&Method::GET, url);
    request.field(&HOST, &host);
    request.field(&ACCEPT, &HeaderValue::from_static("application/json, */*"));
    request.field(&USER_AGENT, &HeaderValue::from_static(AGENT));
    let pool = Pool::new(address);
    let mut wire = pool.take().await.map_err(FetchError::Unreachable)?;
    let answer = wire.send(&request.end()).await;
    let head = answer.map_err(|error| FetchError::Broken(error.into()))?;
    if head.status != StatusCode::OK.as_u16() {
        return Err(FetchError::Status(head.status));
    }
    let body = wire.whole(bytes_max).await.map_err(FetchError::Broken)?;
    body.ok_or(FetchError::TooLarge(bytes_max))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that sends one fixed answer, once.
    async fn server(says: &'static str) -> Uri {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/keys", listener.local_addr().expect("bound"));
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("a caller");
            let mut head = vec![0; 4096];
            let _ = socket.read(&mut head).await;
            let _ = socket.write_all(says.as_bytes()).await;
            let _ = socket.read(&mut head).await;
        });
        url.parse().expect("a URL")
    }

    async fn fetch(says: &'static str) -> Result<Bytes, FetchError> {
        get(&server(says).await, 16, Duration::from_millis(300)).await
    }

    #[tokio::test]
    async fn a_fetch_is_bounded_and_follows_nobody() {
        let whole = fetch("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
        assert_eq!(whole.expect("a body"), "{}");
        let away =
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        assert!(matches!(fetch(away).await, Err(FetchError::Status(_))));
        let large = "HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n12345678901234567";
        assert!(matches!(fetch(large).await, Err(FetchError::TooLarge(16))));
        let slow = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{";
        assert!(matches!(fetch(slow).await, Err(FetchError::TimedOut(_))));
        let nobody = "http://127.0.0.1:1/".parse().expect("a URL");
        let refused = get(&nobody, 16, Duration::from_secs(5)).await;
        assert!(matches!(refused, Err(FetchError::Unreachable(_))));
    }
}
