//! The tamper-evident history: a hash chain over the events of all reviews.
//!
//! Each event's hash covers the previous hash, its own fields and a digest of its text (the message's
//! body, the diff, the verdict). A changed or deleted row breaks the chain from there on. The state of
//! each review must match its last event.

use std::collections::HashSet;

use ring::digest::{Context, SHA256, digest};
use rusqlite::{Connection, OptionalExtension, params};
use sentinel_review::store::{NewEvent, NewReview, Purge, ReviewError, ReviewStatus, VerifyReport};

use super::sql;
use super::write::EventSubject;

pub(super) const START: [u8; 32] = [0; 32];

/// The columns of an event that make its `Link`.
pub(super) const LINK: &str = "seq, review_id, event, actor, old_status, new_status, about_id, content, detail, \
    created_at, hash";

/// The fields of an event that its hash covers, besides the previous hash.
pub(super) struct Link<'a> {
    pub(super) seq: i64,
    pub(super) review_id: &'a str,
    pub(super) event: &'a str,
    pub(super) actor: &'a str,
    pub(super) old_status: Option<&'a str>,
    pub(super) new_status: Option<&'a str>,
    pub(super) about_id: Option<&'a str>,
    pub(super) content: Option<&'a [u8]>,
    pub(super) detail: Option<&'a str>,
    pub(super) created_at: &'a str,
}

impl<'a> Link<'a> {
    /// The event with this number, as it is about to be written. `detail` is the text of the event's detail.
    pub(super) fn of_new(
        seq: i64,
        event: &NewEvent,
        about: &'a EventSubject,
        (review_id, actor): (&'a str, &'a str),
        detail: Option<&'a str>,
        created_at: &'a str,
    ) -> Self {
        Self {
            seq,
            review_id,
            event: event.event,
            actor,
            old_status: event.old_status.map(ReviewStatus::as_str),
            new_status: event.new_status.map(ReviewStatus::as_str),
            about_id: about.id.as_deref(),
            content: about.content.as_ref().map(|content| &content[..]),
            detail,
            created_at,
        }
    }

    pub(super) fn hash(&self, before: &[u8]) -> [u8; 32] {
        let mut hash = Context::new(&SHA256);
        hash.update(before);
        hash.update(&self.seq.to_be_bytes());
        let texts = [
            Some(self.review_id),
            Some(self.event),
            Some(self.actor),
            self.old_status,
            self.new_status,
            self.about_id,
            self.detail,
            Some(self.created_at),
        ];
        let fields = texts.into_iter().map(|text| text.map(str::as_bytes));
        for field in fields.chain([self.content]) {
            // Length-prefixed, so that different fields never hash alike; absent differs from empty.
            let length = field.map_or(u64::MAX, |field| field.len() as u64);
            hash.update(&length.to_be_bytes());
            hash.update(field.unwrap_or_default());
        }
        to_array(hash.finish().as_ref())
    }
}

/// An event as it was read, with its hash.
pub(super) struct StoredEvent {
    pub(super) seq: i64,
    pub(super) review_id: String,
    pub(super) event: String,
    pub(super) actor: String,
    pub(super) old_status: Option<String>,
    pub(super) new_status: Option<String>,
    pub(super) about_id: Option<String>,
    pub(super) content: Option<Vec<u8>>,
    pub(super) detail: Option<String>,
    pub(super) created_at: String,
    pub(super) hash: Vec<u8>,
}

impl StoredEvent {
    fn link(&self) -> Link<'_> {
        Link {
            seq: self.seq,
            review_id: &self.review_id,
            event: &self.event,
            actor: &self.actor,
            old_status: self.old_status.as_deref(),
            new_status: self.new_status.as_deref(),
            about_id: self.about_id.as_deref(),
            content: self.content.as_deref(),
            detail: self.detail.as_deref(),
            created_at: &self.created_at,
        }
    }
}

/// The digest of an event's text.
pub(super) fn content(parts: &[&str]) -> [u8; 32] {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(digest(&SHA256, part.as_bytes()).as_ref());
    }
    to_array(hash.finish().as_ref())
}

fn to_array(bytes: &[u8]) -> [u8; 32] {
    bytes.try_into().expect("SHA-256 has 32 bytes")
}

/// The end of the history.
pub(super) struct Head {
    /// The hash to continue from.
    pub(super) hash: [u8; 32],
    /// The next event's number.
    pub(super) next: i64,
    /// The number of the last event that changed the queue.
    pub(super) queue: i64,
}

pub(super) fn last(tx: &Connection) -> Result<Head, ReviewError> {
    let head = |row: &rusqlite::Row<'_>| {
        Ok(Head {
            hash: row.get(0)?,
            next: row.get::<_, i64>(1)? + 1,
            queue: row.get(2)?,
        })
    };
    let found = tx
        .prepare_cached("SELECT hash, seq, queue FROM review_events ORDER BY seq DESC LIMIT 1")
        .and_then(|mut query| query.query_row([], head).optional())
        .map_err(sql)?;
    Ok(found.unwrap_or(Head {
        hash: START,
        next: 1,
        queue: 0,
    }))
}

/// The event of a purged review.
pub(super) const PURGED: &str = "review_purged";

/// The digest over the events of a purged review, part of the purge event.
pub(super) fn covered(hashes: &[Vec<u8>]) -> [u8; 32] {
    let mut hash = Context::new(&SHA256);
    hashes.iter().for_each(|one| hash.update(one));
    to_array(hash.finish().as_ref())
}

/// The hashes of a review's events up to this one, oldest first.
pub(super) fn hashes_to(tx: &Connection, last: i64) -> Result<Vec<Vec<u8>>, ReviewError> {
    tx.prepare_cached(
        "WITH RECURSIVE told (seq) AS (
             SELECT ?1 UNION ALL SELECT e.prev_seq FROM review_events e JOIN told t ON e.seq = t.seq
             WHERE e.prev_seq IS NOT NULL)
         SELECT hash FROM review_events WHERE seq IN (SELECT seq FROM told) ORDER BY seq",
    )
    .and_then(|mut query| query.query_map([last], |row| row.get(0))?.collect())
    .map_err(sql)
}

/// Verifies the whole history in one snapshot; returns its extent or the first error.
pub(super) fn verify(db: &Connection) -> Result<VerifyReport, ReviewError> {
    let reading = db.unchecked_transaction().map_err(sql)?;
    let verified = verify_still(&reading)?;
    // Only ends the snapshot.
    reading.rollback().map_err(sql)?;
    Ok(verified)
}

fn verify_still(tx: &Connection) -> Result<VerifyReport, ReviewError> {
    let check: String = tx
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(sql)?;
    if check != "ok" {
        return Err(broken(format!("integrity check: {check}")));
    }
    let dangling = tx
        .prepare("PRAGMA foreign_key_check")
        .and_then(|mut query| query.exists([]))
        .map_err(sql)?;
    if dangling {
        return Err(broken("a row refers to one that is not there".to_owned()));
    }
    let verified = walk(tx)?;
    states(tx)?;
    Ok(verified)
}

pub(super) fn broken(message: String) -> ReviewError {
    ReviewError::Store {
        kind: "corrupt",
        message,
    }
}

/// The columns of `LINK`.
fn stored(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredEvent> {
    Ok(StoredEvent {
        seq: row.get(0)?,
        review_id: row.get(1)?,
        event: row.get(2)?,
        actor: row.get(3)?,
        old_status: row.get(4)?,
        new_status: row.get(5)?,
        about_id: row.get(6)?,
        content: row.get(7)?,
        detail: row.get(8)?,
        created_at: row.get(9)?,
        hash: row.get(10)?,
    })
}

fn walk(tx: &Connection) -> Result<VerifyReport, ReviewError> {
    let removed = tx
        .prepare("SELECT id FROM purged_reviews")
        .and_then(|mut query| query.query_map([], |row| row.get(0))?.collect())
        .map_err(sql)?;
    let mut query = tx
        .prepare(&format!("SELECT {LINK} FROM review_events ORDER BY seq"))
        .map_err(sql)?;
    let mut rows = query.query([]).map_err(sql)?;
    let mut walker = Walker::new(removed);
    while let Some(row) = rows.next().map_err(sql)? {
        let event = stored(row).map_err(sql)?;
        let found = text_of(tx, &event)?;
        walker.step(&event, found)?;
    }
    let numbered: i64 = tx
        .query_row(
            "SELECT max((SELECT coalesce(max(last_seq), 0) FROM reviews),
                 (SELECT coalesce(max(seq), 0) FROM purged_reviews))",
            [],
            |row| row.get(0),
        )
        .map_err(sql)?;
    walker.end(numbered)
}

/// Follows the events in their order.
pub(super) struct Walker {
    before: Vec<u8>,
    verified: VerifyReport,
    /// Reviews that were purged.
    removed: HashSet<String>,
}

impl Walker {
    pub(super) fn new(removed: HashSet<String>) -> Self {
        Self {
            before: START.to_vec(),
            verified: VerifyReport::default(),
            removed,
        }
    }

    /// Checks one event against its hash and the current digest of its text.
    pub(super) fn step(
        &mut self,
        event: &StoredEvent,
        found: Option<[u8; 32]>,
    ) -> Result<(), ReviewError> {
        let (seq, link) = (event.seq, event.link());
        if link.hash(&self.before)[..] != *event.hash {
            return Err(broken(format!(
                "event {seq} is not what was written after the one before it"
            )));
        }
        let is_purge = link.event == PURGED;
        // A purged text is known by its digest, which the purge event covers.
        let is_gone = !is_purge && self.removed.contains(link.review_id);
        let is_same = found.as_ref().map(|found| &found[..]) == link.content;
        if link.content.is_some() && !is_gone && !is_same {
            return Err(broken(format!("what event {seq} added is not what it was")));
        }
        if is_purge {
            self.note_purge(&link);
        }
        self.before.clone_from(&event.hash);
        self.verified.events += 1;
        Ok(())
    }

    fn note_purge(&mut self, link: &Link<'_>) {
        let purges = &mut self.verified.purges;
        match purges.last_mut() {
            Some(last) if last.at == link.created_at && last.by == link.actor => last.reviews += 1,
            _ => purges.push(Purge {
                at: link.created_at.to_owned(),
                by: link.actor.to_owned(),
                reviews: 1,
            }),
        }
    }

    pub(super) fn ends_with(&self, hash: &[u8]) -> bool {
        self.before == hash
    }

    /// `numbered` is the number of events ever written, which reveals a truncated end.
    pub(super) fn end(self, numbered: i64) -> Result<VerifyReport, ReviewError> {
        let left = self.verified.events;
        if numbered != left as i64 {
            return Err(broken(format!(
                "{numbered} events were written, {left} are left"
            )));
        }
        Ok(self.verified)
    }
}

/// The query for the three texts covered by an event's digest, from the row that the event added, by the same actor
/// at the same time. Its parameters are the row's id, the review's, and the event's number, actor and time.
pub(super) fn text_query(event: &str) -> &'static str {
    match event {
        "message_posted" => {
            "SELECT role, body, '' FROM messages WHERE id = $1 AND review_id = $2 AND seq = $3
                 AND posted_by = $4 AND created_at = $5"
        }
        "verdict_approved" | "verdict_rejected" => {
            "SELECT decision, coalesce(reason, ''), '' FROM verdicts WHERE id = $1 AND review_id = $2
                 AND seq = $3 AND given_by = $4 AND created_at = $5"
        }
        "review_created" => {
            "SELECT p.diff, r.affected_files,
                 length(r.intent) || ':' || r.intent ||
                 length(r.agent_type) || ':' || r.agent_type ||
                 length(r.phase) || ':' || r.phase ||
                 length(coalesce(r.description, '')) || ':' || coalesce(r.description, '') ||
                 length(coalesce(r.plan, '')) || ':' || coalesce(r.plan, '') ||
                 length(coalesce(r.task, '')) || ':' || coalesce(r.task, '') ||
                 length(coalesce(r.project, '')) || ':' || coalesce(r.project, '') ||
                 length(coalesce(r.parent_id, '')) || ':' || coalesce(r.parent_id, '') ||
                 length(r.category) || ':' || r.category ||
                 length(CAST(r.priority AS TEXT)) || ':' || CAST(r.priority AS TEXT)
             FROM patches p JOIN reviews r ON r.id = p.review_id
             WHERE p.id = $1 AND r.id = $2 AND p.seq = $3 AND r.seq = $3
                 AND p.submitted_by = $4 AND r.proposed_by = $4 AND p.created_at = $5 AND r.created_at = $5"
        }
        _ => {
            "SELECT role, diff, coalesce(description, '') FROM patches WHERE id = $1 AND review_id = $2
                 AND seq = $3 AND submitted_by = $4 AND created_at = $5"
        }
    }
}

/// The digest of a new review and its first diff; see `text_query`.
pub(super) fn content_of_new(new: &NewReview, files: &str) -> [u8; 32] {
    let (category, priority) = (new.category.as_str(), (new.priority as i64).to_string());
    let maybe = |text: &'_ Option<String>| text.clone().unwrap_or_default();
    let told: String = [
        &new.intent,
        &new.agent_type,
        &new.phase,
        &maybe(&new.description),
        &maybe(&new.plan),
        &maybe(&new.task),
        &maybe(&new.project),
        &maybe(&new.parent_id),
        category,
        &priority,
    ]
    .iter()
    // Length-prefixed, so that text cannot move between fields.
    .map(|text| format!("{}:{text}", text.chars().count()))
    .collect();
    content(&[&new.diff, files, &told])
}

/// The current digest of the text that an event added.
fn text_of(tx: &Connection, event: &StoredEvent) -> Result<Option<[u8; 32]>, ReviewError> {
    if event.event == PURGED {
        return covered_by(tx, event.seq).map(Some);
    }
    let Some(about) = event.about_id.as_ref().filter(|_| event.content.is_some()) else {
        return Ok(None);
    };
    let (review, actor) = (&event.review_id, &event.actor);
    tx.prepare_cached(text_query(&event.event))
        .and_then(|mut query| {
            query
                .query_row(
                    params![about, review, event.seq, actor, event.created_at],
                    three,
                )
                .optional()
        })
        .map_err(sql)
}

/// The digest of the events before a purge.
fn covered_by(tx: &Connection, purge: i64) -> Result<[u8; 32], ReviewError> {
    let last: Option<i64> = tx
        .prepare_cached("SELECT prev_seq FROM review_events WHERE seq = ?1")
        .and_then(|mut query| query.query_row([purge], |row| row.get(0)))
        .map_err(sql)?;
    Ok(covered(&hashes_to(tx, last.unwrap_or(0))?))
}

fn three(row: &rusqlite::Row<'_>) -> rusqlite::Result<[u8; 32]> {
    let (a, b, c): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(content(&[&a, &b, &c]))
}

/// Finds the first review whose state does not match its history. `{events}` is the history by review, `{judged}` and
/// `{claimant}` read an event's detail; `{more}` is for checks that only one of the databases has.
pub(super) const STATES: &str = "
    SELECT r.id FROM reviews r WHERE {more}
        r.status IS DISTINCT FROM (SELECT e.new_status FROM {events} e
            WHERE e.review_id = r.id AND e.new_status IS NOT NULL ORDER BY e.seq DESC LIMIT 1)
        OR r.claimed_by IS DISTINCT FROM (CASE WHEN r.status = 'created' THEN NULL ELSE
            (SELECT {claimant} FROM {events} e
             WHERE e.review_id = r.id AND e.event = 'review_claimed' ORDER BY e.seq DESC LIMIT 1) END)
        OR r.claim_generation <> (SELECT count(*) FROM {events} e
            WHERE e.review_id = r.id AND e.event = 'review_claimed')
        OR r.message_count <> (SELECT count(*) FROM messages m WHERE m.review_id = r.id)
        OR r.message_count <> (SELECT count(*) FROM {events} e
            WHERE e.review_id = r.id AND e.event = 'message_posted')
        OR r.patch_count <> (SELECT count(*) FROM patches p WHERE p.review_id = r.id)
        OR r.patch_count <> (SELECT count(*) FROM {events} e
            WHERE e.review_id = r.id AND e.event IN ('review_created', 'patch_submitted'))
        OR (SELECT count(*) FROM verdicts v WHERE v.review_id = r.id) <> (SELECT count(*)
            FROM {events} e WHERE e.review_id = r.id AND e.event IN ('verdict_approved', 'verdict_rejected'))
        OR EXISTS (SELECT 1 FROM patches p WHERE p.review_id = r.id AND p.accepted IS DISTINCT FROM
            (SELECT {judged} FROM {events} e WHERE e.review_id = r.id AND e.event = 'patch_judged'
                 AND e.about_id = p.id ORDER BY e.seq DESC LIMIT 1))
    UNION ALL SELECT e.review_id FROM {events} e
        WHERE NOT EXISTS (SELECT 1 FROM reviews r WHERE r.id = e.review_id)
            AND NOT EXISTS (SELECT 1 FROM purged_reviews g WHERE g.id = e.review_id)
    UNION ALL SELECT g.id FROM purged_reviews g
        WHERE EXISTS (SELECT 1 FROM reviews r WHERE r.id = g.id)
            OR 'review_purged' IS DISTINCT FROM (SELECT e.event FROM {events} e
                WHERE e.review_id = g.id AND e.seq = g.seq
                    AND NOT EXISTS (SELECT 1 FROM {events} l WHERE l.review_id = g.id AND l.seq > g.seq))
    LIMIT 1";

/// The history by review. Only this query needs that order, and an index would cost every write a page.
const BY_REVIEW: &str = "
    CREATE TEMP TABLE by_review AS
        SELECT seq, review_id, event, new_status, about_id, detail, prev_seq FROM review_events;
    CREATE INDEX temp.idx_by_review ON by_review (review_id, seq);";

/// The first event that is missing from the list of its review.
const MISPLACED: &str = "
    SELECT e.review_id FROM temp.by_review e WHERE e.prev_seq IS DISTINCT FROM
        (SELECT max(p.seq) FROM temp.by_review p WHERE p.review_id = e.review_id AND p.seq < e.seq)
    LIMIT 1";

fn states(tx: &Connection) -> Result<(), ReviewError> {
    tx.execute_batch(BY_REVIEW).map_err(sql)?;
    // A truncated end of the history shows in the reviews of the missing events.
    let last = "(SELECT max(e.seq) FROM temp.by_review e WHERE e.review_id = r.id)";
    let states = STATES
        .replace("{more}", &format!("r.last_seq IS DISTINCT FROM {last} OR"))
        .replace("{events}", "temp.by_review")
        .replace("{judged}", "e.detail ->> 'accepted'")
        .replace("{claimant}", "e.detail ->> 'claimed_by'");
    for query in [&states, MISPLACED] {
        let wrong: Option<String> = tx
            .query_row(query, [], |row| row.get(0))
            .optional()
            .map_err(sql)?;
        found_wrong(wrong)?;
    }
    Ok(())
}

pub(super) fn found_wrong(wrong: Option<String>) -> Result<(), ReviewError> {
    wrong.map_or(Ok(()), |id| {
        Err(broken(format!(
            "review {id} is not where its history left it"
        )))
    })
}
