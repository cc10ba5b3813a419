//! C-28, C-29: who may do what, where `review.enforce_roles` asks for it.

use super::*;

fn caller(subject: &str, session: Option<&str>) -> Caller {
    Caller {
        subject: subject.into(),
        revision: sentinel_wire::Revision::NEWEST,
        capabilities: Default::default(),
        client_info: None,
        session: session.map(Into::into),
        role: "admin".into(),
        scopes: std::sync::Arc::default(),
        tenant: None,
        log_level: sentinel_core::LogLevel::default(),
        tags: None,
        addressing: Default::default(),
        account: None,
    }
}

fn enforce(service: &Service, enforce_roles: bool) {
    service.follow(Settings {
        claim_timeout: Duration::from_secs(1200),
        extended_tools: true,
        enforce_roles,
    });
}

async fn propose(service: &Service, who: &Actor) -> String {
    let mut new = proposal("change");
    new.proposed_by = who.actor.clone();
    let made = service.submit(who, new, None).await.unwrap();
    made.review.review_id
}

fn speaks(role: Role) -> Addition {
    Addition::Message {
        role,
        body: "x".into(),
    }
}

async fn take(service: &Service, id: &str, who: &Actor) -> Result<ActionOutcome, Refused> {
    let by = who.claimant.clone().expect("somebody");
    service.claim(id.into(), who.clone(), by).await
}

async fn judge(service: &Service, id: &str, who: &Actor) -> Result<ActionOutcome, Refused> {
    let decision = Decision::Rejected;
    service
        .verdict(id.into(), who.clone(), None, None, decision, None)
        .await
}

#[track_caller]
fn wrong(outcome: Result<ActionOutcome, Refused>, words: &str) {
    let refused = outcome.expect_err(words);
    assert_eq!(refused.kind, "wrong_role", "{refused:?}");
    assert!(refused.message.contains(words), "{refused:?}");
}

pub(super) async fn c_28_each_side_does_only_what_is_its_own_where_that_is_asked_for(place: Place) {
    let service = place.setup();
    enforce(&service, true);
    let who = |subject: &str, session: Option<&str>, reviewer: Option<&str>| {
        service.who(reviewer, &caller(subject, session))
    };
    let ada = who("ada", Some("one"), None);
    let (bob, carl) = (who("bob", None, Some("r1")), who("carl", None, Some("r1")));
    let id = propose(&service, &ada).await;
    let say = |who: &Actor, role| service.add(id.clone(), who.clone(), None, speaks(role));

    wrong(take(&service, &id, &ada).await, "its own proposal");
    // Whatever name a proposer gives itself.
    wrong(
        take(&service, &id, &who("ada", None, Some("r9"))).await,
        "its own proposal",
    );
    take(&service, &id, &bob).await.unwrap();

    // The same reviewer_id does not make another caller the reviewer.
    wrong(judge(&service, &id, &carl).await, "(caller:bob as r1)");
    wrong(judge(&service, &id, &ada).await, "reviewer who claimed it");
    wrong(say(&ada, Role::Reviewer).await, "speak as the reviewer");
    wrong(say(&carl, Role::Reviewer).await, "speak as the reviewer");
    wrong(say(&bob, Role::Proposer).await, "speak as the proposer");
    say(&bob, Role::Reviewer).await.unwrap();
    // A proposer is the same in another session, and without one.
    say(&who("ada", Some("two"), None), Role::Proposer)
        .await
        .unwrap();
    say(&who("ada", None, None), Role::Proposer).await.unwrap();

    let patch = Addition::Patch {
        role: Role::Reviewer,
        description: None,
        diff: DIFF.into(),
        affected_files: Vec::new(),
    };
    let acted = service
        .add(id.clone(), bob.clone(), None, patch)
        .await
        .unwrap();
    let Some(sentinel_review::store::Attachment::Patch(patch)) = acted.added else {
        panic!("a patch")
    };
    let judgement = Addition::Judgement {
        patch_id: patch.patch_id,
        accepted: true,
    };
    let accept = |who: &Actor| service.add(id.clone(), who.clone(), None, judgement.clone());
    wrong(accept(&bob).await, "judge a patch");
    accept(&ada).await.unwrap();

    judge(&service, &id, &bob).await.unwrap();
    let child = NewReview {
        parent_id: Some(id.clone()),
        ..proposal("again")
    };
    let stolen = service.submit(&bob, child.clone(), None).await;
    wrong(stolen, "follow it up");
    service.submit(&ada, child, None).await.unwrap();
    wrong(service.close(id.clone(), bob, None).await, "close it");
    // What the machine refuses is refused in its words.
    let early = propose(&service, &ada).await;
    let refused = service.close(early, carl, None).await.unwrap_err();
    assert_eq!(refused.kind, "invalid_transition");
    service.close(id, ada, None).await.unwrap();
}

pub(super) async fn c_28_without_it_roles_are_for_attribution(place: Place) {
    let service = place.setup();
    let anybody = service.who(Some("r1"), &caller("ada", None));
    let other = service.who(Some("r2"), &caller("bob", None));
    assert_eq!(anybody.claimant.as_deref(), Some("reviewer:r1"));
    let id = propose(&service, &anybody).await;
    take(&service, &id, &anybody).await.unwrap();
    let say = service.add(id.clone(), other.clone(), None, speaks(Role::Reviewer));
    say.await.unwrap();
    judge(&service, &id, &other).await.unwrap();
    service.close(id, other, None).await.unwrap();
}

pub(super) async fn c_28_callers_without_a_name_are_told_apart_by_session(place: Place) {
    let service = place.setup();
    enforce(&service, true);
    let local = |session| service.who(None, &caller("local", session));
    let (first, second) = (local(Some("one")), local(Some("two")));
    let id = propose(&service, &first).await;
    wrong(take(&service, &id, &first).await, "its own proposal");
    take(&service, &id, &second).await.unwrap();
    judge(&service, &id, &second).await.unwrap();
    wrong(service.close(id.clone(), second, None).await, "close it");
    service.close(id, first, None).await.unwrap();

    // Without sessions there is one caller; a reviewer's name is all there is.
    let id = propose(&service, &local(None)).await;
    let reviewer = service.who(Some("codex"), &caller("local", None));
    take(&service, &id, &reviewer).await.unwrap();
    wrong(judge(&service, &id, &local(None)).await, "reviewer:codex");
    judge(&service, &id, &reviewer).await.unwrap();
    service.close(id, local(None), None).await.unwrap();
}
