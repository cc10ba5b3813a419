//! Waits end with news, from wherever they come, or with their time.

use super::*;

pub(super) async fn a_wait_ends_at_once_when_the_change_came_before_it(place: Place) {
    let service = place.setup();
    let id = submit(&service).await;
    let began = Instant::now();
    // Seen as created at version 1; claimed since.
    claim(&service, &id, "reviewer:a").await.unwrap();
    for since in [
        Since::Version(1),
        Since::ReviewStatus(ReviewStatus::Created),
    ] {
        let seen = service
            .status(id.clone(), Some(since), long())
            .await
            .unwrap();
        assert_eq!(seen.status, ReviewStatus::Claimed);
    }
    // The queue as it was before anything was submitted.
    let filter = ReviewFilter {
        statuses: vec![ReviewStatus::Created],
        ..ReviewFilter::default()
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

pub(super) async fn a_wait_wakes_at_once_on_a_change_and_ends_with_its_time(place: Place) {
    let service = place.setup();
    let id = submit(&service).await;
    claim(&service, &id, "reviewer:a").await.unwrap();
    let waiting = {
        let (service, id) = (service.clone(), id.clone());
        tokio::spawn(async move {
            let seen = service
                .status(id, Some(Since::ReviewStatus(ReviewStatus::Claimed)), long())
                .await;
            (seen.unwrap().status, Instant::now())
        })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    say(&service, &id, "change X").await.unwrap();
    let said = Instant::now();
    let (status, woke) = waiting.await.unwrap();
    assert_eq!(status, ReviewStatus::InDiscussion);
    // Nothing looks around here: untold, it would have waited for all its time.
    assert!(woke.saturating_duration_since(said) < WAIT_MAX / 2);

    let began = Instant::now();
    let since = Some(Since::ReviewStatus(ReviewStatus::InDiscussion));
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

pub(super) async fn a_reviewer_who_waits_for_work_gets_it_as_it_comes(place: Place) {
    let service = place.setup();
    let filter = ReviewFilter {
        statuses: vec![ReviewStatus::Created],
        ..ReviewFilter::default()
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
    let elsewhere = ReviewFilter {
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
pub(super) async fn a_wait_sees_what_another_process_writes(place: Place) {
    let service = place.setup();
    let other = place.setup();
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
    assert_eq!(seen.unwrap().unwrap().status, ReviewStatus::Claimed);
    running.abort();
}
