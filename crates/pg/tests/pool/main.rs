//! The pool against a real PostgreSQL: its bound, TLS, hosts, reconnecting, cancelling.

#![allow(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod cluster;
mod transact;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use sentinel_pg::{PgError, Pool, PoolOptions, Session, check};
use tokio::time::{Instant, sleep, timeout};

use cluster::Cluster;

fn open(url: &str) -> Pool {
    let mut options = PoolOptions::new(url).unwrap();
    options.max_connections = 3;
    options.build()
}

/// The first column of the first row.
async fn ask<T>(pool: &Pool, sql: &str) -> Result<T, PgError>
where
    T: for<'a> sentinel_pg::tokio_postgres::types::FromSql<'a>,
{
    let rows = pool.run(async |s: &mut Session| s.query(sql, &[]).await);
    Ok(rows.await??[0].get(0))
}

async fn is_encrypted(pool: &Pool) -> Result<bool, PgError> {
    ask(
        pool,
        "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    )
    .await
}

const OURS: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sentinel'";

#[tokio::test(flavor = "multi_thread")]
async fn connections_stay_within_their_bound() {
    let cluster = Cluster::start();
    let pool = open(&cluster.url());
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one = async || {
        pool.run(async |session: &mut Session| {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            session.batch("SELECT pg_sleep(0.05)").await?;
            now.fetch_sub(1, Ordering::Relaxed);
            Ok::<_, PgError>(())
        })
        .await
    };
    let all = join_all((0..12).map(|_| one())).await;
    all.into_iter().for_each(|done| done.unwrap().unwrap());
    assert_eq!(most.into_inner(), 3);
    assert!((1..=3).contains(&ask::<i64>(&pool, OURS).await.unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_died_is_replaced() {
    let mut cluster = Cluster::start();
    let pool = open(&cluster.url());
    ask::<i64>(&pool, OURS).await.unwrap();
    cluster.stop();
    let down = ask::<i64>(&pool, OURS).await;
    assert!(matches!(down, Err(PgError::Connect(_))), "{down:?}");
    cluster.resume();
    let began = Instant::now();
    while ask::<i64>(&pool, OURS).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(10));
        sleep(Duration::from_millis(20)).await;
    }
}

/// Both by a caller that leaves and by the pool's own limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_given_up_is_cancelled_on_the_server() {
    let cluster = Cluster::start();
    let mut options = PoolOptions::new(&cluster.url()).unwrap();
    options.max_connections = 1;
    options.answer_timeout = Duration::from_secs(5);
    let pool = options.clone().build();
    let slow = ask::<bool>(&pool, "SELECT pg_sleep(600) IS NULL");
    let left = timeout(Duration::from_millis(300), slow).await;
    assert!(left.is_err());
    // The only permit comes back once the query has ended.
    let running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600) IS%'
        AND state = 'active' AND pid <> pg_backend_pid()";
    assert_eq!(ask::<i64>(&pool, running).await.unwrap(), 0);

    options.answer_timeout = Duration::from_millis(300);
    let hasty = options.build();
    let late = ask::<bool>(&hasty, "SELECT pg_sleep(600) IS NULL").await;
    assert!(matches!(late, Err(PgError::AnswerTimeout)), "{late:?}");
    let began = Instant::now();
    while ask::<i64>(&pool, running).await.unwrap() > 0 {
        assert!(began.elapsed() < Duration::from_secs(5));
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_prepared_once_per_connection_and_may_be_pipelined() {
    let cluster = Cluster::start();
    let mut options = PoolOptions::new(&cluster.url()).unwrap();
    options.max_connections = 1;
    let pool = options.setting("statement_timeout", "1234").build();
    for _ in 0..3 {
        let all = pool.run(async |session: &mut Session| {
            session
                .pipeline(&[("SELECT $1::bigint", &[&7_i64]), ("SELECT 8::bigint", &[])])
                .await
        });
        let all = all.await.unwrap().unwrap();
        let numbers: Vec<i64> = all.iter().map(|rows| rows[0].get(0)).collect();
        assert_eq!(numbers, [7, 8]);
    }
    let kept =
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT %::bigint'";
    assert_eq!(ask::<i64>(&pool, kept).await.unwrap(), 2);
    let setting = ask::<String>(&pool, "SHOW statement_timeout").await;
    assert_eq!(setting.unwrap(), "1234ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_transaction_leaves_nothing_and_its_limits_end_with_it() {
    let cluster = Cluster::start();
    let mut options = PoolOptions::new(&cluster.url()).unwrap();
    options.max_connections = 1;
    let pool = options.build();
    let begin = "BEGIN; SET LOCAL lock_timeout = 321; CREATE TABLE gone (n int)";
    let refused = pool.run(async |session: &mut Session| {
        let work = session.transaction(begin, |s| {
            async move {
                let limit = s.query("SHOW lock_timeout", &[]).await.unwrap();
                Err::<(), String>(limit[0].get(0))
            }
            .boxed()
        });
        work.await
    });
    assert_eq!(refused.await.unwrap().unwrap(), Err("321ms".to_owned()));
    let after = "SELECT current_setting('lock_timeout') || coalesce(to_regclass('gone')::text, '')";
    assert_eq!(ask::<String>(&pool, after).await.unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_hosts_one_that_answers_and_has_the_asked_role_is_used() {
    let (standby, primary) = (Cluster::start(), Cluster::start());
    standby.ask("ALTER DATABASE postgres SET default_transaction_read_only = on");
    let (first, second) = (standby.address(), primary.address());
    let dead = "127.0.0.1:1";
    let port = async |hosts: &str, role: &str| {
        let url = format!("postgres://postgres@{hosts}/postgres?target_session_attrs={role}");
        let port = ask::<i32>(&open(&url), "SELECT inet_server_port()").await;
        port.map(|port| format!("127.0.0.1:{port}"))
    };
    let hosts = format!("{dead},{first},{second}");
    assert_eq!(port(&hosts, "any").await.unwrap(), first);
    assert_eq!(port(&hosts, "read-write").await.unwrap(), second);
    let hosts = format!("{second},{first}");
    assert_eq!(port(&hosts, "read-only").await.unwrap(), first);
    assert!(port(&first, "read-write").await.is_err());
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
        // Its issuer is not in the system's trust store.
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

#[test]
fn a_bad_url_is_refused_without_being_repeated() {
    let refused = |url: &str| PoolOptions::new(url).err().unwrap().to_string();
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
    assert!(check("host=h user=u sslmode=require").is_ok());
}
