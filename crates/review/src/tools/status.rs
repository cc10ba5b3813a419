//! Tools of the tag `status`.

use std::sync::Arc;

use crate::store::{Category, ListOrder, Priority, Review, ReviewFilter, ReviewStatus};
use schemars::JsonSchema;
use sentinel_core::builtin::{Effect, Refused, Tool, ToolContext, ToolDeclaration};
use serde::{Deserialize, Serialize};

use super::arguments::{Since, fit, id, maybe, options, page, projects, status_filter};
use crate::service::{Service, refused};

const TAGS: &[&str] = &["status"];

pub(super) fn tools() -> Vec<Tool<Service>> {
    let status = ToolDeclaration {
        name: "get_review_status",
        title: "Ask where a review stands",
        description: "Where a review stands. To wait for news pass since (the status or version you saw last) and \
wait_ms: the answer comes as soon as the review differs from that, or when the time is over. Without since it comes at \
once; then ask every 2 to 3 seconds.",
        tags: TAGS,
        effect: Effect::Reads,
    };
    let pending = ToolDeclaration {
        name: "list_pending",
        title: "List reviews that wait for a reviewer",
        description: "Reviews that nobody has claimed, most urgent first, then oldest first. With wait_ms the answer \
comes when there is one, or, with since = the queue_version you saw last, when the queue has changed.",
        tags: TAGS,
        effect: Effect::Reads,
    };
    let list = ToolDeclaration {
        name: "list_reviews",
        title: "List reviews",
        description: "List reviews by status, category, priority, project or agent_type, in pages: repeat with offset = \
next_offset.",
        tags: TAGS,
        effect: Effect::Reads,
    };
    vec![
        Tool::new(list, list_reviews),
        Tool::new(status, get_review_status),
        Tool::new(pending, list_pending),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetStatus {
    review_id: String,
    /// What you saw last: a status such as created, or a version number.
    since: Option<Since>,
    /// How long to wait for news, in milliseconds, at most 25000.
    wait_ms: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Standing {
    review_id: String,
    status: ReviewStatus,
    version: u64,
    claim_generation: u64,
    updated_at: String,
}

async fn get_review_status(
    service: Arc<Service>,
    context: ToolContext,
    get: GetStatus,
) -> Result<Standing, Refused> {
    let options = options(&context, get.wait_ms)?;
    let since = get.since.map(Since::known).transpose()?;
    let review = service
        .status(id("review_id", get.review_id)?, since, options)
        .await?;
    Ok(Standing {
        review_id: review.review_id,
        status: review.status,
        version: review.version,
        claim_generation: review.claim_generation,
        updated_at: review.updated_at,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListPending {
    /// Only this project.
    project: Option<String>,
    /// Only these projects.
    projects: Option<Vec<String>>,
    category: Option<Category>,
    /// The queue_version you saw last.
    since: Option<u64>,
    /// How long to wait, in milliseconds, at most 25000.
    wait_ms: Option<u64>,
    offset: Option<u64>,
    /// Reviews to return, at most 200; 50 when absent.
    limit: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Pending {
    items: Vec<Review>,
    total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Grows whenever the queue changes; pass it as since.
    queue_version: u64,
}

async fn list_pending(
    service: Arc<Service>,
    context: ToolContext,
    list: ListPending,
) -> Result<Pending, Refused> {
    let page = page(list.offset, list.limit)?;
    let filter = ReviewFilter {
        statuses: vec![ReviewStatus::Created],
        category: list.category,
        projects: projects(list.project, list.projects)?,
        ..ReviewFilter::default()
    };
    let (listed, queue_version) = service
        .pending(filter, page, list.since, options(&context, list.wait_ms)?)
        .await?;
    let total = listed.total;
    let (items, next_offset) = fit(page, listed);
    Ok(Pending {
        items,
        total,
        next_offset,
        queue_version,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListReviews {
    /// created, claimed, in_discussion, approved, rejected or closed.
    status: Option<String>,
    category: Option<Category>,
    priority: Option<Priority>,
    /// Only this project.
    project: Option<String>,
    /// Only these projects.
    projects: Option<Vec<String>>,
    agent_type: Option<String>,
    /// Only resubmissions of this review.
    parent_id: Option<String>,
    /// Latest change first, in place of most urgent and oldest first.
    recent_first: Option<bool>,
    offset: Option<u64>,
    /// Reviews to return, at most 200; 50 when absent.
    limit: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Reviews {
    items: Vec<Review>,
    total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}

async fn list_reviews(
    service: Arc<Service>,
    _: ToolContext,
    list: ListReviews,
) -> Result<Reviews, Refused> {
    let page = page(list.offset, list.limit)?;
    let filter = ReviewFilter {
        statuses: list
            .status
            .as_deref()
            .map(status_filter)
            .transpose()?
            .into_iter()
            .collect(),
        category: list.category,
        priority: list.priority,
        projects: projects(list.project, list.projects)?,
        agent_type: maybe("agent_type", list.agent_type)?,
        parent_id: list
            .parent_id
            .map(|parent| id("parent_id", parent))
            .transpose()?,
        order: if list.recent_first == Some(true) {
            ListOrder::Recent
        } else {
            ListOrder::Urgency
        },
    };
    let listed = service.store.list(filter, page).await.map_err(refused)?;
    let total = listed.total;
    let (items, next_offset) = fit(page, listed);
    Ok(Reviews {
        items,
        total,
        next_offset,
    })
}
