//! What would come of a call that is not made, step by step, for operators.
//!
//! The verdicts come from the functions by which the steps themselves decide, on a call that is dropped afterwards. Every
//! step is asked, whatever those before it say, so that an operator sees all that stands in the way.
//!
//! Not here: arguments, cached answers, and what the backend would answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shared, Walk, admit, authorize, circuit, confirm, kill, limit, resolve};
use crate::admission::Prospect;
use crate::backend::Call;
use crate::fault::Fault;
use crate::invocation::Invocation;
use crate::operation::Operation;
use crate::policy::Ruling;

/// What would come of a call.
pub struct Explanation {
    /// `None`: it has no target.
    pub operation: Option<Arc<Operation>>,
    /// It is in the lists of its caller.
    pub see: bool,
    /// It would reach its backend, at once or after it waited.
    pub call: bool,
    /// In the order of the walk.
    pub steps: Vec<ExplainedStep>,
}

/// What one step says.
#[derive(Debug)]
pub struct ExplainedStep {
    pub step: &'static str,
    pub verdict: Verdict,
    /// The setting that decided.
    pub rule: Option<String>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Passed,
    Refused,
    /// The call would wait: for a confirmation, or for a place.
    Waited,
    /// The step does not apply to such a call.
    Skipped,
}

impl ExplainedStep {
    fn new(step: &'static str, verdict: Verdict, text: impl Into<String>) -> Self {
        Self {
            step,
            verdict,
            rule: None,
            text: text.into(),
        }
    }

    fn passed(step: &'static str, text: impl Into<String>) -> Self {
        Self::new(step, Verdict::Passed, text)
    }

    fn skipped(step: &'static str, text: impl Into<String>) -> Self {
        Self::new(step, Verdict::Skipped, text)
    }

    fn refused(step: &'static str, fault: Fault) -> Self {
        Self::new(step, Verdict::Refused, fault.public)
    }

    fn of(step: &'static str, checked: Result<(), Fault>, passes: &str) -> Self {
        match checked {
            Ok(()) => Self::passed(step, passes),
            Err(fault) => Self::refused(step, fault),
        }
    }

    fn by(self, rule: impl Into<Option<String>>) -> Self {
        Self {
            rule: rule.into(),
            ..self
        }
    }
}

impl Walk {
    /// What would come of this call now.
    pub fn explain(&self, invocation: Invocation) -> Explanation {
        let (mut call, _) = self.call(invocation, Arc::default());
        let shared = &*self.shared;
        if let Err(fault) = resolve::find(shared, &mut call) {
            return Explanation {
                operation: None,
                see: false,
                call: false,
                steps: vec![ExplainedStep::refused("resolve", fault)],
            };
        }
        let operation = call.target().operation.clone();
        let grant = shared.policy.grant(&call.caller, &operation);
        let is_off = kill::check(shared, &call).is_err();
        let steps = vec![
            resolved(&operation),
            authorized(shared, &call),
            switched(shared, &call),
            pinned(&call),
            stopped(&call),
            limited(shared, &call),
            confirmed(shared, &call),
            broken(&call),
            admitted(shared, &call),
        ];
        Explanation {
            see: grant.see && !is_off,
            call: steps.iter().all(|step| step.verdict != Verdict::Refused),
            operation: Some(operation),
            steps,
        }
    }
}

fn resolved(operation: &Operation) -> ExplainedStep {
    let text = format!("`{}` of backend `{}`", operation.own, operation.backend);
    ExplainedStep::passed("resolve", text)
}

fn authorized(shared: &Shared, call: &Call) -> ExplainedStep {
    let (caller, operation) = (&call.caller, &call.target().operation);
    let passes = format!("the role `{}` may call it", caller.role);
    let step = ExplainedStep::of("authorize", authorize::check(shared, call), &passes);
    let of_role = |list: &str, entry: &str| format!("rbac.roles.{}.{list}: {entry}", caller.role);
    let roles = shared.policy.roles();
    let Some(role) = roles.get(&caller.role) else {
        let text = format!("there is no role `{}`, so it sees nothing", caller.role);
        return ExplainedStep { text, ..step };
    };
    let hidden = |why: &str| format!("{why}, so to its callers it does not exist");
    match role.ruling(operation) {
        Ruling::Denied(entry) => ExplainedStep {
            text: hidden("the role is denied it"),
            ..step
        }
        .by(of_role("denied_tools", entry)),
        Ruling::Unmentioned => ExplainedStep {
            text: hidden("no permission of the role covers it"),
            ..step
        }
        .by(format!("rbac.roles.{}.permissions", caller.role)),
        Ruling::Permitted(entry, _) => {
            let rule = of_role("permissions", entry);
            match operation.is_offered_to(caller) {
                true => step.by(rule),
                false => ExplainedStep {
                    text: "its backend offers it only to clients with other capabilities"
                        .to_owned(),
                    ..step
                }
                .by(rule),
            }
        }
    }
}

fn switched(shared: &Shared, call: &Call) -> ExplainedStep {
    let kills = shared.policy.kills().now();
    let by = kills.stops(&call.caller, &call.target().operation, call.ends_a_task());
    let step = kill::check_switch(shared, call);
    ExplainedStep::of("kill", step, "it is not switched off").by(by.map(|by| by.rule()))
}

fn pinned(call: &Call) -> ExplainedStep {
    let operation = &call.target().operation;
    let step = ExplainedStep::of("pin", kill::check_pin(call), "nothing holds it back");
    let rule = || format!("backends.{}.pin: enforce", operation.backend);
    step.by(operation.held.map(|_| rule()))
}

fn stopped(call: &Call) -> ExplainedStep {
    let step = ExplainedStep::of("stop", kill::check_stop(call), "its backend is not stopped");
    let name = call.target().backend.name();
    let is_stopped = step.verdict == Verdict::Refused;
    step.by(is_stopped.then(|| format!("stop: backend {name}")))
}

fn limited(shared: &Shared, call: &Call) -> ExplainedStep {
    const STEP: &str = "limit";
    if !limit::applies(call) {
        return ExplainedStep::skipped(STEP, "only calls of tools are limited");
    }
    let (caller, operation) = (&call.caller, &call.target().operation);
    let rates = shared.policy.rates();
    let (rule, rpm) = rates.rule(operation);
    let step = match (rpm, caller.subject.is_empty()) {
        (0, _) => ExplainedStep::skipped(STEP, "it may be called as often as one likes"),
        (_, true) => {
            let text = format!("each caller may call it {rpm} times a minute");
            ExplainedStep::passed(STEP, text)
        }
        _ => match rates.prospect(&caller.subject, operation) {
            Err(limited) => ExplainedStep::refused(STEP, limit::refused(call, limited)),
            Ok(()) => {
                let figures = rates.figures(&caller.subject, operation);
                let left = figures.map_or(0, |figures| figures.remaining);
                let text = format!("{left} calls are left of {rpm} a minute");
                ExplainedStep::passed(STEP, text)
            }
        },
    };
    let others = match rates.shared() {
        Some(_) if rpm != 0 => "; calls at other gateways are not looked at here",
        _ => "",
    };
    let text = format!("{}{others}", step.text);
    ExplainedStep { text, ..step }.by(rule)
}

fn confirmed(shared: &Shared, call: &Call) -> ExplainedStep {
    const STEP: &str = "confirm";
    if !confirm::applies(shared, call) {
        return ExplainedStep::passed(STEP, "it needs no confirmation");
    }
    match shared
        .policy
        .confirmed_by(&call.caller, &call.target().operation)
    {
        None => ExplainedStep::passed(STEP, "it needs no confirmation"),
        Some(rule) => {
            let text = "its caller has to confirm each call";
            ExplainedStep::new(STEP, Verdict::Waited, text).by(rule)
        }
    }
}

fn broken(call: &Call) -> ExplainedStep {
    let target = call.target();
    let figures = target.circuit.figures();
    let rule = format!(
        "backends.{}.circuit_breaker.threshold: {}",
        target.backend.name(),
        figures.threshold
    );
    match figures.refuses {
        Some(open) => ExplainedStep::refused("circuit", circuit::refused(call, open)).by(rule),
        None if figures.is_closed => ExplainedStep::passed("circuit", "its backend answers"),
        None => {
            let text = "its backend kept failing: the next call is let through, to see";
            ExplainedStep::passed("circuit", text).by(rule)
        }
    }
}

fn admitted(shared: &Shared, call: &Call) -> ExplainedStep {
    const STEP: &str = "admit";
    let Some(admission) = shared.policy.admission().filter(|_| admit::applies(call)) else {
        return ExplainedStep::skipped(STEP, "such calls take no place");
    };
    match admission.prospect(call.target().index) {
        Prospect::Runs => ExplainedStep::passed(STEP, "there is a free place"),
        Prospect::Waits => {
            let text = "every place is taken: it would wait in the queue";
            ExplainedStep::new(STEP, Verdict::Waited, text)
        }
        Prospect::IsFull(refused) => {
            let text = format!(
                "every place is taken, and the queue is full ({}): it would be refused, unless a call of a caller with more \
                 waiting gives way",
                refused.reason.as_str()
            );
            ExplainedStep::new(STEP, Verdict::Refused, text)
        }
    }
}

#[cfg(test)]
mod tests;
