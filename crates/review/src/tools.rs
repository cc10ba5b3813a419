//! The tools of the broker: one declaration each, in four groups and an extended one.
//!
//! A tool checks its arguments, calls the service and returns whole documents, so that the caller
//! sees the review as it is now without asking again.

mod arguments;
mod discussion;
mod extended;
mod proposal;
mod review;
mod status;

use std::sync::Arc;

use crate::store::{self, DIFF_PAGE, DiffRange, Page};
use futures_util::FutureExt;
use sentinel_core::builtin::{Builtin, Documents, Refused, Tool};
use sentinel_core::random::is_uuid;
use serde_json::json;

use crate::service::{Service, refused};

/// The backend's name: `/mcp/review`.
pub const NAME: &str = "review";

const INSTRUCTIONS: &str = "Code review between agents. Proposer: submit_proposal, then \
get_review_status with since and wait_ms until the status changes; read get_messages and get_patch, \
answer with post_message; when approved, apply the agreed diff yourself and close_review; when rejected, \
submit again with parent_id. Reviewer: list_pending with wait_ms, claim_review, get_proposal, then \
post_message or submit_patch, and submit_verdict with your claim_generation. Clients that follow resources may \
subscribe to review://{review_id} in place of waiting.";

/// The names of the tools.
pub fn names(extended: bool) -> Vec<&'static str> {
    let tools = declared(extended).into_iter();
    tools.map(|tool| tool.name()).collect()
}

fn declared(extended: bool) -> Vec<Tool<Service>> {
    let mut tools = Vec::new();
    tools.extend(proposal::tools());
    tools.extend(review::tools());
    tools.extend(discussion::tools());
    tools.extend(status::tools());
    if extended {
        tools.extend(extended::tools());
    }
    tools
}

/// All tools over a service, as a backend.
pub fn backend(service: Arc<Service>) -> Builtin<Service> {
    let tools = declared(service.has_extended_tools());
    let info = json!({
        "name": "gsd-review-broker",
        "title": "Sentinel review broker",
        "version": env!("CARGO_PKG_VERSION"),
    });
    Builtin::new(NAME, info, INSTRUCTIONS, service, tools).with_documents(Documents {
        uri_template: "review://{id}",
        name: "review",
        description: "A whole review: proposal, discussion, patches, verdicts, resubmissions.",
        mime_type: "application/json",
        read: |service, uri| document(service, uri).boxed(),
    })
}

/// Messages that the document of a review shows; the rest is paged by `get_messages`.
const DOCUMENT_MESSAGES: u64 = 500;

async fn document(service: Arc<Service>, uri: String) -> Result<Option<String>, Refused> {
    let Some(id) = store::id_of(&uri).filter(|id| is_uuid(id)) else {
        return Ok(None);
    };
    let proposal = match proposal::whole(&service, id.to_owned(), None, None).await {
        Err(missing) if missing.kind == "not_found" => return Ok(None),
        other => other?,
    };
    let page = Page {
        offset: 0,
        limit: DOCUMENT_MESSAGES,
    };
    let (store, id) = (&service.store, id.to_owned());
    let messages = store.messages(id.clone(), page).await.map_err(refused)?;
    let first = DiffRange {
        offset: 0,
        limit: DIFF_PAGE,
    };
    let patches = store.patches(id, first).await.map_err(refused)?;
    let document = json!({
        "proposal": proposal,
        "messages": messages.items,
        "message_count": messages.total,
        "patches": patches,
    });
    Ok(Some(document.to_string()))
}
