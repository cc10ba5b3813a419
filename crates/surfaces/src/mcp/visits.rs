//! Pages that a user was sent to during a call.
//!
//! A modern backend that sends a user to a URL answers `input_required` until the user has finished there; `accept`
//! only means that the page was opened. A legacy caller must not be asked repeatedly, so the gateway polls the
//! backend with backoff, and gives up before clients do.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use sentinel_core::{Fault, Kind, Reply};
use sentinel_wire::json::{self, Rules};
use sentinel_wire::translate::ask::is_url_mode;
use sentinel_wire::{Method, Outcome, Payload, Revision};

use super::legacy::RequestedInput;

/// Backoff between two polls: doubles from `PAUSE_MIN` to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// Bound on all pauses together: most clients give a call up after a minute.
const WAIT_MAX: Duration = Duration::from_secs(45);

/// The pages that the user agreed to open during one call.
#[derive(Default)]
pub(crate) struct OpenedPages {
    urls: HashSet<String>,
    waited: Duration,
    last: Duration,
}

impl OpenedPages {
    /// Records an answer, if it accepted such a page.
    pub(crate) fn note(&mut self, params: &Bytes, answer: &Bytes) {
        let parse = |raw: &Bytes| Payload::parse(raw.clone(), Rules::backend()).ok();
        if let (Some(url), Some(answer)) = (url_of(params), parse(answer))
            && answer.get("action") == Some(br#""accept""#)
        {
            self.urls.insert(url);
        }
    }

    /// Whether all requested input consists of pages that the user accepted.
    pub(crate) fn are_all_of(&self, needed: &RequestedInput) -> bool {
        let visited = |(_, method, params): &(String, Method, Bytes)| {
            *method == Method::Elicit && url_of(params).is_some_and(|url| self.urls.contains(&url))
        };
        !needed.inputs.is_empty() && needed.inputs.iter().all(visited)
    }

    /// The pause before the next poll; `None` when the bound is reached.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        self.last = (self.last * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.waited += self.last;
        (self.waited <= WAIT_MAX).then_some(self.last)
    }

    /// The outcome if the user has not finished.
    pub(crate) fn unfinished(&self, method: &Method, revision: Revision) -> Result<Reply, Fault> {
        let mut urls: Vec<&str> = self.urls.iter().map(String::as_str).collect();
        urls.sort_unstable();
        let text = format!(
            "The user has to finish at {} first; call again after that.",
            urls.join(" and ")
        );
        if *method != Method::ToolsCall {
            return Err(Fault::new(Kind::Cancelled, text));
        }
        let mut result = br#"{"content":[{"type":"text","text":"#.to_vec();
        json::encode_string(&text, &mut result);
        result.extend_from_slice(br#"}],"isError":true}"#);
        let result =
            Payload::parse(result.into(), Rules::backend()).expect("what we wrote is JSON");
        Ok(Reply {
            revision,
            outcome: Outcome::Result(result),
        })
    }
}

/// The URL of an elicitation, if it has one.
fn url_of(params: &Bytes) -> Option<String> {
    let params = Payload::parse(params.clone(), Rules::backend()).ok()?;
    is_url_mode(&params)
        .then(|| params.string("url").map(|url| url.into_owned()))
        .flatten()
}

/// Answers for pages that the user accepted.
pub(crate) fn accept_all(needed: &RequestedInput) -> Vec<u8> {
    let mut answers = vec![b'{'];
    for (i, (key, _, _)) in needed.inputs.iter().enumerate() {
        if i > 0 {
            answers.push(b',');
        }
        json::encode_string(key, &mut answers);
        answers.extend_from_slice(br#":{"action":"accept"}"#);
    }
    answers.push(b'}');
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(urls: &[&str]) -> RequestedInput {
        let input = |url: &&str| {
            let params = format!(r#"{{"mode":"url","message":"m","url":"{url}"}}"#);
            (url.to_string(), Method::Elicit, Bytes::from(params))
        };
        RequestedInput {
            inputs: urls.iter().map(input).collect(),
            state: None,
        }
    }

    #[test]
    fn c_39_only_pages_that_the_user_went_to_are_waited_for() {
        let mut visits = OpenedPages::default();
        let page = &needed(&["https://a"]).inputs[0].2;
        visits.note(page, &Bytes::from_static(br#"{"action":"decline"}"#));
        assert!(!visits.are_all_of(&needed(&["https://a"])));
        visits.note(page, &Bytes::from_static(br#"{"action":"accept"}"#));
        assert!(visits.are_all_of(&needed(&["https://a"])));
        assert!(!visits.are_all_of(&needed(&["https://a", "https://b"])));
        assert!(!visits.are_all_of(&needed(&[])));
        let answers = accept_all(&needed(&["https://a"]));
        assert_eq!(answers, br#"{"https://a":{"action":"accept"}}"#);
    }

    #[test]
    fn c_39_the_backend_is_looked_at_with_growing_pauses_and_given_up_before_clients_do() {
        let mut visits = OpenedPages::default();
        let pauses: Vec<u64> = std::iter::from_fn(|| visits.pause())
            .map(|pause| pause.as_secs())
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 8, 8, 8]);
        visits.urls.insert("https://a".to_owned());
        let ended = visits.unfinished(&Method::ToolsCall, Revision::NEWEST_LEGACY);
        let Ok(Reply {
            outcome: Outcome::Result(told),
            ..
        }) = ended
        else {
            panic!("a result for the model")
        };
        assert_eq!(told.get("isError"), Some(&b"true"[..]));
        assert!(
            visits
                .unfinished(&Method::PromptsGet, Revision::NEWEST_LEGACY)
                .is_err()
        );
    }
}
