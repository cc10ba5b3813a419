//! The first list of a gateway that was just started and remembers nothing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern};
use crate::support::pipe::Pipe;
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend};

/// Less than a list waits, and more than a gateway needs to start and be asked.
const START_MS: &str = "1000";
const REVIEW: &str = "[review]\nenabled = true\n";
/// The default wait, and some time for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(4);

fn starting() -> String {
    [
        stdio_backend("slow", &["--start-delay-ms", START_MS], ""),
        stdio_backend(
            "lazy",
            &["--start-delay-ms", START_MS, "--tools", "1"],
            "start = \"lazy\"",
        ),
        REVIEW.to_owned(),
    ]
    .concat()
}

#[track_caller]
fn check(caller: &impl Caller) {
    let tools = caller.tools();
    for name in ["echo", "echo_1", "submit_proposal"] {
        assert!(tools.contains(&name.to_owned()), "{name} in {tools:?}");
    }
}

#[test]
fn issue_17_12_the_first_list_waits_for_backends_that_start() {
    check(&Modern::new(&Gateway::start(&starting()), "/mcp"));
    check(&Legacy::newest(&Gateway::start(&starting())));
    check(&Pipe::modern(&starting(), json!({})));
    check(&Pipe::legacy(&starting(), "2025-11-25", json!({})));
    let gateway = Gateway::start(&starting());
    let alone = Legacy::connect(&gateway, "/mcp/slow", "2025-03-26");
    assert!(alone.tools().contains(&"echo".to_owned()));
}

#[test]
fn issue_17_12_a_hanging_backend_delays_lists_once_and_hides_no_other() {
    let hanging = Server::start(&["--hang"]);
    let config = [
        http_backend("hangs", &hanging.address, ""),
        stdio_backend("quick", &[], ""),
        REVIEW.to_owned(),
    ];
    let gateway = Gateway::start(&config.concat());
    let caller = Modern::new(&gateway, "/mcp");
    let began = Instant::now();
    let tools = caller.tools();
    assert!(began.elapsed() < WAIT_MAX, "{:?}", began.elapsed());
    for name in ["echo", "submit_proposal"] {
        assert!(tools.contains(&name.to_owned()), "{name} in {tools:?}");
    }
    let again = Instant::now();
    assert_eq!(caller.tools(), tools);
    assert!(again.elapsed() < Duration::from_secs(1), "waited again");
    assert_eq!(gateway.health("hangs"), "starting");
}

#[test]
fn issue_17_12_a_list_that_waits_holds_up_nothing_else_on_its_pipe() {
    let pipe = Pipe::silent(&stdio_backend("silent", &["--hang"], ""));
    pipe.ask(
        "initialize",
        crate::support::callers::initialize_params("2025-11-25", &json!({})),
    );
    pipe.write(&crate::support::callers::notification(
        "notifications/initialized",
        json!({}),
    ));
    pipe.write(&crate::support::callers::request(
        &json!("list"),
        "tools/list",
        json!({}),
    ));
    let began = Instant::now();
    let pong: Value = pipe.ask("ping", json!({}));
    assert_eq!(pong["result"], json!({}));
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "the reader waited"
    );
}
