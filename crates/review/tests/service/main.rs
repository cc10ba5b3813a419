//! The service over a real store: each test runs on SQLite and on PostgreSQL.
//!
//! Integration tests, because `sentinel_stores` depends on this crate.

#![allow(clippy::unwrap_used, reason = "in a test it is the assertion")]
#![allow(clippy::print_stdout, reason = "shown when a test fails")]

mod claims;
mod declarations;
mod purging;
mod reading;
mod sides;
mod waiting;
mod writing;

#[path = "../../../pg/tests/pool/cluster.rs"]
mod cluster;

use std::sync::Arc;
use std::time::Duration;

use sentinel_core::Caller;
use sentinel_core::builtin::Refused;
use sentinel_core::clock::{Clock, SystemClock};
use sentinel_core::random::uuid;
use sentinel_review::roles::claimant;
use sentinel_review::service::{Since, WAIT_MAX, WaitOptions};
use sentinel_review::store::{
    ActionOutcome, Addition, Category, Decision, NewReview, Page, Priority, ReviewError,
    ReviewFilter, ReviewStatus, ReviewStore, Role, WriteKey,
};
use sentinel_review::{Actor, Service, Settings, machine};
use sentinel_stores::{Postgres, PostgresReviews, Sqlite, SqliteReviews, Synchronous, review};
use tempfile::TempDir;
use tokio::time::Instant;

use claims::*;
use cluster::Cluster;
use purging::*;
use reading::*;
use sides::*;
use waiting::*;
use writing::*;

const DIFF: &str = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";

/// Where one test keeps its reviews. Opening it again is another process, or the same after a restart.
enum Place {
    Sqlite(TempDir),
    Postgres { url: String },
}

impl Place {
    fn open(&self, claim_timeout: Duration) -> Arc<Service> {
        self.open_at(claim_timeout, Arc::new(SystemClock::new()))
    }

    /// PostgreSQL has a clock of its own.
    fn open_at(&self, claim_timeout: Duration, clock: Arc<dyn Clock>) -> Arc<Service> {
        let store: Arc<dyn ReviewStore> = match self {
            Self::Sqlite(folder) => {
                let path = folder.path().join("sentinel.db");
                let db = Sqlite::open(&path, Synchronous::Full, &[review::MIGRATIONS]).unwrap();
                Arc::new(SqliteReviews::new(&db, clock, machine::expire))
            }
            Self::Postgres { url } => {
                let db = Postgres::new(url, 10, &[review::POSTGRES_MIGRATIONS]).expect("a URL");
                Arc::new(PostgresReviews::new(&db, machine::expire))
            }
        };
        let settings = Settings {
            claim_timeout,
            extended_tools: true,
            enforce_roles: false,
        };
        Service::new(store, settings)
    }

    fn setup(&self) -> Arc<Service> {
        self.open(Duration::from_secs(1200))
    }
}

/// Every one of these by itself on SQLite, and all of them on PostgreSQL, each in a database of its own.
macro_rules! suite {
    ($($name:ident,)+) => {
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $name() {
                    super::$name(super::Place::Sqlite(super::TempDir::new().unwrap())).await;
                }
            )+
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn on_postgres() {
            let cluster = Cluster::start();
            $(
                println!("{}", stringify!($name));
                let url = cluster.database(stringify!($name));
                $name(Place::Postgres { url }).await;
            )+
        }
    };
}

suite! {
    p_b05_of_reviewers_that_race_for_a_claim_one_wins,
    a_claim_expires_wakes_who_waits_and_its_verdict_is_stale_afterwards,
    a_lease_keeps_its_time_across_a_restart,
    a_wait_ends_at_once_when_the_change_came_before_it,
    a_wait_wakes_at_once_on_a_change_and_ends_with_its_time,
    a_reviewer_who_waits_for_work_gets_it_as_it_comes,
    a_wait_sees_what_another_process_writes,
    p_b02_a_write_tried_again_under_its_key_happens_once,
    b_55_forty_agents_at_once_lose_nothing,
    equal_timestamps_keep_the_order_of_posting,
    b_35_a_resubmission_is_a_new_review_and_the_chain_is_readable,
    lists_go_by_urgency_then_age_and_follow_their_filters,
    the_extended_figures_and_judgements_are_those_of_the_history,
    two_stores_with_one_database_keep_one_history,
    c_32_closed_reviews_are_removed_and_the_history_stays_whole,
    c_28_each_side_does_only_what_is_its_own_where_that_is_asked_for,
    c_28_without_it_roles_are_for_attribution,
    c_28_callers_without_a_name_are_told_apart_by_session,
}

fn proposal(intent: &str) -> NewReview {
    NewReview {
        review_id: uuid(),
        intent: intent.into(),
        description: None,
        agent_type: "gsd-executor".into(),
        phase: "1".into(),
        plan: None,
        task: None,
        project: None,
        category: Category::CodeChange,
        priority: Priority::Normal,
        proposed_by: "p".into(),
        parent_id: None,
        diff: DIFF.into(),
        affected_files: sentinel_review::diff::check(DIFF).unwrap(),
    }
}

fn by(actor: &str) -> Actor {
    Actor::unchecked(actor, None)
}

async fn submit(service: &Service) -> String {
    service
        .submit(&by("p"), proposal("change"), None)
        .await
        .unwrap()
        .review
        .review_id
}

fn patient(wait: Duration) -> WaitOptions<'static> {
    WaitOptions {
        wait,
        context: None,
    }
}

fn long() -> WaitOptions<'static> {
    patient(WAIT_MAX)
}

fn says(body: &str) -> Addition {
    Addition::Message {
        role: Role::Reviewer,
        body: body.into(),
    }
}

async fn say(service: &Service, id: &str, body: &str) -> Result<ActionOutcome, Refused> {
    service.add(id.into(), by("r"), None, says(body)).await
}

async fn claim(service: &Service, id: &str, who: &str) -> Result<ActionOutcome, Refused> {
    service.claim(id.into(), by(who), who.into()).await
}

async fn approve(
    service: &Service,
    id: &str,
    generation: Option<u64>,
) -> Result<ActionOutcome, Refused> {
    let decision = Decision::Approved;
    service
        .verdict(id.into(), by("r"), None, generation, decision, None)
        .await
}

#[test]
fn a_session_is_recognised_without_being_shown() {
    let mut caller = Caller {
        subject: "local".into(),
        revision: sentinel_wire::Revision::NEWEST,
        capabilities: Default::default(),
        client_info: None,
        session: Some("secret-session".into()),
        role: "admin".into(),
        scopes: std::sync::Arc::default(),
        tenant: None,
        log_level: sentinel_core::LogLevel::default(),
        tags: None,
        addressing: Default::default(),
        account: None,
    };
    let by_session = claimant(None, &caller).unwrap();
    assert!(by_session.starts_with("session:") && !by_session.contains("secret"));
    assert_eq!(
        claimant(Some("codex-1"), &caller).unwrap(),
        "reviewer:codex-1"
    );
    caller.session = None;
    assert_eq!(claimant(None, &caller), None);
    caller.subject = "alice".into();
    assert_eq!(claimant(None, &caller).unwrap(), "caller:alice");
}
