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

fn ids(watched: &WatchedTasks, subject: &str) -> HashSet<String> {
    let open = watched.open.lock();
    let of_caller = open.watched.keys().filter(|key| &*key.subject == subject);
    of_caller.map(|key| key.id.clone()).collect()
}

#[tokio::test]
async fn p_r06_tasks_are_watched_within_bounds_and_a_crowd_of_one_costs_no_other() {
    let watched = WatchedTasks::default();
    watched.add(key("bob", 0), |_| std::future::pending());
    for number in 0..=WATCHED_PER_CALLER_MAX {
        watched.add(key("alice", number), |_| std::future::pending());
    }
    let alice = ids(&watched, "alice");
    assert_eq!(alice.len(), WATCHED_PER_CALLER_MAX);
    assert!(!alice.contains("0"), "her oldest");
    assert!(alice.contains(&WATCHED_PER_CALLER_MAX.to_string()));
    assert_eq!(ids(&watched, "bob").len(), 1);

    for caller in 0.. {
        if watched.open.lock().watched.len() == WATCHED_MAX {
            break;
        }
        assert!(caller < WATCHED_MAX, "it fills up");
        watched.add(key(&format!("caller {caller}"), 0), |_| {
            std::future::pending()
        });
    }
    watched.add(key("late", 0), |_| std::future::pending());
    assert_eq!(watched.open.lock().watched.len(), WATCHED_MAX);
    assert_eq!(ids(&watched, "late").len(), 1);
    assert_eq!(ids(&watched, "bob").len(), 1);
    let alice = ids(&watched, "alice");
    assert_eq!(alice.len(), WATCHED_PER_CALLER_MAX - 1, "she has most");
    assert!(!alice.contains("1"), "her oldest");
}

#[tokio::test]
async fn a_watch_that_is_over_leaves_its_successor_alone() {
    let watched = WatchedTasks::default();
    let mut first = 0;
    watched.add(key("alice", 1), |number| {
        first = number;
        std::future::pending()
    });
    watched.add(key("alice", 1), |_| std::future::pending());
    watched.leave(&key("alice", 1), first);
    assert_eq!(ids(&watched, "alice").len(), 1);
    watched.forget(&key("alice", 1));
    assert_eq!(ids(&watched, "alice").len(), 0);
}
