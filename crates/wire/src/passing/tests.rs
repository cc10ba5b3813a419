//! G-47, P-R19: a response is accepted in pieces exactly if it is accepted as a whole.

use proptest::prelude::*;

use super::*;
use crate::envelope::{Message, Outcome, Response};
use crate::json::{Kind, Rules};

/// What the parser reports: the result, the id, the classification.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    result: Vec<u8>,
    id: Option<u64>,
    result_type: ResultType,
    is_error: bool,
}

fn in_pieces<'t>(pieces: impl IntoIterator<Item = &'t [u8]>) -> Option<Read> {
    let mut passing = Passing::default();
    let mut result = Vec::new();
    for piece in pieces {
        let part = passing.take(piece).ok()?;
        result.extend_from_slice(&piece[part]);
    }
    passing.end().ok()?;
    Some(Read {
        result,
        id: passing.id(),
        result_type: passing.result_type(),
        is_error: passing.is_error(),
    })
}

/// The same from the parser of whole texts.
fn at_once(text: &[u8]) -> Option<Read> {
    let message = Message::parse(Bytes::copy_from_slice(text), Rules::backend()).ok()?;
    let Message::Response(Response {
        id,
        outcome: Outcome::Result(result),
    }) = message
    else {
        return None;
    };
    if Kind::of(result.as_bytes()) != Some(Kind::Object) {
        return None;
    }
    Some(Read {
        result: result.as_bytes().to_vec(),
        id: id.as_ref().and_then(Id::as_u64),
        result_type: match result.get("resultType") {
            None => ResultType::Unsaid,
            Some(br#""complete""#) => ResultType::Complete,
            Some(br#""input_required""# | br#""task""#) => ResultType::Unfinished,
            Some(_) => ResultType::Other,
        },
        is_error: result.get("isError") == Some(b"true"),
    })
}

#[track_caller]
fn check(text: &str) {
    let whole = at_once(text.as_bytes());
    assert_eq!(in_pieces([text.as_bytes()]), whole, "{text}");
    for size in [1, 2, 3, 7] {
        assert_eq!(in_pieces(text.as_bytes().chunks(size)), whole, "{text}");
    }
}

#[test]
fn what_passes_in_pieces_is_what_passes_as_a_whole() {
    for text in [
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        r#" { "result" : { "a" : [ 1 , -0.5e+3 , "é\ud83d\ude00\"" , null ] } , "id" : 7 , "jsonrpc" : "2.0" } "#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","isError":true,"content":[]}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","x":{"resultType":"task"},"isError":[true]}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","resultType":"input_required"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"resultTyp\u0065":"task","isError":{},"isError":false}}"#,
        r#"{"jsonrpc":"2.0","id":"7","result":{},"other":[{"id":8,"result":1}]}"#,
        r#"{"jsonrpc":"2.0","\u0069d":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":[7],"result":{"isError":true}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"params":1,"params":{}}"#,
    ] {
        assert!(at_once(text.as_bytes()).is_some(), "{text}");
        check(text);
    }
}

#[test]
fn what_is_no_result_does_not_pass() {
    for text in [
        "",
        "{}",
        "[]",
        "7",
        r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
        r#"{"jsonrpc":"2.0","id":7}"#,
        r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
        r#"{"id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"id":7}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"error":null}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"params":{},"params":1}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}} x"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"a":[1,]}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"a":[1}]}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"a":01}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"a":1e}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"a":nul}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"\u{1}\"}}",
    ] {
        assert_eq!(in_pieces([text.as_bytes()]), None, "{text}");
        check(text);
    }
}

#[test]
fn text_that_is_cut_or_no_text_does_not_pass() {
    let text = "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"é\"}}";
    let at = text.find('é').expect("it is there");
    let mut broken = text.as_bytes().to_vec();
    broken[at + 1] = b'x';
    for size in 1..9 {
        assert_eq!(in_pieces(broken.chunks(size)), None);
    }
    assert!(in_pieces([&text.as_bytes()[..=at], &text.as_bytes()[at + 1..]]).is_some());
}

#[test]
fn nesting_costs_a_bit_a_level() {
    let levels = 1 << 20;
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":{}{}}}}}"#,
        r#"[{"a":"#.repeat(levels / 2),
        "1".to_owned() + &"}]".repeat(levels / 2)
    );
    let mut passing = Passing::default();
    passing.take(text.as_bytes()).expect("it is JSON");
    passing.end().expect("and whole");
    assert!(passing.open.bits.len() <= levels / 64 + 1);
}

/// An envelope with members of all sorts, in any order, whole or damaged.
fn envelope() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just(r#"{"content":[{"type":"text","text":"é \"\\ \ud83d"}]}"#),
        Just(r#"{"resultType":"complete","a":{"isError":true},"isError":false}"#),
        Just(r#"{"isError":true,"resultType":"task"}"#),
        Just(r#"{"re\u0073ultType":"complete","n":[-1.5E-3,0,10]}"#),
        Just("{ }"),
        Just("[1,[],{}]"),
        Just("7"),
        Just(r#""2.0""#),
        Just("null"),
    ];
    let name = prop_oneof![
        6 => Just("result"),
        4 => Just("id"),
        4 => Just("jsonrpc"),
        1 => Just("error"),
        1 => Just("method"),
        1 => Just("params"),
        2 => Just("vendor"),
        1 => Just(r"\u0069d"),
    ];
    let members = proptest::collection::vec((name, value), 0..4);
    let damage = proptest::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (members, any::<bool>(), damage).prop_map(|(members, good, damage)| {
        let mut parts: Vec<String> = Vec::new();
        if good {
            parts.extend([r#""jsonrpc":"2.0""#.to_owned(), r#""id" : 7"#.to_owned()]);
        }
        let member = |(name, value): &(&str, &str)| format!("\"{name}\": {value}");
        parts.extend(members.iter().map(member));
        let mut text = format!(" {{{}}}\n", parts.join(" ,")).into_bytes();
        if let Some((at, byte)) = damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_split_reads_the_same(text in envelope(), sizes in proptest::collection::vec(1usize..9, 1..40)) {
        let whole = at_once(&text);
        let mut rest = &text[..];
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            let (piece, tail) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(in_pieces(pieces), whole, "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(in_pieces(text.chunks(3)), at_once(&text));
    }
}
