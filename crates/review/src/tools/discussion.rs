//! Tools of the tag `discussion`.

use std::sync::Arc;

use crate::store::{
    ActionOutcome, Addition, Attachment, Message, Patch, Review, ReviewStatus, Role, WriteKey,
};
use schemars::JsonSchema;
use sentinel_core::builtin::{Effect, Refused, Tool, ToolContext, ToolDeclaration};
use serde::{Deserialize, Serialize};

use super::arguments::{fit, id, invalid, maybe, maybe_text, named, page, slice, text};
use crate::diff;
use crate::service::{Service, refused};

const TAGS: &[&str] = &["discussion"];

pub(super) fn tools() -> Vec<Tool<Service>> {
    let post = ToolDeclaration {
        name: "post_message",
        title: "Post a message",
        description: "Say something in the discussion of a claimed review: a question, a requested change, an answer. \
Moves the review to `in_discussion`. Messages cannot be changed or deleted.",
        tags: TAGS,
        effect: Effect::Writes,
    };
    let messages = ToolDeclaration {
        name: "get_messages",
        title: "Read the discussion",
        description: "Read the messages of a review in the order they were posted. Long threads come in pages: repeat \
with offset = next_offset.",
        tags: TAGS,
        effect: Effect::Reads,
    };
    let patch = ToolDeclaration {
        name: "submit_patch",
        title: "Attach a patch",
        description: "Attach an alternative unified diff to a claimed review. It is stored for the proposer to read \
and judge; nothing is applied and the status stays.",
        tags: TAGS,
        effect: Effect::Writes,
    };
    let patches = ToolDeclaration {
        name: "get_patch",
        title: "Read the patches",
        description: "Read all diffs of a review in order: the original first, then alternatives. A diff above 256 KiB \
is cut, and so are the last of many: repeat with patch_id and offset = next_offset.",
        tags: TAGS,
        effect: Effect::Reads,
    };
    vec![
        Tool::new(post, post_message),
        Tool::new(messages, get_messages),
        Tool::new(patch, submit_patch),
        Tool::new(patches, get_patch),
    ]
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Post {
    review_id: String,
    /// What you say. Markdown.
    body: String,
    /// Which side you are on.
    role: Role,
    /// Your name, if you claimed with one; it renews the claim.
    reviewer_id: Option<String>,
    /// Names this message: repeating it after a lost answer does not post twice.
    idempotency_key: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Posted {
    message: Message,
    review: Review,
    /// This was posted before; nothing was added.
    repeated: bool,
}

async fn post_message(
    service: Arc<Service>,
    context: ToolContext,
    post: Post,
) -> Result<Posted, Refused> {
    let key = named(
        "post_message",
        &context,
        post.idempotency_key.as_ref(),
        &post,
    )?;
    let addition = Addition::Message {
        role: post.role,
        body: text("body", post.body)?,
    };
    let acted = add(
        &service,
        &context,
        post.review_id,
        post.reviewer_id,
        key,
        addition,
    )
    .await?;
    match acted.added {
        Some(Attachment::Message(message)) => Ok(Posted {
            message,
            review: acted.review,
            repeated: acted.repeated,
        }),
        _ => Err(Refused::new("internal", "the message was not kept")),
    }
}

/// Adds to a review in the name of the caller.
async fn add(
    service: &Service,
    context: &ToolContext,
    review_id: String,
    reviewer_id: Option<String>,
    key: Option<WriteKey>,
    addition: Addition,
) -> Result<ActionOutcome, Refused> {
    let review_id = id("review_id", review_id)?;
    let reviewer = maybe("reviewer_id", reviewer_id)?;
    let who = service.who(reviewer.as_deref(), &context.caller);
    service.add(review_id, who, key, addition).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetMessages {
    review_id: String,
    /// Messages to skip.
    offset: Option<u64>,
    /// Messages to return, at most 200; 50 when absent.
    limit: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Messages {
    review_id: String,
    status: ReviewStatus,
    /// The review's version as of these messages, for `since`.
    version: u64,
    items: Vec<Message>,
    total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}

async fn get_messages(
    service: Arc<Service>,
    _: ToolContext,
    get: GetMessages,
) -> Result<Messages, Refused> {
    let page = page(get.offset, get.limit)?;
    let id = id("review_id", get.review_id)?;
    // The version first: a wait from it on then repeats a message rather than missing one.
    let review = service.store.get(id.clone()).await.map_err(refused)?;
    let listed = service.store.messages(id, page).await.map_err(refused)?;
    let total = listed.total;
    let (items, next_offset) = fit(page, listed);
    Ok(Messages {
        review_id: review.review_id,
        status: review.status,
        version: review.version,
        items,
        total,
        next_offset,
    })
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SubmitPatch {
    review_id: String,
    /// The alternative as a unified diff with relative paths, at most 3 MiB.
    diff: String,
    /// Which side you are on.
    role: Role,
    /// What this patch does differently.
    description: Option<String>,
    /// Your name, if you claimed with one; it renews the claim.
    reviewer_id: Option<String>,
    /// Names this patch: repeating it after a lost answer does not attach twice.
    idempotency_key: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Patched {
    patch: Patch,
    review: Review,
    /// This was attached before; nothing was added.
    repeated: bool,
}

async fn submit_patch(
    service: Arc<Service>,
    context: ToolContext,
    submit: SubmitPatch,
) -> Result<Patched, Refused> {
    let given = submit.idempotency_key.as_ref();
    let key = named("submit_patch", &context, given, &submit)?;
    let addition = Addition::Patch {
        role: submit.role,
        description: maybe_text("description", submit.description)?,
        affected_files: diff::check(&submit.diff)?,
        diff: submit.diff,
    };
    let (review_id, reviewer_id) = (submit.review_id, submit.reviewer_id);
    let acted = add(&service, &context, review_id, reviewer_id, key, addition).await?;
    match acted.added {
        Some(Attachment::Patch(patch)) => Ok(Patched {
            patch,
            review: acted.review,
            repeated: acted.repeated,
        }),
        _ => Err(Refused::new("internal", "the patch was not kept")),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetPatch {
    review_id: String,
    /// Only this patch.
    patch_id: Option<String>,
    /// Where to begin in a large diff, in bytes; with patch_id.
    offset: Option<u64>,
    /// Bytes of each diff to return, at most 262144.
    limit: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Patches {
    review_id: String,
    patches: Vec<Patch>,
}

async fn get_patch(
    service: Arc<Service>,
    _: ToolContext,
    get: GetPatch,
) -> Result<Patches, Refused> {
    let slice = slice(get.offset, get.limit)?;
    let review_id = id("review_id", get.review_id)?;
    let patches = match get.patch_id {
        Some(patch_id) => {
            let patch_id = id("patch_id", patch_id)?;
            let patch = service.store.patch(review_id.clone(), patch_id, slice);
            vec![patch.await.map_err(refused)?]
        }
        None if slice.offset > 0 => {
            return Err(invalid("offset goes with patch_id: which diff is meant?"));
        }
        None => service
            .store
            .patches(review_id.clone(), slice)
            .await
            .map_err(refused)?,
    };
    Ok(Patches { review_id, patches })
}
