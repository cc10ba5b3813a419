//! Reviews as coloured text.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use sentinel_review::store::{
    Event, Message, Patch, PurgedReview, Review, ReviewStatus, Role, Verdict,
};

use crate::commands::{one_line, plain};

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();
const RED: Style = AnsiColor::Red.on_default();
const GREEN: Style = AnsiColor::Green.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();

pub(super) fn status(status: ReviewStatus) -> String {
    let style = match status {
        ReviewStatus::Created => YELLOW,
        ReviewStatus::Claimed | ReviewStatus::InDiscussion => CYAN,
        ReviewStatus::Approved => GREEN,
        ReviewStatus::Rejected => RED,
        ReviewStatus::Closed => DIM,
    };
    format!("{style}{status:<13}{style:#}")
}

/// One line of a list.
pub(super) fn line(review: &Review) -> String {
    let intent = review.intent.lines().next().unwrap_or_default();
    let project = review.project.as_ref();
    let project = project.map_or(String::new(), |name| format!("  ({})", shorten(name, 30)));
    format!(
        "{BOLD}{}{BOLD:#}  {}  {:8}  {DIM}{}{DIM:#}  {}{DIM}{}{DIM:#}\n",
        &review.review_id[..8],
        status(review.status),
        review.priority,
        minute(&review.updated_at),
        one_line(&shorten(intent, 72)),
        one_line(&project),
    )
}

/// One line about a review that goes.
pub(super) fn purged(one: &PurgedReview) -> String {
    let intent = one.intent.lines().next().unwrap_or_default();
    format!(
        "{BOLD}{}{BOLD:#}  {DIM}closed {}{DIM:#}  {}  {DIM}{} messages, {} patches{DIM:#}\n",
        &one.review_id[..8.min(one.review_id.len())],
        minute(&one.closed_at),
        one_line(&shorten(intent, 72)),
        one.messages,
        one.patches,
    )
}

/// `2026-07-28T09:30:00.000Z` to the minute.
fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A text of several lines, none of which looks like one of ours.
fn indented(text: &str, out: &mut String) {
    for line in text.lines() {
        let _ = writeln!(out, "  {}", plain(line));
    }
}

pub(super) fn head(review: &Review, out: &mut String) {
    let (title, more) = review
        .intent
        .split_once('\n')
        .unwrap_or((&review.intent, ""));
    let _ = writeln!(out, "{BOLD}{}{BOLD:#}", plain(title));
    indented(more, out);
    let mut field = |name: &str, value: &str| {
        let _ = writeln!(out, "{DIM}{name:>10}{DIM:#}  {}", one_line(value));
    };
    field("review", &review.review_id);
    field("status", review.status.as_str());
    field(
        "agent",
        &format!("{}, phase {}", review.agent_type, review.phase),
    );
    let optional = [
        ("plan", &review.plan),
        ("task", &review.task),
        ("project", &review.project),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            field(name, value);
        }
    }
    field("kind", &format!("{}, {}", review.category, review.priority));
    field(
        "proposed",
        &format!("{} by {}", minute(&review.created_at), review.proposed_by),
    );
    if let Some(by) = &review.claimed_by {
        field(
            "claimed",
            &format!("{by}, generation {}", review.claim_generation),
        );
    }
    if let Some(text) = &review.description {
        out.push('\n');
        indented(text, out);
    }
}

pub(super) fn message(message: &Message, out: &mut String) {
    let style = match message.role {
        Role::Proposer => CYAN,
        Role::Reviewer => YELLOW,
    };
    let _ = writeln!(
        out,
        "\n{style}{}{style:#} {DIM}{} {}{DIM:#}",
        message.role,
        minute(&message.created_at),
        one_line(&message.posted_by)
    );
    indented(&message.body, out);
}

pub(super) fn verdict(verdict: &Verdict, out: &mut String) {
    let style = if verdict.decision.as_str() == "approved" {
        GREEN
    } else {
        RED
    };
    let _ = writeln!(
        out,
        "\n{style}{}{style:#} {DIM}{} {}{DIM:#}",
        verdict.decision,
        minute(&verdict.created_at),
        one_line(&verdict.given_by)
    );
    indented(verdict.reason.as_deref().unwrap_or_default(), out);
}

pub(super) fn patch(patch: &Patch, title: &str, out: &mut String) {
    let _ = writeln!(
        out,
        "\n{BOLD}{title}{BOLD:#} {DIM}{} {} {}{DIM:#}",
        patch.role,
        minute(&patch.created_at),
        one_line(&patch.submitted_by)
    );
    indented(patch.description.as_deref().unwrap_or_default(), out);
    for file in &patch.affected_files {
        let _ = writeln!(
            out,
            "  {} {} {GREEN}+{}{GREEN:#} {RED}-{}{RED:#}",
            file.change,
            one_line(&file.path),
            file.added,
            file.removed
        );
    }
    out.push('\n');
    diff(&patch.diff, out);
}

/// A diff in the usual colours.
fn diff(text: &str, out: &mut String) {
    for line in text.lines() {
        let style =
            if line.starts_with("+++") || line.starts_with("---") || line.starts_with("diff ") {
                BOLD
            } else if line.starts_with('+') {
                GREEN
            } else if line.starts_with('-') {
                RED
            } else if line.starts_with("@@") {
                CYAN
            } else {
                Style::new()
            };
        let _ = writeln!(out, "{style}{}{style:#}", plain(line));
    }
}

/// One line of `watch`; `said` is what came with the event.
pub(super) fn event(event: &Event, said: &str) -> String {
    let moved = match (event.old_status, event.new_status) {
        (Some(old), Some(new)) if old != new => format!("{old} -> {}", status(new).trim_end()),
        (_, Some(new)) => status(new).trim_end().to_owned(),
        _ => String::new(),
    };
    format!(
        "{DIM}{}{DIM:#}  {BOLD}{}{BOLD:#}  {:18}  {moved}  {DIM}{}{DIM:#}  {}\n",
        event.created_at,
        &event.review_id[..8.min(event.review_id.len())],
        event.event,
        one_line(&event.actor),
        one_line(&shorten(said, 72)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_coloured_by_line() {
        let mut out = String::new();
        diff(
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n",
            &mut out,
        );
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[3], format!("{RED}-old{RED:#}"));
        assert_eq!(lines[4], format!("{GREEN}+new{GREEN:#}"));
        assert_eq!(lines[5], " same");
        assert!(lines[0].contains("--- a/x") && !lines[0].starts_with(&RED.to_string()));
    }

    #[test]
    fn a_text_of_an_agent_cannot_pass_for_a_line_of_ours() {
        let mut out = String::new();
        indented("why\n    status  approved", &mut out);
        assert_eq!(out, "  why\n      status  approved\n");
    }
}
