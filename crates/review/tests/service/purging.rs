//! C-32: an operator removes closed reviews, and the history says so.

use super::*;

/// Past everything that is closed.
const LATER: &str = "9999-01-01T00:00:00.000Z";

async fn closed(service: &Service, new: NewReview) -> String {
    let id = new.review_id.clone();
    service.submit(&by("p"), new, None).await.unwrap();
    claim(service, &id, "reviewer:a").await.unwrap();
    say(service, &id, "please change it").await.unwrap();
    let decision = Decision::Rejected;
    let verdict = service.verdict(id.clone(), by("r"), None, None, decision, None);
    verdict.await.unwrap();
    service.close(id.clone(), by("p"), None).await.unwrap();
    id
}

fn following(parent: &str) -> NewReview {
    NewReview {
        parent_id: Some(parent.into()),
        ..proposal("again")
    }
}

async fn exists(service: &Service, id: &str) -> bool {
    match service.store.get(id.into()).await {
        Ok(_) => true,
        Err(ReviewError::NoReview(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

pub(super) async fn c_32_closed_reviews_are_removed_and_the_history_stays_whole(place: Place) {
    let service = place.setup();
    let store = &service.store;
    let alone = closed(&service, proposal("alone")).await;
    let first = closed(&service, proposal("first")).await;
    let second = closed(&service, following(&first)).await;
    let needed = closed(&service, proposal("needed")).await;
    let open = following(&needed);
    service.submit(&by("p"), open.clone(), None).await.unwrap();
    let before = store.verify().await.unwrap();
    assert_eq!(before.purges, []);

    // Nothing is as old as that.
    let early = store.get(alone.clone()).await.unwrap().updated_at;
    assert_eq!(store.purgeable(early.clone()).await.unwrap(), []);
    assert_eq!(store.purge(early, "x".into()).await.unwrap(), []);
    assert_eq!(store.verify().await.unwrap(), before);

    // One that an open review follows stays; looking removes nothing.
    let going = store.purgeable(LATER.into()).await.unwrap();
    let ids: Vec<&str> = going.iter().map(|one| &*one.review_id).collect();
    assert_eq!(ids, [&alone, &first, &second]);
    assert_eq!((going[0].messages, going[0].patches), (1, 1));
    assert!(exists(&service, &alone).await);

    let gone = store
        .purge(LATER.into(), "operator ada".into())
        .await
        .unwrap();
    assert_eq!(gone, going);
    for id in [&alone, &first, &second] {
        assert!(!exists(&service, id).await);
        let page = Page {
            offset: 0,
            limit: 10,
        };
        assert!(store.messages(id.clone(), page).await.is_err());
    }
    assert_eq!(store.chain(needed.clone()).await.unwrap().len(), 2);

    // Whoever checks learns what is missing, when and by whom it was removed.
    let after = store.verify().await.unwrap();
    assert_eq!(after.events, before.events + 3);
    assert_eq!(after.purges.len(), 1, "{:?}", after.purges);
    assert_eq!(after.purges[0].by, "operator ada");
    assert_eq!(after.purges[0].reviews, 3);
    let page = Page {
        offset: before.events,
        limit: 10,
    };
    let told = store.events(None, page).await.unwrap().items;
    assert_eq!(told[0].event, "review_purged");
    assert_eq!(told[0].review_id, alone);

    // Its id stays taken, for the history knows one review by it.
    let mut again = proposal("again");
    again.review_id = alone;
    let refused = service.submit(&by("p"), again, None).await.unwrap_err();
    assert_eq!(refused.kind, "key_reused");

    // Life goes on: the child ends, and then both may go.
    let child = open.review_id;
    claim(&service, &child, "reviewer:a").await.unwrap();
    approve(&service, &child, None).await.unwrap();
    service.close(child, by("p"), None).await.unwrap();
    let rest = store
        .purge(LATER.into(), "operator bob".into())
        .await
        .unwrap();
    assert_eq!(rest.len(), 2);
    let empty = store.verify().await.unwrap();
    assert_eq!(empty.purges.len(), 2);
    assert_eq!(store.statistics(None).await.unwrap().total, 0);
    submit(&service).await;
    assert_eq!(store.verify().await.unwrap().events, empty.events + 1);
}
