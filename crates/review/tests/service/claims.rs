//! One claim at a time, and for no longer than its lease.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

use sentinel_core::clock::Moment;

use super::*;

/// P-B05: 64 reviewers race for each of many reviews, in orders of their own.
pub(super) async fn p_b05_of_reviewers_that_race_for_a_claim_one_wins(place: Place) {
    let races = std::env::var("SENTINEL_RACES").ok();
    let rounds: usize = races.as_deref().map_or(1, |n| n.parse().expect("a number"));
    let (reviewers, count) = match place {
        // The promise at full length: SENTINEL_RACES=100.
        Place::Sqlite(_) if races.is_some() => (64, 1000),
        Place::Sqlite(_) => (64, 50),
        Place::Postgres { .. } => (16, 10),
    };
    let service = place.setup();
    for _ in 0..rounds {
        race(&service, reviewers, count).await;
    }
    service.store.verify().await.unwrap();
    println!("{rounds} x {count} reviews, {reviewers} reviewers: each claimed once");
}

async fn race(service: &Arc<Service>, reviewers: usize, count: usize) {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(submit(service).await);
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
        let now = service.status(id, None, WaitOptions::NONE).await.unwrap();
        assert_eq!((now.claimed_by, now.claim_generation), (by, 1));
    }
}

pub(super) async fn a_claim_expires_wakes_who_waits_and_its_verdict_is_stale_afterwards(
    place: Place,
) {
    let service = place.open(Duration::from_millis(300));
    let running = tokio::spawn(service.clone().run());
    let id = submit(&service).await;
    let first = claim(&service, &id, "reviewer:a").await.unwrap().review;
    let since = Some(Since::Version(first.version));
    let free = service.status(id.clone(), since, long()).await.unwrap();
    assert_eq!(free.status, ReviewStatus::Created);
    assert_eq!(free.claimed_by, None);
    let late = approve(&service, &id, Some(first.claim_generation))
        .await
        .unwrap_err();
    assert_eq!(
        late.message,
        "Cannot transition from 'created' to 'approved'"
    );
    // A lease is as long as whoever grants it says, and this one must not end.
    let second = claim(&place.setup(), &id, "reviewer:b")
        .await
        .unwrap()
        .review;
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

/// A clock that goes on when it is told to.
#[derive(Default)]
struct ByHand(AtomicI64);

impl ByHand {
    fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as i64, Ordering::Relaxed);
    }
}

impl Clock for ByHand {
    fn now(&self) -> Moment {
        let passed = self.0.load(Ordering::Relaxed);
        Moment {
            wall_ms: passed,
            boot_ms: passed,
            boot_id: "b".into(),
        }
    }
}

/// P-B05: leases are monotonic across a restart.
pub(super) async fn a_lease_keeps_its_time_across_a_restart(place: Place) {
    const LEASE: Duration = Duration::from_secs(4);
    let clock = Arc::new(ByHand::default());
    // PostgreSQL has no hand that moves its clock.
    let pass = async |time: Duration| match place {
        Place::Sqlite(_) => clock.pass(time),
        Place::Postgres { .. } => tokio::time::sleep(time).await,
    };
    let service = place.open_at(LEASE, clock.clone());
    let id = submit(&service).await;
    claim(&service, &id, "reviewer:a").await.unwrap();
    drop(service);
    pass(LEASE / 4).await;
    let service = place.open_at(LEASE, clock.clone());
    assert_eq!(
        claim(&service, &id, "reviewer:b").await.unwrap_err().kind,
        "already_claimed"
    );
    // The rest of it, and no new one.
    pass(LEASE * 3 / 4 + Duration::from_millis(1)).await;
    assert_eq!(
        claim(&service, &id, "reviewer:b")
            .await
            .unwrap()
            .review
            .claim_generation,
        2
    );
}
