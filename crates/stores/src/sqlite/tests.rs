//! The one writer, its transactions and its migrations.

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;

use tempfile::TempDir;

use super::*;

const NOTES: Migrations = Migrations {
    component: "notes",
    steps: &["CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT"],
};
const NOTES_2: Migrations = Migrations {
    component: "notes",
    steps: &[
        NOTES.steps[0],
        "ALTER TABLE note ADD COLUMN at INTEGER NOT NULL DEFAULT 0",
    ],
};

fn place() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("deep/sentinel.db");
    (folder, path)
}

fn open(path: &Path) -> Sqlite {
    Sqlite::open(path, Synchronous::Full, &[NOTES]).unwrap()
}

async fn insert(db: &Sqlite, id: i64) -> Result<usize, StoreError> {
    db.write(move |tx| Ok(tx.execute("INSERT INTO note VALUES (?1, 'x')", [id])?))
        .await
}

async fn ids(db: &Sqlite) -> Vec<i64> {
    db.read::<_, StoreError, _>(|tx| {
        let mut rows = tx.prepare("SELECT id FROM note ORDER BY id")?;
        let ids = rows
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        Ok(ids)
    })
    .await
    .unwrap()
}

#[test]
fn the_bundled_sqlite_is_new_enough_for_wal_with_two_connections() {
    assert!(rusqlite::version_number() >= 3_051_003);
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_opening_again() {
    let (_folder, path) = place();
    let db = open(&path);
    insert(&db, 1).await.unwrap();
    insert(&db.with_synchronous(Synchronous::Normal), 2)
        .await
        .unwrap();
    drop(db);
    assert_eq!(ids(&open(&path)).await, [1, 2]);
}

#[tokio::test]
async fn jobs_that_share_a_transaction_fail_one_by_one() {
    let (_folder, path) = place();
    let db = open(&path);
    // Hold the writer until all of them wait, so that they form one group.
    let (go, wait) = sync_channel::<()>(0);
    let holding = db.clone();
    let hold = tokio::spawn(async move {
        holding
            .write::<_, StoreError, _>(move |_| {
                let _ = wait.recv();
                Ok(())
            })
            .await
    });
    tokio::task::yield_now().await;
    let db2 = db.clone();
    let panics = tokio::spawn(async move {
        db2.write::<(), StoreError, _>(|tx| {
            tx.execute("INSERT INTO note VALUES (7, 'gone')", [])?;
            panic!("on purpose")
        })
        .await
    });
    let (first, twice, last, released) =
        tokio::join!(insert(&db, 1), insert(&db, 1), insert(&db, 2), async {
            tokio::task::yield_now().await;
            go.send(()).unwrap();
        });
    let () = released;
    hold.await.unwrap().unwrap();
    assert!(first.is_ok() && last.is_ok());
    assert!(matches!(twice, Err(StoreError::Sql(_))));
    assert!(matches!(panics.await.unwrap(), Err(StoreError::Closed)));
    assert_eq!(ids(&db).await, [1, 2]);
}

#[tokio::test]
async fn migrations_run_once_and_in_order() {
    let (_folder, path) = place();
    drop(open(&path));
    let db = Sqlite::open(&path, Synchronous::Full, &[NOTES_2]).unwrap();
    insert(&db, 1).await.unwrap_err(); // three columns now
    drop(db);
    let db = Sqlite::open(&path, Synchronous::Full, &[NOTES_2]).unwrap();
    let version: i64 = db
        .read::<_, StoreError, _>(|tx| {
            Ok(tx.query_row("SELECT version FROM schema_version", [], |row| row.get(0))?)
        })
        .await
        .unwrap();
    assert_eq!(version, 2);
    drop(db);
    let older = Sqlite::open(&path, Synchronous::Full, &[NOTES]);
    assert!(matches!(older, Err(StoreError::TooNew { found: 2, .. })));
}

/// Whoever comes to look writes nothing, so it neither waits for the writer nor needs space.
#[tokio::test]
async fn opening_what_is_up_to_date_writes_nothing() {
    let (_folder, path) = place();
    let db = open(&path);
    insert(&db, 1).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = tokio::time::Instant::now();
    let beside = open(&path);
    assert_eq!(ids(&beside).await, [1]);
    assert!(began.elapsed() < BUSY_MAX / 2);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_called_corrupt() {
    let (_folder, path) = place();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, vec![b'x'; 8192]).unwrap();
    let opened = Sqlite::open(&path, Synchronous::Full, &[NOTES]);
    assert!(matches!(opened, Err(StoreError::Corrupt(_))));
}

#[tokio::test]
async fn a_reader_cannot_write() {
    let (_folder, path) = place();
    let db = open(&path);
    let tried = db
        .read::<_, StoreError, _>(|tx| Ok(tx.execute("INSERT INTO note VALUES (1, 'x')", [])?))
        .await;
    assert!(matches!(tried, Err(StoreError::Io(_))));
}

#[tokio::test]
async fn a_full_database_says_so_and_keeps_what_it_has() {
    let (_folder, path) = place();
    let db = open(&path);
    insert(&db, 1).await.unwrap();
    db.write::<_, StoreError, _>(|tx| Ok(tx.pragma_update(None, "max_page_count", 4)?))
        .await
        .unwrap();
    let big = db
        .write::<_, StoreError, _>(|tx| {
            Ok(tx.execute("INSERT INTO note VALUES (2, hex(zeroblob(100000)))", [])?)
        })
        .await;
    assert!(matches!(big, Err(StoreError::StorageFull)), "{big:?}");
    assert_eq!(ids(&db).await, [1]);
}

#[tokio::test]
async fn a_read_that_takes_too_long_is_given_up_and_its_connection_goes_on() {
    let (_folder, path) = place();
    let db = open(&path);
    let endless = |conn: &Connection| {
        let sql =
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";
        Ok::<i64, StoreError>(conn.query_row(sql, [], |row| row.get(0))?)
    };
    let began = tokio::time::Instant::now();
    let given_up = db.read_within(Duration::from_millis(50), endless).await;
    // `Busy` if it had not even begun by then.
    assert!(
        matches!(given_up, Err(StoreError::Unavailable(_) | StoreError::Busy)),
        "{given_up:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(5));
    // Nobody waits: as many as there are readers, and they are free again.
    for _ in 0..READERS_MAX {
        let endless = db.read_within(Duration::from_secs(60), endless);
        assert!(timeout(Duration::from_millis(50), endless).await.is_err());
    }
    let one =
        |conn: &Connection| Ok::<i64, StoreError>(conn.query_row("SELECT 1", [], |r| r.get(0))?);
    assert_eq!(
        db.read_within(Duration::from_secs(5), one).await.unwrap(),
        1
    );
}
