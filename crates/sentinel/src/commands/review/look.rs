//! Reading reviews for people: lists, one review whole, and what happens now.

use std::process::ExitCode;
use std::time::Duration;

use sentinel_review::store::{
    DiffRange, Event, ListOrder, Page, Patch, ReviewFilter, ReviewStatus, ReviewStore, VerifyReport,
};
use serde_json::json;

use super::paint;
use crate::commands::one_line;

/// How often `watch` looks for news; it reads what another process writes.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// Rows read at once.
const PAGE: u64 = 500;

pub(super) async fn list(
    store: &dyn ReviewStore,
    status: Option<&str>,
    project: Option<String>,
    limit: u64,
    as_json: bool,
) -> anyhow::Result<String> {
    let status = match status {
        None => None,
        Some(text) => Some(ReviewStatus::parse_in_filter(text).ok_or_else(|| {
            let known: Vec<&str> = ReviewStatus::ALL
                .iter()
                .map(|status| status.as_str())
                .collect();
            anyhow::anyhow!(
                "unknown status `{text}`, expected one of {}",
                known.join(", ")
            )
        })?),
    };
    let filter = ReviewFilter {
        statuses: status.into_iter().collect(),
        projects: project.into_iter().collect(),
        order: ListOrder::Recent,
        ..ReviewFilter::default()
    };
    let listed = store.list(filter, Page { offset: 0, limit }).await?;
    if as_json {
        let document = json!({ "items": listed.items, "total": listed.total });
        return Ok(format!("{document:#}\n"));
    }
    let mut out: String = listed.items.iter().map(paint::line).collect();
    let shown = listed.items.len() as u64;
    if shown < listed.total {
        out.push_str(&format!("and {} more (--limit)\n", listed.total - shown));
    }
    if listed.total == 0 {
        out.push_str("no reviews\n");
    }
    Ok(out)
}

pub(super) async fn show(
    store: &dyn ReviewStore,
    id: &str,
    as_json: bool,
) -> anyhow::Result<String> {
    let id = find(store, id).await?;
    let review = store.get(id.clone()).await?;
    let whole = DiffRange {
        offset: 0,
        limit: u64::MAX,
    };
    let patches = store.patches(id.clone(), whole).await?;
    let all = Page {
        offset: 0,
        limit: i64::MAX as u64,
    };
    let messages = store.messages(id.clone(), all).await?.items;
    let verdicts = store.verdicts(id.clone()).await?;
    let chain = store.chain(id.clone()).await?;
    if as_json {
        let document = json!({
            "review": review, "patches": patches, "messages": messages, "verdicts": verdicts, "chain": chain,
        });
        return Ok(format!("{document:#}\n"));
    }
    let mut out = String::new();
    paint::head(&review, &mut out);
    // In the order in which it happened: each event names what came with it.
    for event in store.events(Some(id), all).await?.items {
        let about = event.about_id.as_deref().unwrap_or_default();
        if let Some(at) = patches.iter().position(|patch| patch.patch_id == about) {
            if event.event != "patch_judged" {
                paint::patch(&patches[at], &title(at, &patches[at]), &mut out);
            }
        } else if let Some(message) = messages.iter().find(|one| one.message_id == about) {
            paint::message(message, &mut out);
        } else if let Some(verdict) = verdicts.iter().find(|one| one.verdict_id == about) {
            paint::verdict(verdict, &mut out);
        }
    }
    if chain.len() > 1 {
        out.push_str("\nresubmissions\n");
        for review in &chain {
            out.push_str(&paint::line(review));
        }
    }
    Ok(out)
}

fn title(at: usize, patch: &Patch) -> String {
    let judged = match patch.accepted {
        Some(true) => ", accepted",
        Some(false) => ", declined",
        None => "",
    };
    if at == 0 {
        format!("proposed diff{judged}")
    } else {
        format!("patch {at}{judged}")
    }
}

/// The one review whose id begins like this.
async fn find(store: &dyn ReviewStore, start: &str) -> anyhow::Result<String> {
    if sentinel_core::random::is_uuid(start) {
        return Ok(start.to_owned());
    }
    let mut found = Vec::new();
    let mut offset = 0;
    loop {
        let page = Page {
            offset,
            limit: PAGE,
        };
        let listed = store.list(ReviewFilter::default(), page).await?;
        offset += listed.items.len() as u64;
        let ids = listed.items.into_iter().map(|review| review.review_id);
        found.extend(ids.filter(|id| id.starts_with(start)));
        if offset >= listed.total {
            break;
        }
    }
    match found.len() {
        0 => anyhow::bail!("no review begins with `{start}`"),
        1 => Ok(found.swap_remove(0)),
        n => anyhow::bail!("{n} reviews begin with `{start}`: give more of the id"),
    }
}

/// Prints events until interrupted or nobody reads.
pub(super) async fn watch(
    store: &dyn ReviewStore,
    id: Option<&str>,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let id = match id {
        Some(start) => Some(find(store, start).await?),
        None => None,
    };
    let mut offset = store
        .events(
            id.clone(),
            Page {
                offset: 0,
                limit: 1,
            },
        )
        .await?
        .total;
    // What happened lately gives the rest a place.
    offset = offset.saturating_sub(10);
    loop {
        let page = Page {
            offset,
            limit: PAGE,
        };
        let listed = store.events(id.clone(), page).await?;
        for event in &listed.items {
            let line = if as_json {
                format!("{}\n", json!(event))
            } else {
                paint::event(event, &said(store, event).await?)
            };
            if !write_line(&line)? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        offset += listed.items.len() as u64;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// What an event brought, in one line.
async fn said(store: &dyn ReviewStore, event: &Event) -> anyhow::Result<String> {
    let (id, about) = (event.review_id.clone(), event.about_id.as_deref());
    let text = match &*event.event {
        "review_created" => Some(store.get(id).await?.intent),
        "message_posted" => {
            let all = Page {
                offset: 0,
                limit: i64::MAX as u64,
            };
            let messages = store.messages(id, all).await?.items;
            let posted = messages.into_iter().find(|m| Some(&*m.message_id) == about);
            posted.map(|message| message.body)
        }
        "verdict_approved" | "verdict_rejected" => {
            let verdicts = store.verdicts(id).await?;
            let given = verdicts.into_iter().find(|v| Some(&*v.verdict_id) == about);
            given.and_then(|verdict| verdict.reason)
        }
        _ => None,
    };
    let text = text.unwrap_or_default();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// `false` once nobody reads any more.
fn write_line(line: &str) -> anyhow::Result<bool> {
    use std::io::Write;
    let mut out = anstream::stdout();
    match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What a walk through the history found.
pub(super) fn verified(verified: &VerifyReport, json: bool) -> String {
    if json {
        let found = json!({ "events": verified.events, "purges": verified.purges });
        return format!("{found}\n");
    }
    let mut out = format!("{} events, each as it was written\n", verified.events);
    for purge in &verified.purges {
        let by = one_line(&purge.by);
        out.push_str(&format!(
            "{} reviews removed at {} by {by}\n",
            purge.reviews, purge.at
        ));
    }
    out
}
