//! Queries that change nothing.

use std::collections::BTreeMap;

use sentinel_core::builtin::Refused;
use sentinel_review::store::{
    Changes, DiffRange, Event, ListOrder, ListPage, Message, Page, Patch, Review, ReviewError,
    ReviewFilter, Statistics, Verdict,
};

use super::super::read::in_status;
use super::super::rows::{self, Cells};
use super::super::{CHAIN_LEN_MAX, CHANGES_MAX, chain};
use crate::error::StoreError;
use crate::postgres::Queries as _;
use sentinel_pg::{Params, Session};

pub(super) async fn review(db: &mut Session, id: &str) -> Result<Review, ReviewError> {
    let query = format!("SELECT {} FROM reviews WHERE id = $1", rows::REVIEW);
    match db.row(&query, &[&id]).await? {
        Some(row) => Ok(rows::review(&row)?),
        None => Err(ReviewError::NoReview(id.to_owned())),
    }
}

/// Reads all rows of a query by `read`.
async fn all<T>(
    db: &mut Session,
    query: &str,
    params: Params<'_>,
    mut read: impl FnMut(&tokio_postgres::Row) -> Result<T, StoreError>,
) -> Result<Vec<T>, ReviewError> {
    let rows = db.rows(query, params).await?;
    let read: Result<Vec<T>, StoreError> = rows.iter().map(&mut read).collect();
    Ok(read?)
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

const FILTER: &str = "(cardinality($1::text[]) = 0 OR status = ANY ($1))
    AND ($2::text IS NULL OR category = $2) AND ($3::bigint IS NULL OR priority = $3)
    AND (cardinality($4::text[]) = 0 OR project = ANY ($4))
    AND ($5::text IS NULL OR agent_type = $5) AND ($6::text IS NULL OR parent_id = $6)";

pub(super) async fn list(
    db: &mut Session,
    filter: ReviewFilter,
    page: Page,
) -> Result<ListPage<Review>, ReviewError> {
    let statuses: Vec<&str> = filter.statuses.iter().map(|s| s.as_str()).collect();
    let category = filter.category.map(|category| category.as_str());
    let priority = filter.priority.map(|priority| priority as i64);
    let counted = db
        .one(
            &format!("SELECT count(*) FROM reviews WHERE {FILTER}"),
            &[
                &statuses,
                &category,
                &priority,
                &filter.projects,
                &filter.agent_type,
                &filter.parent_id,
            ],
        )
        .await?;
    let order = match filter.order {
        ListOrder::Urgency => "priority, seq",
        ListOrder::Recent => "updated_at DESC, seq DESC",
    };
    let query = format!(
        "SELECT {} FROM reviews WHERE {FILTER} ORDER BY {order} LIMIT $7 OFFSET $8",
        rows::REVIEW
    );
    let items = all(
        db,
        &query,
        &[
            &statuses,
            &category,
            &priority,
            &filter.projects,
            &filter.agent_type,
            &filter.parent_id,
            &number(page.limit),
            &number(page.offset),
        ],
        rows::review,
    )
    .await?;
    Ok(ListPage {
        items,
        total: counted.count(0)?,
    })
}

pub(super) async fn messages(
    db: &mut Session,
    id: String,
    page: Page,
) -> Result<ListPage<Message>, ReviewError> {
    let review = review(db, &id).await?;
    let query = format!(
        "SELECT {} FROM messages WHERE review_id = $1 ORDER BY seq LIMIT $2 OFFSET $3",
        rows::MESSAGE
    );
    let (limit, offset) = (number(page.limit), number(page.offset));
    Ok(ListPage {
        items: all(db, &query, &[&id, &limit, &offset], rows::message).await?,
        total: review.message_count,
    })
}

pub(super) async fn verdicts(db: &mut Session, id: String) -> Result<Vec<Verdict>, ReviewError> {
    let query = format!(
        "SELECT {} FROM verdicts WHERE review_id = $1 ORDER BY seq",
        rows::VERDICT
    );
    all(db, &query, &[&id], rows::verdict).await
}

pub(super) async fn original(
    db: &mut Session,
    id: String,
    slice: DiffRange,
) -> Result<Patch, ReviewError> {
    review(db, &id).await?;
    let query = format!(
        "SELECT {} FROM patches WHERE review_id = $1 ORDER BY seq LIMIT 1",
        rows::PATCH
    );
    match db.row(&query, &[&id]).await? {
        Some(row) => Ok(rows::patch(&row, slice)?),
        None => Err(chain::broken(format!("review {id} lost its diff"))),
    }
}

pub(super) async fn patches(
    db: &mut Session,
    id: String,
    slice: DiffRange,
) -> Result<Vec<Patch>, ReviewError> {
    review(db, &id).await?;
    let mut patches = rows::Patches::new(slice);
    let query = format!(
        "SELECT {} FROM patches WHERE review_id = $1 ORDER BY seq",
        rows::PATCH
    );
    all(db, &query, &[&id], |row| patches.read(row)).await
}

pub(super) async fn patch(
    db: &mut Session,
    id: String,
    patch_id: String,
    slice: DiffRange,
) -> Result<Patch, ReviewError> {
    review(db, &id).await?;
    let query = format!(
        "SELECT {} FROM patches WHERE review_id = $1 AND id = $2",
        rows::PATCH
    );
    match db.row(&query, &[&id, &patch_id]).await? {
        Some(row) => Ok(rows::patch(&row, slice)?),
        None => {
            let message = format!("this review has no patch `{patch_id}`");
            Err(Refused::new("unknown_patch", message).into())
        }
    }
}

pub(super) async fn events(
    db: &mut Session,
    id: Option<String>,
    page: Page,
) -> Result<ListPage<Event>, ReviewError> {
    if let Some(id) = &id {
        review(db, id).await?;
    }
    let counted = db
        .one(
            "SELECT count(*) FROM review_events WHERE $1::text IS NULL OR review_id = $1",
            &[&id],
        )
        .await?;
    let query = format!(
        "SELECT {} FROM review_events WHERE $1::text IS NULL OR review_id = $1 ORDER BY seq LIMIT $2 OFFSET $3",
        rows::EVENT
    );
    let (limit, offset) = (number(page.limit), number(page.offset));
    Ok(ListPage {
        items: all(db, &query, &[&id, &limit, &offset], rows::event).await?,
        total: counted.count(0)?,
    })
}

pub(super) async fn relatives(db: &mut Session, id: String) -> Result<Vec<Review>, ReviewError> {
    let mut first = review(db, &id).await?;
    for _ in 0..CHAIN_LEN_MAX {
        match &first.parent_id {
            Some(parent) => first = review(db, parent).await?,
            None => break,
        }
    }
    let query = format!(
        "WITH RECURSIVE family (id, depth) AS (
             SELECT $1::text, 1::bigint
             UNION SELECT r.id, f.depth + 1 FROM reviews r JOIN family f ON r.parent_id = f.id WHERE f.depth < $2)
         SELECT {} FROM reviews WHERE id IN (SELECT id FROM family) ORDER BY seq LIMIT $2",
        rows::REVIEW
    );
    let most = CHAIN_LEN_MAX as i64;
    all(db, &query, &[&first.review_id, &most], rows::review).await
}

pub(super) async fn statistics(
    db: &mut Session,
    project: Option<String>,
) -> Result<Statistics, ReviewError> {
    let by_status = counted(db, "status", &project).await?;
    let by_category = counted(db, "category", &project).await?;
    let approval_rate_pct = figure(
        db,
        "SELECT avg(CASE WHEN v.decision = 'approved' THEN 100.0 ELSE 0.0 END)::float8
         FROM verdicts v JOIN reviews r ON r.id = v.review_id WHERE $1::text IS NULL OR r.project = $1",
        &project,
    )
    .await?;
    let in_status =
        in_status("extract(epoch FROM e.until::timestamptz - e.created_at::timestamptz)::float8");
    let in_status = all(db, &in_status, &[&project], |row| {
        Ok((row.text(0)?, row.try_get(1)?))
    })
    .await?;
    Ok(Statistics {
        mean_s_in_status: in_status.into_iter().collect(),
        total: by_status.values().sum(),
        by_status,
        by_category,
        approval_rate_pct,
        mean_s_to_verdict: seconds(db, "'verdict_approved', 'verdict_rejected'", &project).await?,
        mean_s_to_close: seconds(db, "'review_closed'", &project).await?,
    })
}

async fn counted(
    db: &mut Session,
    column: &str,
    project: &Option<String>,
) -> Result<BTreeMap<String, u64>, ReviewError> {
    let query = format!(
        "SELECT {column}, count(*) FROM reviews WHERE $1::text IS NULL OR project = $1 GROUP BY 1"
    );
    let counts = all(db, &query, &[project], |row| {
        Ok((row.text(0)?, row.count(1)?))
    })
    .await?;
    Ok(counts.into_iter().collect())
}

async fn seconds(
    db: &mut Session,
    events: &str,
    project: &Option<String>,
) -> Result<Option<f64>, ReviewError> {
    let query = format!(
        "SELECT avg(extract(epoch FROM e.at::timestamptz - r.created_at::timestamptz))::float8
         FROM reviews r JOIN (SELECT review_id, min(created_at) AS at FROM review_events
             WHERE event IN ({events}) GROUP BY review_id) e ON e.review_id = r.id
         WHERE $1::text IS NULL OR r.project = $1"
    );
    figure(db, &query, project).await
}

async fn figure(
    db: &mut Session,
    query: &str,
    project: &Option<String>,
) -> Result<Option<f64>, ReviewError> {
    let row = db.one(query, &[project]).await?;
    Ok(row.try_get(0).map_err(StoreError::from)?)
}

pub(super) async fn queue_version(
    db: &mut Session,
    projects: Vec<String>,
) -> Result<u64, ReviewError> {
    let row = if projects.is_empty() {
        let query = "SELECT seq FROM review_events WHERE queue ORDER BY seq DESC LIMIT 1";
        db.row(query, &[]).await?
    } else {
        let query = "SELECT e.seq FROM review_events e JOIN reviews r ON r.id = e.review_id
                     WHERE e.queue AND r.project = ANY ($1) ORDER BY e.seq DESC LIMIT 1";
        db.row(query, &[&projects]).await?
    };
    Ok(match row {
        Some(row) => row.count(0)?,
        None => 0,
    })
}

pub(super) async fn changes(db: &mut Session, after: u64) -> Result<Changes, ReviewError> {
    let head = db.one("SELECT seq FROM review_head", &[]).await?;
    let mut changes = Changes {
        seq: head.count(0)?,
        reviews: Vec::new(),
    };
    if changes.seq > after {
        let query = "SELECT e.seq, r.id, r.version FROM review_events e JOIN reviews r ON r.id = e.review_id
                     WHERE e.seq > $1 ORDER BY e.seq LIMIT $2";
        let params: Params<'_> = &[&number(after), &CHANGES_MAX];
        let rows = all(db, query, params, |row| {
            Ok((row.number(0)?, row.text(1)?, row.number(2)?))
        });
        changes.cover(rows.await?);
    }
    Ok(changes)
}
