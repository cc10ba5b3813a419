//! Tools of the tag `review`.

use std::sync::Arc;

use crate::store::{Attachment, Decision, Review, Verdict};
use schemars::JsonSchema;
use sentinel_core::builtin::{Effect, Refused, Tool, ToolContext, ToolDeclaration};
use serde::{Deserialize, Serialize};

use super::arguments::{id, invalid, maybe, maybe_text, named};
use crate::service::Service;

const TAGS: &[&str] = &["review"];

pub(super) fn tools() -> Vec<Tool<Service>> {
    let claim = ToolDeclaration {
        name: "claim_review",
        title: "Claim a review",
        description: "Take a review that is `created` so that nobody else works on it. Returns the review with \
claim_generation: pass it to submit_verdict. Claiming again as the same reviewer keeps the claim and renews it; your \
messages and patches renew it too. A claim without activity expires and the review returns to `created`.",
        tags: TAGS,
        effect: Effect::WritesOnce,
    };
    let verdict = ToolDeclaration {
        name: "submit_verdict",
        title: "Give a verdict",
        description: "Approve or reject a claimed review. Give a reason when you reject. Pass the claim_generation \
that claim_review returned, so that a verdict on a claim you lost is refused.",
        tags: TAGS,
        effect: Effect::Writes,
    };
    let close = ToolDeclaration {
        name: "close_review",
        title: "Close a review",
        description: "End an approved or rejected review: after applying the agreed diff, or when giving up. Closed \
is final.",
        tags: TAGS,
        effect: Effect::Writes,
    };
    vec![
        Tool::new(claim, claim_review),
        Tool::new(verdict, submit_verdict),
        Tool::new(close, close_review),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Claim {
    review_id: String,
    /// A stable name for you as a reviewer, such as codex-1. Required where the connection has no session.
    reviewer_id: Option<String>,
}

async fn claim_review(
    service: Arc<Service>,
    context: ToolContext,
    claim: Claim,
) -> Result<Review, Refused> {
    let reviewer = maybe("reviewer_id", claim.reviewer_id)?;
    let who = service.who(reviewer.as_deref(), &context.caller);
    let Some(by) = who.claimant.clone() else {
        return Err(invalid(
            "reviewer_id is required here: your connection has no session by which to recognise you again",
        ));
    };
    let acted = service
        .claim(id("review_id", claim.review_id)?, who, by)
        .await?;
    Ok(acted.review)
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Judge {
    review_id: String,
    decision: Decision,
    /// Why; what has to change, when rejecting. Markdown.
    reason: Option<String>,
    /// From claim_review: refused if the claim has moved on since.
    claim_generation: Option<u64>,
    /// Your name, if you claimed with one.
    reviewer_id: Option<String>,
    /// Names this verdict: repeating it after a lost answer does nothing.
    idempotency_key: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Judged {
    verdict: Verdict,
    review: Review,
    /// This verdict was given before; nothing was added.
    repeated: bool,
}

async fn submit_verdict(
    service: Arc<Service>,
    context: ToolContext,
    judge: Judge,
) -> Result<Judged, Refused> {
    let given = judge.idempotency_key.as_ref();
    let named = named("submit_verdict", &context, given, &judge)?;
    let reviewer = maybe("reviewer_id", judge.reviewer_id)?;
    let who = service.who(reviewer.as_deref(), &context.caller);
    let review_id = id("review_id", judge.review_id)?;
    let reason = maybe_text("reason", judge.reason)?;
    let acted = service
        .verdict(
            review_id,
            who,
            named,
            judge.claim_generation,
            judge.decision,
            reason,
        )
        .await?;
    match acted.added {
        Some(Attachment::Verdict(verdict)) => Ok(Judged {
            verdict,
            review: acted.review,
            repeated: acted.repeated,
        }),
        _ => Err(Refused::new("internal", "the verdict was not kept")),
    }
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Close {
    review_id: String,
    /// Names this call: repeating it after a lost answer gives the closed review again.
    idempotency_key: Option<String>,
}

async fn close_review(
    service: Arc<Service>,
    context: ToolContext,
    close: Close,
) -> Result<Review, Refused> {
    let given = close.idempotency_key.as_ref();
    let named = named("close_review", &context, given, &close)?;
    let review_id = id("review_id", close.review_id)?;
    let who = service.who(None, &context.caller);
    let closing = service.close(review_id, who, named);
    Ok(closing.await?.review)
}
