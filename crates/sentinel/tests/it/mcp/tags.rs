//! C-25: `?tags=` narrows what an endpoint shows and serves.

use serde_json::json;

use crate::support::callers::{Caller, Legacy, Modern, notification};
use crate::support::setup::{Gateway, stdio_backend};

const PROPOSAL: [&str; 2] = ["get_proposal", "submit_proposal"];

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn callers(gateway: &Gateway, path: &'static str) -> [Box<dyn Caller>; 2] {
    [
        Box::new(Legacy::connect(gateway, path, "2025-11-25")),
        Box::new(Modern::new(gateway, path)),
    ]
}

#[test]
fn c_25_only_tools_with_one_of_the_tags_are_shown_and_served() {
    let gateway = Gateway::ready(&format!("[review]\n{}", stdio_backend("one", &[], "")));
    for path in ["/mcp?tags=proposal", "/mcp/review?x=1&tags=none,proposal"] {
        for caller in callers(&gateway, path) {
            assert_eq!(sorted(caller.tools()), PROPOSAL, "{path}");
            let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
            let proposal = json!({"intent": "i", "diff": diff, "agent_type": "a", "phase": "1"});
            let made = caller.call("submit_proposal", proposal);
            assert!(
                made["result"]["structuredContent"]["review_id"].is_string(),
                "{made}"
            );
            // Others are answered as if they were not there, name by name.
            let hidden = caller.call("list_reviews", json!({}));
            let missing = caller.call("list_nothing", json!({}));
            let text = |answer: &serde_json::Value| {
                let error = answer["error"].to_string();
                error
                    .replace("list_reviews", "NAME")
                    .replace("list_nothing", "NAME")
            };
            assert_eq!(text(&hidden), text(&missing), "{path}");
            assert!(missing["error"].is_object(), "{path}: {missing}");
        }
    }
    // Tools without tags are there without a filter only; what is no tool is not filtered.
    for caller in callers(&gateway, "/mcp?tags=status") {
        assert!(!caller.tools().contains(&"echo".to_owned()));
        let resources = caller.names("resources/list", "resources", "uri");
        assert!(
            resources.contains(&"test://static".to_owned()),
            "{resources:?}"
        );
    }
    for caller in callers(&gateway, "/mcp?tags=") {
        assert!(caller.tools().is_empty());
    }
    for caller in callers(&gateway, "/mcp?other=1") {
        assert!(caller.tools().contains(&"echo".to_owned()));
    }
}

/// A session belongs to path and query; the order of the tags does not matter.
#[test]
fn c_25_a_session_is_bound_to_its_tags() {
    let gateway = Gateway::ready("[review]\n");
    let mut session = Legacy::connect(&gateway, "/mcp?tags=proposal,status", "2025-11-25");
    let note = notification("notifications/initialized", json!({}));
    for (path, status) in [
        ("/mcp?tags=status,proposal", 202),
        ("/mcp?tags=status&tags=proposal", 202),
        ("/mcp?tags=status", 404),
        ("/mcp", 404),
    ] {
        session.path = path.to_owned();
        assert_eq!(session.post(&note).status, status, "{path}");
    }
}
