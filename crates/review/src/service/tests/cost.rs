//! What a write costs beside a bare insert of the same size with the same sync.

use sentinel_stores::rusqlite::{Connection, params};

use super::*;

const ROUNDS: usize = 300;
const RATIO_MAX: f64 = 1.5;

/// One table, one row, one transaction: the least that keeps a message.
fn bare(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.pragma_update(None, "synchronous", "FULL").unwrap();
    db.execute_batch("CREATE TABLE m (id TEXT PRIMARY KEY, review_id TEXT, role TEXT, body TEXT, created_at TEXT)")
        .unwrap();
    db
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Both write in turn, so that they meet the same disk.
#[tokio::test]
async fn a_write_costs_at_most_one_and_a_half_bare_inserts() {
    // Beside this program: a temporary folder may be memory, where sync costs nothing.
    let program = std::env::current_exe().unwrap();
    let folder = TempDir::new_in(program.parent().unwrap()).unwrap();
    let service = open(
        &folder.path().join("sentinel.db"),
        Duration::from_secs(1200),
    );
    let db = bare(&folder.path().join("bare.db"));
    let id = submit(&service).await;
    claim(&service, &id, "reviewer:a").await.unwrap();
    let body = "x".repeat(1000);
    let (mut bare_times, mut ours) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let began = Instant::now();
        db.execute(
            "INSERT INTO m VALUES (?1, ?2, 'reviewer', ?3, '2026-07-28T00:00:00.000Z')",
            params![format!("{round:036}"), id, body],
        )
        .unwrap();
        bare_times.push(began.elapsed());
        let began = Instant::now();
        say(&service, &id, &body).await.unwrap();
        ours.push(began.elapsed());
    }
    let (bare, ours) = (median(bare_times), median(ours));
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("write p50 {ours:?}, bare insert p50 {bare:?}, ratio {ratio:.2}");
    assert!(ratio <= RATIO_MAX, "ratio {ratio:.2}: {ours:?} to {bare:?}");
}
