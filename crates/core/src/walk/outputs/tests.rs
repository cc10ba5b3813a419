//! Results of proxied and built-in tools against their output schemas.

use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use sentinel_wire::json::Rules;
use sentinel_wire::{Params, Revision};

use super::*;
use crate::audit::Auditor;
use crate::backend::{Backend, Call, Health, Status};
use crate::caller::Caller;
use crate::catalog::{Listing, Registry};
use crate::identity::Identity;
use crate::line::Step;
use crate::offer::{Item, ItemKind, Offer, ServerCapabilities};
use crate::policy::{Policy, Settings};
use crate::walk::walk;
use crate::{Invocation, Round, View};

const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object"},
    "outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}"#;

/// A backend whose one tool returns this.
struct Fixed {
    result: &'static str,
    is_builtin: bool,
}

impl Backend for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn is_builtin(&self) -> bool {
        self.is_builtin
    }

    fn call(&self, _: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        let result = Payload::parse(self.result.into(), Rules::backend());
        Box::pin(ready(Ok(Reply {
            revision: Revision::NEWEST,
            outcome: Answer::Result(result.expect("JSON")),
        })))
    }

    fn status(&self) -> Status {
        Status::of(Health::Up)
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }
}

/// What a call comes to, and the counts of mismatches and of unchecked results after it.
async fn call(result: &'static str, is_builtin: bool, checks: bool) -> (Outcome, u64, u64) {
    let listing = Listing {
        checks_outputs: checks,
        ..Listing::new("fixed")
    };
    let registry = Registry::new(vec![listing]);
    registry.attach(0, Arc::new(Fixed { result, is_builtin }));
    let tool = Item::parse(ItemKind::Tool, Bytes::from_static(TOOL.as_bytes()));
    registry.publisher(0).publish(Offer {
        capabilities: ServerCapabilities {
            tools: true,
            ..Default::default()
        },
        tools: vec![tool.expect("a tool")],
        ..Offer::empty(Revision::NEWEST)
    });
    let caller = Arc::new(Caller::of(&Identity::local("admin")));
    let params = Bytes::from_static(br#"{"name":"t","arguments":{}}"#);
    let params = Params::parse(params, Rules::backend()).expect("JSON");
    let (policy, auditor) = (Policy::new(registry, Settings::default()), Auditor::off());
    let call = Invocation::mcp(
        Round::first(),
        caller,
        View::Merged,
        Method::ToolsCall,
        params,
    );
    let mut talk = walk(policy, auditor.clone()).begin(call, Arc::default());
    let Step::Done(outcome) = talk.next().await else {
        panic!("the call ends")
    };
    let counted = auditor.metrics.tool("fixed", "t");
    let mismatches = counted.output_mismatches.load(Ordering::Relaxed);
    (
        outcome,
        mismatches,
        counted.output_unchecked.load(Ordering::Relaxed),
    )
}

/// A-10, C-38: whatever a proxied backend returns passes byte for byte.
#[tokio::test]
async fn c_38_a_proxied_result_passes_and_is_counted_if_it_does_not_fit() {
    for (result, mismatches, unchecked) in [
        (r#"{"content":[],"structuredContent":{"n":1}}"#, 0, 0),
        (r#"{"content":[],"structuredContent":{ "n":"one" }}"#, 1, 0),
        (r#"{"content":[],"structuredContent":[{"n":1}]}"#, 1, 0),
        (r#"{"content":[]}"#, 1, 0),
        (r#"{"content":[],"isError":true}"#, 0, 0),
        (
            r#"{"resultType":"input_required","requestState":"x"}"#,
            0,
            0,
        ),
        // What is left of a reply that was streamed.
        ("{}", 0, 1),
    ] {
        let (outcome, wrong, skipped) = call(result, false, true).await;
        let Ok(Reply {
            outcome: Answer::Result(passed),
            ..
        }) = outcome
        else {
            panic!("{result} does not pass")
        };
        assert_eq!(passed.to_bytes(), result);
        assert_eq!((wrong, skipped), (mismatches, unchecked), "{result}");
    }
    let (_, wrong, _) = call(r#"{"content":[]}"#, false, false).await;
    assert_eq!(wrong, 0, "switched off");
}

/// A-12, C-38: a built-in tool answers for its schema, and what was wrong is for the log only.
#[tokio::test]
async fn c_38_a_built_in_result_that_does_not_fit_is_refused() {
    let wrong = r#"{"content":[],"structuredContent":{"n":"secret"}}"#;
    let fault = call(wrong, true, true).await.0.expect_err("refused");
    assert_eq!(fault.kind, Kind::Internal);
    assert!(!fault.public.contains("/n"), "{}", fault.public);
    let cause = std::error::Error::source(&fault).map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("t: `/n` (type)"));
    let good = r#"{"content":[],"structuredContent":{"n":2}}"#;
    assert!(call(good, true, true).await.0.is_ok());
}
