//! G-18, G-36, P-A06: what records say, and that every request leaves one.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use proptest::prelude::*;
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Params};

use super::*;
use crate::fault::Kind;
use crate::turn;

#[derive(Default)]
struct Kept(Mutex<Vec<Record>>);

impl Sink for Kept {
    fn append(&self, draft: &Draft<'_>) {
        let mut bytes = Vec::new();
        encode(draft, &mut bytes);
        self.0.lock().push(decode(&bytes).unwrap());
    }

    fn intend(&self, _: &Draft<'_>) -> BoxFuture<'static, Result<u64, NotKept>> {
        ready(Ok(1)).boxed()
    }
}

fn auditor(arguments: Arguments) -> (Arc<Auditor>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let keeps = Keeps {
        arguments,
        ..Keeps::default()
    };
    let auditor = Auditor::new(Arc::default(), Some(kept.clone()), keeps);
    (auditor, kept)
}

fn open(auditor: &Arc<Auditor>, params: &'static str) -> Entry {
    let params = Params::parse(Bytes::from_static(params.as_bytes()), Rules::backend()).unwrap();
    auditor.open(&Request {
        surface: Surface::Http,
        id: Some(b"\"a-7\""),
        method: Some(&Method::ToolsCall),
        params: Some(&params),
        bytes_in: 99,
        traceparent: None,
    })
}

/// P-A05: a text is cut before it is hashed, so what somebody put behind the cut is no part of the record.
#[test]
fn p_a05_nothing_can_be_added_where_texts_are_cut() {
    let before = genesis("n", 2);
    let stored = |caller: &str| {
        let record = Record {
            caller: caller.to_owned(),
            ..Record::default()
        };
        let mut bytes = Vec::new();
        encode(&record.draft(), &mut bytes);
        let key = Key {
            node: "n".to_owned(),
            lane: 2,
            seq: 1,
        };
        let hash = chain(&before, 1, &bytes);
        Stored { key, record, hash }
    };
    let longest = "x".repeat(4096);
    for caller in ["", "ann", &longest] {
        let mut stored = stored(caller);
        assert!(stored.follows(&before, &mut Vec::new()));
        for more in ["\0eve", "eve"] {
            stored.record.caller = format!("{caller}{more}");
            assert!(!stored.follows(&before, &mut Vec::new()), "{more:?}");
        }
    }
    // Nor put back what stands for it.
    let mut stored = stored("ann\0");
    assert!(!stored.follows(&before, &mut Vec::new()));
    stored.record.caller = "ann\u{1a}".to_owned();
    assert!(stored.follows(&before, &mut Vec::new()));
}

#[tokio::test]
async fn p_a03_records_of_one_turn_are_kept_in_order_at_its_end() {
    let (auditor, kept) = auditor(Arguments::Digest);
    let (other, elsewhere) = self::auditor(Arguments::Digest);
    let finish = |auditor: &Arc<Auditor>, bytes_out| {
        open(auditor, r#"{"name":"echo"}"#).finish(&Ending::Success, bytes_out);
    };
    let _turns = tokio::spawn(turn::run());
    tokio::task::yield_now().await;
    finish(&auditor, 1);
    finish(&other, 7);
    finish(&auditor, 2);
    assert!(turn::is_open(), "no answer leaves");
    assert!(kept.0.lock().is_empty());
    turn::end();
    let sizes = |kept: &Kept| -> Vec<u64> { kept.0.lock().iter().map(|r| r.bytes_out).collect() };
    assert_eq!(sizes(&kept), [1, 2]);
    assert_eq!(sizes(&elsewhere), [7]);
    // Many are kept before it ends, and nobody left to answer needs no turn.
    (0..100).for_each(|size| finish(&auditor, size));
    assert!(sizes(&kept).len() >= 64);
    drop(open(&other, r#"{"name":"echo"}"#));
    assert_eq!(sizes(&elsewhere), [7, 0]);
    turn::end();
    assert_eq!(sizes(&kept).len(), 102);
}

#[test]
fn a_finished_request_leaves_one_record_with_what_was_asked() {
    let (auditor, kept) = auditor(Arguments::Digest);
    let entry = open(&auditor, r#"{"name":"echo","arguments":{"a":1}}"#);
    entry.finish(&Ending::Success, 12);
    let kept = kept.0.lock();
    let [record] = &kept[..] else {
        panic!("one record, not {}", kept.len())
    };
    assert_eq!(record.request_id, "\"a-7\"");
    assert_eq!(
        (&*record.method, &*record.operation),
        ("tools/call", "echo")
    );
    assert_eq!((&*record.decision, &*record.outcome), ("allow", "success"));
    assert_eq!((record.bytes_in, record.bytes_out), (99, 12));
    let digest = ring::digest::digest(&ring::digest::SHA256, br#"{"a":1}"#);
    assert_eq!(record.args_digest.unwrap(), digest.as_ref());
    assert_eq!(record.args, None);
}

#[test]
fn a_request_nobody_answers_is_recorded_as_cancelled() {
    let (auditor, kept) = auditor(Arguments::Off);
    drop(open(&auditor, r#"{"name":"echo"}"#));
    let kept = kept.0.lock();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].outcome, "cancelled");
    assert_eq!(kept[0].args_digest, None);
}

#[test]
fn every_outcome_is_one_of_the_known_words() {
    let (auditor, kept) = auditor(Arguments::Off);
    let refusals = [
        Kind::Unauthorized,
        Kind::UnknownName,
        Kind::RateLimited,
        Kind::CircuitOpen,
        Kind::Overloaded,
        Kind::Disabled,
        Kind::Cancelled,
        Kind::BackendTimeout,
    ];
    let refusals = refusals.map(Ending::Refused);
    let others = [
        Ending::Success,
        Ending::BackendError,
        Ending::InputRequired,
        Ending::Malformed("x"),
        Ending::Cancelled,
    ];
    for ending in others.iter().chain(&refusals) {
        open(&auditor, r#"{"name":"echo"}"#).finish(ending, 1);
    }
    let kept = kept.0.lock();
    assert_eq!(kept.len(), others.len() + refusals.len());
    for record in kept.iter() {
        assert!(OUTCOMES.contains(&&*record.outcome), "{record:?}");
    }
}

#[test]
fn a_refusal_before_any_backend_is_a_denial() {
    let (auditor, kept) = auditor(Arguments::Digest);
    open(&auditor, r#"{"name":"nope"}"#).finish(&Ending::Refused(Kind::UnknownName), 1);
    let entry = open(&auditor, r#"{"name":"late"}"#);
    entry.trail().dispatched();
    entry.finish(&Ending::Refused(Kind::BackendTimeout), 1);
    let kept = kept.0.lock();
    let words = |r: &Record| (r.decision.clone(), r.outcome.clone(), r.kind.clone());
    assert_eq!(
        words(&kept[0]),
        ("deny".into(), "denied".into(), "unknown_name".into())
    );
    assert_eq!(
        words(&kept[1]),
        ("allow".into(), "error".into(), "backend_timeout".into())
    );
}

#[test]
fn secrets_are_blanked_by_the_names_of_their_keys() {
    let raw = br#"{"user":"u","Api-Key":"k","deep":[{"db_password":{"x":1},"spin":2}],"pin":3}"#;
    let said = Arguments::Redacted.of(Some(raw));
    let digest = said.digest().unwrap();
    assert_eq!(
        said.text().unwrap(),
        r#"{"user":"u","Api-Key":"[redacted]","deep":[{"db_password":"[redacted]","spin":2}],"pin":"[redacted]"}"#
    );
    let off = Arguments::Off.of(Some(raw));
    assert_eq!((off.digest(), off.text()), (None, None));
    let full = Arguments::Full.of(Some(raw));
    assert_eq!(full.text().unwrap().as_bytes(), raw);
    assert_eq!(full.digest(), Some(digest));
    // Short ones wait for their digest, and it is the same.
    for raw in [&raw[..64], &raw[..65]] {
        let (now, later) = (
            Arguments::Full.of(Some(raw)),
            Arguments::Digest.of(Some(raw)),
        );
        assert_eq!((later.digest(), later.text()), (now.digest(), None));
    }
}

#[test]
fn secrets_are_blanked_under_every_usual_name_and_in_urls() {
    let redacted = |raw: &str| {
        let said = Arguments::Redacted.of(Some(raw.as_bytes()));
        said.text().unwrap().to_owned()
    };
    for key in [
        "pwd",
        "db-pwd",
        "Bearer",
        "bearer_auth",
        "passphrase",
        "credential",
        "AWS_CREDENTIALS",
    ] {
        let said = redacted(&format!(r#"{{"{key}":"s3cret"}}"#));
        assert!(!said.contains("s3cret"), "{said}");
    }
    for (text, blanked) in [
        ("https://u:s3cret@h/p", "https://[redacted]@h/p"),
        ("https://s3cret@h", "https://[redacted]@h"),
        (
            "git clone https://u:s3@cret@h:8/x.git, then postgres://u:s3cret@db?x=a@b",
            "git clone https://[redacted]@h:8/x.git, then postgres://[redacted]@db?x=a@b",
        ),
        ("a://b://u:s3cret@h", "a://b://[redacted]@h"),
        ("https://u:s3cret@", "https://[redacted]@"),
    ] {
        assert_eq!(
            redacted(&format!(r#"{{"deep":["{text}"]}}"#)),
            format!(r#"{{"deep":["{blanked}"]}}"#)
        );
    }
    for harmless in [
        "https://h/@scope/p",
        "mail me@x.org",
        "https://h?to=me@x.org",
        "://@",
        "x://",
        "é://é@",
    ] {
        let said = redacted(&format!(r#"{{"t":"{harmless}"}}"#));
        assert_eq!(said.contains("[redacted]"), harmless == "é://é@", "{said}");
    }
    // A text that is all URLs costs one look at each byte.
    let many = "x://y@".repeat(40_000);
    assert!(redacted(&format!(r#"{{"t":"{many}"}}"#)).contains("x://[redacted]@x://[redacted]@"));
}

#[test]
fn metrics_take_no_label_from_a_caller() {
    let (auditor, _) = auditor(Arguments::Off);
    open(&auditor, r#"{"name":"made up"}"#).finish(&Ending::Refused(Kind::UnknownName), 1);
    let other = Method::Other("made/up".into());
    auditor
        .open(&Request {
            surface: Surface::Stdio,
            id: None,
            method: Some(&other),
            params: None,
            bytes_in: 1,
            traceparent: None,
        })
        .finish(&Ending::Refused(Kind::MethodNotFound), 1);
    let rows = auditor.metrics.rows();
    let labels: Vec<_> = rows
        .iter()
        .map(|r| (r.method, &*r.backend, &*r.tool))
        .collect();
    assert_eq!(labels, [("other", "", ""), ("tools/call", "", "")]);
}

#[test]
fn a_zero_character_is_replaced_and_the_text_goes_on() {
    let draft = Draft {
        operation: "ec\0ho\0",
        caller: "\0",
        ..Draft::default()
    };
    let mut bytes = Vec::new();
    encode(&draft, &mut bytes);
    let read = read(&bytes).unwrap();
    let texts = (read.operation, read.caller);
    assert_eq!(texts, ("ec\u{1a}ho\u{1a}", "\u{1a}"));
}

proptest! {
    #[test]
    fn any_record_comes_back_as_it_was_written(
        at_ms: u64,
        texts in proptest::array::uniform12("[^\\x00]{0,40}"),
        args in proptest::option::of(".{0,200}"),
        args_digest: Option<[u8; 32]>,
        cut in 0_usize..400,
    ) {
        let [request_id, surface, revision, caller, role, tenant, method, backend, operation, decision, outcome, kind] = texts;
        let record = Record {
            at_ms, request_id, surface, revision, caller, role, tenant, method, backend, operation,
            decision, outcome, kind, args, args_digest, latency_us: 1, bytes_in: 2, bytes_out: 3,
            policy_version: 4, guarantee: Guarantee::Sync, intent: 5,
        };
        let mut bytes = Vec::new();
        encode(&record.draft(), &mut bytes);
        let (before, mut scratch) = ([at_ms as u8; 32], vec![7]);
        let (hash, linked) = link(&before, at_ms, &record.draft(), &mut scratch);
        prop_assert_eq!((hash, linked), (chain(&before, at_ms, &bytes), &bytes[..]));
        prop_assert_eq!(decode(&bytes).unwrap(), record);
        if cut < bytes.len() {
            prop_assert!(decode(&bytes[..cut]).is_err());
        }
    }
}
