//! What arguments have in common, and their limits.

use std::time::Duration;

use crate::store::{DIFF_PAGE, DiffRange, ListPage, Page, ReviewStatus, WriteKey};
use schemars::JsonSchema;
use sentinel_core::builtin::{Refused, ToolContext};
use sentinel_core::random::is_uuid;
use serde::{Deserialize, Serialize};

use crate::service::{self, WAIT_MAX, WaitOptions};

/// A name, a phase, a key: one line of text.
const LINE_BYTES_MAX: usize = 512;
/// A message or a description; code belongs in a diff.
const TEXT_BYTES_MAX: usize = 256 << 10;
/// Items in one page of a list.
const PAGE_MAX: u64 = 200;
const PAGE_DEFAULT: u64 = 50;
/// Bytes of the items in one page; the first item that crosses it is the last.
/// More would not fit into a model's head, and must not fill ours.
const PAGE_BYTES: usize = 1 << 20;

pub(super) fn invalid(message: impl Into<String>) -> Refused {
    Refused::new("invalid_arguments", message)
}

/// A review's id as it must be spelled.
pub(super) fn id(name: &str, text: String) -> Result<String, Refused> {
    if is_uuid(&text) {
        Ok(text)
    } else {
        Err(invalid(format!(
            "{name} must be a UUID in lower case, as submit_proposal returned it; got `{text}`"
        )))
    }
}

/// A text that must say something.
pub(super) fn text(name: &str, text: String) -> Result<String, Refused> {
    within(name, &text, TEXT_BYTES_MAX)?;
    Ok(text)
}

pub(super) fn line(name: &str, text: String) -> Result<String, Refused> {
    within(name, &text, LINE_BYTES_MAX)?;
    // Lists and logs show it in a line with others; a second line would look like one of theirs.
    if text.chars().any(char::is_control) {
        let message = format!("{name} must be one line, without control characters");
        return Err(invalid(message));
    }
    Ok(text)
}

fn within(name: &str, text: &str, max: usize) -> Result<(), Refused> {
    if text.trim().is_empty() {
        return Err(invalid(format!("{name} must not be empty")));
    }
    if text.len() > max {
        return Err(invalid(format!(
            "{name} has {} bytes; at most {max} are taken",
            text.len()
        )));
    }
    // SQLite keeps such a text, but its tools end it here; nothing readable has one.
    if text.contains('\0') {
        return Err(invalid(format!("{name} must not contain NUL")));
    }
    Ok(())
}

/// An optional line; empty counts as absent.
pub(super) fn maybe(name: &str, text: Option<String>) -> Result<Option<String>, Refused> {
    text.filter(|text| !text.is_empty())
        .map(|text| line(name, text))
        .transpose()
}

pub(super) fn maybe_text(name: &str, value: Option<String>) -> Result<Option<String>, Refused> {
    value
        .filter(|value| !value.is_empty())
        .map(|value| text(name, value))
        .transpose()
}

pub(super) fn page(offset: Option<u64>, limit: Option<u64>) -> Result<Page, Refused> {
    let limit = limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(invalid(format!("limit must be from 1 to {PAGE_MAX}")));
    }
    Ok(Page {
        offset: offset.unwrap_or(0),
        limit,
    })
}

/// Cuts a page to the size of one answer; returns where the next one begins.
pub(super) fn fit<T: Serialize>(page: Page, listed: ListPage<T>) -> (Vec<T>, Option<u64>) {
    let mut items = listed.items;
    let mut bytes = 0;
    let whole = items.iter().position(|item| {
        bytes += serde_json::to_string(item).map_or(0, |text| text.len());
        bytes >= PAGE_BYTES
    });
    if let Some(last) = whole {
        items.truncate(last + 1);
    }
    let next = page.offset.saturating_add(items.len() as u64);
    let more = !items.is_empty() && next < listed.total;
    (items, more.then_some(next))
}

/// The key under which a write is remembered, if the caller gave one.
pub(super) fn named(
    tool: &str,
    context: &ToolContext,
    given: Option<&String>,
    arguments: &impl Serialize,
) -> Result<Option<WriteKey>, Refused> {
    given
        .map(|given| {
            let given = line("idempotency_key", given.clone())?;
            Ok(service::key(tool, &context.caller, &given, arguments))
        })
        .transpose()
}

pub(super) fn slice(offset: Option<u64>, limit: Option<u64>) -> Result<DiffRange, Refused> {
    let limit = limit.unwrap_or(DIFF_PAGE);
    if !(1..=DIFF_PAGE).contains(&limit) {
        return Err(invalid(format!(
            "limit must be from 1 to {DIFF_PAGE} bytes"
        )));
    }
    Ok(DiffRange {
        offset: offset.unwrap_or(0),
        limit,
    })
}

pub(super) fn options(
    context: &ToolContext,
    wait_ms: Option<u64>,
) -> Result<WaitOptions<'_>, Refused> {
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    if wait > WAIT_MAX {
        return Err(invalid(format!(
            "wait_ms is at most {}",
            WAIT_MAX.as_millis()
        )));
    }
    Ok(WaitOptions {
        wait,
        context: Some(context),
    })
}

/// The projects of a filter: one, or several.
pub(super) fn projects(
    one: Option<String>,
    many: Option<Vec<String>>,
) -> Result<Vec<String>, Refused> {
    match (one, many) {
        (Some(_), Some(_)) => Err(invalid("give project or projects, not both")),
        (Some(one), None) => Ok(vec![line("project", one)?]),
        (None, Some(many)) if many.is_empty() => Err(invalid("projects must not be empty")),
        (None, Some(many)) if many.len() > 100 => Err(invalid("at most 100 projects")),
        (None, Some(many)) => many.into_iter().map(|one| line("projects", one)).collect(),
        (None, None) => Ok(Vec::new()),
    }
}

pub(super) fn status_filter(text: &str) -> Result<ReviewStatus, Refused> {
    ReviewStatus::parse_in_filter(text).ok_or_else(|| unknown_status(text))
}

fn unknown_status(text: &str) -> Refused {
    let known: Vec<&str> = ReviewStatus::ALL
        .iter()
        .map(|status| status.as_str())
        .collect();
    invalid(format!(
        "unknown status `{text}`, expected one of {}",
        known.join(", ")
    ))
}

/// What the caller last saw: a status, or a version.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "since must be a status, such as created, or a version number"
)]
#[schemars(inline)]
pub(super) enum Since {
    Version(u64),
    ReviewStatus(String),
}

impl Since {
    pub(super) fn known(self) -> Result<service::Since, Refused> {
        match self {
            Self::Version(version) => Ok(service::Since::Version(version)),
            Self::ReviewStatus(text) => match ReviewStatus::parse(&text) {
                Some(status) => Ok(service::Since::ReviewStatus(status)),
                None if text.parse::<u64>().is_ok() => Err(invalid(format!(
                    "since: a version is a number, without quotes; got the text `{text}`"
                ))),
                None => Err(unknown_status(&text)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_21_a_page_ends_before_it_grows_beyond_what_an_answer_may_hold() {
        let page = Page {
            offset: 10,
            limit: 5,
        };
        let fitted = |bytes: usize, count: usize| {
            let items = vec!["x".repeat(bytes); count];
            let (items, next) = fit(page, ListPage { items, total: 15 });
            (items.len(), next)
        };
        assert_eq!(fitted(10, 5), (5, None));
        assert_eq!(fitted(PAGE_BYTES / 2, 5), (2, Some(12)));
        assert_eq!(fitted(3 * PAGE_BYTES, 5), (1, Some(11)));
        assert_eq!(fitted(10, 0), (0, None));
    }
}
