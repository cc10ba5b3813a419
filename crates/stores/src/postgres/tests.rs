//! Tables are brought up to date once, and components share the connections.

use sentinel_core::audit::AuditStore;
use sentinel_review::store::ReviewStore;

use super::*;
use crate::cluster::Cluster;

const TABLE: Migrations = Migrations {
    component: "test",
    steps: &["CREATE TABLE t (n bigint)", "ALTER TABLE t ADD m bigint"],
};

async fn run(db: &Postgres, sql: &str) -> Result<(), StoreError> {
    db.with(async |client: &mut Client| Ok(client.batch_execute(sql).await?))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_made_once_and_those_of_a_later_version_are_refused() {
    let cluster = Cluster::start();
    let open = || Postgres::new(&cluster.url(), 3, &[TABLE]).unwrap();
    let (one, two) = (open(), open());
    let insert = "INSERT INTO t VALUES (1, 2)";
    let (first, second) = tokio::join!(run(&one, insert), run(&two, insert));
    first.and(second).unwrap();
    run(&one, "UPDATE schema_version SET version = 3")
        .await
        .unwrap();
    let refused = run(&open(), insert).await;
    assert!(
        matches!(refused, Err(StoreError::TooNew { .. })),
        "{refused:?}"
    );
}

/// Records and reviews share a handle: they stay within one bound together, and a connection that one of
/// them made on a runtime of its own serves the other after that runtime ended.
#[tokio::test(flavor = "multi_thread")]
async fn g_11_records_and_reviews_share_connections_wherever_they_run() {
    let cluster = Cluster::start();
    let migrations = [
        crate::review::POSTGRES_MIGRATIONS,
        crate::audit::POSTGRES_MIGRATIONS,
    ];
    let db = Postgres::new(&cluster.url(), 1, &migrations).unwrap();
    let records = crate::audit::PostgresAudit::new(&db);
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(records.cuts()).unwrap();
    });
    tokio::task::spawn_blocking(|| elsewhere.join().unwrap())
        .await
        .unwrap();
    let reviews = crate::PostgresReviews::new(&db, |_, _| None);
    let pid = async || {
        let sql =
            "SELECT min(pid), count(*) FROM pg_stat_activity WHERE application_name = 'sentinel'";
        let row = db
            .with(async |c: &mut Client| Ok::<_, StoreError>(c.query_one(sql, &[]).await?))
            .await
            .unwrap();
        (row.get::<_, i32>(0), row.get::<_, i64>(1))
    };
    let before = pid().await;
    assert_eq!(before.1, 1);
    reviews.verify().await.unwrap();
    assert_eq!(pid().await, before, "the same connection");
}
