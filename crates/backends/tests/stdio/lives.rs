//! Deaths, restarts, sleep and the end of a supervised server (P-R03, P-R12, G-54, G-73, G-76).

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sentinel_backends::stdio::Isolation;
use sentinel_core::{Backend, Health, Kind};
use serde_json::{Value, json};

use crate::gateway::{anybody, caller, gateway, gateway_with, kill};
use crate::processes::{marked, soon};

/// The bound of P-R03.
const BACK_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_dead_child_fails_its_waiting_calls_at_once() {
    let gateway = gateway("legacy", |_| {});
    gateway.up().await;
    let start = Instant::now();
    let (waiting, _) = tokio::join!(
        // Fewer than open the circuit.
        join_all((0..3).map(|_| gateway.call("hang", json!({})))),
        gateway.call("crash", json!({}))
    );
    for fault in waiting.into_iter().map(Result::unwrap_err) {
        assert_eq!(fault.kind, Kind::BackendUnavailable);
        assert!(fault.retry_after_ms.is_some());
    }
    // Not when their own time is over, which is after 20 s.
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    // Until it is back, calls do not wait for it, and it stays listed.
    let refused = gateway.echo("now?").await.unwrap_err();
    assert_eq!(refused.kind, Kind::BackendUnavailable);
    assert!(refused.retry_after_ms.is_some());
    gateway.until(Health::Failing).await;
    gateway.up().await;
    assert_eq!(gateway.backend.status().restarts, 1);
    gateway.stop().await;
}

#[tokio::test]
async fn p_r03_a_killed_child_is_back_within_two_seconds_every_time() {
    let gateway = gateway("legacy", |_| {});
    gateway.up().await;
    let mut slowest = Duration::ZERO;
    for _ in 0..6 {
        // The best of three: a busy machine may spoil one.
        let mut best = Duration::MAX;
        for _ in 0..3 {
            kill(&gateway.call("pid", json!({})).await.unwrap());
            // The kill is seen when calls fail; only then does the recovery begin.
            while gateway.echo("still there").await.is_ok() {}
            best = best.min(gateway.up().await);
            if best < BACK_WITHIN {
                break;
            }
        }
        slowest = slowest.max(best);
    }
    eprintln!(
        "P-R03 six kills: slowest recovery {} ms",
        slowest.as_millis()
    );
    assert!(slowest < BACK_WITHIN, "{slowest:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn an_answer_written_just_before_the_end_still_arrives() {
    let gateway = gateway("legacy", |_| {});
    gateway.up().await;
    for _ in 0..3 {
        assert_eq!(gateway.call("last-words", json!({})).await.unwrap(), "bye");
        tokio::time::sleep(Duration::from_millis(50)).await;
        gateway.up().await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_child_that_stops_reading_is_replaced() {
    let gateway = gateway("legacy", |config| config.timeout = Duration::from_secs(3));
    gateway.up().await;
    assert_eq!(
        gateway.call("deaf", json!({})).await.unwrap(),
        "cannot hear you"
    );
    let start = Instant::now();
    while gateway.echo("anyone?").await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(gateway.starts(), 2);
    gateway.stop().await;
}

/// A child that hung up has half a second to end. Calls that come meanwhile are not sent, so they are no failures of its
/// for which callers would be sent away for long.
#[tokio::test]
async fn p_r03_calls_while_a_child_ends_are_turned_back_at_once_and_open_no_circuit() {
    let gateway = gateway("legacy", |_| {});
    gateway.up().await;
    let hung_up = gateway.call("hang-up", json!({})).await.unwrap_err();
    assert_eq!(hung_up.kind, Kind::BackendUnavailable);
    let mut turned_back = 0;
    while let Err(refused) = gateway.echo("now?").await {
        assert_eq!(refused.kind, Kind::BackendUnavailable, "{refused}");
        assert!(refused.retry_after_ms >= Some(250), "{refused:?}");
        turned_back += 1;
        assert!(turned_back < 2000, "it is not back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // As many as open a circuit, several times.
    assert!(turned_back >= 20, "{turned_back}");
    gateway.stop().await;
}

#[tokio::test]
async fn spent_restarts_take_it_out_of_the_catalog() {
    let gateway = gateway("legacy", |config| config.policy.max_restarts = Some(1));
    gateway.up().await;
    let _ = gateway.call("crash", json!({})).await;
    gateway.up().await;
    let _ = gateway.call("crash", json!({})).await;
    gateway.until(Health::Down).await;
    let refused = gateway.echo("gone").await.unwrap_err();
    assert_eq!(refused.kind, Kind::BackendUnavailable);
    assert!(refused.retry_after_ms.is_some(), "{refused}");
    assert!(
        gateway
            .backend
            .status()
            .problem
            .unwrap()
            .contains("status 3")
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named_in_the_status() {
    let gateway = gateway("legacy", |config| {
        config.command.program = "no-such-mcp-server".into()
    });
    while !gateway.registry.all_tried() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let problem = gateway.backend.status().problem.unwrap();
    assert!(
        problem.contains("`no-such-mcp-server`") && problem.contains("PATH"),
        "{problem}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_lazy_child_is_listed_from_memory_and_started_once_by_its_first_calls() {
    let remembered = gateway("legacy", |_| {});
    remembered.up().await;
    let offer = remembered.registry.publisher(0).offer().unwrap();
    remembered.stop().await;

    let lazy = |config: &mut sentinel_backends::stdio::Config| {
        config.policy.lazy = true;
        config.policy.idle_stop = Some(Duration::from_millis(600));
    };
    let gateway = gateway_with("legacy", lazy, |registry| {
        registry.publisher(0).remember((*offer).clone());
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(
        (gateway.starts(), gateway.backend.status().health),
        (0, Health::Asleep)
    );
    for reply in join_all((0..50).map(|_| gateway.echo("first"))).await {
        assert_eq!(reply.unwrap(), "first");
    }
    assert_eq!(gateway.starts(), 1);

    // Idle, it is stopped; calls keep it awake, and one during its end starts it anew.
    gateway.call("slow", json!({"seconds": 1.0})).await.unwrap();
    assert_eq!(gateway.starts(), 1);
    gateway.until(Health::Asleep).await;
    assert_eq!(gateway.echo("again").await.unwrap(), "again");
    assert_eq!(
        (gateway.starts(), gateway.backend.status().restarts),
        (2, 0)
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_lazy_child_that_nobody_remembers_is_seen_once() {
    let gateway = gateway("legacy", |config| config.policy.lazy = true);
    gateway.up().await;
    assert_eq!(gateway.starts(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn g_71_a_child_that_hangs_is_pinged_and_replaced() {
    let gateway = gateway("legacy", |config| {
        config.policy.ping_interval = Some(Duration::from_millis(100));
        config.policy.unhealthy_after = 1;
    });
    gateway.up().await;
    let pid = gateway.call("pid", json!({})).await.unwrap();
    gateway.until_heard("ping", 2).await;
    // Stopped, not dead: only a ping notices. Its time-out is ten seconds.
    let stop = std::process::Command::new("kill")
        .args(["-STOP", &pid])
        .status()
        .unwrap();
    assert!(stop.success());
    gateway.until(Health::Down).await;
    let refused = gateway.echo("out").await.unwrap_err();
    assert_eq!(refused.kind, Kind::BackendUnavailable, "at once: {refused}");
    gateway.until(Health::Up).await;
    assert_eq!(gateway.echo("back").await.unwrap(), "back");
    assert_ne!(gateway.call("pid", json!({})).await.unwrap(), pid);
    gateway.stop().await;
}

#[tokio::test]
async fn each_session_has_its_own_child_which_is_told_what_its_caller_can_do() {
    let gateway = gateway("legacy", |config| {
        config.isolation = Isolation::Session;
        config.max_children = 2;
    });
    gateway.up().await;
    let able = caller("a", json!({"elicitation": {}, "sampling": {}}));
    let plain = caller("b", json!({}));
    let pid = |who| gateway.call_as(who, "pid", json!({}));
    let (a, b) = (
        pid(able.clone()).await.unwrap(),
        pid(plain.clone()).await.unwrap(),
    );
    assert_ne!(a, b);
    assert_eq!(pid(able.clone()).await.unwrap(), a);
    let declared = gateway
        .call_as(able.clone(), "declared", json!({}))
        .await
        .unwrap();
    let declared: Value = serde_json::from_str(&declared).unwrap();
    assert_eq!(
        declared,
        json!({"elicitation": {"form": {}}, "sampling": {}})
    );

    // A third caller takes the place of whoever was idle longest; nobody idle, it is told to wait.
    let third = caller("c", json!({}));
    assert_ne!(pid(third.clone()).await.unwrap(), a);
    soon("the child of b", || {
        marked(&gateway.mark)
            .into_iter()
            .filter(|p| p.to_string() == b)
            .collect()
    });
    let calls = gateway.count("tools/call");
    let refused = async {
        gateway.until_heard("tools/call", calls + 2).await;
        pid(plain).await.unwrap_err()
    };
    let refused = tokio::select! {
        _ = gateway.call_as(able, "hang", json!({})) => panic!("it hangs"),
        _ = gateway.call_as(third, "hang", json!({})) => panic!("it hangs"),
        refused = refused => refused,
    };
    assert_eq!(refused.kind, Kind::BackendUnavailable);
    gateway.stop().await;
}

#[tokio::test]
async fn g_76_stopping_answers_what_runs_and_leaves_no_process() {
    let gateway = gateway("legacy", |_| {});
    gateway.up().await;
    let running = gateway.call_as(anybody(), "slow", json!({"seconds": 0.2}));
    let stop = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        gateway.backend.stop().await;
    };
    let (_, ()) = tokio::join!(running, stop);
    soon("the server", || marked(&gateway.mark));
    assert_eq!(
        gateway.echo("after").await.unwrap_err().kind,
        Kind::BackendUnavailable
    );
}

#[test]
fn a_runtime_that_is_dropped_takes_the_processes_along() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let gateway = runtime.block_on(async {
        let gateway = gateway("legacy", |_| {});
        gateway.up().await;
        gateway
    });
    assert!(!marked(&gateway.mark).is_empty());
    drop(runtime);
    soon("the server", || marked(&gateway.mark));
}
