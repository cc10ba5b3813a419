//! `Session::transact` and `PoolOptions::listen` against a real PostgreSQL.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sentinel_pg::tokio_postgres::Row;
use sentinel_pg::{PgError, Pool, PoolOptions, RowSink, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::ask;
use crate::cluster::Cluster;

/// Takes numbers, and at most so many of them.
#[derive(Default)]
struct Numbers {
    taken: Vec<i32>,
    refuses_after: Option<usize>,
}

impl RowSink for Numbers {
    type Error = &'static str;

    async fn row(&mut self, row: Row) -> Result<(), &'static str> {
        if self.refuses_after == Some(self.taken.len()) {
            return Err("enough");
        }
        self.taken.push(row.get(0));
        Ok(())
    }
}

const SET: &str = "SELECT set_config('test.who', $1, true)";

async fn numbers(
    pool: &Pool,
    begin: &str,
    sql: &str,
    sink: &mut Numbers,
) -> Result<Result<(), &'static str>, PgError> {
    let who = "ann";
    let work = async |session: &mut Session| {
        let before: [(&str, sentinel_pg::Params<'_>); 1] = [(SET, &[&who])];
        session.transact(1, begin, &before, (sql, &[]), sink).await
    };
    pool.run(work).await?
}

/// A pool of one connection, which nobody cleans between the calls of a slow test.
fn single(url: &str) -> Pool {
    let mut options = PoolOptions::new(url).unwrap();
    options.max_connections = 1;
    options.clean_after = Duration::from_secs(3600);
    options.build()
}

/// A relay that can keep the server's answers back until the client has sent so many requests: a client that waits for one of them
/// waits for ever.
struct Relay {
    address: SocketAddr,
    state: Arc<watch::Sender<RelayState>>,
}

#[derive(Clone, Copy, Default)]
struct RelayState {
    /// Requests of the client: each ends with a Sync.
    syncs: usize,
    /// Answers pass once there were so many.
    wanted: usize,
}

impl Relay {
    async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(watch::Sender::default());
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(requests(from_client, to_server, shared.clone()));
                tokio::spawn(answers(from_server, to_client, shared.subscribe()));
            }
        });
        Self { address, state }
    }

    /// Counts from now on, and keeps answers back until there were so many requests.
    fn hold_for(&self, wanted: usize) {
        self.state.send_replace(RelayState { syncs: 0, wanted });
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: Arc<watch::Sender<RelayState>>,
) {
    // The start-up message has no type.
    let mut len = [0; 4];
    if from.read_exact(&mut len).await.is_err() {
        return;
    }
    let mut message = vec![0; u32::from_be_bytes(len) as usize - 4];
    from.read_exact(&mut message).await.unwrap();
    to.write_all(&[&len[..], &message].concat()).await.unwrap();
    loop {
        let mut head = [0; 5];
        if from.read_exact(&mut head).await.is_err() {
            return;
        }
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut message = vec![0; len as usize - 4];
        from.read_exact(&mut message).await.unwrap();
        if to.write_all(&[&head[..], &message].concat()).await.is_err() {
            return;
        }
        if head[0] == b'S' {
            state.send_modify(|state| state.syncs += 1);
        }
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<RelayState>,
) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let passes = |state: &RelayState| state.syncs >= state.wanted;
        if state.wait_for(passes).await.is_err() {
            return;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// P-S12: settings, statement and commit travel together: four requests, and no answer is waited for before the last of them.
#[tokio::test(flavor = "multi_thread")]
async fn p_s12_issue_19_a_transaction_is_one_round_trip_once_it_is_prepared() {
    let cluster = Cluster::start();
    let relay = Relay::to(cluster.address()).await;
    let address = relay.address;
    let url = format!("postgres://postgres@{address}/postgres?sslmode=disable");
    let pool = single(&url);
    let sql = "SELECT current_setting('test.who')::text = 'ann', g FROM generate_series(1, 3) g";
    let sql = format!("SELECT g::int FROM ({sql}) AS s(is_ann, g) WHERE is_ann");
    for wanted in [0, 4, 4, 4] {
        relay.hold_for(wanted);
        let mut sink = Numbers::default();
        let call = numbers(&pool, "BEGIN READ ONLY", &sql, &mut sink);
        timeout(Duration::from_secs(30), call)
            .await
            .expect("no answer is waited for before the last request")
            .unwrap()
            .unwrap();
        assert_eq!(sink.taken, [1, 2, 3]);
        let syncs = relay.state.borrow().syncs;
        assert!(wanted == 0 || syncs == wanted, "{syncs} requests");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_fails_leaves_nothing_and_its_connection_goes_on() {
    let cluster = Cluster::start();
    let pool = single(&cluster.url());
    cluster.ask("CREATE TABLE kept (n int PRIMARY KEY)");
    let insert = "INSERT INTO kept VALUES (1), (1) RETURNING n";
    let outcome = numbers(&pool, "BEGIN", insert, &mut Numbers::default()).await;
    let Err(PgError::Database(error)) = outcome else {
        panic!("it was not refused");
    };
    assert_eq!(
        error.code().unwrap().code(),
        "23505",
        "the first error counts"
    );
    let read_only = numbers(
        &pool,
        "BEGIN READ ONLY",
        "INSERT INTO kept VALUES (2) RETURNING n",
        &mut Numbers::default(),
    )
    .await;
    assert!(read_only.is_err());
    let mut sink = Numbers::default();
    let insert = "INSERT INTO kept VALUES (3) RETURNING n";
    numbers(&pool, "BEGIN", insert, &mut sink)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        ask::<i64>(&pool, "SELECT sum(n) FROM kept").await.unwrap(),
        3
    );
    let who = "SELECT coalesce(current_setting('test.who', true), '')";
    assert_eq!(
        ask::<String>(&pool, who).await.unwrap(),
        "",
        "settings end with their transaction"
    );
}

/// Takes one text.
#[derive(Default)]
struct Found(String);

impl RowSink for Found {
    type Error = &'static str;

    async fn row(&mut self, row: Row) -> Result<(), &'static str> {
        self.0 = row.get(0);
        Ok(())
    }
}

/// Leaves what it can in its session.
const LEAVE: &str =
    "CREATE SEQUENCE s; CREATE FUNCTION leave() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
        PERFORM set_config('app.who', 'ann', false), pg_advisory_lock(7), nextval('s');
        SET default_transaction_read_only = on; SET client_min_messages = notice; SET timezone = 'Asia/Tokyo';
        CREATE TEMP TABLE kept AS SELECT 1 AS n; LISTEN told;
        EXECUTE 'DECLARE held CURSOR WITH HOLD FOR SELECT 1';
        RETURN pg_backend_pid(); END $$;";
/// What is left.
const FOUND: &str = "SELECT concat_ws(' ', nullif(current_setting('app.who', true), ''), \
    current_setting('transaction_read_only'), nullif(current_setting('timezone'), 'Asia/Tokyo') IS NULL, \
    to_regclass('pg_temp.kept') IS NOT NULL, (SELECT count(*) FROM pg_listening_channels()), \
    (SELECT count(*) FROM pg_cursors WHERE name = 'held'), \
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'))";

/// The text of a transaction of this owner.
async fn text(session: &mut Session, owner: u64, sql: &str) -> Result<String, PgError> {
    let mut sink = Found::default();
    let done = session.transact(owner, "BEGIN", &[], (sql, &[]), &mut sink);
    done.await?.unwrap();
    Ok(sink.0)
}

/// P-S05: nor of a statement that failed.
#[tokio::test(flavor = "multi_thread")]
async fn p_s05_what_a_caller_leaves_in_its_session_is_gone_for_the_next_caller() {
    let cluster = Cluster::start();
    let pool = single(&cluster.url());
    cluster.run(LEAVE);
    let look = async |owner: u64, sql: &str| {
        let work = async |session: &mut Session| text(session, owner, sql).await;
        pool.run(work).await.unwrap()
    };
    for leaves in ["SELECT leave()::text", "SELECT (leave() / 0)::text"] {
        let _ = look(1, leaves).await;
        assert_eq!(look(2, FOUND).await.unwrap(), "off f f 0 0 0", "{leaves}");
        let last = look(2, "SELECT lastval()::text").await;
        assert!(last.is_err(), "the values of sequences, too");
        let messages = look(2, "SELECT current_setting('client_min_messages')").await;
        assert_eq!(messages.unwrap(), "error", "what the pool itself sets");
    }
    look(1, "SELECT leave()::text").await.unwrap();
    let own = look(1, FOUND).await.unwrap();
    assert!(
        own.starts_with("ann on t t 1 1 1"),
        "it is the same session for the same caller: {own}"
    );
}

/// Another connection may wait for the locks.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_leaves_in_its_session_is_gone_soon_if_nobody_comes() {
    let cluster = Cluster::start();
    let mut options = PoolOptions::new(&cluster.url()).unwrap();
    options.max_connections = 2;
    let pool = options.build();
    cluster.run(LEAVE);
    let leave = async |owner: u64| {
        let work = async |s: &mut Session| text(s, owner, "SELECT leave()::text").await.unwrap();
        pool.run(work).await.unwrap()
    };
    for owner in [1, 2] {
        let pid = leave(owner).await;
        let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
        let began = tokio::time::Instant::now();
        while cluster.ask(held) != "0" {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "it is still held"
            );
        }
        let work = async |s: &mut Session| {
            let own = text(s, owner, "SELECT pg_backend_pid()::text").await;
            (own.unwrap(), text(s, owner, FOUND).await.unwrap())
        };
        let (same, found) = pool.run(work).await.unwrap();
        assert_eq!(same, pid, "the connection serves the next call");
        assert_eq!(found, "off f f 0 0 0");
    }
}

/// As when the process is killed: nobody cancels the statement.
#[test]
fn a_statement_ends_soon_after_its_client_vanished() {
    let cluster = Cluster::start();
    let running = || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' AND pid <> pg_backend_pid()";
        cluster.ask(sql) != "0"
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = single(&cluster.url());
        // The second one is watched, too.
        let first = numbers(&pool, "BEGIN", "SELECT 1", &mut Numbers::default()).await;
        first.unwrap().unwrap();
        let (sleep, mut sink) = ("SELECT 1 FROM pg_sleep(600)", Numbers::default());
        let mut call = Box::pin(async { numbers(&pool, "BEGIN", sleep, &mut sink).await.is_ok() });
        while !running() {
            let tick = Duration::from_millis(20);
            assert!(timeout(tick, &mut call).await.is_err(), "it sleeps");
        }
        // Dropped, it would cancel.
        std::mem::forget(call);
    });
    runtime.shutdown_background();
    let began = tokio::time::Instant::now();
    while running() {
        assert!(began.elapsed() < Duration::from_secs(30), "it still runs");
    }
}

/// The statement is refused before COMMIT is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_could_not_be_sent_as_a_whole_is_not_left_open() {
    let cluster = Cluster::start();
    let pool = single(&cluster.url());
    let mut sink = Numbers::default();
    let who = "ann";
    let work = async |session: &mut Session| {
        let before: [(&str, sentinel_pg::Params<'_>); 1] = [(SET, &[&who])];
        let too_many: sentinel_pg::Params<'_> = &[&who];
        session
            .transact(1, "BEGIN", &before, ("SELECT 1", too_many), &mut sink)
            .await
    };
    let outcome = pool.run(work).await.unwrap();
    assert!(outcome.is_err());
    let left = "SELECT current_setting('test.who', true)";
    assert_eq!(
        ask::<Option<String>>(&pool, left).await.unwrap(),
        None,
        "the next one gets another connection"
    );
    let open = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";
    timeout(Duration::from_secs(10), async {
        while ask::<i64>(&pool, open).await.unwrap() > 0 {}
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_nobody_takes_any_more_end_their_statement() {
    let cluster = Cluster::start();
    let pool = single(&cluster.url());
    let mut sink = Numbers {
        refuses_after: Some(2),
        ..Numbers::default()
    };
    let endless = "SELECT generate_series(1, 2000000000)";
    let outcome = numbers(&pool, "BEGIN READ ONLY", endless, &mut sink)
        .await
        .unwrap();
    assert_eq!(outcome, Err("enough"));
    assert_eq!(sink.taken, [1, 2]);
    // The only place of the pool is free once the statement was cancelled.
    let running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%2000000000)' \
        AND state = 'active' AND pid <> pg_backend_pid()";
    assert_eq!(ask::<i64>(&pool, running).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_are_heard_and_the_end_of_the_connection_is_told() {
    let mut cluster = Cluster::start();
    let (heard, mut hears) = tokio::sync::mpsc::channel(8);
    let options = PoolOptions::new(&cluster.url()).unwrap();
    let listening = tokio::spawn(async move {
        let ended = options
            .listen("odd \"name", || heard.try_send(()).unwrap())
            .await;
        ended.err().map(|error| error.to_string())
    });
    let mut next = async || {
        timeout(Duration::from_secs(10), hears.recv())
            .await
            .unwrap()
    };
    next().await.expect("it listens");
    cluster.ask("NOTIFY \"odd \"\"name\"");
    next().await.expect("it was told");
    cluster.stop();
    assert!(listening.await.unwrap().is_some(), "the connection ended");
}
