//! The service over a real store: conversations, races, waiting, keys; the same on SQLite and PostgreSQL.

use std::time::Duration;

use sentinel_core::clock::{Clock, SystemClock};
use sentinel_core::random::uuid;
use sentinel_core::review::{Added, Category, Order, Priority, Role};
use sentinel_stores::{Postgres, PostgresReviews, Sqlite, SqliteReviews, Synchronous, review};
use tempfile::TempDir;

use super::*;
use cluster::Cluster;

#[path = "../../../stores/src/postgres/cluster.rs"]
mod cluster;

pub(crate) const DIFF: &str = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";

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
        };
        Service::new(store, settings)
    }

    fn house(&self) -> Arc<Service> {
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
}

pub(crate) fn proposal(intent: &str) -> NewReview {
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
        affected_files: crate::diff::check(DIFF).unwrap(),
    }
}

async fn submit(service: &Service) -> String {
    service
        .submit(proposal("change"), None)
        .await
        .unwrap()
        .review
        .review_id
}

fn patient(wait: Duration) -> Patience<'static> {
    Patience { wait, asked: None }
}

fn long() -> Patience<'static> {
    patient(WAIT_MAX)
}

fn says(body: &str) -> Addition {
    Addition::Message {
        role: Role::Reviewer,
        body: body.into(),
    }
}

async fn say(service: &Service, id: &str, body: &str) -> Result<Acted, Refused> {
    service
        .add(id.into(), "r".into(), None, None, says(body))
        .await
}

async fn claim(service: &Service, id: &str, who: &str) -> Result<Acted, Refused> {
    service.claim(id.into(), who.into(), who.into()).await
}

async fn approve(service: &Service, id: &str, generation: Option<u64>) -> Result<Acted, Refused> {
    let decision = Decision::Approved;
    service
        .verdict(id.into(), "r".into(), None, generation, decision, None)
        .await
}

/// P-B05: 64 reviewers race for each of many reviews, in orders of their own.
async fn p_b05_of_reviewers_that_race_for_a_claim_one_wins(place: Place) {
    let (reviewers, count) = match place {
        Place::Sqlite(_) => (64, 50),
        Place::Postgres { .. } => (16, 10),
    };
    let service = place.house();
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(submit(&service).await);
    }
    let racing: Vec<_> = (0..reviewers)
        .map(|n| {
            let (service, mut ids) = (service.clone(), ids.clone());
            let start = n % ids.len();
            ids.rotate_left(start);
            tokio::spawn(async move {
                let mut won = Vec::new();
                for id in ids {
                    match claim(&service, &id, &format!("reviewer:{n}")).await {
                        Ok(acted) => won.push(acted.review),
                        Err(refused) => assert_eq!(refused.kind, "already_claimed"),
                    }
                }
                won
            })
        })
        .collect();
    let mut winners = HashMap::new();
    for racer in racing {
        for review in racer.await.unwrap() {
            assert_eq!(review.claim_generation, 1);
            let second = winners.insert(review.review_id, review.claimed_by);
            assert_eq!(second, None, "a review was claimed twice");
        }
    }
    assert_eq!(winners.len(), count);
    for (id, by) in winners {
        let now = service.status(id, None, Patience::NONE).await.unwrap();
        assert_eq!((now.claimed_by, now.claim_generation), (by, 1));
    }
    service.store.verify().await.unwrap();
}

async fn a_claim_expires_wakes_who_waits_and_its_verdict_is_stale_afterwards(place: Place) {
    let service = place.open(Duration::from_millis(300));
    let running = tokio::spawn(service.clone().run());
    let id = submit(&service).await;
    let first = claim(&service, &id, "reviewer:a").await.unwrap().review;
    let since = Some(Since::Version(first.version));
    let free = service.status(id.clone(), since, long()).await.unwrap();
    assert_eq!(free.status, Status::Created);
    assert_eq!(free.claimed_by, None);
    let late = approve(&service, &id, Some(first.claim_generation))
        .await
        .unwrap_err();
    assert_eq!(
        late.message,
        "Cannot transition from 'created' to 'approved'"
    );
    let second = claim(&service, &id, "reviewer:b").await.unwrap().review;
    assert_eq!(second.claim_generation, 2);
    let stale = approve(&service, &id, Some(first.claim_generation))
        .await
        .unwrap_err();
    assert_eq!(stale.kind, "stale_claim");
    assert!(
        approve(&service, &id, Some(second.claim_generation))
            .await
            .is_ok()
    );
    running.abort();
}

/// P-B05: leases are monotonic across a restart.
async fn a_lease_keeps_its_time_across_a_restart(place: Place) {
    let service = place.open(Duration::from_millis(900));
    let id = submit(&service).await;
    claim(&service, &id, "reviewer:a").await.unwrap();
    drop(service);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let service = place.open(Duration::from_millis(900));
    assert_eq!(
        claim(&service, &id, "reviewer:b").await.unwrap_err().kind,
        "already_claimed"
    );
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(
        claim(&service, &id, "reviewer:b")
            .await
            .unwrap()
            .review
            .claim_generation,
        2
    );
}

async fn a_wait_ends_at_once_when_the_change_came_before_it(place: Place) {
    let service = place.house();
    let id = submit(&service).await;
    let began = Instant::now();
    // Seen as created at version 1; claimed since.
    claim(&service, &id, "reviewer:a").await.unwrap();
    for since in [Since::Version(1), Since::Status(Status::Created)] {
        let seen = service
            .status(id.clone(), Some(since), long())
            .await
            .unwrap();
        assert_eq!(seen.status, Status::Claimed);
    }
    // The queue as it was before anything was submitted.
    let filter = Filter {
        statuses: vec![Status::Created],
        ..Filter::default()
    };
    let page = Page {
        offset: 0,
        limit: 10,
    };
    let (listed, version) = service
        .pending(filter, page, Some(0), long())
        .await
        .unwrap();
    assert_eq!((listed.total, version), (0, 2));
    assert!(began.elapsed() < Duration::from_secs(2));
}

async fn a_wait_wakes_at_once_on_a_change_and_ends_with_its_time(place: Place) {
    let service = place.house();
    let id = submit(&service).await;
    claim(&service, &id, "reviewer:a").await.unwrap();
    let waiting = {
        let (service, id) = (service.clone(), id.clone());
        tokio::spawn(async move {
            let seen = service
                .status(id, Some(Since::Status(Status::Claimed)), long())
                .await;
            (seen.unwrap().status, Instant::now())
        })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    say(&service, &id, "change X").await.unwrap();
    let said = Instant::now();
    let (status, woke) = waiting.await.unwrap();
    assert_eq!(status, Status::InDiscussion);
    // Sooner than the next look would have come.
    assert!(woke.saturating_duration_since(said) < Duration::from_millis(300));

    let began = Instant::now();
    let since = Some(Since::Status(Status::InDiscussion));
    service
        .status(id, since, patient(Duration::from_millis(200)))
        .await
        .unwrap();
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(200) && took < Duration::from_secs(5),
        "{took:?}"
    );
}

async fn a_reviewer_who_waits_for_work_gets_it_as_it_comes(place: Place) {
    let service = place.house();
    let filter = Filter {
        statuses: vec![Status::Created],
        ..Filter::default()
    };
    let page = Page {
        offset: 0,
        limit: 10,
    };
    let waiting = {
        let (service, filter) = (service.clone(), filter.clone());
        tokio::spawn(async move { service.pending(filter, page, None, long()).await.unwrap() })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    let id = submit(&service).await;
    let (listed, version) = waiting.await.unwrap();
    assert_eq!(listed.items[0].review_id, id);
    // A change in another project is no news for this one.
    let elsewhere = Filter {
        projects: vec!["other".into()],
        ..filter
    };
    let (listed, _) = service
        .pending(elsewhere, page, Some(0), patient(Duration::from_millis(50)))
        .await
        .unwrap();
    assert_eq!(listed.total, 0);
    assert!(version > 0);
}

/// Decisions 29: the other process writes to the same file and rings no bell of ours.
async fn a_wait_sees_what_another_process_writes(place: Place) {
    let service = place.house();
    let other = place.house();
    let running = tokio::spawn(service.clone().run());
    let id = submit(&service).await;
    let waiting = {
        let (service, id) = (service.clone(), id.clone());
        tokio::spawn(async move { service.status(id, Some(Since::Version(1)), long()).await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    claim(&other, &id, "reviewer:a").await.unwrap();
    let seen = tokio::time::timeout(Duration::from_secs(5), waiting)
        .await
        .unwrap();
    assert_eq!(seen.unwrap().unwrap().status, Status::Claimed);
    running.abort();
}

async fn p_b02_a_write_tried_again_under_its_key_happens_once(place: Place) {
    let service = place.house();
    let id = submit(&service).await;
    claim(&service, &id, "reviewer:a").await.unwrap();
    let named = |digest| {
        Some(Key {
            key: "post_message\nlocal\nk1".into(),
            digest: [digest; 32],
        })
    };
    let post = |key| service.add(id.clone(), "r".into(), None, key, says("once"));
    let (first, second) = (post(named(1)).await.unwrap(), post(named(1)).await.unwrap());
    assert_eq!(first.added, second.added);
    assert!(!first.repeated && second.repeated);
    assert_eq!(post(named(2)).await.unwrap_err().kind, "key_reused");
    assert_eq!(
        service.store.get(id.clone()).await.unwrap().message_count,
        1
    );

    let own = NewReview {
        review_id: uuid(),
        ..proposal("own id")
    };
    let key = Some(Key {
        key: "review_id\nlocal\nx".into(),
        digest: [3; 32],
    });
    let first = service.submit(own.clone(), key.clone()).await.unwrap();
    let again = service.submit(own.clone(), key).await.unwrap();
    assert_eq!(first.review, again.review);
    assert_eq!(
        service.submit(own, None).await.unwrap_err().kind,
        "key_reused"
    );
    assert_eq!(
        service
            .store
            .list(
                Filter::default(),
                Page {
                    offset: 0,
                    limit: 9
                }
            )
            .await
            .unwrap()
            .total,
        2
    );
}

/// Forty agents at once: no lock error, nothing lost.
async fn b_55_forty_agents_at_once_lose_nothing(place: Place) {
    let service = place.house();
    let agents: Vec<_> = (0..40)
        .map(|n| {
            let service = service.clone();
            tokio::spawn(async move {
                let id = submit(&service).await;
                claim(&service, &id, &format!("reviewer:{n}"))
                    .await
                    .unwrap();
                for m in 0..10 {
                    say(&service, &id, &format!("message {m}")).await.unwrap();
                }
                approve(&service, &id, Some(1)).await.unwrap();
                service.close(id.clone(), "p".into(), None).await.unwrap();
                id
            })
        })
        .collect();
    for agent in agents {
        let id = agent.await.unwrap();
        let page = Page {
            offset: 0,
            limit: 100,
        };
        let messages = service.store.messages(id, page).await.unwrap();
        let bodies: Vec<String> = messages.items.into_iter().map(|m| m.body).collect();
        let wanted: Vec<String> = (0..10).map(|m| format!("message {m}")).collect();
        assert_eq!(bodies, wanted);
    }
    assert_eq!(service.store.verify().await.unwrap(), 40 * 14);
}

/// A clock that stands still, so that every timestamp is equal.
struct Still(Moment);
use sentinel_core::clock::Moment;

impl Clock for Still {
    fn now(&self) -> Moment {
        self.0.clone()
    }
}

async fn equal_timestamps_keep_the_order_of_posting(place: Place) {
    let now = Moment {
        wall_ms: 5,
        boot_ms: 5,
        boot_id: "b".into(),
    };
    let service = place.open_at(Duration::from_secs(9), Arc::new(Still(now)));
    let id = submit(&service).await;
    claim(&service, &id, "reviewer:a").await.unwrap();
    for n in 0..20 {
        say(&service, &id, &n.to_string()).await.unwrap();
    }
    for n in 0..5 {
        let addition = Addition::Patch {
            role: Role::Reviewer,
            description: Some(n.to_string()),
            diff: DIFF.into(),
            affected_files: Vec::new(),
        };
        service
            .add(id.clone(), "r".into(), None, None, addition)
            .await
            .unwrap();
    }
    let messages = service
        .store
        .messages(
            id.clone(),
            Page {
                offset: 0,
                limit: 100,
            },
        )
        .await
        .unwrap();
    let bodies: Vec<String> = messages.items.iter().map(|m| m.body.clone()).collect();
    assert_eq!(bodies, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    let whole = sentinel_core::review::Slice {
        offset: 0,
        limit: 9999,
    };
    let patches = service.store.patches(id, whole).await.unwrap();
    let order: Vec<Option<String>> = patches.into_iter().map(|p| p.description).collect();
    assert_eq!(
        order[1..],
        (0..5).map(|n| Some(n.to_string())).collect::<Vec<_>>()
    );
}

async fn b_35_a_resubmission_is_a_new_review_and_the_chain_is_readable(place: Place) {
    let service = place.house();
    let id = submit(&service).await;
    let child = |parent: &str| NewReview {
        parent_id: Some(parent.into()),
        ..proposal("again")
    };
    let early = service.submit(child(&id), None).await.unwrap_err();
    assert_eq!(early.kind, "parent_still_open");
    claim(&service, &id, "reviewer:a").await.unwrap();
    let reject = service.verdict(
        id.clone(),
        "r".into(),
        None,
        Some(1),
        Decision::Rejected,
        Some("no".into()),
    );
    assert!(matches!(
        reject.await.unwrap().added,
        Some(Added::Verdict(_))
    ));
    let second = service.submit(child(&id), None).await.unwrap().review;
    assert_eq!(second.status, Status::Created);
    assert_eq!(
        service.store.get(id.clone()).await.unwrap().status,
        Status::Rejected
    );
    for from in [&id, &second.review_id] {
        let chain = service.store.chain(from.clone()).await.unwrap();
        let ids: Vec<&String> = chain.iter().map(|review| &review.review_id).collect();
        assert_eq!(ids, [&id, &second.review_id]);
    }
    let missing = service.submit(child(&uuid()), None).await.unwrap_err();
    assert_eq!(missing.kind, "not_found");
}

async fn lists_go_by_urgency_then_age_and_follow_their_filters(place: Place) {
    let service = place.house();
    let of = |intent: &str, priority, project: &str| NewReview {
        priority,
        project: Some(project.into()),
        ..proposal(intent)
    };
    for new in [
        of("low", Priority::Low, "a"),
        of("normal 1", Priority::Normal, "b"),
        of("critical", Priority::Critical, "a"),
        of("normal 2", Priority::Normal, "a"),
    ] {
        service.submit(new, None).await.unwrap();
    }
    let intents = async |filter: Filter, page: Page| {
        let listed = service.store.list(filter, page).await.unwrap();
        let intents: Vec<String> = listed
            .items
            .into_iter()
            .map(|review| review.intent)
            .collect();
        (intents.join(", "), listed.total)
    };
    let all = Page {
        offset: 0,
        limit: 10,
    };
    let (order, total) = intents(Filter::default(), all).await;
    assert_eq!(
        (order.as_str(), total),
        ("critical, normal 1, normal 2, low", 4)
    );
    let of_a = Filter {
        projects: vec!["a".into()],
        ..Filter::default()
    };
    let (order, total) = intents(
        of_a.clone(),
        Page {
            offset: 1,
            limit: 1,
        },
    )
    .await;
    assert_eq!((order.as_str(), total), ("normal 2", 3));
    let recent = Filter {
        order: Order::Recent,
        ..of_a
    };
    assert_eq!(intents(recent, all).await.0, "normal 2, critical, low");
    let normal = Filter {
        priority: Some(Priority::Normal),
        ..Filter::default()
    };
    assert_eq!(intents(normal, all).await.0, "normal 1, normal 2");
}

async fn the_extended_figures_and_judgements_are_those_of_the_history(place: Place) {
    let service = place.house();
    let id = submit(&service).await;
    claim(&service, &id, "reviewer:a").await.unwrap();
    let whole = sentinel_core::review::Slice {
        offset: 0,
        limit: 9999,
    };
    let patch = service.store.patches(id.clone(), whole).await.unwrap()[0].clone();
    let judge = |patch_id: String, accepted| {
        let judgement = Addition::Judgement { patch_id, accepted };
        service.add(id.clone(), "p".into(), None, None, judgement)
    };
    let unknown = judge(uuid(), true).await.unwrap_err();
    assert_eq!(unknown.kind, "unknown_patch");
    judge(patch.patch_id.clone(), true).await.unwrap();
    judge(patch.patch_id.clone(), false).await.unwrap();
    let judged = service.store.patch(id.clone(), patch.patch_id, whole);
    assert_eq!(judged.await.unwrap().accepted, Some(false));
    approve(&service, &id, Some(1)).await.unwrap();
    service.close(id.clone(), "p".into(), None).await.unwrap();
    let figures = service.store.statistics(None).await.unwrap();
    assert_eq!((figures.total, figures.approval_rate_pct), (1, Some(100.0)));
    assert!(figures.mean_s_to_close.is_some() && figures.mean_s_to_verdict.is_some());
    let nobody = service
        .store
        .statistics(Some("other".into()))
        .await
        .unwrap();
    assert_eq!((nobody.total, nobody.approval_rate_pct), (0, None));
    let page = Page {
        offset: 0,
        limit: 100,
    };
    let events = service.store.events(Some(id), page).await.unwrap();
    let told: Vec<&str> = events.items.iter().map(|event| &*event.event).collect();
    let wanted =
        "review_created review_claimed patch_judged patch_judged verdict_approved review_closed";
    assert_eq!(told.join(" "), wanted);
    assert_eq!(events.items[3].detail.as_ref().unwrap()["accepted"], false);
    assert_eq!(service.store.verify().await.unwrap(), 6);
}

/// Decisions 29: two processes that write at once, with one chain of events between them.
async fn two_stores_with_one_database_keep_one_history(place: Place) {
    let services = [place.house(), place.house()];
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let service = services[n % 2].clone();
            tokio::spawn(async move {
                let id = submit(&service).await;
                claim(&service, &id, "reviewer:a").await.unwrap();
                for m in 0..5 {
                    say(&service, &id, &m.to_string()).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    for service in &services {
        assert_eq!(service.store.verify().await.unwrap(), 8 * 7);
    }
    let mut seen = 0;
    let mut changed = std::collections::HashSet::new();
    loop {
        let changes = services[0].store.changes(seen).await.unwrap();
        if changes.seq == seen {
            break;
        }
        seen = changes.seq;
        changed.extend(changes.reviews);
    }
    assert_eq!((seen, changed.len()), (56, 8));
    assert!(changed.iter().all(|(_, version)| *version == 7));
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
