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

#[derive(Default)]
struct Kept(Mutex<Vec<Record>>);

impl Sink for Kept {
    fn append(&self, draft: &Draft<'_>) {
        let mut bytes = Vec::new();
        encode(draft, &mut bytes);
        let read = decode(&bytes).unwrap();
        self.0.lock().push(read.to_record());
    }

    fn intend(&self, _: &Draft<'_>) -> BoxFuture<'static, Result<u64, NotKept>> {
        ready(Ok(1)).boxed()
    }
}

fn auditor(arguments: Arguments) -> (Arc<Auditor>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let keeps = AuditSettings {
        arguments,
        ..AuditSettings::default()
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
        let key = RecordKey {
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

/// Whenever it was found out that the caller had left.
#[test]
fn a_caller_that_left_was_not_denied() {
    let (auditor, kept) = auditor(Arguments::Off);
    drop(open(&auditor, r#"{"name":"echo"}"#));
    open(&auditor, r#"{"name":"echo"}"#).finish(&Ending::Refused(Kind::Cancelled), 1);
    for record in kept.0.lock().iter() {
        let words = (&*record.decision, &*record.outcome, &*record.kind);
        assert_eq!(words, ("allow", "cancelled", "cancelled"));
    }
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
    let others = [Ending::Success, Ending::BackendError, Ending::InputRequired];
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
    let digest = said.digest.unwrap();
    assert_eq!(
        said.text.unwrap(),
        r#"{"user":"u","Api-Key":"[redacted]","deep":[{"db_password":"[redacted]","spin":2}],"pin":"[redacted]"}"#
    );
    let off = Arguments::Off.of(Some(raw));
    assert_eq!((off.digest, off.text), (None, None));
    let full = Arguments::Full.of(Some(raw));
    assert_eq!(full.text.unwrap().as_bytes(), raw);
    assert_eq!(full.digest, Some(digest));
    let brief = Arguments::Digest.of(Some(raw));
    assert_eq!((brief.digest, brief.text), (Some(digest), None));
}

#[test]
fn secrets_are_blanked_under_every_usual_name_and_in_urls() {
    let redacted = |raw: &str| {
        let said = Arguments::Redacted.of(Some(raw.as_bytes()));
        said.text.unwrap()
    };
    for key in [
        "pwd",
        "db-pwd",
        "Bearer",
        "bearer_auth",
        "passphrase",
        "credential",
        "AWS_CREDENTIALS",
        "pass",
        "pw",
        "auth",
        "X-Auth",
        "creds",
        "jwt",
        "OTP",
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
fn the_password_in_a_uri_is_on_record_only_where_everything_is() {
    for (keeps, operation) in [
        (Arguments::Off, "https://[redacted]@h/x"),
        (Arguments::Digest, "https://[redacted]@h/x"),
        (Arguments::Full, "https://u:s3cret@h/x"),
    ] {
        let (auditor, kept) = auditor(keeps);
        open(&auditor, r#"{"name":"https://u:s3cret@h/x"}"#).finish(&Ending::Success, 1);
        assert_eq!(kept.0.lock()[0].operation, operation);
    }
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
    let read = decode(&bytes).unwrap();
    let texts = (read.operation, read.caller);
    assert_eq!(texts, ("ec\u{1a}ho\u{1a}", "\u{1a}"));
}

/// Hashes of stored records rest on these bytes: a change here makes `audit verify` call all of them altered.
#[test]
fn p_a05_a_record_keeps_its_bytes_from_version_to_version() {
    let draft = Draft {
        at_ms: 1_795_000_000_123,
        request_id: "7",
        surface: "http",
        revision: "2025-11-25",
        caller: "ann",
        role: "dev",
        method: "no/such",
        operation: &"o".repeat(200),
        decision: "deny",
        outcome: "error",
        kind: "method_not_found",
        bytes_in: 230,
        bytes_out: 0x1_0000,
        args_digest: Some([7; 32]),
        args: Some("{}"),
        guarantee: Guarantee::Spool,
        ..Draft::default()
    };
    let mut bytes = Vec::new();
    encode(&draft, &mut bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let texts = ["0137", "03616e6e", "03646576", "00", "00", "c801"];
    let expected = [
        "0631000d",
        "7b5e56eea101",
        "e6",
        "000001",
        "010200020211",
        &"07".repeat(32),
        &texts.concat(),
        &"6f".repeat(200),
        "076e6f2f73756368",
        "020000007b7d",
    ];
    assert_eq!(hex, expected.concat());
    let (hash, _) = link(&[1; 32], 9, &draft, &mut Vec::new());
    assert_eq!(hash, chain(&[1; 32], 9, &bytes));
    let place = [&[1; 32][..], &[9, 0, 0, 0, 0, 0, 0, 2], &bytes].concat();
    assert_eq!(
        hash,
        *ring::digest::digest(&ring::digest::SHA256, &place).as_ref()
    );
    // A number that reaches into the byte of the format is refused.
    let beyond = SEQ_MAX + 1;
    let key = RecordKey {
        node: "n".to_owned(),
        lane: 2,
        seq: beyond,
    };
    let stored = Stored {
        key,
        record: draft.to_record(),
        hash: chain(&[1; 32], beyond, &bytes),
    };
    assert!(!stored.follows(&[1; 32], &mut Vec::new()));
}

#[test]
fn what_the_gateway_says_of_most_requests_is_not_spelt_out() {
    let len = |draft: Draft<'_>| {
        let mut bytes = Vec::new();
        encode(&draft, &mut bytes);
        bytes.len()
    };
    let least = len(Draft::default());
    for revision in sentinel_wire::Revision::ALL.map(|revision| revision.as_str()) {
        let draft = Draft::default();
        assert_eq!(len(Draft { revision, ..draft }), least, "{revision}");
    }
    for outcome in OUTCOMES {
        let draft = Draft::default();
        assert_eq!(len(Draft { outcome, ..draft }), least, "{outcome}");
    }
    for kind in [Kind::Forbidden, Kind::InvalidArguments, Kind::Overloaded] {
        let (draft, kind) = (Draft::default(), kind.as_str());
        assert_eq!(len(Draft { kind, ..draft }), least, "{kind}");
    }
    let method = Method::ToolsCall.as_str();
    let draft = Draft::default();
    assert_eq!(len(Draft { method, ..draft }), least);
}

/// Two records with one encoding would have one hash: what a text is not, and where it ends, is part of it.
#[test]
fn p_a05_what_is_put_behind_the_cut_of_any_text_is_found() {
    let long = "x".repeat(4096);
    let fields: [fn(&mut Record) -> &mut String; 12] = [
        |r| &mut r.request_id,
        |r| &mut r.surface,
        |r| &mut r.revision,
        |r| &mut r.caller,
        |r| &mut r.role,
        |r| &mut r.tenant,
        |r| &mut r.method,
        |r| &mut r.backend,
        |r| &mut r.operation,
        |r| &mut r.decision,
        |r| &mut r.outcome,
        |r| &mut r.kind,
    ];
    for (n, field) in fields.iter().enumerate() {
        let mut record = Record::default();
        field(&mut record).clone_from(&long);
        let (hash, _) = link(&[1; 32], 9, &record.draft(), &mut Vec::new());
        let key = RecordKey {
            node: "n".to_owned(),
            lane: 2,
            seq: 9,
        };
        let mut stored = Stored { key, record, hash };
        assert!(stored.follows(&[1; 32], &mut Vec::new()), "field {n}");
        field(&mut stored.record).push('y');
        assert!(!stored.follows(&[1; 32], &mut Vec::new()), "field {n}");
    }
}

#[test]
fn a_record_that_is_not_said_in_the_shortest_way_is_none() {
    let mut bytes = Vec::new();
    encode(&Draft::default(), &mut bytes);
    let mut spelt = bytes.clone();
    // Its surface, which is empty and has a number, spelt out.
    spelt[4] = 0;
    spelt.push(0);
    let mut zero = bytes.clone();
    let request_id = bytes.len() - 6;
    zero.splice(request_id..=request_id, [1, 0]);
    for (bytes, is_good) in [(bytes, true), (spelt, false), (zero, false)] {
        assert!(decode(&bytes).is_ok());
        let all = 0..bytes.len();
        let added = Gathering::default().add(&bytes, all, 1, [0; 32]).is_ok();
        assert_eq!(added, is_good, "{bytes:?}");
    }
}

/// Texts of a record: some that the gateway says often, and any other.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[^\\x00]{0,40}",
        "[^\\x00]{120,300}",
        proptest::sample::select(vec![
            "http",
            "tools/call",
            "allow",
            "success",
            "",
            "forbidden"
        ])
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn p_r19_bytes_that_are_no_record_are_refused_or_read(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        tail in proptest::collection::vec(0_u8..8, 0..100),
    ) {
        for bytes in [&bytes, &tail, &[&tail[..], &bytes].concat()] {
            // What is read can be written.
            if let Ok(read) = decode(bytes) {
                encode(&read, &mut Vec::new());
            }
        }
    }

    #[test]
    fn any_record_comes_back_as_it_was_written(
        at_ms: u64,
        bytes_out: u64,
        texts in proptest::array::uniform12(any_text()),
        args in proptest::option::of(".{0,200}"),
        args_digest: Option<[u8; 32]>,
        cut in 0_usize..400,
    ) {
        let [request_id, surface, revision, caller, role, tenant, method, backend, operation, decision, outcome, kind] = texts;
        let record = Record {
            at_ms, request_id, surface, revision, caller, role, tenant, method, backend, operation,
            decision, outcome, kind, args, args_digest, latency_us: 1, bytes_in: 0, bytes_out,
            policy_version: 4, guarantee: Guarantee::Sync, intent: 5,
        };
        let (before, seq) = ([at_ms as u8; 32], at_ms & SEQ_MAX);
        let mut bytes = Vec::new();
        encode(&record.draft(), &mut bytes);
        prop_assert_eq!(decode(&bytes).unwrap().to_record(), record.clone());
        if cut < bytes.len() {
            prop_assert!(decode(&bytes[..cut]).is_err());
        }
        let hash = chain(&before, seq, &bytes);
        let mut scratch = vec![7];
        prop_assert_eq!(link(&before, seq, &record.draft(), &mut scratch), (hash, &bytes[..]));
        let key = RecordKey { node: "n".to_owned(), lane: 2, seq };
        let stored = Stored { key, record, hash };
        prop_assert!(stored.follows(&before, &mut Vec::new()));
    }
}
