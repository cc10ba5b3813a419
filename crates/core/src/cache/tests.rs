use bytes::Bytes;
use sentinel_wire::Revision;

use super::*;

const ALICE: &str = "alice";

fn reply(text: String) -> Reply {
    Reply {
        revision: Revision::NEWEST,
        outcome: Outcome::Result(Payload::parse(text.into(), Rules::backend()).expect("json")),
    }
}

fn answer(ttl_ms: u64, scope: &str) -> Reply {
    let hints = format!(r#""ttlMs":{ttl_ms},"cacheScope":"{scope}""#);
    reply(format!(
        r#"{{"resultType":"complete",{hints},"contents":[]}}"#
    ))
}

fn asked(cache: &Cache, uri: &str, caller: &str) -> Result<Reply, CacheMiss> {
    cache.get(0, uri.into(), caller.into())
}

fn note(cache: &Cache, uri: &str, caller: &str, reply: &Reply) {
    let asked = asked(cache, uri, caller).expect_err("not known yet");
    cache.note(asked, reply);
}

fn knows(cache: &Cache, uri: &str, caller: &str) -> bool {
    asked(cache, uri, caller).is_ok()
}

#[tokio::test(start_paused = true)]
async fn c_39_an_answer_is_kept_for_as_long_and_for_whom_its_backend_says() {
    let cache = Cache::new(2);
    note(&cache, "x://public", ALICE, &answer(1000, "public"));
    note(&cache, "x://private", ALICE, &answer(1000, "private"));
    note(&cache, "x://none", ALICE, &answer(0, "public"));
    assert!(knows(&cache, "x://public", "bob"));
    assert!(knows(&cache, "x://private", ALICE));
    assert!(!knows(&cache, "x://private", "bob"), "another caller's");
    assert!(!knows(&cache, "x://none", ALICE));
    assert!(
        cache.get(1, "x://public".into(), ALICE.into()).is_err(),
        "another backend's"
    );
    tokio::time::advance(Duration::from_millis(400)).await;
    let Ok(Reply {
        outcome: Outcome::Result(aged),
        ..
    }) = asked(&cache, "x://public", "bob")
    else {
        panic!("still fresh")
    };
    assert_eq!(aged.get("ttlMs"), Some(&b"600"[..]), "what is left of it");
    tokio::time::advance(Duration::from_millis(600)).await;
    assert!(!knows(&cache, "x://public", ALICE) && !knows(&cache, "x://private", ALICE));
    assert_eq!(cache.0.lock().bytes, 0);
}

#[test]
fn c_39_what_a_backend_says_about_a_resource_ends_what_is_kept_of_it() {
    let cache = Cache::new(1);
    for uri in ["x://a", "x://a/b", "x://c"] {
        note(&cache, uri, ALICE, &answer(1000, "public"));
    }
    cache.changed(0, "x://a/b");
    assert!(!knows(&cache, "x://a", ALICE) && !knows(&cache, "x://a/b", ALICE));
    assert!(knows(&cache, "x://c", ALICE));
    let late = asked(&cache, "x://d", ALICE).expect_err("not known");
    cache.all_changed(0);
    assert!(!knows(&cache, "x://c", ALICE));
    // The answer may be older than the change.
    cache.note(late, &answer(1000, "public"));
    assert!(!knows(&cache, "x://d", ALICE));
}

#[test]
fn c_39_what_is_kept_is_bounded() {
    let cache = Cache::new(1);
    let filler = "x".repeat(100_000);
    let large = |n: usize| {
        reply(format!(
            r#"{{"resultType":"complete","ttlMs":9,"cacheScope":"public","n":{n},"t":"{filler}"}}"#
        ))
    };
    for n in 0..500 {
        note(&cache, &format!("x://{n}"), ALICE, &large(n));
    }
    let store = cache.0.lock();
    assert!(store.bytes <= BYTES_MAX && store.kept.len() > 200);
    drop(store);
    assert!(!knows(&cache, "x://0", ALICE));
    for n in 0..3 * ENTRIES_MAX {
        note(&cache, &format!("y://{n}"), ALICE, &answer(9, "private"));
    }
    let store = cache.0.lock();
    assert!(store.kept.len() <= ENTRIES_MAX && store.order.len() <= 2 * ENTRIES_MAX);
}

#[test]
fn c_39_only_plain_reads_are_answered_from_what_is_kept() {
    let plain = |text: &'static str| {
        let params = Params::parse(Bytes::from_static(text.as_bytes()), Rules::backend());
        plain_uri(&params.expect("json"))
    };
    assert_eq!(plain(r#"{"uri":"x://a"}"#).as_deref(), Some("x://a"));
    assert!(plain(r#"{"uri":"x://a","_meta":{"progressToken":1,"traceparent":"t"}}"#).is_some());
    assert!(plain(r#"{"uri":"x://a","_meta":{"example.com/user":1}}"#).is_none());
    assert!(plain(r#"{"uri":"x://a","requestState":"s"}"#).is_none());
    assert!(plain(r#"{"uri":"x://a","inputResponses":{}}"#).is_none());
}
