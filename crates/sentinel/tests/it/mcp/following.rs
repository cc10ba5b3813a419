//! Whoever follows a resource goes on hearing of it, whatever becomes of the server's sessions, streams and
//! processes in between.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern};
use crate::support::http::{Stream, parse};
use crate::support::processes::kill;
use crate::support::setup::{Gateway, PATIENCE, Server, http_backend, stdio_backend, until};

const URI: &str = "test://static";

/// One caller of each era, and the streams on which they hear of the resource.
fn followers(gateway: &Gateway, path: &str) -> [Stream; 2] {
    let legacy = Legacy::connect(gateway, path, "2025-11-25");
    let own = legacy.verb("GET").head();
    legacy.result("resources/subscribe", json!({"uri": URI}));
    let wanted = json!({"notifications": {"resourceSubscriptions": [URI]}});
    let modern = Modern::new(gateway, path);
    let mut listening = modern.send("subscriptions/listen", wanted).head();
    let first = listening.json();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let honoured = &first["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*honoured, json!([URI]), "{first}");
    [own, listening]
}

/// The next message of each says that the resource changed.
#[track_caller]
fn all_hear(streams: &mut [Stream]) {
    for stream in streams {
        let said = stream.message_within(PATIENCE).expect("news");
        let said = parse(&said);
        assert_eq!(said["method"], "notifications/resources/updated", "{said}");
        assert_eq!(said["params"]["uri"], URI, "{said}");
    }
}

fn touch(gateway: &Gateway, path: &str) -> Value {
    Modern::new(gateway, path).call("touch", json!({"uri": URI}))
}

#[test]
fn g_50_who_follows_a_resource_is_subscribed_again_after_the_session_was_lost() {
    let server = Server::start(&["--era", "legacy"]);
    // Nothing but the lost stream tells that the session is gone.
    let config = http_backend("one", &server.address, "health_interval = 300");
    let gateway = Gateway::ready(&config);
    let mut streams = followers(&gateway, "/mcp");
    touch(&gateway, "/mcp");
    all_hear(&mut streams);
    let caller = Modern::new(&gateway, "/mcp");
    for _ in 0..2 {
        caller.said("forget_sessions", json!({}));
        // Once for what may have been missed, and once for each change from then on.
        all_hear(&mut streams);
        touch(&gateway, "/mcp");
        all_hear(&mut streams);
    }
}

#[test]
fn g_54_who_follows_a_resource_of_a_server_that_restarts_is_told_once_and_hears_on() {
    for era in ["legacy", "modern"] {
        let mut server = Server::start(&["--era", era]);
        // However long the restart takes, it is one, and no server that was given up meanwhile.
        let more = "health_interval = 1\nunhealthy_after = 30";
        let config = http_backend("one", &server.address, more);
        let gateway = Gateway::ready(&config);
        let mut streams = followers(&gateway, "/mcp/one");
        let port = server.port();
        server.kill();
        let _again = Server::start_at(port, &["--era", era]);
        all_hear(&mut streams);
        until("it works again", || {
            touch(&gateway, "/mcp/one")["result"]["content"][0]["text"]
                .is_string()
                .then_some(())
        });
        all_hear(&mut streams);
    }
}

/// A legacy caller that follows the resource, and the stream on which it hears of it.
fn follower(gateway: &Gateway) -> (Legacy, Stream) {
    let caller = Legacy::newest(gateway);
    let own = caller.verb("GET").head();
    caller.result("resources/subscribe", json!({"uri": URI}));
    (caller, own)
}

#[test]
fn decision_23_who_has_a_child_of_its_own_hears_of_its_resources_and_of_nobody_elses() {
    for era in ["legacy", "modern"] {
        let config = stdio_backend("one", &["--era", era], "isolation = \"session\"");
        let gateway = Gateway::ready(&config);
        let (a, mut heard_by_a) = follower(&gateway);
        let (b, mut heard_by_b) = follower(&gateway);
        let pid = |caller: &Legacy| parse(&caller.said("whoami", json!({})))["pid"].clone();
        assert_ne!(pid(&a), pid(&b), "each has its own");
        let touch = |caller: &Legacy| caller.said("touch", json!({"uri": URI}));
        touch(&a);
        all_hear(std::slice::from_mut(&mut heard_by_a));
        // The next that `b` hears is its own: of another resource, so that they can be told apart.
        let other = json!({"uri": "test://binary"});
        b.result("resources/subscribe", other.clone());
        b.said("touch", other.clone());
        let said = parse(&heard_by_b.message_within(PATIENCE).expect("news"));
        assert_eq!(said["params"]["uri"], other["uri"], "{era}: {said}");
        // A child that dies is started again for its follower, who is told once and hears on.
        let dead = pid(&a);
        kill(dead.as_u64().expect("a pid") as u32);
        all_hear(std::slice::from_mut(&mut heard_by_a));
        assert_ne!(pid(&a), dead);
        touch(&a);
        all_hear(std::slice::from_mut(&mut heard_by_a));
        // What such a child says of its lists is heard by all.
        a.said("grow", json!({}));
        for heard in [&mut heard_by_a, &mut heard_by_b] {
            let said = parse(&heard.message_within(PATIENCE).expect("news"));
            assert_eq!(said["method"], "notifications/tools/list_changed", "{said}");
        }
    }
}

#[test]
fn decision_23_a_modern_caller_follows_the_resources_of_its_own_child() {
    for era in ["legacy", "modern"] {
        let config = stdio_backend("one", &["--era", era], "isolation = \"caller\"");
        let gateway = Gateway::ready(&config);
        let mut streams = followers(&gateway, "/mcp");
        for _ in 0..2 {
            touch(&gateway, "/mcp");
            all_hear(&mut streams);
        }
    }
}
