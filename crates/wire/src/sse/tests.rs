//! Event streams (G-24, G-49: replies as SSE, read and written; P-R19: any bytes, any split).

use proptest::prelude::*;

use super::*;

fn read(chunks: &[&[u8]], max: usize) -> Vec<Result<Event, SseError>> {
    let mut decoder = Decoder::new(max);
    let mut got = Vec::new();
    for chunk in chunks {
        let mut input = Bytes::copy_from_slice(chunk);
        while let Some(event) = decoder.next(&mut input) {
            got.push(event);
        }
        assert!(input.is_empty(), "a chunk is always consumed");
        assert!(decoder.partial.capacity() <= max && decoder.fields.size <= max);
    }
    got
}

fn event(event: Option<&str>, data: &str, id: Option<&str>, retry: Option<u64>) -> Event {
    let own = |s: &str| Bytes::copy_from_slice(s.as_bytes());
    Event {
        event: event.map(own),
        data: own(data),
        id: id.map(own),
        retry,
    }
}

fn data(data: &str) -> Event {
    event(None, data, None, None)
}

fn check(stream: &str, expected: &[Event]) {
    let expected: Vec<_> = expected.iter().cloned().map(Ok).collect();
    assert_eq!(read(&[stream.as_bytes()], 1000), expected, "{stream:?}");
    let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
    assert_eq!(read(&bytes, 1000), expected, "{stream:?} byte by byte");
}

#[test]
fn a_blank_line_ends_an_event_whatever_the_line_ends_are() {
    for stream in [
        "data: a\n\ndata: b\n\n",
        "data: a\r\rdata: b\r\r",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\n\r\ndata: b\r\n\n",
        "data: a\r\n\rdata: b\n\r",
        "data:a\n\n\n\n\ndata:b\r\n\r\n",
    ] {
        check(stream, &[data("a"), data("b")]);
    }
}

#[test]
fn the_lines_of_one_event_may_end_in_anything() {
    let expected = event(Some("m"), "x\ny", Some("1"), None);
    for end in ["\n", "\r", "\r\n"] {
        let lines = ["event: m", "id: 1", "data: x", "data: y", "", ""];
        check(&lines.join(end), std::slice::from_ref(&expected));
    }
    check("event: m\r\nid: 1\rdata: x\ndata: y\r\n\r\n", &[expected]);
}

#[test]
fn a_cr_ends_the_event_at_once_and_its_lf_is_not_a_second_end() {
    let mut decoder = Decoder::new(100);
    let mut input = Bytes::from_static(b"data: a\r\n\r");
    assert_eq!(decoder.next(&mut input), Some(Ok(data("a"))));
    let mut input = Bytes::from_static(b"\ndata: b\n\n");
    assert_eq!(decoder.next(&mut input), Some(Ok(data("b"))));
}

#[test]
fn data_lines_are_joined_and_one_space_is_dropped() {
    check("data: a\ndata:b\ndata:  c\n\n", &[data("a\nb\n c")]);
    check("data\ndata\n\n", &[data("\n")]);
    check("data\n\n", &[data("")]);
    check("data:\n\n", &[data("")]);
    check("data: \n\n", &[data("")]);
    check("data: a:b: c\n\n", &[data("a:b: c")]);
}

#[test]
fn names_ids_and_retry_are_read_and_unknown_fields_are_not() {
    check(
        "event: message\nid: 7/3\nretry: 1500\nfoo: bar\nnonsense\nDATA: no\ndata: x\n\ndata: y\n\n",
        &[
            event(Some("message"), "x", Some("7/3"), Some(1500)),
            data("y"),
        ],
    );
    check(
        "event: a\nevent: b\nid: 1\nid: 2\ndata: x\n\n",
        &[event(Some("b"), "x", Some("2"), None)],
    );
}

#[test]
fn the_priming_event_and_a_bare_retry_are_seen() {
    check("id: 1\ndata:\n\n", &[event(None, "", Some("1"), None)]);
    check("id: 1\n\n", &[event(None, "", Some("1"), None)]);
    check("id\n\n", &[event(None, "", Some(""), None)]);
    check("retry: 30\n\n", &[event(None, "", None, Some(30))]);
    check("event: endpoint\n\n", &[]);
}

#[test]
fn an_id_with_nul_and_a_retry_that_is_no_number_are_ignored() {
    check("id: a\0b\ndata: x\n\n", &[data("x")]);
    for retry in ["", "-1", "1.5", "12ms", "99999999999999999999999"] {
        check(&format!("retry: {retry}\ndata: x\n\n"), &[data("x")]);
    }
    check(
        "retry: 5\nretry: x\ndata: x\n\n",
        &[event(None, "x", None, Some(5))],
    );
}

#[test]
fn comments_are_no_events_and_do_not_add_up() {
    check(":\n\n: hello\n\n:data: no\ndata: x\n:\n\n", &[data("x")]);
    let mut stream = ":keep-alive\n\n".repeat(200).into_bytes();
    stream.extend_from_slice(&b":within\n".repeat(200));
    stream.extend_from_slice(b"data: x\n\n");
    assert_eq!(read(&[&stream], 20), vec![Ok(data("x"))]);
}

#[test]
fn a_byte_order_mark_is_dropped_only_at_the_start() {
    check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[data("a")]);
    check("\u{feff}\n\ndata: a\n\n", &[data("a")]);
    check("\n\u{feff}data: b\n\n", &[]);
}

#[test]
fn an_unfinished_event_is_dropped() {
    check("data: a\n\ndata: b\n", &[data("a")]);
    check("data: a\n\ndata: b", &[data("a")]);
    let mut decoder = Decoder::new(100);
    assert!(!decoder.is_mid_event());
    decoder.next(&mut Bytes::from_static(b"data: a\n"));
    assert!(decoder.is_mid_event());
    decoder.next(&mut Bytes::from_static(b"\n"));
    assert!(!decoder.is_mid_event());
}

#[test]
fn an_event_over_the_bound_is_one_error_and_the_next_is_read() {
    let too_large = Err(SseError { max: 12 });
    let ok = Ok(data("ok"));
    for stream in [
        "data: 1234567\n\ndata: ok\n\n",
        "data: 123\ndata: 456\ndata: 7\n\ndata: ok\n\n",
        "data: 1234567890123\r\n\r\ndata: ok\r\n\r\n",
        "id: 1234567890\ndata: x\n\ndata: ok\n\n",
        ":123456789012345\ndata: x\n\ndata: ok\n\n",
    ] {
        let expected = vec![too_large.clone(), ok.clone()];
        assert_eq!(read(&[stream.as_bytes()], 12), expected, "{stream:?}");
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes, 12), expected, "{stream:?} byte by byte");
    }
    assert_eq!(read(&[b"data: 123456\n\n"], 12), vec![Ok(data("123456"))]);
}

#[test]
fn a_payload_in_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b"event: message\ndata: {\"a\":1}\n\n");
    let event = Decoder::new(100)
        .next(&mut chunk.clone())
        .expect("the event is complete")
        .expect("it is small");
    assert_eq!(event.data.as_ptr(), chunk[21..].as_ptr());
    assert!(event.is_message());
    assert!(!self::event(Some("endpoint"), "/x", None, None).is_message());
}

#[test]
fn a_large_payload_in_small_chunks_is_read_whole() {
    let payload = "x".repeat(1 << 20);
    let stream = format!("data: {payload}\n\n");
    let chunks: Vec<&[u8]> = stream.as_bytes().chunks(8192).collect();
    assert_eq!(read(&chunks, 2 << 20), vec![Ok(data(&payload))]);
}

#[test]
fn written_events_have_the_bytes_that_clients_know() {
    let mut out = Vec::new();
    push_message(&mut out, b"{\n\"a\":\r\n1}");
    push_event(&mut out, Some("4"), Some("message"), b"{}");
    push_priming(&mut out, "s/0", Some(2000));
    push_priming(&mut out, "s/1", None);
    push_retry(&mut out, 500);
    push_keep_alive(&mut out);
    let expected = "data: { \"a\": 1}\n\n\
        event: message\nid: 4\ndata: {}\n\n\
        id: s/0\nretry: 2000\ndata: \n\n\
        id: s/1\ndata: \n\n\
        retry: 500\n\n\
        :\n\n";
    assert_eq!(std::str::from_utf8(&out), Ok(expected));
    check(
        expected,
        &[
            data("{ \"a\": 1}"),
            event(Some("message"), "{}", Some("4"), None),
            event(None, "", Some("s/0"), Some(2000)),
            event(None, "", Some("s/1"), None),
            event(None, "", None, Some(500)),
        ],
    );
}

#[test]
fn an_id_or_name_cannot_forge_a_field() {
    let mut out = Vec::new();
    push_event(&mut out, Some("1\ndata: x\r\0"), Some("a\n\nb"), b"{}");
    assert_eq!(&out[..], b"event: ab\nid: 1data: x\ndata: {}\n\n");
}

/// Bytes that are likely to mean something.
fn stream_bytes() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        4 => Just(&b"\n"[..]),
        2 => Just(&b"\r"[..]),
        2 => Just(&b"\r\n"[..]),
        3 => Just(&b"data: "[..]),
        1 => Just(&b"data"[..]),
        1 => Just(&b"id:"[..]),
        1 => Just(&b"event: "[..]),
        1 => Just(&b"retry: 1"[..]),
        1 => Just(&b":"[..]),
        1 => Just(&b" "[..]),
        1 => Just(&b"\0"[..]),
        1 => Just(BOM),
        2 => Just(&b"xyz"[..]),
    ];
    proptest::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_events(
        bytes in stream_bytes(),
        cuts in proptest::collection::vec(0usize..300, 0..20),
        max in prop_oneof![0usize..30, Just(1000usize)],
    ) {
        let whole = read(&[&bytes], max);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        prop_assert_eq!(read(&chunks, max), whole);
    }

    #[test]
    fn what_is_written_is_read_back(
        payload in "[^\r\n]{0,80}",
        id in proptest::option::of("[!-~]{0,10}"),
        name in proptest::option::of("[!-~]{0,10}"),
    ) {
        let mut out = Vec::new();
        push_event(&mut out, id.as_deref(), name.as_deref(), payload.as_bytes());
        let expected = event(name.as_deref(), &payload, id.as_deref(), None);
        prop_assert_eq!(read(&[&out], 1000), vec![Ok(expected)]);
    }
}
