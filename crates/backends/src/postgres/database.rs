//! Transactions of calls: on which server, with which settings, how often they are tried.
//!
//! Not here: what standby servers are for (`standby`), connections (`sentinel_pg`), what is called (`functions`, `registry`), what a failure means (`failure`).

use std::time::Duration;

use sentinel_core::random;
use sentinel_pg::tokio_postgres::Row;
use sentinel_pg::{Params, PgError, Pool, RowSink, Session};
use tokio::sync::watch;
use tokio::time::timeout;

use super::failure::Failure;
use super::mode::Mode;
use super::settings::{self, Settings};
use super::standby::Standby;

/// How often a transaction is tried that loses against others.
pub(super) const ATTEMPTS_MAX: u32 = 3;
/// The longest pause before the next attempt doubles from here, and is drawn at random below that.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The servers of one backend.
pub(super) struct Database {
    /// The backend's name, for the log.
    pub(super) name: String,
    pub(super) primary: Pool,
    pub(super) standby: Option<Standby>,
}

/// A statement in a transaction of its own.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) mode: Mode,
    pub(super) settings: &'a Settings<'a>,
    /// For the statement, or for each row of an answer that is streamed.
    pub(super) timeout: Duration,
    pub(super) sql: &'a str,
    pub(super) params: Params<'a>,
}

/// Rows of an answer, which may begin again.
pub(super) trait Answer: RowSink<Error = Failure> {
    /// Forgets the rows of an attempt that failed; false if they are gone already.
    fn restart(&mut self) -> bool;

    /// Whether rows leave one by one: then there is a time limit for each, and none for all.
    fn is_streamed(&self) -> bool {
        false
    }
}

impl Database {
    /// Runs a transaction. One that loses against others is tried again as a whole, unless rows of it have left already.
    pub(super) async fn run<A: Answer>(
        &self,
        work: Work<'_>,
        answer: &mut A,
    ) -> Result<(), Failure> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let failure = match self.attempt(attempt, work, answer).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            if !failure.is_conflict() || !answer.restart() {
                return Err(failure);
            }
            match failure {
                Failure::Statement(error) if attempt >= ATTEMPTS_MAX => {
                    return Err(Failure::Conflict {
                        attempts: attempt,
                        error,
                    });
                }
                _ => tokio::time::sleep(pause(attempt)).await,
            }
        }
    }

    async fn attempt<A: Answer>(
        &self,
        attempt: u32,
        work: Work<'_>,
        answer: &mut A,
    ) -> Result<(), Failure> {
        // What a standby cancelled, because it was in the way of changes from the primary, goes there.
        let standby = self.standby.as_ref().filter(|_| attempt == 1);
        if let Some(standby) = standby.filter(|standby| standby.takes(work.mode)) {
            match attempt_on(&standby.pool, work, answer).await {
                Err(failure) if failure.is_unreachable() => {
                    standby.lose(&self.name, &failure);
                }
                Err(failure) if failure.is_behind() && answer.restart() => {}
                other => return other,
            }
        }
        attempt_on(&self.primary, work, answer).await
    }

    /// What has to be done beside the calls. Does not end.
    pub(super) async fn watch(&self) {
        match &self.standby {
            Some(standby) => standby.watch(&self.name).await,
            None => std::future::pending().await,
        }
    }
}

async fn attempt_on<A: Answer>(pool: &Pool, work: Work<'_>, answer: &mut A) -> Result<(), Failure> {
    match answer.is_streamed() {
        true => {
            let run = async |session: &mut Session| stream(session, work, answer).await;
            pool.run_unbounded(run).await.map_err(Failure::of)?
        }
        false => {
            let limit = work.timeout;
            let run = async |session: &mut Session| transact(session, work, limit, answer).await;
            pool.run(run).await.map_err(Failure::of)?
        }
    }
}

/// `limit` is the server's for the statement; zero is none.
async fn transact<R: RowSink<Error = Failure>>(
    session: &mut Session,
    work: Work<'_>,
    limit: Duration,
    rows: &mut R,
) -> Result<(), Failure> {
    let begin = work.mode.begin();
    let limit = limit.as_millis().to_string();
    let set = work.settings.params(&limit);
    let before: [(&str, Params<'_>); 1] = [(settings::SQL, &set)];
    let mut is_prepared_anew = false;
    loop {
        let (owner, statement) = (work.settings.owner(), (work.sql, work.params));
        let outcome = session.transact(owner, &begin, &before, statement, rows);
        let outcome = outcome.await.map_err(Failure::of);
        match &outcome {
            // The server refused the prepared statement before it ran.
            Err(failure) if failure.is_stale() && !is_prepared_anew => {
                session.forget_statements();
                is_prepared_anew = true;
                continue;
            }
            Err(failure) if failure.is_demoted(work.mode) => session.retire(),
            _ => {}
        }
        return outcome?;
    }
}

/// The same for rows that leave one by one: it ends when no row comes for `work.timeout`. How long the caller may take for a row is
/// bounded by whom it is given to.
async fn stream<A: Answer>(
    session: &mut Session,
    work: Work<'_>,
    answer: &mut A,
) -> Result<(), Failure> {
    let progress = watch::Sender::new(());
    let mut seen = progress.subscribe();
    let mut rows = Watched { answer, progress };
    let stalled = async { while timeout(work.timeout, seen.changed()).await.is_ok() {} };
    let outcome = tokio::select! {
        outcome = transact(session, work, Duration::ZERO, &mut rows) => Some(outcome),
        () = stalled => None,
    };
    outcome.unwrap_or_else(|| {
        session.retire();
        Err(Failure::Pool(PgError::AnswerTimeout))
    })
}

/// Says when a row came, and when it was taken.
struct Watched<'a, A> {
    answer: &'a mut A,
    progress: watch::Sender<()>,
}

impl<A: Answer> RowSink for Watched<'_, A> {
    type Error = Failure;

    async fn row(&mut self, row: Row) -> Result<(), Failure> {
        self.progress.send_replace(());
        let taken = self.answer.row(row).await;
        self.progress.send_replace(());
        taken
    }
}

/// Full jitter: callers that met once shall not meet again.
fn pause(attempt: u32) -> Duration {
    let longest = (PAUSE * 2_u32.saturating_pow(attempt)).min(PAUSE_MAX);
    let share = (random::fast_u64() % 1000) as u32;
    longest * share / 1000
}

/// Texts of a single column, within bounds.
pub(super) struct Texts {
    pub(super) rows: Vec<String>,
    pub(super) rows_max: usize,
    pub(super) bytes_max: usize,
    bytes: usize,
    /// There were more rows.
    pub(super) is_cut: bool,
}

impl Texts {
    pub(super) fn new(rows_max: usize, bytes_max: usize) -> Self {
        Self {
            rows: Vec::new(),
            rows_max,
            bytes_max,
            bytes: 0,
            is_cut: false,
        }
    }
}

impl RowSink for Texts {
    type Error = Failure;

    async fn row(&mut self, row: Row) -> Result<(), Failure> {
        if self.rows.len() >= self.rows_max {
            self.is_cut = true;
            return Ok(());
        }
        let text: Option<String> = row
            .try_get(0)
            .map_err(|error| Failure::of(PgError::from(error)))?;
        let text = text.unwrap_or_else(|| "null".to_owned());
        self.bytes += text.len();
        if self.bytes > self.bytes_max {
            return Err(Failure::TooLarge(self.bytes_max));
        }
        self.rows.push(text);
        Ok(())
    }
}

impl Answer for Texts {
    fn restart(&mut self) -> bool {
        self.rows.clear();
        (self.bytes, self.is_cut) = (0, false);
        true
    }
}
