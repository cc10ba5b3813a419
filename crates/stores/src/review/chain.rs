//! The history that cannot be edited unnoticed.
//!
//! Each event's hash covers the hash before it, its own fields and a digest of the text that came
//! with it (the message's body, the diff, the verdict). Whoever changes or deletes a row breaks the
//! chain from there on. The state of each review must be what its last event says.

use ring::digest::{Context, SHA256, digest};
use rusqlite::{Connection, OptionalExtension, params};
use sentinel_core::review::Trouble;

use super::sql;

pub(super) const START: [u8; 32] = [0; 32];

/// The fields of an event that its hash covers, besides the one before.
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

impl Link<'_> {
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
            // Lengths, so that no two lists of fields read the same; absent is not empty.
            let length = field.map_or(u64::MAX, |field| field.len() as u64);
            hash.update(&length.to_be_bytes());
            hash.update(field.unwrap_or_default());
        }
        to_array(hash.finish().as_ref())
    }
}

/// The digest of a text that hangs on an event.
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

/// The hash to continue from.
pub(super) fn last(tx: &Connection) -> Result<Vec<u8>, Trouble> {
    let found = tx
        .prepare_cached("SELECT hash FROM review_events ORDER BY seq DESC LIMIT 1")
        .and_then(|mut query| query.query_row([], |row| row.get(0)).optional())
        .map_err(sql)?;
    Ok(found.unwrap_or_else(|| START.to_vec()))
}

/// Walks the whole history; the number of events, or the first thing that is wrong.
pub(super) fn verify(tx: &Connection) -> Result<u64, Trouble> {
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
    let events = walk(tx)?;
    states(tx)?;
    Ok(events)
}

fn broken(message: String) -> Trouble {
    Trouble::Store {
        kind: "corrupt",
        message,
    }
}

fn walk(tx: &Connection) -> Result<u64, Trouble> {
    let mut query = tx
        .prepare(
            "SELECT seq, review_id, event, actor, old_status, new_status, about_id, content, detail, created_at, hash
             FROM review_events ORDER BY seq",
        )
        .map_err(sql)?;
    let mut rows = query.query([]).map_err(sql)?;
    let (mut before, mut count) = (START.to_vec(), 0);
    while let Some(row) = rows.next().map_err(sql)? {
        let text = |at: usize| row.get::<_, String>(at).map_err(sql);
        let maybe = |at: usize| row.get::<_, Option<String>>(at).map_err(sql);
        let seq: i64 = row.get(0).map_err(sql)?;
        let (review_id, event, actor, created_at) = (text(1)?, text(2)?, text(3)?, text(9)?);
        let (old, new, about, detail) = (maybe(4)?, maybe(5)?, maybe(6)?, maybe(8)?);
        let content: Option<Vec<u8>> = row.get(7).map_err(sql)?;
        let hash: Vec<u8> = row.get(10).map_err(sql)?;
        let link = Link {
            seq,
            review_id: &review_id,
            event: &event,
            actor: &actor,
            old_status: old.as_deref(),
            new_status: new.as_deref(),
            about_id: about.as_deref(),
            content: content.as_deref(),
            detail: detail.as_deref(),
            created_at: &created_at,
        };
        if link.hash(&before)[..] != hash[..] {
            return Err(broken(format!(
                "event {seq} is not what was written after the one before it"
            )));
        }
        if let (Some(about), Some(content)) = (&about, &content)
            && text_of(tx, &event, &review_id, about)?
                .as_ref()
                .map(|found| &found[..])
                != Some(&content[..])
        {
            return Err(broken(format!("what event {seq} added is not what it was")));
        }
        before = hash;
        count += 1;
    }
    // AUTOINCREMENT remembers the last number, so a tail that was cut off is seen.
    let numbered: Option<i64> = tx
        .query_row(
            "SELECT seq FROM sqlite_sequence WHERE name = 'review_events'",
            [],
            |row| row.get(0),
        )
        .optional()
        .map_err(sql)?;
    if numbered.unwrap_or(0) != count as i64 {
        return Err(broken(format!(
            "{} events were written, {count} are left",
            numbered.unwrap_or(0)
        )));
    }
    Ok(count)
}

/// The digest of what an event added, as it is now.
fn text_of(
    tx: &Connection,
    event: &str,
    review_id: &str,
    about: &str,
) -> Result<Option<[u8; 32]>, Trouble> {
    let query = match event {
        "message_posted" => "SELECT role, body, '' FROM messages WHERE id = ?1",
        "verdict_approved" | "verdict_rejected" => {
            "SELECT decision, coalesce(reason, ''), '' FROM verdicts WHERE id = ?1"
        }
        "review_created" => {
            return tx
                .query_row(
                    "SELECT p.role, p.diff, r.intent FROM patches p JOIN reviews r ON r.id = p.review_id
                     WHERE p.id = ?1 AND r.id = ?2",
                    params![about, review_id],
                    three,
                )
                .optional()
                .map_err(sql);
        }
        _ => "SELECT role, diff, coalesce(description, '') FROM patches WHERE id = ?1",
    };
    tx.query_row(query, [about], three).optional().map_err(sql)
}

fn three(row: &rusqlite::Row<'_>) -> rusqlite::Result<[u8; 32]> {
    let (a, b, c): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(content(&[&a, &b, &c]))
}

/// No half transition: every review is where its last event left it, with all that was counted.
fn states(tx: &Connection) -> Result<(), Trouble> {
    let wrong: Option<String> = tx
        .query_row(
            "SELECT r.id FROM reviews r WHERE
               r.status IS NOT (SELECT e.new_status FROM review_events e
                   WHERE e.review_id = r.id AND e.new_status IS NOT NULL ORDER BY e.seq DESC LIMIT 1)
               OR r.message_count <> (SELECT count(*) FROM messages m WHERE m.review_id = r.id)
               OR r.patch_count <> (SELECT count(*) FROM patches p WHERE p.review_id = r.id)
               OR r.patch_count = 0
             LIMIT 1",
            [],
            |row| row.get(0),
        )
        .optional()
        .map_err(sql)?;
    wrong.map_or(Ok(()), |id| {
        Err(broken(format!(
            "review {id} is not where its history left it"
        )))
    })
}
