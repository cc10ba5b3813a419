//! Rate limits: which limit applies, and that no window exceeds it.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::offer::ItemKind;

fn rates(default_rpm: u32, burst: u32) -> Rates {
    Rates::new(RateConfig {
        default_rpm,
        burst,
        per_tool: HashMap::from([("slow".to_owned(), 2), ("free".to_owned(), 0)]),
    })
}

fn take(rates: &Rates, who: &str, tool: &str) -> Result<(), Limited> {
    take_of(rates, who, "alpha", tool, tool)
}

fn take_of(
    rates: &Rates,
    who: &str,
    backend: &str,
    own: &str,
    exposed: &str,
) -> Result<(), Limited> {
    let tool = Operation {
        exposed: exposed.into(),
        ..Operation::unlisted(Some(ItemKind::Tool), 0, &backend.into(), own)
    };
    rates.take(&who.into(), &tool)
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_limit_is_told_without_taking_any() {
    let rates = rates(60, 10);
    let figures = |name: &str| {
        let tool = Operation::unlisted(Some(ItemKind::Tool), 0, &"alpha".into(), name);
        rates.figures(&"a".into(), &tool)
    };
    let told = |remaining, full_in_s| {
        Some(RateFigures {
            limit: 60,
            remaining,
            full_in_s,
        })
    };
    assert_eq!(figures("free"), None);
    assert_eq!(figures("echo"), told(10, 0));
    assert!(rates.is_empty(), "nothing is kept for a look");
    for _ in 0..4 {
        take(&rates, "a", "echo").expect("within the burst");
    }
    assert_eq!(figures("echo"), told(6, 4));
    assert_eq!(figures("echo"), told(6, 4));
    tokio::time::advance(Duration::from_millis(1500)).await;
    assert_eq!(figures("echo"), told(7, 3));
}

/// G-67: a limit is found by whichever name was written, the one that says most first.
#[tokio::test(start_paused = true)]
async fn g_67_limits_go_by_merged_names_own_names_and_patterns() {
    let per_tool = [
        ("echo", 1),
        ("alpha.echo", 2),
        ("beta.echo", 3),
        ("beta.*", 4),
        ("beta.slow*", 5),
        ("*", 6),
        ("gamma.free", 0),
    ];
    let rates = Rates::new(RateConfig {
        default_rpm: 100,
        burst: 0,
        per_tool: per_tool.map(|(name, rpm)| (name.to_owned(), rpm)).into(),
    });
    for (backend, own, exposed, rpm) in [
        ("alpha", "echo", "echo", 1),
        ("alpha", "echo", "renamed", 2),
        ("beta", "echo", "beta__echo", 3),
        ("beta", "fail", "beta__fail", 4),
        ("beta", "slowly", "slowly", 5),
        ("gamma", "any", "any", 6),
    ] {
        let who = format!("{backend} {exposed}");
        let take = || take_of(&rates, &who, backend, own, exposed);
        let given = (0..200).take_while(|_| take().is_ok()).count();
        assert_eq!(given, rpm, "{who}");
    }
    for _ in 0..200 {
        take_of(&rates, "a", "gamma", "free", "free").expect("0 is no limit");
    }
}

#[tokio::test(start_paused = true)]
async fn g_67_limits_are_per_caller_and_tool_with_their_own_values() {
    let rates = rates(3, 0);
    for _ in 0..3 {
        take(&rates, "alice", "echo").expect("allowed");
    }
    assert_eq!(
        take(&rates, "alice", "echo"),
        Err(Limited {
            retry_after_ms: 20_000
        })
    );
    take(&rates, "bob", "echo").expect("another caller");
    take(&rates, "alice", "other").expect("another tool");
    take(&rates, "alice", "slow").expect("allowed");
    take(&rates, "alice", "slow").expect("allowed");
    assert!(take(&rates, "alice", "slow").is_err());
    for _ in 0..100 {
        take(&rates, "alice", "free").expect("0 is no limit");
    }
    tokio::time::advance(Duration::from_millis(19_999)).await;
    assert!(take(&rates, "alice", "echo").is_err());
    tokio::time::advance(Duration::from_millis(1)).await;
    take(&rates, "alice", "echo").expect("told the exact time");
    assert!(take(&rates, "alice", "echo").is_err());
}

#[tokio::test(start_paused = true)]
async fn full_buckets_are_forgotten() {
    let rates = rates(60, 1);
    for n in 0..20 * SWEEP_LEN_MIN * SHARDS {
        take(&rates, &format!("caller {n}"), "echo").expect("allowed");
        if n % 1000 == 0 {
            tokio::time::advance(Duration::from_secs(2)).await;
        }
    }
    assert!(rates.len() <= 2 * SWEEP_LEN_MIN * SHARDS, "{}", rates.len());
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_bounded_and_nobody_gets_more_than_allowed() {
    let rates = rates(1, 1);
    let mut refused = 0;
    for n in 0..2 * SHARDS * SHARD_LEN_MAX {
        refused += usize::from(take(&rates, &format!("caller {n}"), "echo").is_err());
    }
    assert!(rates.len() <= SHARDS * SHARD_LEN_MAX);
    assert!(refused >= SHARDS * SHARD_LEN_MAX);
}

/// What an operator is told before a call is what the call is told.
#[tokio::test(start_paused = true)]
async fn what_would_come_of_a_call_is_what_comes_of_it() {
    let rates = rates(60, 3);
    let tool = Operation::unlisted(Some(ItemKind::Tool), 0, &"alpha".into(), "echo");
    let who = "a".into();
    for n in 0..8 {
        let told = rates.prospect(&who, &tool);
        assert_eq!(told, rates.prospect(&who, &tool), "a look takes nothing");
        assert_eq!(told, rates.take(&who, &tool), "call {n}");
        tokio::time::advance(Duration::from_millis(300)).await;
    }
    let named = |name: &str| Operation {
        exposed: name.into(),
        ..tool.clone()
    };
    let rule = |name: &str| rates.rule(&named(name));
    assert_eq!(rule("echo"), ("rate_limits.default_rpm".to_owned(), 60));
    assert_eq!(rule("slow"), ("rate_limits.per_tool: slow".to_owned(), 2));
    assert_eq!(rule("free"), ("rate_limits.per_tool: free".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn the_most_used_buckets_come_first_and_only_so_many() {
    let rates = rates(60, 100);
    for n in 0..500 {
        let who = format!("caller {n}");
        for _ in 0..=n % 50 {
            take(&rates, &who, "echo").expect("within the burst");
        }
    }
    let most = rates.most_used(20);
    assert_eq!(most.len(), 20);
    // Ten callers used 50 calls each, ten 49.
    for (at, bucket) in most.iter().enumerate() {
        let BucketFigures {
            limit,
            burst,
            remaining,
            renews_in_ms,
            full_in_ms,
        } = bucket.figures;
        assert_eq!((limit, burst, renews_in_ms), (60, 100, 1000), "{bucket:?}");
        assert_eq!(remaining, if at < 10 { 50 } else { 51 }, "{bucket:?}");
        assert_eq!(full_in_ms, u64::from(burst - remaining) * 1000);
    }
    tokio::time::advance(Duration::from_millis(250)).await;
    assert_eq!(rates.most_used(1)[0].figures.renews_in_ms, 750);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(rates.most_used(20).len(), 0, "all are full again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// P-R07: in every window at most burst + rate * t, and a greedy caller loses at most 1 %.
    #[test]
    fn p_r07_every_window_holds_exactly(
        rpm in 1u32..100_000,
        burst in 1u32..50,
        pauses in prop::collection::vec(0u64..200_000_000, 1..400),
    ) {
        let mut shard = Shard { buckets: Map::default(), sweep_at: 64, swept_ns: None };
        let key: Key = ("alice".into(), 0, "echo".into());
        let allowance = Allowance { rpm, burst };
        let capacity = u128::from(burst) * MINUTE_NS;
        let (mut now, mut admitted) = (0u64, Vec::new());
        for pause in pauses {
            now += pause;
            while shard.take(key.clone(), allowance, now).is_ok() {
                admitted.push(now);
            }
            // Greedy: nothing that flowed in is left.
            let flowed = u128::from(now) * u128::from(rpm);
            let most = (capacity + flowed) / MINUTE_NS;
            prop_assert!(admitted.len() as u128 <= most);
        }
        // Calls i to j fit their window: (j - i + 1) tokens <= burst + rate * (t_j - t_i), for all
        // pairs at once by keeping the smallest left side of the i seen so far.
        let spent = |k: usize, at: u64| {
            k as i128 * MINUTE_NS as i128 - i128::from(at) * i128::from(rpm)
        };
        let mut least = i128::MAX;
        for (k, at) in admitted.iter().enumerate() {
            least = least.min(spent(k, *at));
            prop_assert!(spent(k + 1, *at) - least <= capacity as i128);
        }
    }

    /// Asking exactly when told never finds the bucket empty, and never a millisecond too late.
    #[test]
    fn retry_after_is_the_first_millisecond_that_works(rpm in 1u32..10_000, offset in 0u64..1_000_000) {
        let mut shard = Shard { buckets: Map::default(), sweep_at: 64, swept_ns: None };
        let key: Key = ("alice".into(), 0, "echo".into());
        let allowance = Allowance { rpm, burst: 1 };
        let mut now = offset;
        for _ in 0..50 {
            prop_assert!(shard.take(key.clone(), allowance, now).is_ok());
            let told = shard.take(key.clone(), allowance, now).expect_err("empty");
            let early = now + told.retry_after_ms * 1_000_000 - 1_000_000;
            if early > now {
                prop_assert!(shard.take(key.clone(), allowance, early).is_err());
            }
            now += told.retry_after_ms * 1_000_000;
        }
    }
}
