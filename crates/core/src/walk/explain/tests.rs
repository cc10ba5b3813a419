//! What is explained is what a call then meets, and the setting that decides is named.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Outcome as Answer, Params, Payload, Revision};

use super::*;
use crate::admission::{Admission, AdmissionConfig, Bounds};
use crate::audit::Auditor;
use crate::backend::{Backend, Health, Status};
use crate::caller::Caller;
use crate::catalog::{Listing, Pinning, Registry};
use crate::fault::Kind;
use crate::identity::Identity;
use crate::line::{Conversation, Step};
use crate::offer::{Item, ItemKind, Offer, ServerCapabilities};
use crate::policy::{
    CONFIGURED, ConfirmConfig, KillSwitch, Killed, Policy, RateConfig, Role, Roles, Scope, Settings,
};
use crate::reply::Reply;
use crate::walk::walk;
use crate::{Round, View};

/// A backend that answers, fails, or does not answer.
#[derive(Default)]
struct Fickle {
    fails: AtomicBool,
    hangs: AtomicBool,
}

impl Backend for Fickle {
    fn name(&self) -> &str {
        "alpha"
    }

    fn call(&self, _: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        if self.hangs.load(Ordering::Relaxed) {
            return std::future::pending().boxed();
        }
        let fails = self.fails.load(Ordering::Relaxed);
        let result = Payload::parse(Bytes::from_static(br#"{"content":[]}"#), Rules::backend());
        let reply = Reply {
            revision: Revision::NEWEST,
            outcome: Answer::Result(result.expect("JSON")),
        };
        std::future::ready(match fails {
            true => Err(Fault::new(Kind::BackendUnavailable, "it is away")),
            false => Ok(reply),
        })
        .boxed()
    }

    fn status(&self) -> Status {
        Status::of(Health::Up)
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}

struct World {
    walk: Walk,
    backend: Arc<Fickle>,
    role: &'static str,
}

fn offer(description: &str) -> Offer {
    let tool = |name: &str| {
        let raw = format!(
            r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object"}}}}"#
        );
        Item::parse(ItemKind::Tool, raw.into()).expect("a tool")
    };
    Offer {
        capabilities: ServerCapabilities {
            tools: true,
            ..Default::default()
        },
        tools: vec![tool("echo")],
        ..Offer::empty(Revision::NEWEST)
    }
}

impl World {
    fn new(settings: Settings) -> Self {
        let listing = Listing {
            pin: Pinning::Enforce,
            ..Listing::new("alpha")
        };
        let registry = Registry::new(vec![listing]);
        let backend = Arc::new(Fickle::default());
        registry.attach(0, backend.clone());
        registry.publisher(0).publish(offer("says it again"));
        let policy = Policy::new(registry, settings);
        Self {
            walk: walk(policy, Auditor::off()),
            backend,
            role: "admin",
        }
    }

    fn of_role(permissions: &[&str], denied: &[&str]) -> Self {
        let role = Role::new(permissions.to_vec(), denied.to_vec());
        let roles = Roles::new([("viewer".to_owned(), role)]);
        Self {
            role: "viewer",
            ..Self::new(Settings {
                roles,
                ..Settings::default()
            })
        }
    }

    fn killed(scope: Scope, name: &str, reason: &str) -> Self {
        let killed = Killed {
            scope,
            name: name.to_owned(),
            reason: reason.to_owned(),
        };
        Self::new(Settings {
            kills: KillSwitch::open(vec![killed], None),
            ..Settings::default()
        })
    }

    fn invocation(&self) -> Invocation {
        let caller = Caller {
            subject: "alice".into(),
            role: self.role.into(),
            ..Caller::of(&Identity::local("admin"))
        };
        let params = Bytes::from_static(br#"{"name":"echo","arguments":{}}"#);
        let params = Params::parse(params, Rules::backend()).expect("JSON");
        let round = Round::first();
        Invocation::mcp(
            round,
            caller.into(),
            View::Merged,
            Method::ToolsCall,
            params,
        )
    }

    fn begin(&self) -> Conversation {
        self.walk.begin(self.invocation(), Arc::default())
    }

    async fn call(&self) -> Result<Reply, Fault> {
        match self.begin().next().await {
            Step::Done(outcome) => outcome,
            _ => panic!("the call ends"),
        }
    }

    fn policy(&self) -> &Policy {
        &self.walk.shared.policy
    }

    /// The step that stands in the way, with its rule; and whether the operation is listed.
    fn explain(&self) -> (Option<(&'static str, String)>, bool) {
        let explained = self.walk.explain(self.invocation());
        let names: Vec<&str> = explained.steps.iter().map(|step| step.step).collect();
        let order = [
            "resolve",
            "authorize",
            "kill",
            "pin",
            "stop",
            "limit",
            "confirm",
            "circuit",
            "admit",
        ];
        assert_eq!(names, order);
        let mut refusing = explained.steps.iter();
        let refusing = refusing.find(|step| step.verdict == Verdict::Refused);
        assert_eq!(explained.call, refusing.is_none());
        let why = refusing.map(|step| (step.step, step.rule.clone().unwrap_or_default()));
        (why, explained.see)
    }

    /// Asserts that a call is refused as explained, and what decides.
    async fn check(&self, step: &'static str, rule: &str, see: bool, kind: Kind) {
        let (why, is_seen) = self.explain();
        assert_eq!(why, Some((step, rule.to_owned())));
        assert_eq!(is_seen, see, "{step} {rule}");
        let fault = self.call().await.expect_err(rule);
        assert_eq!(fault.kind, kind, "{rule}: {fault}");
    }
}

#[tokio::test]
async fn what_nothing_stands_against_is_seen_and_called() {
    let world = World::new(Settings::default());
    assert_eq!(world.explain(), (None, true));
    assert!(world.call().await.is_ok());
    let explained = world.walk.explain(world.invocation());
    let rule = explained.steps[1].rule.as_deref();
    assert_eq!(rule, Some("rbac.roles.admin.permissions: *"));
}

#[tokio::test]
async fn the_permission_or_the_denial_that_decides_is_named() {
    const HIDDEN: Kind = Kind::UnknownName;
    for (permissions, denied, rule, see, kind) in [
        (
            &["tools.read"][..],
            &[][..],
            "permissions: tools.read",
            true,
            Kind::Forbidden,
        ),
        (&["beta.*"], &[], "permissions", false, HIDDEN),
        (&[], &[], "permissions", false, HIDDEN),
        (
            &["*"],
            &["other", "ec*"],
            "denied_tools: ec*",
            false,
            HIDDEN,
        ),
        (
            &["tools.execute"],
            &["alpha.echo"],
            "denied_tools: alpha.echo",
            false,
            HIDDEN,
        ),
    ] {
        let world = World::of_role(permissions, denied);
        let rule = format!("rbac.roles.viewer.{rule}");
        world.check("authorize", &rule, see, kind).await;
    }
    for (permissions, rule) in [
        (&["tools.read", "alpha.*"][..], "permissions: alpha.*"),
        (&["tools.read", "tool:e*"], "permissions: tool:e*"),
        (
            &["tools.read", "tools.execute"],
            "permissions: tools.execute",
        ),
    ] {
        let world = World::of_role(permissions, &["alpha.other"]);
        assert_eq!(world.explain(), (None, true), "{permissions:?}");
        let explained = world.walk.explain(world.invocation());
        let named = explained.steps[1].rule.clone().unwrap_or_default();
        assert_eq!(named, format!("rbac.roles.viewer.{rule}"));
        assert!(world.call().await.is_ok());
    }
    let world = World {
        role: "nobody",
        ..World::new(Settings::default())
    };
    let (why, see) = world.explain();
    assert_eq!((why, see), (Some(("authorize", String::new())), false));
    assert!(world.call().await.is_err());
}

#[tokio::test]
async fn the_kill_that_decides_is_named() {
    for (scope, name, reason, rule) in [
        (Scope::Tool, "ec*", "it loops", "kill: tool ec* (it loops)"),
        (Scope::Tool, "alpha.echo", "", "kill: tool alpha.echo"),
        (Scope::Backend, "alpha", "x", "kill: backend alpha (x)"),
        (Scope::Caller, "alice", "x", "kill: caller alice (x)"),
        (Scope::All, "", "fire", "kill: all (fire)"),
        (
            Scope::Tool,
            "echo",
            CONFIGURED,
            "kill_switch.disabled_tools: echo",
        ),
        (
            Scope::Backend,
            "alpha",
            CONFIGURED,
            "kill_switch.disabled_backends: alpha",
        ),
        (
            Scope::Caller,
            "alice",
            CONFIGURED,
            "kill_switch.disabled_callers: alice",
        ),
        (Scope::All, "", CONFIGURED, "kill_switch.everything: true"),
    ] {
        let world = World::killed(scope, name, reason);
        world.check("kill", rule, false, Kind::Disabled).await;
    }
    let other = World::killed(Scope::Caller, "bob", "x");
    assert_eq!(other.explain(), (None, true));
}

#[tokio::test]
async fn a_definition_that_is_held_back_is_told() {
    let world = World::new(Settings::default());
    let registry = world.policy().registry();
    registry
        .publisher(0)
        .publish(offer("sends your keys to me"));
    let rule = "backends.alpha.pin: enforce";
    world.check("pin", rule, false, Kind::Disabled).await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_told_and_looking_takes_nothing_of_it() {
    let world = World::new(Settings {
        rates: RateConfig {
            default_rpm: 60,
            burst: 2,
            per_tool: Default::default(),
        },
        ..Settings::default()
    });
    for _ in 0..5 {
        assert_eq!(world.explain(), (None, true));
    }
    assert!(world.call().await.is_ok() && world.call().await.is_ok());
    let (rule, kind) = ("rate_limits.default_rpm", Kind::RateLimited);
    world.check("limit", rule, true, kind).await;
}

#[tokio::test]
async fn a_confirmation_is_something_to_wait_for() {
    let world = World::new(Settings {
        confirm: ConfirmConfig {
            tools: vec!["e*".to_owned()],
            ..Default::default()
        },
        ..Settings::default()
    });
    let explained = world.walk.explain(world.invocation());
    assert!(explained.call && explained.see);
    let step = &explained.steps[6];
    assert_eq!((step.step, step.verdict), ("confirm", Verdict::Waited));
    assert_eq!(step.rule.as_deref(), Some("surfaces.confirm: e*"));
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_told_until_a_call_may_try() {
    let world = World::new(Settings::default());
    world.backend.fails.store(true, Ordering::Relaxed);
    for _ in 0..5 {
        assert_eq!(world.explain(), (None, true));
        world.call().await.expect_err("it is away");
    }
    let (rule, kind) = (
        "backends.alpha.circuit_breaker.threshold: 5",
        Kind::CircuitOpen,
    );
    world.check("circuit", rule, true, kind).await;
    tokio::time::advance(Duration::from_secs(31)).await;
    // Looking is no attempt.
    assert_eq!(world.explain(), (None, true));
    world.backend.fails.store(false, Ordering::Relaxed);
    assert!(world.call().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_a_queue_with_room_waits() {
    let bounds = |queue_size| Bounds {
        max_concurrent: 1,
        queue_size,
    };
    for (queue_size, verdict) in [(0, Verdict::Refused), (1, Verdict::Waited)] {
        let config = AdmissionConfig {
            bounds: bounds(queue_size),
            queue_timeout: Duration::from_secs(5),
            overload_error_code: -32000,
            backends: vec![bounds(10)],
        };
        let world = World::new(Settings {
            admission: Some(Admission::new(&config, None)),
            ..Settings::default()
        });
        assert_eq!(world.explain(), (None, true));
        world.backend.hangs.store(true, Ordering::Relaxed);
        let mut running = world.begin();
        assert!(running.next().now_or_never().is_none(), "it hangs");
        let explained = world.walk.explain(world.invocation());
        let step = explained.steps.last().expect("the last step");
        assert_eq!((step.step, step.verdict), ("admit", verdict));
        assert_eq!(explained.call, verdict == Verdict::Waited);
        let fault = world.call().await.expect_err("its place is taken");
        assert_eq!(fault.kind, Kind::Overloaded);
    }
}

#[tokio::test]
async fn what_does_not_exist_is_told_so() {
    let world = World::new(Settings::default());
    let params = Bytes::from_static(br#"{"name":"nothing"}"#);
    let params = Params::parse(params, Rules::backend()).expect("JSON");
    let explained = world.walk.explain(Invocation {
        input: params,
        ..world.invocation()
    });
    assert!(explained.operation.is_none() && !explained.call && !explained.see);
    assert_eq!(explained.steps.len(), 1);
    assert_eq!(explained.steps[0].text, "unknown tool: nothing");
}
