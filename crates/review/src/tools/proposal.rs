//! Tools of the tag `proposal`.

use std::sync::Arc;

use crate::store::{Category, NewReview, Patch, Priority, Review, ReviewStatus, Verdict};
use schemars::JsonSchema;
use sentinel_core::builtin::{Effect, Refused, Tool, ToolContext, ToolDeclaration};
use sentinel_core::random::uuid;
use serde::{Deserialize, Serialize};

use super::arguments::{id, line, maybe, maybe_text, named, slice, text};
use crate::diff;
use crate::service::{Service, key, refused};

const TAGS: &[&str] = &["proposal"];

pub(super) fn tools() -> Vec<Tool<Service>> {
    let submit = ToolDeclaration {
        name: "submit_proposal",
        title: "Submit a proposal",
        description: "Propose a code change for review: what you intend and the unified diff (as `git diff` prints \
it). Creates a review with status `created` and returns it with its review_id. Afterwards wait with get_review_status. \
To follow up on a rejected review, submit the new diff with parent_id.",
        tags: TAGS,
        effect: Effect::Writes,
    };
    let get = ToolDeclaration {
        name: "get_proposal",
        title: "Read a proposal",
        description: "Read what is proposed: intent, metadata, the original diff, verdicts so far, and the chain of \
resubmissions. A diff above 256 KiB comes in pages: repeat with offset = patch.next_offset.",
        tags: TAGS,
        effect: Effect::Reads,
    };
    vec![
        Tool::new(submit, submit_proposal),
        Tool::new(get, get_proposal),
    ]
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Submit {
    /// What the change is for, in words that a reviewer understands without the diff.
    intent: String,
    /// The change as a unified diff with relative paths, at most 3 MiB.
    diff: String,
    /// What kind of agent proposes, such as gsd-executor or gsd-planner.
    agent_type: String,
    /// The phase of the work, such as 3.2 or verify.
    phase: String,
    /// The plan this belongs to.
    plan: Option<String>,
    /// The task this belongs to.
    task: Option<String>,
    /// More for the reviewer to know: what was tried, how it was tested. Markdown.
    description: Option<String>,
    /// The project, for filtering.
    project: Option<String>,
    /// Inferred from agent_type and phase when absent.
    category: Option<Category>,
    /// Inferred when absent: planners are critical, verification is low.
    priority: Option<Priority>,
    /// The rejected review that this proposal replaces.
    parent_id: Option<String>,
    /// A UUID of your own for the review. Submitting the same again returns the same review.
    review_id: Option<String>,
    /// Any text that names this submission: repeating it after a lost answer does not submit twice.
    idempotency_key: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Submitted {
    #[serde(flatten)]
    review: Review,
    /// The original diff's id among the patches.
    patch_id: Option<String>,
    /// This was submitted before; nothing was added.
    repeated: bool,
}

async fn submit_proposal(
    service: Arc<Service>,
    context: ToolContext,
    mut submit: Submit,
) -> Result<Submitted, Refused> {
    let given = submit.idempotency_key.as_ref();
    let named = named("submit_proposal", &context, given, &submit)?;
    // An id of one's own is a key by itself, whether or not there is another.
    submit.idempotency_key = None;
    let own = submit
        .review_id
        .as_ref()
        .map(|own| key("review_id", &context.caller, own, &submit));
    let affected_files = diff::check(&submit.diff)?;
    let agent_type = line("agent_type", submit.agent_type)?;
    let phase = line("phase", submit.phase)?;
    let (inferred_category, inferred_priority) = infer(&agent_type, &phase);
    let who = service.who(None, &context.caller);
    let new = NewReview {
        review_id: match submit.review_id {
            Some(own) => id("review_id", own)?,
            None => uuid(),
        },
        intent: text("intent", submit.intent)?,
        description: maybe_text("description", submit.description)?,
        plan: maybe("plan", submit.plan)?,
        task: maybe("task", submit.task)?,
        project: maybe("project", submit.project)?,
        category: submit.category.unwrap_or(inferred_category),
        priority: submit.priority.unwrap_or(inferred_priority),
        proposed_by: who.actor.clone(),
        parent_id: submit
            .parent_id
            .map(|parent| id("parent_id", parent))
            .transpose()?,
        diff: submit.diff,
        affected_files,
        agent_type,
        phase,
    };
    let acted = service
        .submit(&who, new, named.into_iter().chain(own))
        .await?;
    let patch_id = match acted.added {
        Some(crate::store::Attachment::Patch(patch)) => Some(patch.patch_id),
        _ => None,
    };
    Ok(Submitted {
        review: acted.review,
        patch_id,
        repeated: acted.repeated,
    })
}

/// Planners come first, verification last; a planner's verification is still a planner's.
fn infer(agent_type: &str, phase: &str) -> (Category, Priority) {
    if agent_type.to_lowercase().contains("planner") {
        (Category::PlanReview, Priority::Critical)
    } else if phase.to_lowercase().contains("verify") {
        (Category::Verification, Priority::Low)
    } else {
        (Category::CodeChange, Priority::Normal)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Get {
    review_id: String,
    /// Where to begin in a large diff, in bytes.
    offset: Option<u64>,
    /// Bytes of diff to return, at most 262144.
    limit: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Proposal {
    #[serde(flatten)]
    review: Review,
    /// The original diff.
    patch: Patch,
    verdicts: Vec<Verdict>,
    /// This review and its resubmissions, oldest first.
    chain: Vec<Link>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Link {
    review_id: String,
    status: ReviewStatus,
    intent: String,
    created_at: String,
}

async fn get_proposal(
    service: Arc<Service>,
    _: ToolContext,
    get: Get,
) -> Result<Proposal, Refused> {
    whole(
        &service,
        id("review_id", get.review_id)?,
        get.offset,
        get.limit,
    )
    .await
}

/// A review with everything but the discussion.
pub(super) async fn whole(
    service: &Service,
    id: String,
    offset: Option<u64>,
    limit: Option<u64>,
) -> Result<Proposal, Refused> {
    let slice = slice(offset, limit)?;
    let store = &service.store;
    let review = store.get(id.clone()).await.map_err(refused)?;
    let patch = store.original(id.clone(), slice).await.map_err(refused)?;
    let chain = store.chain(id.clone()).await.map_err(refused)?;
    Ok(Proposal {
        review,
        patch,
        verdicts: store.verdicts(id).await.map_err(refused)?,
        chain: chain
            .into_iter()
            .map(|review| Link {
                review_id: review.review_id,
                status: review.status,
                intent: review.intent,
                created_at: review.created_at,
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 2.1: planner wins, case does not matter.
    #[test]
    fn urgency_is_inferred_from_agent_and_phase() {
        assert_eq!(
            infer("GSD-Planner", "verify"),
            (Category::PlanReview, Priority::Critical)
        );
        assert_eq!(
            infer("gsd-executor", "4 Verify"),
            (Category::Verification, Priority::Low)
        );
        assert_eq!(
            infer("gsd-executor", "3.2"),
            (Category::CodeChange, Priority::Normal)
        );
    }
}
