//! Converts rows of either database to documents.

use rusqlite::types::Type;
use sentinel_core::clock::iso;
use sentinel_review::store::{
    AffectedFile, Category, DIFF_PAGE, Decision, DiffRange, Event, Lease, Message, Patch, Priority,
    Review, ReviewStatus, Role, Verdict,
};

/// Bytes of diffs in an answer with several of them.
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

/// A row of either database, read by column index, since searching a name takes longer than reading. Only the types
/// in our tables.
pub(super) trait Cells {
    type Error;

    fn maybe_text(&self, at: usize) -> Result<Option<String>, Self::Error>;
    fn maybe_number(&self, at: usize) -> Result<Option<i64>, Self::Error>;
    fn maybe_flag(&self, at: usize) -> Result<Option<bool>, Self::Error>;
    /// A value that a CHECK forbids: a damaged table.
    fn unreadable(&self, at: usize) -> Self::Error;

    fn text(&self, at: usize) -> Result<String, Self::Error> {
        self.maybe_text(at)?.ok_or_else(|| self.unreadable(at))
    }

    fn number(&self, at: usize) -> Result<i64, Self::Error> {
        self.maybe_number(at)?.ok_or_else(|| self.unreadable(at))
    }

    /// Counts and sizes are never negative.
    fn count(&self, at: usize) -> Result<u64, Self::Error> {
        Ok(self.number(at)?.max(0) as u64)
    }

    fn word<T>(&self, at: usize, parse: fn(&str) -> Option<T>) -> Result<T, Self::Error> {
        parse(&self.text(at)?).ok_or_else(|| self.unreadable(at))
    }

    fn files(&self, at: usize) -> Result<Vec<AffectedFile>, Self::Error> {
        serde_json::from_str(&self.text(at)?).map_err(|_| self.unreadable(at))
    }
}

impl Cells for rusqlite::Row<'_> {
    type Error = rusqlite::Error;

    fn maybe_text(&self, at: usize) -> rusqlite::Result<Option<String>> {
        self.get(at)
    }

    fn maybe_number(&self, at: usize) -> rusqlite::Result<Option<i64>> {
        self.get(at)
    }

    fn maybe_flag(&self, at: usize) -> rusqlite::Result<Option<bool>> {
        self.get(at)
    }

    fn unreadable(&self, at: usize) -> rusqlite::Error {
        let name = self.as_ref().column_name(at).unwrap_or_default();
        rusqlite::Error::InvalidColumnType(at, name.to_owned(), Type::Text)
    }
}

/// The columns of `REVIEW`.
pub(super) fn review<R: Cells>(row: &R) -> Result<Review, R::Error> {
    let lease = match row.maybe_text(15)? {
        Some(boot_id) => Some(Lease {
            boot_id,
            boot_until_ms: row.number(16)?,
            wall_until_ms: row.number(17)?,
        }),
        None => None,
    };
    Ok(Review {
        review_id: row.text(0)?,
        status: row.word(1, ReviewStatus::parse)?,
        version: row.count(2)?,
        intent: row.text(3)?,
        description: row.maybe_text(4)?,
        agent_type: row.text(5)?,
        phase: row.text(6)?,
        plan: row.maybe_text(7)?,
        task: row.maybe_text(8)?,
        project: row.maybe_text(9)?,
        category: row.word(10, Category::parse)?,
        priority: priority(row.number(11)?).ok_or_else(|| row.unreadable(11))?,
        proposed_by: row.text(12)?,
        claimed_by: row.maybe_text(13)?,
        claim_generation: row.count(14)?,
        claim_expires_at: lease.as_ref().map(|lease| iso(lease.wall_until_ms)),
        parent_id: row.maybe_text(18)?,
        affected_files: row.files(19)?,
        message_count: row.count(20)?,
        patch_count: row.count(21)?,
        created_at: row.text(22)?,
        updated_at: row.text(23)?,
        lease,
    })
}

/// `REVIEW` and its last event, as SQLite keeps it.
pub(super) fn review_and_last_seq(row: &rusqlite::Row<'_>) -> rusqlite::Result<(Review, i64)> {
    Ok((review(row)?, row.get(24)?))
}

fn priority(number: i64) -> Option<Priority> {
    Priority::ALL.get(usize::try_from(number).ok()?).copied()
}

pub(super) fn message<R: Cells>(row: &R) -> Result<Message, R::Error> {
    Ok(Message {
        message_id: row.text(0)?,
        review_id: row.text(1)?,
        role: row.word(2, Role::parse)?,
        body: row.text(3)?,
        posted_by: row.text(4)?,
        created_at: row.text(5)?,
    })
}

pub(super) fn verdict<R: Cells>(row: &R) -> Result<Verdict, R::Error> {
    Ok(Verdict {
        verdict_id: row.text(0)?,
        review_id: row.text(1)?,
        decision: row.word(2, Decision::parse)?,
        reason: row.maybe_text(3)?,
        given_by: row.text(4)?,
        created_at: row.text(5)?,
    })
}

pub(super) fn patch<R: Cells>(row: &R, slice: DiffRange) -> Result<Patch, R::Error> {
    let whole = row.text(4)?;
    let (diff, next_offset) = cut(&whole, slice);
    Ok(Patch {
        patch_id: row.text(0)?,
        review_id: row.text(1)?,
        role: row.word(2, Role::parse)?,
        description: row.maybe_text(3)?,
        diff: diff.to_owned(),
        diff_bytes: whole.len() as u64,
        next_offset,
        affected_files: row.files(5)?,
        accepted: row.maybe_flag(6)?,
        submitted_by: row.text(7)?,
        created_at: row.text(8)?,
    })
}

/// Reads the patches of a review in order, within the bound of one answer: the diffs beyond it are left out and can
/// be read separately from `next_offset` on.
pub(super) struct Patches {
    slice: DiffRange,
    left: u64,
}

impl Patches {
    pub(super) fn new(slice: DiffRange) -> Self {
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

/// The requested part of a diff, and where the next begins. Parts end between characters and have at least one, so
/// concatenating them gives the whole.
pub(super) fn cut(whole: &str, slice: DiffRange) -> (&str, Option<u64>) {
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
    let status = |at: usize| -> Result<Option<ReviewStatus>, R::Error> {
        Ok(row.maybe_text(at)?.as_deref().and_then(ReviewStatus::parse))
    };
    let detail = row.maybe_text(7)?;
    Ok(Event {
        seq: row.count(0)?,
        review_id: row.text(1)?,
        event: row.text(2)?,
        actor: row.text(3)?,
        old_status: status(4)?,
        new_status: status(5)?,
        about_id: row.maybe_text(6)?,
        detail: detail.and_then(|text| serde_json::from_str(&text).ok()),
        created_at: row.text(8)?,
    })
}
