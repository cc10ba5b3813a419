//! Bounds of the table, and who gets a key.

use http::Response;

use super::super::super::body::Body;
use super::*;

fn identity(subject: &str, tenant: Option<&str>, role: &str) -> Identity {
    let local = Identity::local(role);
    Identity {
        subject: subject.into(),
        tenant: tenant.map(Into::into),
        role: role.into(),
        scopes: local.scopes.clone(),
        proof: sentinel_core::identity::Proof::None,
        account: None,
    }
}

fn keyed(subject: &str, key: &str, arguments: &str) -> Keyed {
    Keyed::new(
        &identity(subject, None, "r"),
        "echo",
        key,
        arguments.as_bytes(),
    )
}

fn answer(bytes: usize) -> StoredAnswer {
    StoredAnswer::of(&Response::new(Body::from(vec![b'x'; bytes]))).expect("ready bytes")
}

const BOUNDS: Replayable = Replayable {
    keys_max: 4,
    bytes_max: 10_000,
    ttl: Duration::from_secs(60),
};

/// Two keys and half of the bytes for one caller.
const SHARE: Replayable = Replayable {
    keys_max: 2,
    bytes_max: 5_000,
    ..BOUNDS
};

fn find(replays: &Arc<Replays>, keyed: &Keyed) -> Found {
    replays.find(keyed, BOUNDS, SHARE)
}

fn answered(replays: &Arc<Replays>, keyed: &Keyed, bytes: usize) {
    let Found::Free(claim) = find(replays, keyed) else {
        panic!("the key is free")
    };
    claim.keep(answer(bytes), BOUNDS, SHARE);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_claimed_answered_and_free_again_when_its_time_is_over() {
    let replays = Arc::new(Replays::default());
    let one = keyed("alice", "k", "{}");
    let Found::Free(claim) = find(&replays, &one) else {
        panic!("free")
    };
    assert!(matches!(find(&replays, &one), Found::Running(_)));
    assert!(matches!(
        find(&replays, &keyed("alice", "k", "[]")),
        Found::OtherArguments
    ));
    claim.keep(answer(1), BOUNDS, SHARE);
    assert!(matches!(find(&replays, &one), Found::Answered(kept) if kept.body_len() == 1));
    assert!(matches!(
        find(&replays, &keyed("alice", "k", "[]")),
        Found::OtherArguments
    ));
    tokio::time::advance(BOUNDS.ttl).await;
    assert!(matches!(find(&replays, &one), Found::Free(_)));
}

#[tokio::test]
async fn a_claim_that_is_dropped_wakes_those_who_wait_and_frees_the_key() {
    let replays = Arc::new(Replays::default());
    let one = keyed("alice", "k", "{}");
    let first = find(&replays, &one);
    let Found::Running(mut running) = find(&replays, &one) else {
        panic!("it runs")
    };
    drop(first);
    assert!(running.changed().await.is_err(), "nobody runs any more");
    assert!(matches!(find(&replays, &one), Found::Free(_)));
    assert!(replays.0.lock().callers.is_empty());
}

#[test]
fn keys_of_other_identities_and_operations_are_other_keys() {
    let who = [
        identity("alice", None, "r"),
        identity("alice", Some(""), "r"),
        identity("alice", Some("t"), "r"),
        identity("alice", None, "q"),
        identity("bob", None, "r"),
        identity("alicer", None, ""),
    ];
    let ids = who.iter().map(|who| Keyed::new(who, "echo", "k", b"{}").id);
    let mut ids: Vec<Digest> = ids.collect();
    ids.push(Keyed::new(&who[0], "fail", "k", b"{}").id);
    ids.push(Keyed::new(&who[0], "ech", "ok", b"{}").id);
    for (n, id) in ids.iter().enumerate() {
        assert!(!ids[..n].contains(id), "{n}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_oldest_answer_gives_way_a_callers_own_first() {
    let replays = Arc::new(Replays::default());
    let of = |who: &str, key: &str| keyed(who, key, "{}");
    answered(&replays, &of("bob", "old"), 1);
    for key in ["a", "b", "c"] {
        answered(&replays, &of("alice", key), 1);
    }
    let is_kept = |one: &Keyed| matches!(find(&replays, one), Found::Answered(_));
    assert!(is_kept(&of("bob", "old")), "alice has her share");
    assert!(is_kept(&of("alice", "b")) && is_kept(&of("alice", "c")));
    // The fourth place is taken, then there is none: the oldest of all gives way.
    answered(&replays, &of("carol", "x"), 1);
    answered(&replays, &of("dave", "x"), 1);
    assert!(!is_kept(&of("bob", "old")));
    assert!(!is_kept(&of("alice", "a")));
    let table = replays.0.lock();
    assert!(table.entries.len() <= BOUNDS.keys_max && table.oldest.len() <= BOUNDS.keys_max);
}

#[tokio::test(start_paused = true)]
async fn bytes_are_bounded_and_an_answer_beyond_them_still_answers_for_its_key() {
    let replays = Arc::new(Replays::default());
    let of = |key: &str| keyed("alice", key, "{}");
    answered(&replays, &of("a"), 3_000);
    answered(&replays, &of("b"), 3_000);
    assert!(
        matches!(find(&replays, &of("a")), Found::Free(_)),
        "it gave way"
    );
    assert!(replays.0.lock().bytes <= SHARE.bytes_max);
    answered(&replays, &of("huge"), 6_000);
    let found = find(&replays, &of("huge"));
    assert!(matches!(found, Found::TooLarge));
    assert_eq!(refusal(&found).kind, Kind::AnswerLost);
    let mut table = replays.0.lock();
    table.expire(Instant::now() + BOUNDS.ttl);
    assert_eq!((table.bytes, table.entries.len()), (0, 0));
}

#[test]
fn a_table_full_of_running_requests_takes_no_more() {
    let replays = Arc::new(Replays::default());
    let claims: Vec<Found> = ["a", "b", "c"]
        .map(|key| find(&replays, &keyed("alice", key, "{}")))
        .into();
    assert!(matches!(claims[2], Found::Full));
    assert_eq!(refusal(&claims[2]).kind, Kind::Overloaded);
}
