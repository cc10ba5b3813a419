//! The store apart from the rules: the chain of events, the backup, the cut of a diff.

use std::path::Path;
use std::sync::Arc;

use sentinel_core::clock::SystemClock;
use sentinel_core::random::uuid;
use sentinel_core::review::{Addition, Category, Effect, NewEvent, Priority, Role, Status};
use tempfile::TempDir;

use super::*;
use crate::postgres::Postgres;
use crate::postgres::cluster::Cluster;

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
            status: Status::InDiscussion,
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
                new_status: Some(Status::InDiscussion),
                detail: None,
            }],
        })
    })
}

/// A review with three messages in a file of its own.
async fn house() -> (TempDir, PathBuf, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.db");
    let id = talk(&open(&path)).await;
    (folder, path, id)
}

async fn talk(store: &dyn ReviewStore) -> String {
    let id = store.submit(new(), None).await.unwrap().review.review_id;
    for body in ["one", "two", "three"] {
        let posted = store.act(id.clone(), "r".into(), None, post(body));
        posted.await.unwrap();
    }
    assert_eq!(store.verify().await.unwrap(), 4);
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

fn is_found(found: &Result<u64, Trouble>) -> bool {
    matches!(
        found,
        Err(Trouble::Store {
            kind: "corrupt",
            ..
        })
    )
}

/// P-B07: whatever somebody changes with SQL is found.
#[tokio::test]
async fn p_b07_an_edited_or_deleted_row_is_found() {
    for tampering in TAMPERINGS {
        let (_folder, path, _) = house().await;
        let db = Connection::open(&path).unwrap();
        db.execute_batch(tampering).unwrap();
        let found = open(&path).verify().await;
        assert!(is_found(&found), "{tampering}: {found:?}");
    }
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
        assert_eq!(store.verify().await.unwrap(), 4);
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
            Err(Trouble::Store {
                kind: "unavailable",
                ..
            })
        ),
        "{away:?}"
    );
    cluster.resume();
    assert_eq!(store.get(id).await.unwrap().message_count, 3);
    assert_eq!(store.verify().await.unwrap(), 4);
    let backup = store.backup("copy.db".into()).await.unwrap_err();
    assert!(backup.to_string().contains("pg_dump"), "{backup}");
}

#[tokio::test]
async fn a_decision_that_refuses_changes_nothing() {
    let (_folder, path, id) = house().await;
    let store = open(&path);
    let before = store.get(id.clone()).await.unwrap();
    let refuse: Decide =
        Box::new(|_, _| Err(sentinel_core::builtin::Refused::new("no", "not today")));
    let refused = store.act(id.clone(), "r".into(), None, refuse).await;
    assert!(matches!(refused, Err(Trouble::Refused(_))));
    assert_eq!(store.get(id).await.unwrap(), before);
    assert_eq!(store.verify().await.unwrap(), 4);
}

#[tokio::test]
async fn p_b08_a_backup_opens_and_verifies_and_never_overwrites() {
    let (folder, path, id) = house().await;
    let copy = folder.path().join("copy.db");
    let store = open(&path);
    store.backup(copy.clone()).await.unwrap();
    assert!(store.backup(copy.clone()).await.is_err());
    let restored = open(&copy);
    assert_eq!(restored.verify().await.unwrap(), 4);
    assert_eq!(
        restored.get(id.clone()).await.unwrap(),
        store.get(id).await.unwrap()
    );
}

#[tokio::test]
async fn pages_of_a_diff_end_between_characters_and_make_the_whole() {
    let (_folder, path, id) = house().await;
    let store = open(&path);
    for limit in 1..8 {
        let (mut whole, mut offset) = (String::new(), 0);
        loop {
            let page = store
                .patches(id.clone(), Slice { offset, limit })
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
            Slice {
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
    let (_folder, path, id) = house().await;
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
