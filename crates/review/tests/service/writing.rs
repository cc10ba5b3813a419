//! What is written once is there once, in its order, whoever else writes.

use sentinel_core::clock::{Clock, Moment};

use super::*;

pub(super) async fn p_b02_a_write_tried_again_under_its_key_happens_once(place: Place) {
    let service = place.setup();
    let id = submit(&service).await;
    claim(&service, &id, "reviewer:a").await.unwrap();
    let named = |digest| {
        Some(WriteKey {
            key: "post_message\nlocal\nk1".into(),
            digest: [digest; 32],
        })
    };
    let post = |key| service.add(id.clone(), by("r"), key, says("once"));
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
    let key = Some(WriteKey {
        key: "review_id\nlocal\nx".into(),
        digest: [3; 32],
    });
    let other = Some(WriteKey {
        key: "submit_proposal\nlocal\nk2".into(),
        digest: [4; 32],
    });
    let both = key.clone().into_iter().chain(other.clone());
    let first = service.submit(&by("p"), own.clone(), both).await.unwrap();
    // Each of two keys is enough.
    for known in [key, other] {
        let again = service.submit(&by("p"), own.clone(), known).await.unwrap();
        assert_eq!(first.review, again.review);
        assert!(again.repeated);
    }
    assert_eq!(
        service.submit(&by("p"), own, None).await.unwrap_err().kind,
        "key_reused"
    );
    assert_eq!(
        service
            .store
            .list(
                ReviewFilter::default(),
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
pub(super) async fn b_55_forty_agents_at_once_lose_nothing(place: Place) {
    let service = place.setup();
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
                service.close(id.clone(), by("p"), None).await.unwrap();
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
    assert_eq!(service.store.verify().await.unwrap().events, 40 * 14);
}

/// Decisions 29: two processes that write at once, with one chain of events between them.
pub(super) async fn two_stores_with_one_database_keep_one_history(place: Place) {
    let services = [place.setup(), place.setup()];
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
        assert_eq!(service.store.verify().await.unwrap().events, 8 * 7);
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

/// A clock that stands still, so that every timestamp is equal.
struct Still(Moment);

impl Clock for Still {
    fn now(&self) -> Moment {
        self.0.clone()
    }
}

pub(super) async fn equal_timestamps_keep_the_order_of_posting(place: Place) {
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
            .add(id.clone(), by("r"), None, addition)
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
    let whole = sentinel_review::store::DiffRange {
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
