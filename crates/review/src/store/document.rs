//! The documents of a review, as stores keep them and tools return them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use sentinel_core::clock::Moment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An enum that is stored and shown as text.
macro_rules! text_enum {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[schemars(inline)]
        pub enum $name { $($(#[$of])* $variant,)+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

text_enum! {
    /// The status of a review.
    ReviewStatus {
        Created = "created",
        Claimed = "claimed",
        InDiscussion = "in_discussion",
        Approved = "approved",
        Rejected = "rejected",
        Closed = "closed",
    }
}

impl ReviewStatus {
    /// Parses a status in a filter, where names of other brokers are accepted too.
    pub fn parse_in_filter(text: &str) -> Option<Self> {
        match text {
            "pending" => Some(Self::Created),
            "changes_requested" => Some(Self::Rejected),
            other => Self::parse(other),
        }
    }
}

text_enum! {
    /// The side of an author; checked only where roles are enforced.
    Role { Proposer = "proposer", Reviewer = "reviewer", }
}

text_enum! {
    Decision { Approved = "approved", Rejected = "rejected", }
}

text_enum! {
    /// Most urgent first.
    Priority { Critical = "critical", Normal = "normal", Low = "low", }
}

text_enum! {
    Category {
        PlanReview = "plan_review",
        CodeChange = "code_change",
        Verification = "verification",
        Handoff = "handoff",
    }
}

text_enum! {
    FileChange { Create = "create", Modify = "modify", Delete = "delete", Rename = "rename", }
}

/// One file that a diff touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct AffectedFile {
    pub path: String,
    pub change: FileChange,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

/// A review, without its texts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Review {
    pub review_id: String,
    pub status: ReviewStatus,
    /// Grows with every change of this review.
    pub version: u64,
    pub intent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub agent_type: String,
    pub phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    pub category: Category,
    pub priority: Priority,
    /// Who proposed it, as the gateway knows the caller.
    pub proposed_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// How often this review was claimed; the number of the current claim while it has one.
    pub claim_generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_expires_at: Option<String>,
    /// The review that this one follows as a resubmission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    pub affected_files: Vec<AffectedFile>,
    pub message_count: u64,
    pub patch_count: u64,
    pub created_at: String,
    pub updated_at: String,
    #[serde(skip)]
    pub lease: Option<Lease>,
}

/// The end of a claim without activity: in boot time until the machine restarts, in wall time after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub boot_id: String,
    pub boot_until_ms: i64,
    pub wall_until_ms: i64,
}

impl Lease {
    pub fn starting_at(now: &Moment, ms: i64) -> Self {
        Self {
            boot_id: now.boot_id.to_string(),
            boot_until_ms: now.boot_ms + ms,
            wall_until_ms: now.wall_ms + ms,
        }
    }

    pub fn is_over(&self, now: &Moment) -> bool {
        if *self.boot_id == *now.boot_id {
            now.boot_ms >= self.boot_until_ms
        } else {
            now.wall_ms >= self.wall_until_ms
        }
    }
}

/// A message; never changed, never deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Message {
    pub message_id: String,
    pub review_id: String,
    pub role: Role,
    /// Markdown.
    pub body: String,
    /// The caller behind the role, as the gateway knows it.
    pub posted_by: String,
    pub created_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Verdict {
    pub verdict_id: String,
    pub review_id: String,
    pub decision: Decision,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub given_by: String,
    pub created_at: String,
}

/// A unified diff, or a page of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Patch {
    pub patch_id: String,
    pub review_id: String,
    pub role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The unified diff; a part of it when `next_offset` is there or `offset` was given.
    pub diff: String,
    /// Size of the whole diff in bytes.
    pub diff_bytes: u64,
    /// Where the next part begins, in bytes; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    pub affected_files: Vec<AffectedFile>,
    /// Whether the proposer accepted this patch; absent without a judgement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    pub submitted_by: String,
    pub created_at: String,
}

/// One line of a review's history; each is chained to the one before by a hash.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Event {
    pub seq: u64,
    pub review_id: String,
    pub event: String,
    pub actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_status: Option<ReviewStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_status: Option<ReviewStatus>,
    /// The message, patch or verdict that came with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    pub created_at: String,
}

/// Figures over all reviews, or one project's. Unknown is absent, not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Statistics {
    pub total: u64,
    pub by_status: BTreeMap<String, u64>,
    pub by_category: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_rate_pct: Option<f64>,
    /// Mean seconds from proposal to first verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_s_to_verdict: Option<f64>,
    /// Mean seconds from proposal to close.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_s_to_close: Option<f64>,
    /// Mean seconds that a review was in each status, as far as that is over.
    pub mean_s_in_status: BTreeMap<String, f64>,
}
