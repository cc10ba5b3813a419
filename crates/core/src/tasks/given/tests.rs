//! Who is forgotten when there are too many.

use std::collections::HashSet;

use super::*;

fn key(subject: &str, number: usize) -> Key {
    Key {
        backend: 0,
        subject: subject.into(),
        id: number.to_string(),
    }
}

fn ids(given: &Given, subject: &str) -> HashSet<String> {
    let open = given.open.lock();
    let of_caller = open.watched.keys().filter(|key| &*key.subject == subject);
    of_caller.map(|key| key.id.clone()).collect()
}

#[tokio::test]
async fn p_r06_tasks_are_watched_within_bounds_and_a_crowd_of_one_costs_no_other() {
    let given = Given::default();
    given.add(key("bob", 0), |_| std::future::pending());
    for number in 0..=GIVEN_PER_CALLER_MAX {
        given.add(key("alice", number), |_| std::future::pending());
    }
    let alice = ids(&given, "alice");
    assert_eq!(alice.len(), GIVEN_PER_CALLER_MAX);
    assert!(!alice.contains("0"), "her oldest");
    assert!(alice.contains(&GIVEN_PER_CALLER_MAX.to_string()));
    assert_eq!(ids(&given, "bob").len(), 1);

    for caller in 0.. {
        if given.open.lock().watched.len() == GIVEN_MAX {
            break;
        }
        assert!(caller < GIVEN_MAX, "it fills up");
        given.add(key(&format!("caller {caller}"), 0), |_| {
            std::future::pending()
        });
    }
    given.add(key("late", 0), |_| std::future::pending());
    assert_eq!(given.open.lock().watched.len(), GIVEN_MAX);
    assert_eq!(ids(&given, "late").len(), 1);
    assert_eq!(ids(&given, "bob").len(), 1);
    let alice = ids(&given, "alice");
    assert_eq!(alice.len(), GIVEN_PER_CALLER_MAX - 1, "she has most");
    assert!(!alice.contains("1"), "her oldest");
}

#[tokio::test]
async fn a_watch_that_is_over_leaves_its_successor_alone() {
    let given = Given::default();
    let mut first = 0;
    given.add(key("alice", 1), |number| {
        first = number;
        std::future::pending()
    });
    given.add(key("alice", 1), |_| std::future::pending());
    given.leave(&key("alice", 1), first);
    assert_eq!(ids(&given, "alice").len(), 1);
    given.forget(&key("alice", 1));
    assert_eq!(ids(&given, "alice").len(), 0);
}
