//! C-32: `sentinel review purge`, as an operator runs it beside a gateway.

use serde_json::json;

use crate::support::callers::{Caller, Legacy};
use crate::support::setup::Gateway;

#[test]
fn c_32_an_operator_removes_closed_reviews_and_verify_says_so() {
    let gateway = Gateway::ready("[review]\n");
    let caller = Legacy::newest(&gateway);
    let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    let proposal =
        json!({"intent": "Rename\u{1b}[2J it", "diff": diff, "agent_type": "a", "phase": "1"});
    let made = caller.call("submit_proposal", proposal);
    let id = made["result"]["structuredContent"]["review_id"].clone();
    for (tool, arguments) in [
        ("claim_review", json!({"review_id": id})),
        (
            "submit_verdict",
            json!({"review_id": id, "decision": "approved"}),
        ),
        ("close_review", json!({"review_id": id})),
    ] {
        let done = caller.call(tool, arguments);
        assert!(done["result"]["isError"] != true, "{done}");
    }
    let purge = |more: &[&str]| {
        let args = [&["review", "purge", "--closed-before"], more].concat();
        gateway.setup.sentinel(&args)
    };
    let (code, said, _) = purge(&["1d", "--yes"]);
    assert_eq!((code, &*said), (0, "0 closed reviews removed\n"));
    let (code, said, _) = purge(&["0s", "--dry-run"]);
    assert_eq!(code, 0);
    assert!(said.contains("Rename\u{fffd}[2J it"), "{said:?}");
    assert!(
        said.ends_with("1 closed reviews would be removed\n"),
        "{said}"
    );
    // Nobody is there to be asked.
    let (code, _, complaint) = purge(&["0s"]);
    assert_eq!(code, 1);
    assert!(complaint.contains("--yes"), "{complaint}");
    let (code, _, complaint) = purge(&["soon", "--yes"]);
    assert_eq!(code, 1);
    assert!(complaint.contains("not a time"), "{complaint}");

    let (code, said, complaint) = purge(&["0s", "--yes"]);
    assert_eq!(code, 0, "{complaint}");
    assert!(said.ends_with("1 closed reviews removed\n"), "{said}");
    let (code, said, complaint) = gateway.setup.sentinel(&["review", "verify"]);
    assert_eq!(code, 0, "{complaint}");
    assert!(
        said.starts_with("5 events, each as it was written\n1 reviews removed at "),
        "{said}"
    );
    assert!(said.contains(" by operator"), "{said}");
    // The gateway goes on, and does not know it any more.
    let missing = caller.call("get_review_status", json!({"review_id": id}));
    assert_eq!(missing["result"]["isError"], true, "{missing}");
}
