use proptest::prelude::*;

use super::*;

const HEAD_MAX: usize = 4096;

/// Feeds `text` in pieces of these sizes and reads one answer of it.
fn read(text: &[u8], sizes: &[usize]) -> Result<(u16, bool, Vec<u8>, Vec<u8>), Problem> {
    let mut buffer = BytesMut::new();
    let mut pieces = Vec::new();
    let mut rest = text;
    for size in sizes.iter().copied().chain(std::iter::repeat(usize::MAX)) {
        if rest.is_empty() {
            break;
        }
        let (piece, later) = rest.split_at(size.clamp(1, rest.len()));
        pieces.push(piece);
        rest = later;
    }
    let mut pieces = pieces.into_iter();
    let mut head = None;
    let mut whole = Vec::new();
    loop {
        let missing = match &mut head {
            None => {
                head = Head::take(&mut buffer, HEAD_MAX)?;
                head.is_none()
            }
            Some((_, body)) => match body.next(&mut buffer)? {
                Piece::Data(data) => {
                    whole.extend_from_slice(&data);
                    false
                }
                Piece::Missing => true,
                Piece::End => break,
            },
        };
        if missing {
            match (pieces.next(), &mut head) {
                (Some(piece), _) => buffer.extend_from_slice(piece),
                (None, Some((_, body))) => body.close()?,
                (None, None) => return Err(Problem::CutShort),
            }
        }
    }
    let (head, body) = head.expect("an answer");
    assert!(body.is_over());
    buffer.extend(pieces.flatten());
    Ok((head.status, head.keeps_alive, whole, buffer.to_vec()))
}

fn whole(text: &str) -> Result<(u16, bool, String), Problem> {
    let (status, keeps, body, rest) = read(text.as_bytes(), &[])?;
    assert_eq!(String::from_utf8_lossy(&rest), "", "left over");
    Ok((status, keeps, String::from_utf8(body).expect("text")))
}

#[test]
fn g_48_each_way_to_end_a_body_is_understood() {
    let ok = |keeps, body: &str| Ok((200, keeps, body.to_owned()));
    assert_eq!(
        whole("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"),
        ok(true, "{}")
    );
    assert_eq!(
        whole("HTTP/1.1 200 OK\r\n\r\nuntil the end"),
        ok(true, "until the end")
    );
    assert_eq!(
        whole(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nx: y\r\n\r\n"
        ),
        ok(true, "abc0123456789")
    );
    assert_eq!(
        whole("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ok(true, "")
    );
    assert_eq!(
        whole("HTTP/1.1 204 No Content\r\n\r\n"),
        Ok((204, true, String::new()))
    );
    assert_eq!(
        whole("HTTP/1.1 200 OK\r\ncontent-length: 1, 1\r\n\r\nx"),
        ok(true, "x")
    );
    assert_eq!(
        whole(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"
        ),
        ok(true, "x")
    );
}

#[test]
fn g_48_a_connection_is_kept_as_the_server_says() {
    let keeps = |head: &str| {
        whole(&format!("{head}\r\ncontent-length: 0\r\n\r\n"))
            .expect("an answer")
            .1
    };
    assert!(keeps("HTTP/1.1 200 OK"));
    assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: Close"));
    assert!(!keeps("HTTP/1.1 200 OK\r\nconnection: x, close"));
    assert!(!keeps("HTTP/1.0 200 OK"));
    assert!(keeps("HTTP/1.0 200 OK\r\nconnection: keep-alive"));
}

#[test]
fn p_s13_an_answer_whose_end_is_not_clear_is_refused() {
    let head = |fields: &str| {
        whole(&format!(
            "HTTP/1.1 200 OK\r\n{fields}\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        ))
    };
    for fields in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: +5",
        "content-length: 5x",
        "content-length: ",
        "content-length: 99999999999999999999",
        "content-length: -1",
    ] {
        assert_eq!(head(fields), Err(Problem::Length), "{fields}");
    }
    for fields in [
        "transfer-encoding: gzip",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked, chunked",
    ] {
        assert_eq!(head(fields), Err(Problem::Coding), "{fields}");
    }
    let chunks = |text: &str| {
        whole(&format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{text}"
        ))
    };
    for text in [
        "5\nhello\r\n0\r\n\r\n",
        "5 x\r\nhello\r\n0\r\n\r\n",
        "x\r\n",
        "\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "10000000000000000\r\n",
    ] {
        assert_eq!(chunks(text), Err(Problem::Chunk), "{text:?}");
    }
    assert_eq!(chunks("5\r\nhel"), Err(Problem::CutShort));
    assert_eq!(chunks("5\r\nhello\r\n0\r\n"), Err(Problem::CutShort));
    assert_eq!(
        chunks(&format!("5;{}\r\nhello", "x".repeat(SIZE_LINE_BYTES_MAX))),
        Err(Problem::Chunk)
    );
    let trailers = "x: y\r\n".repeat(TRAILER_BYTES_MAX);
    assert_eq!(chunks(&format!("0\r\n{trailers}\r\n")), Err(Problem::Chunk));
}

#[test]
fn heads_are_bounded_and_must_be_http() {
    assert_eq!(
        whole("HTTP/1.1 101 Switching\r\n\r\n"),
        Err(Problem::Upgrade(101))
    );
    assert!(matches!(whole("SSH-2.0-x\r\n\r\n"), Err(Problem::Head(_))));
    assert!(matches!(
        whole("HTTP/1.1 200 OK\r\na b: c\r\n\r\n"),
        Err(Problem::Head(_))
    ));
    let fields = "x: y\r\n".repeat(FIELDS_MAX + 1);
    assert!(matches!(
        whole(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")),
        Err(Problem::Head(_))
    ));
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(HEAD_MAX));
    assert_eq!(whole(&long), Err(Problem::HeadTooLarge(HEAD_MAX)));
    assert_eq!(
        whole(&long[..HEAD_MAX + 10]),
        Err(Problem::HeadTooLarge(HEAD_MAX))
    );
}

#[test]
fn fields_are_found_whatever_their_case() {
    let mut buffer = BytesMut::from(
        "HTTP/1.1 200 OK\r\nMcp-Session-Id:  a b \r\nx: 1\r\nX: 2\r\ncontent-length: 0\r\n\r\nrest",
    );
    let (head, _) = Head::take(&mut buffer, HEAD_MAX)
        .expect("fine")
        .expect("whole");
    assert_eq!(head.get("mcp-session-id"), Some(&b"a b"[..]));
    assert_eq!(head.get("x"), Some(&b"1"[..]));
    assert_eq!(head.get("y"), None);
    assert_eq!(&buffer[..], b"rest");
}

proptest! {
    /// Any split of the bytes reads the same, and what follows an answer is left alone.
    #[test]
    fn any_split_reads_the_same(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        cuts in proptest::collection::vec(1_usize..40, 0..40),
        chunks in proptest::collection::vec(1_usize..50, 1..20),
        chunked in any::<bool>(),
        after in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut text = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n".to_vec();
        if chunked {
            text.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
            let mut rest = &body[..];
            for size in chunks.iter().copied().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, later) = rest.split_at(size.min(rest.len()));
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
                rest = later;
            }
            text.extend_from_slice(b"0\r\n\r\n");
        } else {
            text.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
            text.extend_from_slice(&body);
        }
        text.extend_from_slice(&after);
        let read = read(&text, &cuts).expect("an answer");
        prop_assert_eq!(read, (200, true, body, after));
    }

    #[test]
    fn nothing_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..300), cuts in proptest::collection::vec(1_usize..20, 0..30)) {
        let _ = read(&text, &cuts);
        let chunked = [&b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"[..], &text].concat();
        let _ = read(&chunked, &cuts);
    }
}
