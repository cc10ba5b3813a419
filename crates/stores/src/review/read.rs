//! Queries that change nothing.

use std::sync::LazyLock;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use sentinel_core::builtin::Refused;
use sentinel_review::store::{
    Changes, DiffRange, Event, ListOrder, ListPage, Message, Page, Patch, Review, ReviewError,
    ReviewFilter, Statistics, Verdict,
};

use super::rows::{self, Cells};
use super::{CHAIN_LEN_MAX, CHANGES_MAX, chain, sql};

pub(super) fn review(tx: &Connection, id: &str) -> Result<Review, ReviewError> {
    Ok(with_last_seq(tx, id)?.0)
}

/// A review and the number of its last event.
pub(super) fn with_last_seq(tx: &Connection, id: &str) -> Result<(Review, i64), ReviewError> {
    // Built once, since every write begins with this query.
    static QUERY: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {}, last_seq FROM reviews WHERE id = ?1",
            rows::REVIEW
        )
    });
    tx.prepare_cached(&QUERY)
        .and_then(|mut query| query.query_row([id], rows::review_and_last_seq).optional())
        .map_err(sql)?
        .ok_or_else(|| ReviewError::NoReview(id.to_owned()))
}

/// The conditions of a filter and their values.
fn conditions(filter: &ReviewFilter) -> (String, Vec<Value>) {
    let mut clauses = vec!["1".to_owned()];
    let mut values: Vec<Value> = Vec::new();
    let mut one_of = |column: &str, wanted: Vec<Value>| {
        if !wanted.is_empty() {
            let marks = vec!["?"; wanted.len()].join(", ");
            clauses.push(format!("{column} IN ({marks})"));
            values.extend(wanted);
        }
    };
    let text = |text: &str| Value::from(text.to_owned());
    one_of(
        "status",
        filter
            .statuses
            .iter()
            .map(|status| text(status.as_str()))
            .collect(),
    );
    one_of(
        "category",
        filter
            .category
            .iter()
            .map(|category| text(category.as_str()))
            .collect(),
    );
    one_of(
        "priority",
        filter
            .priority
            .iter()
            .map(|priority| Value::from(*priority as i64))
            .collect(),
    );
    one_of(
        "project",
        filter
            .projects
            .iter()
            .map(|project| text(project))
            .collect(),
    );
    one_of(
        "agent_type",
        filter.agent_type.iter().map(|agent| text(agent)).collect(),
    );
    one_of(
        "parent_id",
        filter.parent_id.iter().map(|parent| text(parent)).collect(),
    );
    (clauses.join(" AND "), values)
}

pub(super) fn list(
    tx: &Connection,
    filter: &ReviewFilter,
    page: Page,
) -> Result<ListPage<Review>, ReviewError> {
    let (conditions, mut values) = conditions(filter);
    let total: i64 = tx
        .prepare_cached(&format!("SELECT count(*) FROM reviews WHERE {conditions}"))
        .and_then(|mut query| query.query_row(params_from_iter(&values), |row| row.get(0)))
        .map_err(sql)?;
    let order = match filter.order {
        ListOrder::Urgency => "priority, seq",
        ListOrder::Recent => "updated_at DESC, seq DESC",
    };
    values.extend([number(page.limit), number(page.offset)]);
    let query = format!(
        "SELECT {} FROM reviews WHERE {conditions} ORDER BY {order} LIMIT ? OFFSET ?",
        rows::REVIEW
    );
    let items = tx
        .prepare_cached(&query)
        .and_then(|mut query| {
            query
                .query_map(params_from_iter(&values), |row| rows::review(row))?
                .collect()
        })
        .map_err(sql)?;
    Ok(ListPage {
        items,
        total: total as u64,
    })
}

fn number(n: u64) -> Value {
    Value::from(i64::try_from(n).unwrap_or(i64::MAX))
}

pub(super) fn messages(
    tx: &Connection,
    id: &str,
    page: Page,
) -> Result<ListPage<Message>, ReviewError> {
    let review = review(tx, id)?;
    let query = format!(
        "SELECT {} FROM messages WHERE review_id = ? ORDER BY seq LIMIT ? OFFSET ?",
        rows::MESSAGE
    );
    let values = [
        Value::from(id.to_owned()),
        number(page.limit),
        number(page.offset),
    ];
    let items = tx
        .prepare_cached(&query)
        .and_then(|mut query| {
            query
                .query_map(params_from_iter(&values), |row| rows::message(row))?
                .collect()
        })
        .map_err(sql)?;
    Ok(ListPage {
        items,
        total: review.message_count,
    })
}

pub(super) fn verdicts(tx: &Connection, id: &str) -> Result<Vec<Verdict>, ReviewError> {
    let query = format!(
        "SELECT {} FROM verdicts WHERE review_id = ?1 ORDER BY seq",
        rows::VERDICT
    );
    tx.prepare_cached(&query)
        .and_then(|mut query| query.query_map([id], |row| rows::verdict(row))?.collect())
        .map_err(sql)
}

pub(super) fn original(tx: &Connection, id: &str, slice: DiffRange) -> Result<Patch, ReviewError> {
    review(tx, id)?;
    let query = format!(
        "SELECT {} FROM patches WHERE review_id = ?1 ORDER BY seq LIMIT 1",
        rows::PATCH
    );
    tx.prepare_cached(&query)
        .and_then(|mut query| {
            query
                .query_row([id], |row| rows::patch(row, slice))
                .optional()
        })
        .map_err(sql)?
        .ok_or_else(|| chain::broken(format!("review {id} lost its diff")))
}

pub(super) fn patches(
    tx: &Connection,
    id: &str,
    slice: DiffRange,
) -> Result<Vec<Patch>, ReviewError> {
    review(tx, id)?;
    let mut patches = rows::Patches::new(slice);
    let query = format!(
        "SELECT {} FROM patches WHERE review_id = ?1 ORDER BY seq",
        rows::PATCH
    );
    tx.prepare_cached(&query)
        .and_then(|mut query| query.query_map([id], |row| patches.read(row))?.collect())
        .map_err(sql)
}

pub(super) fn patch(
    tx: &Connection,
    id: &str,
    patch_id: &str,
    slice: DiffRange,
) -> Result<Patch, ReviewError> {
    review(tx, id)?;
    let query = format!(
        "SELECT {} FROM patches WHERE review_id = ?1 AND id = ?2",
        rows::PATCH
    );
    tx.prepare_cached(&query)
        .and_then(|mut query| {
            query
                .query_row([id, patch_id], |row| rows::patch(row, slice))
                .optional()
        })
        .map_err(sql)?
        .ok_or_else(|| {
            Refused::new(
                "unknown_patch",
                format!("this review has no patch `{patch_id}`"),
            )
            .into()
        })
}

/// The events of one review, from the last back to the first.
const TOLD: &str = "WITH RECURSIVE told (seq, prev_seq) AS (
        SELECT seq, prev_seq FROM review_events WHERE seq = (SELECT last_seq FROM reviews WHERE id = ?1)
        UNION ALL SELECT e.seq, e.prev_seq FROM told t JOIN review_events e ON e.seq = t.prev_seq AND e.seq < t.seq)";

pub(super) fn events(
    tx: &Connection,
    id: Option<&str>,
    page: Page,
) -> Result<ListPage<Event>, ReviewError> {
    let (with, which) = match id {
        Some(id) => {
            review(tx, id)?;
            (TOLD, "seq IN (SELECT seq FROM told)")
        }
        None => ("", "?1 IS NULL"),
    };
    let total: i64 = tx
        .query_row(
            &format!("{with} SELECT count(*) FROM review_events WHERE {which}"),
            [id],
            |row| row.get(0),
        )
        .map_err(sql)?;
    let query = format!(
        "{with} SELECT {} FROM review_events WHERE {which} ORDER BY seq LIMIT ?2 OFFSET ?3",
        rows::EVENT
    );
    let items = tx
        .prepare_cached(&query)
        .and_then(|mut query| {
            query
                .query_map(
                    params![id, number(page.limit), number(page.offset)],
                    |row| rows::event(row),
                )?
                .collect()
        })
        .map_err(sql)?;
    Ok(ListPage {
        items,
        total: total as u64,
    })
}

pub(super) fn relatives(tx: &Connection, id: &str) -> Result<Vec<Review>, ReviewError> {
    let mut first = review(tx, id)?;
    for _ in 0..CHAIN_LEN_MAX {
        match &first.parent_id {
            Some(parent) => first = review(tx, parent)?,
            None => break,
        }
    }
    let query = format!(
        "WITH RECURSIVE family (id) AS (
             SELECT ?1 UNION SELECT r.id FROM reviews r JOIN family f ON r.parent_id = f.id LIMIT ?2)
         SELECT {} FROM reviews WHERE id IN (SELECT id FROM family) ORDER BY seq",
        rows::REVIEW
    );
    tx.prepare_cached(&query)
        .and_then(|mut query| {
            query
                .query_map(params![first.review_id, CHAIN_LEN_MAX as i64], |row| {
                    rows::review(row)
                })?
                .collect()
        })
        .map_err(sql)
}

pub(super) fn statistics(
    tx: &Connection,
    project: Option<&str>,
) -> Result<Statistics, ReviewError> {
    let counted = |column: &str| {
        tx.prepare_cached(&format!(
            "SELECT {column}, count(*) FROM reviews WHERE ?1 IS NULL OR project = ?1 GROUP BY 1"
        ))
        .and_then(|mut query| {
            query
                .query_map([project], |row| Ok((row.get(0)?, row.count(1)?)))?
                .collect()
        })
        .map_err(sql)
    };
    let by_status: std::collections::BTreeMap<String, u64> = counted("status")?;
    let figure = |query: &str| -> Result<Option<f64>, ReviewError> {
        tx.query_row(query, [project], |row| row.get(0))
            .map_err(sql)
    };
    let seconds = |event: &str| {
        figure(&format!(
            "SELECT avg((julianday(e.at) - julianday(r.created_at)) * 86400.0)
             FROM reviews r JOIN (SELECT review_id, min(created_at) AS at FROM review_events
                 WHERE event IN ({event}) GROUP BY review_id) e ON e.review_id = r.id
             WHERE ?1 IS NULL OR r.project = ?1"
        ))
    };
    Ok(Statistics {
        total: by_status.values().sum(),
        by_category: counted("category")?,
        by_status,
        approval_rate_pct: figure(
            "SELECT avg(v.decision = 'approved') * 100.0 FROM verdicts v JOIN reviews r ON r.id = v.review_id
             WHERE ?1 IS NULL OR r.project = ?1",
        )?,
        mean_s_to_verdict: seconds("'verdict_approved', 'verdict_rejected'")?,
        mean_s_to_close: seconds("'review_closed'")?,
        mean_s_in_status: tx
            .prepare_cached(&in_status(
                "(julianday(e.until) - julianday(e.created_at)) * 86400.0",
            ))
            .and_then(|mut query| {
                query
                    .query_map([project], |row| Ok((row.get(0)?, row.get(1)?)))?
                    .collect()
            })
            .map_err(sql)?,
    })
}

/// The time that reviews of a project, or all, spent in each status. `{seconds}` is the length of a stay.
pub(super) fn in_status(seconds: &str) -> String {
    format!(
        "SELECT status, avg(total) FROM (
             SELECT e.new_status AS status, sum({seconds}) AS total FROM (
                 SELECT review_id, new_status, created_at,
                     lead(created_at) OVER (PARTITION BY review_id ORDER BY seq) AS until
                 FROM review_events WHERE new_status IS NOT NULL) e
             JOIN reviews r ON r.id = e.review_id
             WHERE e.until IS NOT NULL AND (CAST($1 AS text) IS NULL OR r.project = $1)
             GROUP BY e.review_id, e.new_status) stays
         GROUP BY status"
    )
}

pub(super) fn queue_version(tx: &Connection, projects: &[String]) -> Result<u64, ReviewError> {
    let query = if projects.is_empty() {
        "SELECT queue FROM review_events ORDER BY seq DESC LIMIT 1".to_owned()
    } else {
        // Follows the events that changed the queue backwards.
        let marks = vec!["?"; projects.len()].join(", ");
        format!(
            "WITH RECURSIVE turns (seq) AS (
                 SELECT * FROM (SELECT queue FROM review_events ORDER BY seq DESC LIMIT 1)
                 UNION ALL
                 SELECT (SELECT queue FROM review_events WHERE seq = turns.seq - 1) FROM turns
                 WHERE turns.seq > 1)
             SELECT e.seq FROM turns JOIN review_events e ON e.seq = turns.seq
             JOIN reviews r ON r.id = e.review_id WHERE r.project IN ({marks}) LIMIT 1"
        )
    };
    let found: Option<i64> = tx
        .prepare_cached(&query)
        .and_then(|mut query| {
            query
                .query_row(params_from_iter(projects), |row| row.get(0))
                .optional()
        })
        .map_err(sql)?;
    Ok(found.unwrap_or(0) as u64)
}

pub(super) fn changes(tx: &Connection, after: u64) -> Result<Changes, ReviewError> {
    let last: i64 = tx
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM review_events")
        .and_then(|mut query| query.query_row([], |row| row.get(0)))
        .map_err(sql)?;
    let mut changes = Changes {
        seq: last as u64,
        reviews: Vec::new(),
    };
    if changes.seq <= after {
        return Ok(changes);
    }
    let rows: Vec<(i64, String, i64)> = tx
        .prepare_cached(
            "SELECT e.seq, r.id, r.version FROM review_events e JOIN reviews r ON r.id = e.review_id
             WHERE e.seq > ?1 ORDER BY e.seq LIMIT ?2",
        )
        .and_then(|mut query| {
            query
                .query_map(params![after as i64, CHANGES_MAX], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?
                .collect()
        })
        .map_err(sql)?;
    changes.cover(rows);
    Ok(changes)
}
