//! The verdict of each step, from a call's record and, where there is one, its story.
//!
//! The steps are taken in one order, so the one at which a call ended says how those before and after it did.

use std::time::Duration;

use sentinel_core::Kind;
use sentinel_core::audit::figures::CALLS;
use sentinel_core::audit::story::{StepName, Story};
use sentinel_core::audit::{Guarantee, Record, Stored};

use super::{CallStory, StepVerdict, StoryStep};

/// A step that took longer had something to wait for.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Where a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Before its first step.
    Before,
    /// At a step, which had the last word: with this verdict.
    At(StepName, StepVerdict),
    /// It ran while this step, which it had passed, ended it.
    Later(StepName),
    /// With an answer of its backend.
    Answered,
}

pub(super) fn tell(stored: Stored, story: Option<Story>) -> CallStory {
    let record = &stored.record;
    let is_call = CALLS.contains(&&*record.method) || story.as_ref().is_some_and(|s| s.rounds > 0);
    let steps = match is_call {
        true => steps(record, story.as_ref()),
        false => Vec::new(),
    };
    let took = |step: StepName| {
        let told = steps.iter().find(|told| told.step == step);
        told.and_then(|told| told.took_us)
    };
    let (waited_us, backend_us) = (took(StepName::Admit), took(StepName::Backend));
    let attempts = |story: &Story| match backend_us {
        Some(_) => 1 + story.retries,
        None => 0,
    };
    CallStory {
        story_known: story.is_some(),
        began_ms: story.as_ref().map(|story| story.began_ms),
        rounds: story.as_ref().map(|story| story.rounds),
        questions: story.as_ref().map(|story| story.questions),
        attempts: story.as_ref().map(attempts),
        trace_id: story.and_then(|story| story.trace),
        waited_us,
        backend_us,
        steps,
        record: stored,
    }
}

fn steps(record: &Record, story: Option<&Story>) -> Vec<StoryStep> {
    let end = end(record, story);
    let told = StepName::ALL.iter().map(|step| {
        let times = story.and_then(|story| times(story, *step));
        let mut verdict = match end {
            End::Before => StepVerdict::NotReached,
            End::At(last, verdict) if last == *step => verdict,
            End::At(last, _) if last < *step => StepVerdict::NotReached,
            End::Later(by) if by == *step => StepVerdict::Refused,
            End::At(..) | End::Later(_) | End::Answered => StepVerdict::Passed,
        };
        if verdict == StepVerdict::Passed {
            let waited = times.is_some_and(|(_, took)| took >= WAIT_MIN);
            if !is_for(*step, record) {
                verdict = StepVerdict::Skipped;
            } else if waited && *step != StepName::Backend {
                verdict = StepVerdict::Waited;
            }
        }
        StoryStep {
            step: *step,
            verdict,
            at_us: times.map(|(at, _)| at.as_micros() as u64),
            took_us: times.map(|(_, took)| took.as_micros() as u64),
            note: note(record, end, *step),
        }
    });
    told.collect()
}

/// When a step began, and how long it took until the next one or the end.
fn times(story: &Story, step: StepName) -> Option<(Duration, Duration)> {
    let at = story.steps.iter().position(|(name, _)| *name == step)?;
    let (_, began) = story.steps[at];
    let next = story.steps.get(at + 1).map(|(_, next)| *next);
    let took = next.unwrap_or(story.ended).saturating_sub(began);
    Some((began, took))
}

fn end(record: &Record, story: Option<&Story>) -> End {
    let kind = Kind::ALL.iter().find(|kind| kind.as_str() == record.kind);
    let is_refused = record.decision == "deny";
    let reached = story.map(|story| story.steps.last().map(|(step, _)| *step));
    match (kind, reached) {
        // The steps were never taken: the request was refused, or the answer to an earlier one was sent again.
        (_, Some(None)) => End::Before,
        (None, _) if record.kind == "replayed" => End::Before,
        (None, Some(Some(last))) if last < StepName::Backend => End::At(last, StepVerdict::Passed),
        (None, _) => End::Answered,
        // Switched off while it ran.
        (Some(Kind::Disabled), _) if !is_refused => End::Later(StepName::Kill),
        (Some(_), Some(Some(last))) if is_refused => End::At(last, StepVerdict::Refused),
        (Some(_), Some(Some(last))) => End::At(last, StepVerdict::Failed),
        (Some(kind), None) => match (refusing(*kind, record), is_refused) {
            (Some(step), true) => End::At(step, StepVerdict::Refused),
            (None, true) => End::Before,
            // What left the gateway ended at its backend.
            (_, false) => End::At(StepName::Backend, StepVerdict::Failed),
        },
    }
}

/// The step that refuses with this kind, if it is one of the walk's. What a caller may not see is refused like what does
/// not exist, so a record cannot tell the two apart.
fn refusing(kind: Kind, record: &Record) -> Option<StepName> {
    Some(match kind {
        Kind::UnknownName | Kind::UnknownResource | Kind::MethodNotFound => StepName::Resolve,
        Kind::Forbidden => StepName::Authorize,
        Kind::Disabled => StepName::Kill,
        Kind::RateLimited => StepName::Limit,
        Kind::InvalidArguments => StepName::Arguments,
        Kind::ConfirmationRequired | Kind::ConfirmationInvalid => StepName::Confirm,
        Kind::CircuitOpen => StepName::Circuit,
        Kind::Overloaded => StepName::Admit,
        Kind::AuditUnavailable => StepName::Intend,
        Kind::BackendUnavailable
        | Kind::BackendBusy
        | Kind::BackendTimeout
        | Kind::BackendBadReply
        | Kind::BackendError
        | Kind::MissingCapability => StepName::Backend,
        // It names something, so what is wrong are its arguments.
        Kind::InvalidParams if !record.operation.is_empty() => StepName::Arguments,
        _ => return None,
    })
}

/// Whether a step has anything to do for such a call.
fn is_for(step: StepName, record: &Record) -> bool {
    let is = |method: &str| record.method == method;
    match step {
        StepName::Limit | StepName::Confirm => is("tools/call"),
        StepName::Arguments => is("tools/call") || is("prompts/get"),
        StepName::Recall => is("resources/read"),
        StepName::Admit => CALLS.contains(&&*record.method),
        StepName::Intend => record.guarantee == Guarantee::Sync,
        _ => true,
    }
}

fn note(record: &Record, end: End, step: StepName) -> Option<String> {
    let text = match end {
        End::At(last, StepVerdict::Refused) if last == step => match record.kind.as_str() {
            "unknown_name" | "unknown_resource" if step == StepName::Authorize => {
                "the caller's role does not see it, so it is refused like what does not exist"
            }
            kind => kind,
        },
        End::At(last, StepVerdict::Failed) if last == step => match record.kind.as_str() {
            "cancelled" => "the caller left",
            kind => kind,
        },
        End::At(last, StepVerdict::Passed) if last == step => match step {
            StepName::Recall => "answered from the cache",
            _ => return None,
        },
        End::Later(by) if by == step => "switched off while it ran",
        End::Answered if step == StepName::Backend => match record.outcome.as_str() {
            "input_required" => "waits for its caller",
            _ => return None,
        },
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use sentinel_core::audit::RecordKey;

    use super::*;

    fn record(outcome: &str, kind: &str, decision: &str) -> Record {
        Record {
            method: "tools/call".to_owned(),
            operation: "echo".to_owned(),
            outcome: outcome.to_owned(),
            kind: kind.to_owned(),
            decision: decision.to_owned(),
            ..Record::default()
        }
    }

    fn story(steps: &[(StepName, u64)], ended_ms: u64) -> Story {
        let ms = Duration::from_millis;
        Story {
            began_ms: 5,
            steps: steps.iter().map(|(step, at)| (*step, ms(*at))).collect(),
            ended: ms(ended_ms),
            rounds: u32::from(!steps.is_empty()),
            questions: 0,
            retries: 2,
            trace: None,
        }
    }

    /// A letter for each step: passed, refused, failed, waited, skipped, and a dot for not reached.
    fn verdicts(record: Record, story: Option<Story>) -> (String, CallStory) {
        let key = RecordKey {
            node: "n".to_owned(),
            lane: 2,
            seq: 1,
        };
        let hash = [0; 32];
        let told = tell(Stored { key, record, hash }, story);
        let letter = |step: &StoryStep| match step.verdict {
            StepVerdict::Passed => 'p',
            StepVerdict::Refused => 'R',
            StepVerdict::Failed => 'F',
            StepVerdict::Waited => 'w',
            StepVerdict::Skipped => 's',
            StepVerdict::NotReached => '.',
        };
        (told.steps.iter().map(letter).collect(), told)
    }

    #[test]
    fn a_record_alone_tells_at_which_step_its_call_ended() {
        // resolve authorize kill limit arguments confirm recall circuit admit intend backend
        for (outcome, kind, decision, expected) in [
            ("success", "", "allow", "ppppppsppsp"),
            ("input_required", "", "allow", "ppppppsppsp"),
            ("denied", "unknown_name", "deny", "R.........."),
            ("denied", "forbidden", "deny", "pR........."),
            ("killed", "disabled", "deny", "ppR........"),
            ("killed", "disabled", "allow", "ppRpppsppsp"),
            ("rate_limited", "rate_limited", "deny", "pppR......."),
            ("error", "invalid_arguments", "deny", "ppppR......"),
            ("error", "confirmation_required", "deny", "pppppR....."),
            ("circuit_open", "circuit_open", "deny", "ppppppsR..."),
            ("overloaded", "overloaded", "deny", "ppppppspR.."),
            ("error", "audit_unavailable", "deny", "ppppppsppR."),
            ("error", "backend_unavailable", "deny", "ppppppsppsR"),
            ("error", "backend_timeout", "allow", "ppppppsppsF"),
            ("error", "backend_error", "allow", "ppppppsppsF"),
            ("cancelled", "cancelled", "allow", "ppppppsppsF"),
            ("error", "header_mismatch", "deny", "..........."),
            ("success", "replayed", "allow", "..........."),
        ] {
            let (told, story) = verdicts(record(outcome, kind, decision), None);
            assert_eq!(told, expected, "{outcome} {kind} {decision}");
            assert!(!story.story_known && story.attempts.is_none());
        }
        let list = Record {
            method: "tools/list".to_owned(),
            ..record("success", "", "allow")
        };
        assert_eq!(verdicts(list, None).0, "");
    }

    #[test]
    fn a_story_tells_where_its_call_was_and_for_how_long() {
        use StepName::{Admit, Authorize, Backend, Kill, Limit, Resolve};
        let whole = [
            (Resolve, 0),
            (Authorize, 0),
            (Kill, 0),
            (Limit, 3),
            (Admit, 4),
            (Backend, 10),
        ];
        let (told, story_told) = verdicts(record("success", "", "allow"), Some(story(&whole, 30)));
        assert_eq!(told, "ppwwppspwsp");
        assert_eq!(story_told.waited_us, Some(6_000));
        assert_eq!(story_told.backend_us, Some(20_000));
        assert_eq!(
            (story_told.attempts, story_told.began_ms),
            (Some(3), Some(5))
        );
        // Hidden, which its record calls unknown.
        let hidden = [(Resolve, 0), (Authorize, 0)];
        let unknown = record("denied", "unknown_name", "deny");
        let (told, story_told) = verdicts(unknown.clone(), Some(story(&hidden, 1)));
        assert_eq!(told, "pR.........");
        assert!(
            story_told.steps[1]
                .note
                .as_deref()
                .unwrap()
                .contains("does not see")
        );
        assert_eq!(story_told.attempts, Some(0));
        assert_eq!(
            verdicts(unknown, Some(story(&hidden[..1], 1))).0,
            "R.........."
        );
        // The caller left while it waited for a place.
        let cancelled = record("cancelled", "cancelled", "allow");
        let waiting = Some(story(&whole[..5], 9));
        assert_eq!(verdicts(cancelled, waiting).0, "ppwwppspF..");
        // It was refused before its first step.
        let refused = record("error", "invalid_params", "deny");
        assert_eq!(verdicts(refused, Some(story(&[], 1))).0, "...........");
        // Another step than the kind would say: a resource that was read from the cache.
        let read = Record {
            method: "resources/read".to_owned(),
            ..record("success", "", "allow")
        };
        let cached = [
            (Resolve, 0),
            (Authorize, 0),
            (Kill, 0),
            (StepName::Recall, 0),
        ];
        let (told, story_told) = verdicts(read, Some(story(&cached, 0)));
        assert_eq!(told, "pppsssp....");
        let note = story_told.steps[6].note.as_deref();
        assert_eq!(note, Some("answered from the cache"));
    }
}
