//! Rows of either database as documents.

use rusqlite::RowIndex;
use rusqlite::types::Type;
use sentinel_core::clock::iso;
use sentinel_core::review::{
    AffectedFile, Category, DIFF_PAGE, Decision, Event, Lease, Message, Patch, Priority, Review,
    Role, Slice, Status, Verdict,
};

/// Diffs in one answer that has several.
const DIFFS_BYTES: u64 = 4 * DIFF_PAGE;

pub(super) const REVIEW: &str = "id, status, version, intent, description, agent_type, phase, plan, \
    task, project, category, priority, proposed_by, claimed_by, claim_generation, lease_boot_id, \
    lease_boot_ms, lease_wall_ms, parent_id, affected_files, message_count, patch_count, created_at, \
    updated_at";

pub(super) const MESSAGE: &str = "id, review_id, role, body, posted_by, created_at";
pub(super) const VERDICT: &str = "id, review_id, decision, reason, given_by, created_at";
pub(super) const PATCH: &str = "id, review_id, role, description, diff, affected_files, accepted, \
    submitted_by, created_at";
pub(super) const EVENT: &str =
    "seq, review_id, event, actor, old_status, new_status, about_id, detail, created_at";

/// A row of either database, by column. Only what our tables hold.
pub(super) trait Cells {
    type Error;

    fn maybe_text(&self, at: &str) -> Result<Option<String>, Self::Error>;
    fn maybe_number(&self, at: &str) -> Result<Option<i64>, Self::Error>;
    fn maybe_flag(&self, at: &str) -> Result<Option<bool>, Self::Error>;
    /// What only we wrote, behind a CHECK, and is something else: a damaged table.
    fn unreadable(&self, at: &str) -> Self::Error;

    fn text(&self, at: &str) -> Result<String, Self::Error> {
        self.maybe_text(at)?.ok_or_else(|| self.unreadable(at))
    }

    fn number(&self, at: &str) -> Result<i64, Self::Error> {
        self.maybe_number(at)?.ok_or_else(|| self.unreadable(at))
    }

    /// Counts and sizes are never negative.
    fn count(&self, at: &str) -> Result<u64, Self::Error> {
        Ok(self.number(at)?.max(0) as u64)
    }

    fn word<T>(&self, at: &str, parse: fn(&str) -> Option<T>) -> Result<T, Self::Error> {
        parse(&self.text(at)?).ok_or_else(|| self.unreadable(at))
    }

    fn files(&self) -> Result<Vec<AffectedFile>, Self::Error> {
        serde_json::from_str(&self.text("affected_files")?)
            .map_err(|_| self.unreadable("affected_files"))
    }
}

impl Cells for rusqlite::Row<'_> {
    type Error = rusqlite::Error;

    fn maybe_text(&self, at: &str) -> rusqlite::Result<Option<String>> {
        self.get(at)
    }

    fn maybe_number(&self, at: &str) -> rusqlite::Result<Option<i64>> {
        self.get(at)
    }

    fn maybe_flag(&self, at: &str) -> rusqlite::Result<Option<bool>> {
        self.get(at)
    }

    fn unreadable(&self, at: &str) -> rusqlite::Error {
        let index = at.idx(self.as_ref()).unwrap_or(0);
        rusqlite::Error::InvalidColumnType(index, at.to_owned(), Type::Text)
    }
}

pub(super) fn review<R: Cells>(row: &R) -> Result<Review, R::Error> {
    let lease = match row.maybe_text("lease_boot_id")? {
        Some(boot_id) => Some(Lease {
            boot_id,
            boot_until_ms: row.number("lease_boot_ms")?,
            wall_until_ms: row.number("lease_wall_ms")?,
        }),
        None => None,
    };
    Ok(Review {
        review_id: row.text("id")?,
        status: row.word("status", Status::parse)?,
        version: row.count("version")?,
        intent: row.text("intent")?,
        description: row.maybe_text("description")?,
        agent_type: row.text("agent_type")?,
        phase: row.text("phase")?,
        plan: row.maybe_text("plan")?,
        task: row.maybe_text("task")?,
        project: row.maybe_text("project")?,
        category: row.word("category", Category::parse)?,
        priority: priority(row.number("priority")?).ok_or_else(|| row.unreadable("priority"))?,
        proposed_by: row.text("proposed_by")?,
        claimed_by: row.maybe_text("claimed_by")?,
        claim_generation: row.count("claim_generation")?,
        claim_expires_at: lease.as_ref().map(|lease| iso(lease.wall_until_ms)),
        parent_id: row.maybe_text("parent_id")?,
        affected_files: row.files()?,
        message_count: row.count("message_count")?,
        patch_count: row.count("patch_count")?,
        created_at: row.text("created_at")?,
        updated_at: row.text("updated_at")?,
        lease,
    })
}

fn priority(number: i64) -> Option<Priority> {
    Priority::ALL.get(usize::try_from(number).ok()?).copied()
}

pub(super) fn message<R: Cells>(row: &R) -> Result<Message, R::Error> {
    Ok(Message {
        message_id: row.text("id")?,
        review_id: row.text("review_id")?,
        role: row.word("role", Role::parse)?,
        body: row.text("body")?,
        posted_by: row.text("posted_by")?,
        created_at: row.text("created_at")?,
    })
}

pub(super) fn verdict<R: Cells>(row: &R) -> Result<Verdict, R::Error> {
    Ok(Verdict {
        verdict_id: row.text("id")?,
        review_id: row.text("review_id")?,
        decision: row.word("decision", Decision::parse)?,
        reason: row.maybe_text("reason")?,
        given_by: row.text("given_by")?,
        created_at: row.text("created_at")?,
    })
}

pub(super) fn patch<R: Cells>(row: &R, slice: Slice) -> Result<Patch, R::Error> {
    let whole = row.text("diff")?;
    let (diff, next_offset) = cut(&whole, slice);
    Ok(Patch {
        patch_id: row.text("id")?,
        review_id: row.text("review_id")?,
        role: row.word("role", Role::parse)?,
        description: row.maybe_text("description")?,
        diff: diff.to_owned(),
        diff_bytes: whole.len() as u64,
        next_offset,
        affected_files: row.files()?,
        accepted: row.maybe_flag("accepted")?,
        submitted_by: row.text("submitted_by")?,
        created_at: row.text("created_at")?,
    })
}

/// Reads the patches of a review one after the other, within what one answer may hold: the diffs of
/// those beyond are left out, to be read by themselves from `next_offset` on.
pub(super) struct Patches {
    slice: Slice,
    left: u64,
}

impl Patches {
    pub(super) fn new(slice: Slice) -> Self {
        let left = DIFFS_BYTES.max(slice.limit);
        Self { slice, left }
    }

    pub(super) fn read<R: Cells>(&mut self, row: &R) -> Result<Patch, R::Error> {
        let mut patch = patch(row, self.slice)?;
        match self.left.checked_sub(patch.diff.len() as u64) {
            Some(left) => self.left = left,
            None => {
                patch.diff.clear();
                patch.next_offset = Some(self.slice.offset);
            }
        }
        Ok(patch)
    }
}

/// The part of a diff that was asked for, and where the next begins. Parts end between characters,
/// so that putting them together gives the whole; each has at least one character.
pub(super) fn cut(whole: &str, slice: Slice) -> (&str, Option<u64>) {
    let start = whole.ceil_char_boundary((slice.offset as usize).min(whole.len()));
    let wanted = start.saturating_add(slice.limit as usize).min(whole.len());
    let mut end = whole.floor_char_boundary(wanted);
    if end <= start {
        end = whole.ceil_char_boundary((start + 1).min(whole.len()));
    }
    (
        &whole[start..end],
        (end < whole.len()).then_some(end as u64),
    )
}

pub(super) fn event<R: Cells>(row: &R) -> Result<Event, R::Error> {
    let status = |at: &str| -> Result<Option<Status>, R::Error> {
        Ok(row.maybe_text(at)?.as_deref().and_then(Status::parse))
    };
    let detail = row.maybe_text("detail")?;
    Ok(Event {
        seq: row.count("seq")?,
        review_id: row.text("review_id")?,
        event: row.text("event")?,
        actor: row.text("actor")?,
        old_status: status("old_status")?,
        new_status: status("new_status")?,
        about_id: row.maybe_text("about_id")?,
        detail: detail.and_then(|text| serde_json::from_str(&text).ok()),
        created_at: row.text("created_at")?,
    })
}
