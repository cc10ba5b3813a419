//! Chains, lists and figures say what happened.

use sentinel_review::store::{Attachment, ListOrder};

use super::*;

pub(super) async fn b_35_a_resubmission_is_a_new_review_and_the_chain_is_readable(place: Place) {
    let service = place.setup();
    let id = submit(&service).await;
    let child = |parent: &str| NewReview {
        parent_id: Some(parent.into()),
        ..proposal("again")
    };
    let early = service
        .submit(&by("p"), child(&id), None)
        .await
        .unwrap_err();
    assert_eq!(early.kind, "parent_still_open");
    claim(&service, &id, "reviewer:a").await.unwrap();
    let reject = service.verdict(
        id.clone(),
        by("r"),
        None,
        Some(1),
        Decision::Rejected,
        Some("no".into()),
    );
    assert!(matches!(
        reject.await.unwrap().added,
        Some(Attachment::Verdict(_))
    ));
    let second = service
        .submit(&by("p"), child(&id), None)
        .await
        .unwrap()
        .review;
    assert_eq!(second.status, ReviewStatus::Created);
    assert_eq!(
        service.store.get(id.clone()).await.unwrap().status,
        ReviewStatus::Rejected
    );
    for from in [&id, &second.review_id] {
        let chain = service.store.chain(from.clone()).await.unwrap();
        let ids: Vec<&String> = chain.iter().map(|review| &review.review_id).collect();
        assert_eq!(ids, [&id, &second.review_id]);
    }
    let missing = service
        .submit(&by("p"), child(&uuid()), None)
        .await
        .unwrap_err();
    assert_eq!(missing.kind, "not_found");
}

pub(super) async fn lists_go_by_urgency_then_age_and_follow_their_filters(place: Place) {
    let service = place.setup();
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
        service.submit(&by("p"), new, None).await.unwrap();
    }
    let intents = async |filter: ReviewFilter, page: Page| {
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
    let (order, total) = intents(ReviewFilter::default(), all).await;
    assert_eq!(
        (order.as_str(), total),
        ("critical, normal 1, normal 2, low", 4)
    );
    let of_a = ReviewFilter {
        projects: vec!["a".into()],
        ..ReviewFilter::default()
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
    let recent = ReviewFilter {
        order: ListOrder::Recent,
        ..of_a
    };
    assert_eq!(intents(recent, all).await.0, "normal 2, critical, low");
    let normal = ReviewFilter {
        priority: Some(Priority::Normal),
        ..ReviewFilter::default()
    };
    assert_eq!(intents(normal, all).await.0, "normal 1, normal 2");
}

pub(super) async fn the_extended_figures_and_judgements_are_those_of_the_history(place: Place) {
    let service = place.setup();
    let id = submit(&service).await;
    claim(&service, &id, "reviewer:a").await.unwrap();
    let whole = sentinel_review::store::DiffRange {
        offset: 0,
        limit: 9999,
    };
    let patch = service.store.patches(id.clone(), whole).await.unwrap()[0].clone();
    let judge = |patch_id: String, accepted| {
        let judgement = Addition::Judgement { patch_id, accepted };
        service.add(id.clone(), by("p"), None, judgement)
    };
    let unknown = judge(uuid(), true).await.unwrap_err();
    assert_eq!(unknown.kind, "unknown_patch");
    judge(patch.patch_id.clone(), true).await.unwrap();
    judge(patch.patch_id.clone(), false).await.unwrap();
    let judged = service.store.patch(id.clone(), patch.patch_id, whole);
    assert_eq!(judged.await.unwrap().accepted, Some(false));
    approve(&service, &id, Some(1)).await.unwrap();
    service.close(id.clone(), by("p"), None).await.unwrap();
    let figures = service.store.statistics(None).await.unwrap();
    assert_eq!((figures.total, figures.approval_rate_pct), (1, Some(100.0)));
    assert!(figures.mean_s_to_close.is_some() && figures.mean_s_to_verdict.is_some());
    let over: Vec<&str> = figures.mean_s_in_status.keys().map(|s| &**s).collect();
    assert_eq!(
        over,
        ["approved", "claimed", "created"],
        "where it no longer is"
    );
    let stayed: f64 = figures.mean_s_in_status.values().sum();
    assert!((stayed - figures.mean_s_to_close.unwrap()).abs() < 0.01);
    let nobody = service
        .store
        .statistics(Some("other".into()))
        .await
        .unwrap();
    assert_eq!((nobody.total, nobody.approval_rate_pct), (0, None));
    assert!(nobody.mean_s_in_status.is_empty());
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
    assert_eq!(service.store.verify().await.unwrap().events, 6);
}
