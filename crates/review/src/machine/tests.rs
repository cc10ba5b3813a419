//! B-30 to B-36, decisions 40: every pair of status and action, claims, leases.

use std::sync::Arc;

use crate::store::{Category, Priority, Role};

use super::*;

const TIMEOUT: i64 = 1000;

fn at(boot_ms: i64) -> Moment {
    Moment {
        wall_ms: 1_000_000 + boot_ms,
        boot_ms,
        boot_id: Arc::from("this-boot"),
    }
}

fn review(status: ReviewStatus) -> Review {
    let held = matches!(status, Claimed | InDiscussion);
    Review {
        review_id: "r".into(),
        status,
        version: 1,
        intent: "i".into(),
        description: None,
        agent_type: "a".into(),
        phase: "1".into(),
        plan: None,
        task: None,
        project: None,
        category: Category::CodeChange,
        priority: Priority::Normal,
        proposed_by: "p".into(),
        claimed_by: held.then(|| "reviewer:a".into()),
        claim_generation: u64::from(status != Created),
        claim_expires_at: None,
        parent_id: None,
        affected_files: Vec::new(),
        message_count: 0,
        patch_count: 1,
        created_at: String::new(),
        updated_at: String::new(),
        lease: held.then(|| Lease::starting_at(&at(0), TIMEOUT)),
    }
}

/// Performs an action on a fresh review of that status, ten milliseconds after its claim.
fn perform(status: ReviewStatus, action: Action) -> Result<Effect, Refused> {
    let review = review(status);
    let now = at(10);
    let add = |addition| machine_add(&review, addition);
    match action {
        Claim => claim(&review, &now, "reviewer:a", TIMEOUT),
        Post => add(Addition::Message {
            role: Role::Proposer,
            body: "b".into(),
        }),
        Patch => add(Addition::Patch {
            role: Role::Reviewer,
            description: None,
            diff: "d".into(),
            affected_files: Vec::new(),
        }),
        Judge => add(Addition::Judgement {
            patch_id: "p".into(),
            accepted: true,
        }),
        Approve => verdict(&review, &now, None, Decision::Approved, None),
        Reject => verdict(&review, &now, None, Decision::Rejected, None),
        Close => close(&review, &now),
        Expire => {
            expire(&review, &at(TIMEOUT)).ok_or_else(|| Refused::new("invalid_transition", ""))
        }
    }
}

fn machine_add(review: &Review, addition: Addition) -> Result<Effect, Refused> {
    add(review, &at(10), &None, TIMEOUT, addition)
}

/// What the seed and decisions 40 allow, written apart from the table under test.
fn allowed(status: ReviewStatus, action: Action) -> Option<ReviewStatus> {
    match (status, action) {
        (Created, Claim) => Some(Claimed),
        // By the same claimant: nothing changes but the lease.
        (Claimed | InDiscussion, Claim) => Some(status),
        (Claimed | InDiscussion, Post) => Some(InDiscussion),
        (Claimed | InDiscussion, Patch) => Some(status),
        (Claimed | InDiscussion | Approved, Judge) => Some(status),
        (Claimed | InDiscussion, Approve) => Some(Approved),
        (Claimed | InDiscussion, Reject) => Some(Rejected),
        (Claimed | InDiscussion, Expire) => Some(Created),
        (Approved | Rejected, Close) => Some(Closed),
        _ => None,
    }
}

#[test]
fn b_31_every_pair_of_status_and_action_leads_where_the_seed_says_or_is_refused() {
    let mut pairs = 0;
    for &status in ReviewStatus::ALL {
        for action in Action::ALL {
            pairs += 1;
            match (perform(status, action), allowed(status, action)) {
                (Ok(effect), Some(to)) => assert_eq!(effect.status, to, "{status} {action:?}"),
                (Err(refused), None) => {
                    assert_eq!(refused.kind, "invalid_transition", "{status} {action:?}");
                    if action != Expire {
                        let words =
                            format!("Cannot transition from '{status}' to '{}'", action.aim());
                        assert_eq!(refused.message, words);
                    }
                }
                (got, wanted) => panic!("{status} {action:?}: {got:?}, wanted {wanted:?}"),
            }
        }
    }
    assert_eq!(pairs, 48);
}

#[test]
fn b_33_closed_is_terminal() {
    assert!(MOVES.iter().all(|(from, _, _)| *from != Closed));
}

#[test]
fn b_17_a_claim_is_idempotent_for_its_claimant_and_refused_to_others() {
    let held = review(Claimed);
    let again = claim(&held, &at(10), "reviewer:a", TIMEOUT).unwrap();
    assert_eq!(again.claim_generation, 1);
    assert!(again.events.is_empty(), "nothing happened");
    assert_eq!(
        again.lease,
        Some(Lease::starting_at(&at(10), TIMEOUT)),
        "but it is renewed"
    );
    let other = claim(&held, &at(10), "reviewer:b", TIMEOUT).unwrap_err();
    assert_eq!(other.kind, "already_claimed");
    assert!(other.message.contains("reviewer:a") && other.message.contains("'claimed'"));
}

#[test]
fn an_expired_claim_goes_to_whoever_claims_next_with_a_new_generation() {
    let late = at(TIMEOUT);
    let effect = claim(&review(InDiscussion), &late, "reviewer:b", TIMEOUT).unwrap();
    assert_eq!(effect.claimed_by.as_deref(), Some("reviewer:b"));
    assert_eq!(effect.claim_generation, 2);
    let events: Vec<&str> = effect.events.iter().map(|event| event.event).collect();
    assert_eq!(events, ["claim_expired", "review_claimed"]);
    assert_eq!(effect.events[1].old_status, Some(Created));
}

#[test]
fn a_stale_verdict_is_refused_and_so_is_one_on_an_expired_claim() {
    let mut moved = review(Claimed);
    moved.claim_generation = 2;
    let stale = verdict(&moved, &at(10), Some(1), Decision::Approved, None).unwrap_err();
    assert_eq!(stale.kind, "stale_claim");
    assert!(verdict(&moved, &at(10), Some(2), Decision::Approved, None).is_ok());
    let late = verdict(&moved, &at(TIMEOUT), Some(2), Decision::Approved, None).unwrap_err();
    assert_eq!(
        late.message,
        "Cannot transition from 'created' to 'approved'"
    );
}

#[test]
fn only_the_claimants_activity_renews_the_claim() {
    let held = review(Claimed);
    let post = |who: Option<&str>| {
        let addition = Addition::Message {
            role: Role::Reviewer,
            body: "b".into(),
        };
        add(&held, &at(500), &who.map(str::to_owned), TIMEOUT, addition)
            .unwrap()
            .lease
    };
    assert_eq!(
        post(Some("reviewer:a")),
        Some(Lease::starting_at(&at(500), TIMEOUT))
    );
    assert_eq!(post(Some("reviewer:b")), held.lease);
    assert_eq!(post(None), held.lease);
}

#[test]
fn a_claim_survives_a_step_of_the_wall_clock_but_not_its_time_after_a_reboot() {
    let held = review(Claimed);
    let mut stepped = at(10);
    stepped.wall_ms += 3_600_000;
    assert!(expire(&held, &stepped).is_none(), "boot time decides");
    let mut rebooted = at(5);
    rebooted.boot_id = Arc::from("next-boot");
    rebooted.wall_ms = 1_000_000 + TIMEOUT - 1;
    assert!(expire(&held, &rebooted).is_none(), "wall time decides");
    rebooted.wall_ms += 1;
    assert!(expire(&held, &rebooted).is_some());
}

#[test]
fn a_review_at_its_end_has_no_lease() {
    let effect = verdict(&review(Claimed), &at(10), None, Decision::Rejected, None).unwrap();
    assert_eq!(effect.lease, None);
    assert_eq!(
        effect.claimed_by.as_deref(),
        Some("reviewer:a"),
        "who reviewed stays readable"
    );
}
