use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;

/// A connection, and the server's end of it.
async fn pair() -> (Wire, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
    (
        Wire::new(Socket::Tcp(ours.expect("connected"))),
        theirs.expect("accepted").0,
    )
}

fn post(body: Bytes) -> Request {
    let mut request = Request::new(&Verb::POST, &Uri::from_static("http://x/mcp?a=b"));
    request.field(&http::header::HOST, &HeaderValue::from_static("x"));
    request.with(body)
}

async fn read_head(server: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(server.read_u8().await.expect("a byte"));
    }
    String::from_utf8(read).expect("text")
}

#[tokio::test]
async fn g_48_a_connection_serves_one_request_after_another() {
    let (mut wire, mut server) = pair().await;
    let serve = tokio::spawn(async move {
        for _ in 0..3 {
            let head = read_head(&mut server).await;
            assert_eq!(
                head,
                "POST /mcp?a=b HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n"
            );
            let mut body = [0; 2];
            server.read_exact(&mut body).await.expect("a body");
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-Y: z\r\n\r\nok";
            server.write_all(answer).await.expect("heard");
        }
        server
    });
    for _ in 0..3 {
        assert!(wire.is_silent().await);
        let head = wire
            .send(&post(Bytes::from_static(b"{}")))
            .await
            .expect("an answer");
        assert_eq!((head.status, head.get("x-y")), (200, Some(&b"z"[..])));
        assert!(!wire.is_free(), "its answer was not read");
        assert_eq!(
            wire.whole(2).await.expect("read").as_deref(),
            Some(&b"ok"[..])
        );
        assert!(wire.is_free());
    }
    drop(serve.await.expect("served"));
    let heard = tokio::time::timeout(
        std::time::Duration::from_secs(5),
        poll_fn(|cx| wire.poll_read(cx)),
    );
    assert_eq!(heard.await.expect("in time").expect("an end"), 0);
    assert!(!wire.is_silent().await);
}

#[tokio::test]
async fn a_large_request_is_written_from_where_it_is_and_a_large_answer_comes_whole() {
    let (mut wire, mut server) = pair().await;
    let large = Bytes::from(vec![b'x'; 3 << 20]);
    let len = large.len();
    let echo = tokio::spawn(async move {
        read_head(&mut server).await;
        let mut body = vec![0; len];
        server.read_exact(&mut body).await.expect("all of it");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n\r\n");
        server.write_all(head.as_bytes()).await.expect("heard");
        server.write_all(&body).await.expect("heard");
    });
    wire.send(&post(large.clone())).await.expect("an answer");
    assert_eq!(wire.whole(len).await.expect("read"), Some(large));
    assert!(wire.is_free());
    echo.await.expect("served");
}

#[tokio::test]
async fn g_48_an_answer_before_the_end_of_the_request_is_heard_and_ends_the_connection() {
    let (mut wire, mut server) = pair().await;
    let refuse = tokio::spawn(async move {
        read_head(&mut server).await;
        server
            .write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
            .await
            .expect("heard");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    });
    let head = wire
        .send(&post(Bytes::from(vec![b'x'; 64 << 20])))
        .await
        .expect("an answer");
    assert_eq!(head.status, 413);
    assert_eq!(
        wire.whole(10).await.expect("read").as_deref(),
        Some(&b"no"[..])
    );
    assert!(!wire.is_free());
    refuse.await.expect("served");
}

#[tokio::test]
async fn only_what_was_not_written_is_called_undelivered() {
    let (mut wire, server) = pair().await;
    server.set_zero_linger().expect("set");
    drop(server);
    // The first bytes into a reset connection are refused; nothing of the request left.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let error = wire
        .send(&post(Bytes::from_static(b"{}")))
        .await
        .expect_err("closed");
    assert!(matches!(error, SendError::Undelivered(_)), "{error:?}");

    let (mut wire, mut server) = pair().await;
    let hang_up = tokio::spawn(async move { read_head(&mut server).await });
    let error = wire
        .send(&post(Bytes::from_static(b"{}")))
        .await
        .expect_err("no answer");
    assert!(matches!(error, SendError::Lost(_)), "{error:?}");
    hang_up.await.expect("read");
}

#[tokio::test]
async fn p_s13_answers_that_are_too_large_cut_short_or_no_http_are_errors() {
    let cases: [(&[u8], &str); 5] = [
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n123456789",
            "too large",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n",
            "too large",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n12",
            "the answer ended before its end",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12",
            "the answer ended before its end",
        ),
        (
            b"220 mail.example\r\n\r\n",
            "the answer is not HTTP: invalid HTTP version",
        ),
    ];
    for (says, expected) in cases {
        let (mut wire, mut server) = pair().await;
        server.write_all(says).await.expect("heard");
        server.shutdown().await.expect("shut");
        let said = match wire.send(&post(Bytes::new())).await {
            Err(error) => io::Error::from(error).to_string(),
            Ok(_) => match wire.whole(8).await {
                Ok(None) => "too large".to_owned(),
                Ok(Some(body)) => format!("{body:?}"),
                Err(error) => error.to_string(),
            },
        };
        assert_eq!(said, expected, "{}", says.escape_ascii());
        assert!(!wire.is_free());
    }
}
