//! C-11: TLS as libpq's words ask for it, connections within their bound, and tables up to date.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sentinel_core::audit::AuditStore;
use sentinel_review::store::ReviewStore;
use tokio_postgres::Client;

use super::cluster::Cluster;
use super::*;

const TABLE: Migrations = Migrations {
    component: "test",
    steps: &["CREATE TABLE t (n bigint)", "ALTER TABLE t ADD m bigint"],
};

fn open(url: &str) -> Postgres {
    Postgres::new(url, 3, &[TABLE]).unwrap()
}

async fn is_encrypted(db: &Postgres) -> Result<bool, StoreError> {
    db.with(async |client: &mut Client| {
        let row = client
            .query_one(
                "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
                &[],
            )
            .await?;
        Ok(row.get(0))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_stay_within_their_bound_and_tables_are_made_once() {
    let cluster = Cluster::start();
    let db = open(&cluster.url());
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one = async || {
        db.with(async |client: &mut Client| {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            client
                .batch_execute("INSERT INTO t VALUES (1, 2); SELECT pg_sleep(0.05)")
                .await?;
            now.fetch_sub(1, Ordering::Relaxed);
            Ok::<_, StoreError>(())
        })
        .await
    };
    let all = futures_util::future::join_all((0..12).map(|_| one())).await;
    all.into_iter().for_each(|done| done.unwrap());
    assert_eq!(most.into_inner(), 3);
    let rows = |sql: &'static str| {
        let db = db.clone();
        async move {
            let row = db
                .with(async |c: &mut Client| Ok::<_, StoreError>(c.query_one(sql, &[]).await?))
                .await;
            row.unwrap().get::<_, i64>(0)
        }
    };
    assert_eq!(rows("SELECT count(*) FROM t").await, 12);
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sentinel'";
    assert!((1..=3).contains(&rows(ours).await));
    // A later program knows one step more; this one then refuses.
    let later = "UPDATE schema_version SET version = 3; SELECT 1";
    db.with(async |c: &mut Client| Ok::<_, StoreError>(c.batch_execute(later).await?))
        .await
        .unwrap();
    let refused = is_encrypted(&open(&cluster.url())).await;
    assert!(matches!(refused, Err(StoreError::TooNew { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_died_is_replaced() {
    let mut cluster = Cluster::start();
    let db = open(&cluster.url());
    assert!(!is_encrypted(&db).await.unwrap());
    cluster.stop();
    let down = is_encrypted(&db).await;
    assert!(matches!(down, Err(StoreError::Unavailable(_))), "{down:?}");
    cluster.resume();
    let began = tokio::time::Instant::now();
    while is_encrypted(&db).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_as_the_url_asks() {
    let cluster = Cluster::start_with_tls();
    let url = cluster.url();
    let roots = cluster.certificate();
    let (roots, elsewhere) = (roots.display(), url.replace("127.0.0.1", "localhost"));
    // What the URL says, whether it connects, and whether that is encrypted.
    let rows = [
        (url.clone(), Some(true)),
        (format!("{url}?sslmode=disable"), Some(false)),
        (format!("{url}?sslmode=require"), Some(true)),
        (
            format!("{elsewhere}?sslmode=verify-full&sslrootcert={roots}"),
            Some(true),
        ),
        // The certificate is for localhost.
        (
            format!("{url}?sslmode=verify-ca&sslrootcert={roots}"),
            Some(true),
        ),
        (
            format!("{url}?sslmode=verify-full&sslrootcert={roots}"),
            None,
        ),
        // Nobody the system trusts signed it.
        (format!("{elsewhere}?sslmode=verify-full"), None),
        (format!("{elsewhere}?sslmode=verify-ca"), None),
    ];
    for (url, wanted) in rows {
        assert_eq!(is_encrypted(&open(&url)).await.ok(), wanted, "{url}");
    }
    let plain = Cluster::start();
    let required = format!("{}?sslmode=require", plain.url());
    assert!(
        is_encrypted(&open(&required)).await.is_err(),
        "the server has no TLS"
    );
}

#[tokio::test]
async fn a_bad_url_is_refused_without_being_repeated() {
    let refused = |url: &str| Postgres::new(url, 1, &[]).err().unwrap().to_string();
    for url in [
        "postgres://u:hunter2@h/db?sslmode=perhaps",
        "postgres://u:hunter2@h/db?sslmode=verify-full&sslrootcert=/no/such%20file",
        "postgres://u:hunter2@h/db?nonsense=1",
        "hunter2",
    ] {
        let text = refused(url);
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(refused("postgres://h/db?sslmode=perhaps").contains("verify-full"));
    assert!(
        refused("postgres://h/db?sslmode=verify-full&sslrootcert=/no/such%20file")
            .contains("/no/such file")
    );
    assert!(Postgres::new("host=h user=u sslmode=require", 1, &[]).is_ok());
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
