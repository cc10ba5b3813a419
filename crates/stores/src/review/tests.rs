//! The store apart from the rules: the chain of events, the backup, the cut of a diff.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sentinel_core::clock::SystemClock;
use sentinel_core::random::uuid;
use sentinel_review::store::{Addition, Category, Effect, NewEvent, Priority, ReviewStatus, Role};
use tempfile::TempDir;

use super::*;
use crate::cluster::Cluster;
use crate::postgres::Postgres;

fn open(path: &Path) -> SqliteReviews {
    let db = Sqlite::open(path, Synchronous::Full, &[MIGRATIONS]).unwrap();
    SqliteReviews::new(&db, Arc::new(SystemClock::new()), |_, _| None)
}

fn new() -> NewReview {
    NewReview {
        review_id: uuid(),
        intent: "intent".into(),
        description: None,
        agent_type: "a".into(),
        phase: "1".into(),
        plan: None,
        task: None,
        project: None,
        category: Category::CodeChange,
        priority: Priority::Normal,
        proposed_by: "p".into(),
        parent_id: None,
        diff: "äöü".into(),
        affected_files: Vec::new(),
    }
}

/// A decision that always says yes.
fn post(body: &str) -> Decide {
    let body = body.to_owned();
    Box::new(move |review, _| {
        Ok(Effect {
            status: ReviewStatus::InDiscussion,
            claimed_by: None,
            claim_generation: review.claim_generation,
            lease: None,
            addition: Some(Addition::Message {
                role: Role::Reviewer,
                body,
            }),
            events: vec![NewEvent {
                event: "message_posted",
                old_status: Some(review.status),
                new_status: Some(ReviewStatus::InDiscussion),
                detail: None,
            }],
        })
    })
}

/// A review with three messages in a file of its own.
async fn setup() -> (TempDir, PathBuf, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.db");
    let id = talk(&open(&path)).await;
    (folder, path, id)
}

async fn talk(store: &dyn ReviewStore) -> String {
    let id = store
        .submit(new(), Vec::new())
        .await
        .unwrap()
        .review
        .review_id;
    for body in ["one", "two", "three"] {
        let posted = store.act(id.clone(), "r".into(), None, post(body));
        posted.await.unwrap();
    }
    assert_eq!(store.verify().await.unwrap().events, 4);
    id
}

/// What somebody with a client of the database might do.
const TAMPERINGS: &[&str] = &[
    "UPDATE messages SET body = 'never said' WHERE body = 'two'",
    "UPDATE messages SET role = 'proposer' WHERE body = 'two'",
    "UPDATE messages SET posted_by = 'somebody' WHERE body = 'two'",
    "UPDATE messages SET created_at = '1999' WHERE body = 'two'",
    "UPDATE messages SET seq = 99 WHERE body = 'two'",
    "INSERT INTO messages SELECT 'forged', review_id, 9, role, 'never said', posted_by, created_at FROM messages \
     WHERE body = 'two'; UPDATE reviews SET message_count = 4",
    "INSERT INTO verdicts SELECT 'forged', id, 9, 'approved', NULL, 'r', created_at FROM reviews",
    "DELETE FROM messages WHERE body = 'three'",
    "DELETE FROM messages WHERE body = 'three'; UPDATE reviews SET message_count = 2",
    "UPDATE patches SET diff = 'other'",
    "UPDATE patches SET submitted_by = 'somebody'",
    "UPDATE patches SET accepted = true",
    "UPDATE reviews SET intent = 'other'",
    "UPDATE reviews SET agent_type = 'other'",
    "UPDATE reviews SET priority = 0",
    "UPDATE reviews SET project = 'other'",
    "UPDATE reviews SET affected_files = '[{}]'",
    "UPDATE reviews SET claimed_by = 'somebody'",
    "UPDATE reviews SET claim_generation = 2",
    "UPDATE reviews SET proposed_by = 'somebody'",
    "UPDATE reviews SET status = 'approved'",
    "UPDATE review_events SET actor = 'somebody' WHERE seq = 2",
    "UPDATE review_events SET created_at = '1999' WHERE seq = 4",
    "DELETE FROM review_events WHERE seq = 2",
    "DELETE FROM review_events WHERE seq = 4",
    "DELETE FROM review_events WHERE seq = 4; DELETE FROM messages WHERE body = 'three'; \
     UPDATE reviews SET message_count = 2",
];

/// Besides, what only SQLite has.
const TAMPERINGS_OF_SQLITE: &[&str] = &[
    "UPDATE review_events SET prev_seq = NULL WHERE seq = 3",
    "UPDATE review_events SET prev_seq = 1 WHERE seq = 4",
    "UPDATE reviews SET last_seq = 3",
];

fn is_found(found: &Result<VerifyReport, ReviewError>) -> bool {
    matches!(
        found,
        Err(ReviewError::Store {
            kind: "corrupt",
            ..
        })
    )
}

/// P-B07: whatever somebody changes with SQL is found.
#[tokio::test]
async fn p_b07_an_edited_or_deleted_row_is_found() {
    for tampering in TAMPERINGS.iter().chain(TAMPERINGS_OF_SQLITE) {
        let (_folder, path, _) = setup().await;
        let db = Connection::open(&path).unwrap();
        db.execute_batch(tampering).unwrap();
        let found = open(&path).verify().await;
        assert!(is_found(&found), "{tampering}: {found:?}");
    }
}

fn close() -> Decide {
    Box::new(|review, _| {
        Ok(Effect {
            status: ReviewStatus::Closed,
            claimed_by: None,
            claim_generation: review.claim_generation,
            lease: None,
            addition: None,
            events: vec![NewEvent {
                event: "review_closed",
                old_status: Some(review.status),
                new_status: Some(ReviewStatus::Closed),
                detail: None,
            }],
        })
    })
}

/// Closes a review and removes it; a second one stays.
async fn remove(store: &dyn ReviewStore, id: String) {
    store.submit(new(), Vec::new()).await.unwrap();
    store.act(id, "p".into(), None, close()).await.unwrap();
    let gone = store.purge("9999".into(), "operator".into()).await.unwrap();
    assert_eq!(gone.len(), 1);
    let verified = store.verify().await.unwrap();
    assert_eq!((verified.events, verified.purges.len()), (7, 1));
}

/// What somebody might do to hide a removal, or to pass something off as one.
const TAMPERINGS_OF_PURGES: &[&str] = &[
    "DELETE FROM purged_reviews",
    "UPDATE purged_reviews SET seq = 1",
    "UPDATE review_events SET actor = 'somebody' WHERE event = 'review_purged'",
    "UPDATE review_events SET actor = 'somebody' WHERE seq = 2",
    "DELETE FROM review_events WHERE event = 'review_purged'",
    "DELETE FROM review_events WHERE event = 'review_purged'; DELETE FROM purged_reviews",
    "DELETE FROM review_events WHERE seq = 3",
    "INSERT INTO purged_reviews SELECT id, 5 FROM reviews; DELETE FROM reviews",
];

/// C-32, P-B07: nobody removes a review unnoticed but by the command for it.
#[tokio::test]
async fn p_b07_a_removal_that_was_none_is_found() {
    for tampering in TAMPERINGS_OF_PURGES {
        let (_folder, path, id) = setup().await;
        remove(&open(&path), id).await;
        let db = Connection::open(&path).unwrap();
        db.execute_batch(tampering).unwrap();
        let found = open(&path).verify().await;
        assert!(is_found(&found), "{tampering}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_b07_a_removal_that_was_none_is_found_in_postgres() {
    let cluster = Cluster::start();
    for (n, tampering) in TAMPERINGS_OF_PURGES.iter().enumerate() {
        let url = cluster.database(&format!("purge{n}"));
        let db = Postgres::new(&url, 2, &[super::POSTGRES_MIGRATIONS]).expect("a URL");
        let store = PostgresReviews::new(&db, |_, _| None);
        let id = talk(&store).await;
        remove(&store, id).await;
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(tampering).await.unwrap();
        let found = store.verify().await;
        assert!(is_found(&found), "{tampering}: {found:?}");
        connection.abort();
    }
}

/// C-32: what was removed does not lie in free pages of the file.
#[tokio::test]
async fn c_32_removed_texts_are_overwritten() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.db");
    let store = open(&path);
    let id = talk(&store).await;
    let secret = "a text that must not stay behind ".repeat(2000);
    let posted = store.act(id.clone(), "r".into(), None, post(&secret));
    posted.await.unwrap();
    let lies_there = || {
        let needle = b"must not stay behind";
        let bytes = std::fs::read(&path).unwrap();
        bytes.windows(needle.len()).any(|window| window == needle)
    };
    let checkpoint = || {
        let db = Connection::open(&path).unwrap();
        let query = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy: i64 = db.query_row(query, [], |row| row.get(0)).unwrap();
        assert_eq!(busy, 0);
    };
    checkpoint();
    assert!(lies_there());
    store.act(id, "p".into(), None, close()).await.unwrap();
    store.purge("9999".into(), "operator".into()).await.unwrap();
    checkpoint();
    assert!(!lies_there());
}

/// The same on PostgreSQL, where the tables are put right again after each.
#[tokio::test(flavor = "multi_thread")]
async fn p_b07_an_edited_or_deleted_row_is_found_in_postgres() {
    const TABLES: [&str; 5] = [
        "reviews",
        "messages",
        "verdicts",
        "patches",
        "review_events",
    ];
    let cluster = Cluster::start();
    let db = Postgres::new(&cluster.url(), 2, &[super::POSTGRES_MIGRATIONS]).expect("a URL");
    let store = PostgresReviews::new(&db, |_, _| None);
    talk(&store).await;
    let (client, connection) = tokio_postgres::connect(&cluster.url(), tokio_postgres::NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let keep: String = TABLES
        .map(|t| format!("CREATE TABLE kept_{t} AS TABLE {t};"))
        .concat();
    client.batch_execute(&keep).await.unwrap();
    let empty = format!("TRUNCATE {} CASCADE;", TABLES.join(", "));
    let fill = TABLES
        .map(|t| format!("INSERT INTO {t} TABLE kept_{t};"))
        .concat();
    for tampering in TAMPERINGS {
        client.batch_execute(tampering).await.unwrap();
        let found = store.verify().await;
        assert!(is_found(&found), "{tampering}: {found:?}");
        client
            .batch_execute(&format!("{empty}{fill}"))
            .await
            .unwrap();
        assert_eq!(store.verify().await.unwrap().events, 4);
    }
    connection.abort();
}

/// Whatever happens to the server is said in a word, and nothing needs a restart of ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_went_away_is_unavailable_until_it_is_back() {
    let mut cluster = Cluster::start();
    let db = Postgres::new(&cluster.url(), 2, &[super::POSTGRES_MIGRATIONS]).expect("a URL");
    let store = PostgresReviews::new(&db, |_, _| None);
    let id = talk(&store).await;
    cluster.stop();
    let away = store.get(id.clone()).await;
    assert!(
        matches!(
            &away,
            Err(ReviewError::Store {
                kind: "unavailable",
                ..
            })
        ),
        "{away:?}"
    );
    cluster.resume();
    assert_eq!(store.get(id).await.unwrap().message_count, 3);
    assert_eq!(store.verify().await.unwrap().events, 4);
    let backup = store.backup("copy.db".into()).await.unwrap_err();
    assert!(backup.to_string().contains("pg_dump"), "{backup}");
}

/// What is verified is one reading: a broker that writes meanwhile breaks nothing.
#[tokio::test(flavor = "multi_thread")]
async fn p_b07_verifying_beside_a_writer_finds_nothing_wrong() {
    let (_folder, path, id) = setup().await;
    let (store, beside) = (open(&path), open(&path));
    let writing = tokio::spawn(async move {
        for n in 0.. {
            let said = store.act(id.clone(), "r".into(), None, post(&n.to_string()));
            said.await.unwrap();
        }
    });
    let mut seen = 0;
    let verifying = async {
        while seen < 40 {
            let events = beside.verify().await.unwrap().events;
            assert!(events >= seen);
            seen = events;
        }
    };
    // However slow the disk is, some forty writes are soon done.
    tokio::time::timeout(Duration::from_secs(30), verifying)
        .await
        .expect("the writer writes");
    writing.abort();
}

#[tokio::test]
async fn a_decision_that_refuses_changes_nothing() {
    let (_folder, path, id) = setup().await;
    let store = open(&path);
    let before = store.get(id.clone()).await.unwrap();
    let refuse: Decide =
        Box::new(|_, _| Err(sentinel_core::builtin::Refused::new("no", "not today")));
    let refused = store.act(id.clone(), "r".into(), None, refuse).await;
    assert!(matches!(refused, Err(ReviewError::Refused(_))));
    assert_eq!(store.get(id).await.unwrap(), before);
    assert_eq!(store.verify().await.unwrap().events, 4);
}

#[tokio::test]
async fn p_b08_a_backup_opens_and_verifies_and_never_overwrites() {
    let (folder, path, id) = setup().await;
    let copy = folder.path().join("copy.db");
    let store = open(&path);
    store.backup(copy.clone()).await.unwrap();
    let twice = store.backup(copy.clone()).await.unwrap_err();
    assert!(twice.to_string().contains("exists"), "{twice}");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "as private as what it is a copy of");
    let restored = open(&copy);
    assert_eq!(restored.verify().await.unwrap().events, 4);
    assert_eq!(
        restored.get(id.clone()).await.unwrap(),
        store.get(id).await.unwrap()
    );
}

/// P-B08: the copy is of one moment, although messages are posted between its steps.
#[tokio::test(flavor = "multi_thread")]
async fn p_b08_a_backup_is_of_one_moment() {
    let (folder, path, id) = setup().await;
    let (store, beside) = (open(&path), open(&path));
    let ballast = NewReview {
        diff: "x".repeat(2_000_000),
        ..new()
    };
    store.submit(ballast, Vec::new()).await.unwrap();
    let copy = folder.path().join("copy.db");
    let copying = beside.backup(copy.clone());
    let copying = tokio::spawn(copying);
    let mut posted = 0;
    while !copying.is_finished() {
        let said = store.act(id.clone(), "r".into(), None, post(&posted.to_string()));
        said.await.unwrap();
        posted += 1;
    }
    copying.await.unwrap().unwrap();
    assert!(posted > 2, "nothing was written meanwhile");
    let events = open(&copy).verify().await.unwrap().events;
    assert!((5..=5 + posted).contains(&events), "{events}");
    // A copy that cannot be finished leaves nothing.
    let nowhere = folder.path().join("none/copy.db");
    assert!(store.backup(nowhere).await.is_err());
}

#[tokio::test]
async fn pages_of_a_diff_end_between_characters_and_make_the_whole() {
    let (_folder, path, id) = setup().await;
    let store = open(&path);
    for limit in 1..8 {
        let (mut whole, mut offset) = (String::new(), 0);
        loop {
            let page = store
                .patches(id.clone(), DiffRange { offset, limit })
                .await
                .unwrap()
                .remove(0);
            assert_eq!(page.diff_bytes, 6);
            whole.push_str(&page.diff);
            match page.next_offset {
                Some(next) => {
                    assert!(next > offset);
                    offset = next;
                }
                None => break,
            }
        }
        assert_eq!(whole, "äöü");
    }
    let beyond = store
        .patches(
            id,
            DiffRange {
                offset: 99,
                limit: 5,
            },
        )
        .await
        .unwrap()
        .remove(0);
    assert_eq!((beyond.diff.as_str(), beyond.next_offset), ("", None));
}

/// B-46: there is no path that edits or deletes a message; the schema refuses bad words besides.
#[tokio::test]
async fn b_44_the_tables_refuse_unknown_words() {
    let (_folder, path, id) = setup().await;
    let db = Connection::open(&path).unwrap();
    for bad in [
        format!("UPDATE reviews SET status = 'open' WHERE id = '{id}'"),
        format!("INSERT INTO messages VALUES ('m', '{id}', 9, 'boss', 'b', 'p', 't')"),
        format!("INSERT INTO verdicts VALUES ('v', '{id}', 9, 'maybe', NULL, 'p', 't')"),
        "INSERT INTO messages VALUES ('m', 'no-such-review', 9, 'reviewer', 'b', 'p', 't')"
            .to_owned(),
    ] {
        db.pragma_update(None, "foreign_keys", "ON").unwrap();
        assert!(db.execute_batch(&bad).is_err(), "{bad}");
    }
}
