//! What would come of a call that is not made, step by step, for operators.
//!
//! The verdicts come from the functions that the steps themselves use, on a call that is dropped afterwards. Every step is
//! asked, whatever those before it say. Not here: arguments and what the backend would answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Walk, authorize, kill, resolve};
use crate::fault::Fault;
use crate::invocation::Invocation;
use crate::operation::Operation;

/// What would come of a call.
pub struct Explanation {
    /// `None`: it has no target.
    pub operation: Option<Arc<Operation>>,
    /// It is in the lists of its caller.
    pub see: bool,
    /// It would reach its backend.
    pub call: bool,
    pub steps: Vec<ExplainedStep>,
}

/// What one step says.
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

impl Walk {
    /// What would come of this call now.
    pub fn explain(&self, invocation: Invocation) -> Explanation {
        let (mut call, _) = self.call(invocation, Arc::default());
        let shared = &self.shared;
        if let Err(fault) = resolve::find(shared, &mut call) {
            return Explanation {
                operation: None,
                see: false,
                call: false,
                steps: vec![refused("resolve", fault)],
            };
        }
        let operation = call.target().operation.clone();
        let grant = shared.policy.grant(&call.caller, &operation);
        let kill = kill::check(shared, &call);
        let see = grant.see && kill.is_ok();
        let steps: Vec<ExplainedStep> = vec![
            passed(
                "resolve",
                format!("an operation of `{}`", operation.backend),
            ),
            of("authorize", authorize::check(shared, &call)),
            of("kill", kill),
        ];
        Explanation {
            see,
            call: steps.iter().all(|step| step.verdict != Verdict::Refused),
            operation: Some(operation),
            steps,
        }
    }
}

fn of(step: &'static str, checked: Result<(), Fault>) -> ExplainedStep {
    match checked {
        Ok(()) => passed(step, "passes"),
        Err(fault) => refused(step, fault),
    }
}

fn passed(step: &'static str, text: impl Into<String>) -> ExplainedStep {
    ExplainedStep {
        step,
        verdict: Verdict::Passed,
        rule: None,
        text: text.into(),
    }
}

fn refused(step: &'static str, fault: Fault) -> ExplainedStep {
    ExplainedStep {
        step,
        verdict: Verdict::Refused,
        rule: None,
        text: fault.public.into_owned(),
    }
}
