//! Lines of a stdio child (P-R19: any bytes, any split, no surprise).

use proptest::prelude::*;

use super::*;

type Got = Vec<Result<Vec<u8>, u64>>;

fn read(chunks: &[&[u8]], max: usize) -> Got {
    let mut decoder = LineDecoder::new(max);
    let mut got = Vec::new();
    let mut note = |line: Result<Bytes, LineTooLong>| {
        got.push(line.map(|l| l.to_vec()).map_err(|e| e.len));
    };
    for chunk in chunks {
        let mut input = *chunk;
        while let Some(line) = decoder.next(&mut input) {
            note(line);
        }
        assert!(input.is_empty(), "a chunk is always consumed");
        if let State::Keeping(kept) = &decoder.state {
            assert!(kept.len() <= max + 1 && kept.capacity() <= max + 1);
        }
    }
    if let Some(line) = decoder.finish() {
        note(line);
    }
    assert!(decoder.finish().is_none(), "the end is told once");
    got
}

fn check(chunks: &[&[u8]], max: usize, expected: &[Result<&str, u64>]) {
    let expected: Got = expected
        .iter()
        .map(|line| line.map(|l| l.as_bytes().to_vec()))
        .collect();
    assert_eq!(read(chunks, max), expected);
}

#[test]
fn lines_end_in_lf_or_crlf_and_blank_ones_are_passed_over() {
    check(
        &[b"{\"a\":1}\n\r\n\n  \t\n{\"b\":2}\r\n"],
        100,
        &[Ok("{\"a\":1}"), Ok("{\"b\":2}")],
    );
}

#[test]
fn the_last_line_needs_no_newline() {
    check(&[b"one\ntwo"], 100, &[Ok("one"), Ok("two")]);
    check(&[b"one\ntwo\r"], 100, &[Ok("one"), Ok("two")]);
    check(&[b"one\n  "], 100, &[Ok("one")]);
}

#[test]
fn a_line_may_come_in_many_pieces() {
    check(
        &[b"he", b"", b"llo\r", b"\nwor", b"ld\n"],
        100,
        &[Ok("hello"), Ok("world")],
    );
}

#[test]
fn a_line_of_exactly_the_bound_passes_with_either_line_end() {
    check(
        &[b"12345\n12345\r\n12345"],
        5,
        &[Ok("12345"), Ok("12345"), Ok("12345")],
    );
    check(&[b"12345\r", b"\nx\n"], 5, &[Ok("12345"), Ok("x")]);
}

#[test]
fn a_line_over_the_bound_is_one_error_and_the_next_line_is_read() {
    check(&[b"1234567", b"89\r", b"\nok\n"], 5, &[Err(9), Ok("ok")]);
    check(&[b"123456\nok\n"], 5, &[Err(6), Ok("ok")]);
    check(&[b"123456"], 5, &[Err(6)]);
    check(&[b"12345\rx\nok"], 5, &[Err(7), Ok("ok")]);
}

#[test]
fn an_endless_line_is_counted_and_not_kept() {
    let mut decoder = LineDecoder::new(10);
    for _ in 0..1000 {
        assert!(decoder.next(&mut &[b'x'; 1000][..]).is_none());
    }
    assert_eq!(decoder.skipping(), Some(1_000_000));
    let mut rest: &[u8] = b"\nfine\n";
    assert_eq!(
        decoder.next(&mut rest),
        Some(Err(LineTooLong {
            len: 1_000_000,
            max: 10
        }))
    );
    assert_eq!(
        decoder.next(&mut rest),
        Some(Ok(Bytes::from_static(b"fine")))
    );
    assert_eq!(decoder.skipping(), None);
}

#[test]
fn a_written_message_is_one_line() {
    let mut out = Vec::new();
    push_line(&mut out, b"{\n  \"a\": 1\n}");
    push_line(&mut out, b"{}");
    assert_eq!(&out[..], b"{   \"a\": 1 }\n{}\n");
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_lines(
        bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(b' ')], 0..200),
        cuts in proptest::collection::vec(0usize..200, 0..20),
        max in 0usize..20,
    ) {
        let whole = read(&[&bytes], max);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
        cuts.push(0);
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        prop_assert_eq!(read(&chunks, max), whole);
    }

    #[test]
    fn what_is_written_is_read_back(value in "[ -~]{1,80}") {
        prop_assume!(!value.trim().is_empty());
        let mut out = Vec::new();
        push_line(&mut out, value.as_bytes());
        prop_assert_eq!(read(&[&out], 100), vec![Ok(value.into_bytes())]);
    }
}
