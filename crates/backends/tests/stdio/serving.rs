//! Calls through a supervised server: eras, order, odd answers, deadlines, notices, questions.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sentinel_backends::stdio::Interactive;
use sentinel_core::{Answer, Backend, Event, Health, Kind, Notice, Step};
use sentinel_wire::Revision;
use serde_json::{Value, json};

use crate::gateway::{caller, gateway, text};

#[tokio::test]
async fn g_58_a_server_of_either_era_is_greeted_listed_and_called() {
    for (era, revision) in [
        ("legacy", Revision::V2025_11_25),
        ("modern", Revision::V2026_07_28),
        ("both", Revision::V2025_11_25),
    ] {
        let gateway = gateway(era, |_| {});
        gateway.up().await;
        assert_eq!(
            gateway.echo("hé \u{1F980}").await.unwrap(),
            "hé \u{1F980}",
            "{era}"
        );
        let status = gateway.backend.status();
        assert_eq!(
            (status.health, status.revision),
            (Health::Up, Some(revision)),
            "{era}"
        );
        assert_eq!(status.stderr, ["odd server here"]);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn issue_17_9_a_server_that_dies_of_initialize_is_started_again_as_a_modern_one() {
    let gateway = gateway("dies-if-initialized", |_| {});
    gateway.up().await;
    let heard = gateway.heard();
    let count = |word: &str| heard.iter().filter(|line| line.starts_with(word)).count();
    assert_eq!(count("start"), 2, "{heard:?}");
    assert_eq!((&*heard[1], &*heard[3]), ("initialize", "server/discover"));
    assert_eq!(gateway.backend.status().restarts, 0, "that was no failure");
    // Later processes are greeted in the era that is known.
    let _ = gateway.call("crash", json!({})).await;
    gateway.up().await;
    let heard = gateway.heard();
    let initialized = heard.iter().filter(|line| *line == "initialize");
    assert_eq!(initialized.count(), 1, "{heard:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn issue_17_9_a_modern_server_that_ignores_initialize_is_found_in_time() {
    let gateway = gateway("ignores-initialize", |_| {});
    let took = gateway.up().await;
    assert!(took < Duration::from_secs(15), "{took:?}");
    let heard = gateway.heard();
    let asked = ["initialize", "server/discover", "tools/list"];
    assert_eq!(heard[1..4], asked, "nothing between: {heard:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn issue_17_9_a_configured_revision_is_the_only_one_that_is_tried() {
    for (era, revision, first) in [
        ("both", Revision::V2026_07_28, "server/discover"),
        ("both", Revision::V2025_06_18, "initialize"),
    ] {
        let gateway = gateway(era, |config| config.revision = Some(revision));
        gateway.up().await;
        assert_eq!(gateway.heard()[1], first);
        assert_eq!(gateway.backend.status().revision, Some(revision));
        gateway.stop().await;
    }
    let gateway = gateway("legacy", |config| {
        config.revision = Some(Revision::V2026_07_28);
    });
    while !gateway.registry.all_tried() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let problem = gateway.backend.status().problem.unwrap();
    assert!(problem.contains("2026-07-28"), "{problem}");
    gateway.stop().await;
}

#[tokio::test]
async fn g_56_many_calls_are_in_flight_and_answered_out_of_order() {
    let gateway = gateway("both", |_| {});
    gateway.up().await;
    let start = Instant::now();
    let slow = gateway.call("slow", json!({"seconds": 0.5}));
    let fast = async {
        let all = join_all((0..200).map(|i| {
            let gateway = &gateway;
            async move { (gateway.echo(&i.to_string()).await.unwrap(), i.to_string()) }
        }));
        for (got, sent) in all.await {
            assert_eq!(got, sent);
        }
        start.elapsed()
    };
    let (slow, fast) = tokio::join!(slow, fast);
    assert_eq!(slow.unwrap(), "slept");
    assert!(
        fast < start.elapsed(),
        "the fast ones did not wait for the slow one"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn odd_output_harms_nobody_but_the_call_that_it_was_for() {
    for era in ["legacy", "modern"] {
        let gateway = gateway(era, |config| config.line_max = 100_000);
        gateway.up().await;
        assert_eq!(
            gateway.call("garbage", json!({})).await.unwrap(),
            "still here"
        );
        let liar = gateway.call("liar", json!({})).await.unwrap_err();
        assert_eq!(liar.kind, Kind::BackendBadReply);
        let (huge, beside) = tokio::join!(
            gateway.call("huge", json!({"bytes": 500_000})),
            gateway.call("slow", json!({"seconds": 0.3}))
        );
        assert_eq!(huge.unwrap_err().kind, Kind::BackendBadReply);
        assert_eq!(beside.unwrap(), "slept");
        let long = gateway
            .call("huge", json!({"bytes": 90_000}))
            .await
            .unwrap();
        assert_eq!(long.len(), 90_000);
        assert_eq!(gateway.starts(), 1, "it was not restarted for any of this");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn g_57_a_call_without_an_answer_ends_at_its_deadline_and_is_cancelled_at_the_child() {
    let gateway = gateway("legacy", |config| config.timeout = Duration::from_secs(2));
    gateway.up().await;
    let start = Instant::now();
    let fault = gateway.call("hang", json!({})).await.unwrap_err();
    assert_eq!(fault.kind, Kind::BackendTimeout);
    // Far less than the ordinary time-out.
    let took = start.elapsed();
    assert!(
        took >= Duration::from_secs(2) && took < Duration::from_secs(10),
        "{took:?}"
    );
    let cancelled = gateway.call("cancelled", json!({})).await.unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<u64>>(&cancelled).unwrap().len(),
        1
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_caller_that_leaves_cancels_its_own_call_only() {
    let gateway = gateway("modern", |_| {});
    gateway.up().await;
    let beside = gateway.call("slow", json!({"seconds": 0.3}));
    let leaving = async {
        let left = gateway.call("hang", json!({}));
        assert!(
            tokio::time::timeout(Duration::from_millis(100), left)
                .await
                .is_err()
        );
    };
    let (beside, ()) = tokio::join!(beside, leaving);
    assert_eq!(beside.unwrap(), "slept");
    let cancelled = gateway.call("cancelled", json!({})).await.unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<u64>>(&cancelled).unwrap().len(),
        1
    );
    gateway.stop().await;
}

#[tokio::test]
async fn progress_under_our_token_reaches_the_call_before_its_reply() {
    let gateway = gateway("legacy", |_| {});
    gateway.up().await;
    let mut talk = gateway.begin(caller("s", json!({})), "progress", json!({}));
    let mut steps = Vec::new();
    let reply = loop {
        match talk.next().await {
            Step::Event(Event::Notice(notice)) => {
                let Notice::Progress(params) = *notice else {
                    panic!("{notice:?}")
                };
                let params: Value = serde_json::from_slice(params.as_bytes()).unwrap();
                steps.push(params["progress"].as_u64().unwrap());
            }
            Step::Done(reply) => break reply.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(steps, [1, 2, 3]);
    assert!(
        !text(&reply.outcome).contains("mine"),
        "the caller's token stays with us"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_log_line_reaches_the_only_call_and_none_of_several() {
    let gateway = gateway("legacy", |_| {});
    gateway.up().await;
    let mut talk = gateway.begin(caller("s", json!({})), "log", json!({}));
    assert!(matches!(
        talk.next().await,
        Step::Event(Event::Notice(notice)) if matches!(*notice, Notice::Log(_))
    ));
    assert!(matches!(talk.next().await, Step::Done(Ok(_))));
    let mut beside = gateway.begin(caller("t", json!({})), "slow", json!({"seconds": 0.2}));
    let mut talk = gateway.begin(caller("s", json!({})), "log", json!({}));
    let (beside, talk) = tokio::join!(beside.next(), talk.next());
    assert!(matches!(
        (beside, talk),
        (Step::Done(Ok(_)), Step::Done(Ok(_)))
    ));
    gateway.stop().await;
}

#[tokio::test]
async fn a_shared_child_is_told_that_nobody_can_be_asked_and_refused_if_it_asks() {
    let gateway = gateway("legacy", |_| {});
    gateway.up().await;
    let able = caller("s", json!({"elicitation": {}, "roots": {}}));
    assert_eq!(
        gateway
            .call_as(able.clone(), "declared", json!({}))
            .await
            .unwrap(),
        "{}"
    );
    let start = Instant::now();
    let refused = gateway.call_as(able, "ask", json!({})).await.unwrap();
    assert!(refused.contains("-32601"), "{refused}");
    // Not when the call's own time is over, which is after 20 s.
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(gateway.call("ping-client", json!({})).await.unwrap(), "{}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_serialized_child_asks_the_caller_of_the_one_call_that_runs() {
    let gateway = gateway("legacy", |config| {
        config.interactive = Interactive::Serialize;
        config.timeout = Duration::from_secs(2);
    });
    gateway.up().await;
    let able = caller("s", json!({"elicitation": {}}));
    let mut first = gateway.begin(able.clone(), "ask", json!({}));
    let Step::Event(Event::Ask(ask)) = first.next().await else {
        panic!("expected a question")
    };
    assert!(String::from_utf8_lossy(&ask.params).contains("who?"));
    // The next call waits for its turn, and in vain: the first is still being answered.
    let second = gateway
        .call("echo", json!({"text": "too early"}))
        .await
        .unwrap_err();
    assert_eq!(second.kind, Kind::BackendBusy, "{second}");
    // By now the first call's own time is over, but its caller was still thinking.
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    ask.answer
        .send(Answer::Result(answer.to_string().into()))
        .unwrap();
    let Step::Done(Ok(reply)) = first.next().await else {
        panic!("expected the reply")
    };
    assert_eq!(
        serde_json::from_str::<Value>(&text(&reply.outcome)).unwrap(),
        answer
    );
    // Who did not say that it can be asked is not.
    let refused = gateway.call_as(able, "roots", json!({})).await.unwrap();
    assert!(refused.contains("-32601"), "{refused}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_caller_that_leaves_while_it_is_asked_frees_the_child() {
    let gateway = gateway("legacy", |config| {
        config.interactive = Interactive::Serialize
    });
    gateway.up().await;
    let mut first = gateway.begin(caller("s", json!({"elicitation": {}})), "ask", json!({}));
    assert!(matches!(first.next().await, Step::Event(Event::Ask(_))));
    drop(first);
    assert_eq!(gateway.echo("next").await.unwrap(), "next");
    gateway.stop().await;
}

#[tokio::test]
async fn a_changed_list_is_read_again_in_either_era() {
    for era in ["legacy", "modern"] {
        let gateway = gateway(era, |_| {});
        gateway.up().await;
        gateway.until_listed("extra0", false).await;
        gateway.call("grow", json!({})).await.unwrap();
        gateway.until_listed("extra0", true).await;
        gateway.stop().await;
    }
}
