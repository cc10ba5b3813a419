//! The tools of `review.extended_tools`: history, statistics, and judgements of patches.

use std::sync::Arc;

use crate::store::{Addition, DIFF_PAGE, DiffRange, Event, Patch, Review, Statistics};
use schemars::JsonSchema;
use sentinel_core::builtin::{Effect, Refused, Tool, ToolContext, ToolDeclaration};
use serde::{Deserialize, Serialize};

use super::arguments::{fit, id, maybe, page};
use crate::service::{Service, refused};

pub(super) fn tools() -> Vec<Tool<Service>> {
    let about = |name, title, description, tags, effect| ToolDeclaration {
        name,
        title,
        description,
        tags,
        effect,
    };
    vec![
        Tool::new(
            about(
                "get_review_timeline",
                "Read a review's history",
                "Everything that happened to a review, in order: who did what, and the statuses before and after.",
                &["status"],
                Effect::Reads,
            ),
            get_review_timeline,
        ),
        Tool::new(
            about(
                "get_review_stats",
                "Read figures",
                "How many reviews there are by status and category, the approval rate, and mean times to verdict and \
close. Unknown figures are absent.",
                &["status"],
                Effect::Reads,
            ),
            get_review_stats,
        ),
        Tool::new(
            about(
                "get_audit_log",
                "Read the history of all reviews",
                "The events of all reviews in order, in pages; each is chained to the one before by a hash.",
                &["status"],
                Effect::Reads,
            ),
            get_audit_log,
        ),
        Tool::new(
            about(
                "accept_patch",
                "Accept a patch",
                "Say as the proposer that you will apply this patch. Nothing is applied here.",
                &["discussion"],
                Effect::Writes,
            ),
            |service, context, judge| judge_patch(service, context, judge, true),
        ),
        Tool::new(
            about(
                "reject_patch",
                "Decline a patch",
                "Say as the proposer that you will not apply this patch.",
                &["discussion"],
                Effect::Writes,
            ),
            |service, context, judge| judge_patch(service, context, judge, false),
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Timeline {
    review_id: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Events {
    items: Vec<Event>,
    total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}

async fn get_review_timeline(
    service: Arc<Service>,
    _: ToolContext,
    get: Timeline,
) -> Result<Events, Refused> {
    let review_id = id("review_id", get.review_id)?;
    events(&service, Some(review_id), get.offset, get.limit).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AuditLog {
    offset: Option<u64>,
    limit: Option<u64>,
}

async fn get_audit_log(
    service: Arc<Service>,
    _: ToolContext,
    get: AuditLog,
) -> Result<Events, Refused> {
    events(&service, None, get.offset, get.limit).await
}

async fn events(
    service: &Service,
    review_id: Option<String>,
    offset: Option<u64>,
    limit: Option<u64>,
) -> Result<Events, Refused> {
    let page = page(offset, limit)?;
    let listed = service
        .store
        .events(review_id, page)
        .await
        .map_err(refused)?;
    let total = listed.total;
    let (items, next_offset) = fit(page, listed);
    Ok(Events {
        items,
        total,
        next_offset,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Stats {
    project: Option<String>,
}

async fn get_review_stats(
    service: Arc<Service>,
    _: ToolContext,
    get: Stats,
) -> Result<Statistics, Refused> {
    let project = maybe("project", get.project)?;
    service.store.statistics(project).await.map_err(refused)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JudgePatch {
    review_id: String,
    patch_id: String,
}

#[derive(Serialize, JsonSchema)]
struct Judged {
    patch: Patch,
    review: Review,
}

async fn judge_patch(
    service: Arc<Service>,
    context: ToolContext,
    judge: JudgePatch,
    accepted: bool,
) -> Result<Judged, Refused> {
    let review_id = id("review_id", judge.review_id)?;
    let patch_id = id("patch_id", judge.patch_id)?;
    let addition = Addition::Judgement {
        patch_id: patch_id.clone(),
        accepted,
    };
    let acted = service
        .add(
            review_id.clone(),
            service.who(None, &context.caller),
            None,
            addition,
        )
        .await?;
    let first = DiffRange {
        offset: 0,
        limit: DIFF_PAGE,
    };
    let patch = service
        .store
        .patch(review_id, patch_id, first)
        .await
        .map_err(refused)?;
    Ok(Judged {
        patch,
        review: acted.review,
    })
}
