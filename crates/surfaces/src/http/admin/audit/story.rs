//! One audit record, and what happened in its call: each step of the walk with its verdict and time.
//!
//! Not here: when times are noted (`sentinel_core::audit::story`), what a record's verdicts are (`verdicts`).

mod verdicts;

use schemars::JsonSchema;
use sentinel_core::audit::story::StepName;
use sentinel_core::audit::{Filter, Query, RecordKey, Stored};
use sentinel_core::{Fault, Kind};
use serde::Serialize;

use super::super::parameters::{FromQuery, Pairs, Parameters};
use super::super::{Endpoint, Exchange};
use super::{SEARCH_MAX, store, turn, unanswered};
use verdicts::tell;

/// The parameters: a key, or a request id with its caller.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "read as an `Asked`; declared for its schema")]
pub(in crate::http) struct Declared {
    /// `<node>.<lane>.<seq>`
    key: Option<String>,
    /// As JSON: a text in quotes, or a number. The newest request with it is meant.
    request_id: Option<String>,
    caller: Option<String>,
}

pub(in crate::http) enum Asked {
    Key(RecordKey),
    Request(Box<Filter>),
}

/// An audit record with the story of its call.
#[derive(Serialize, JsonSchema)]
pub struct CallStory {
    pub record: Stored,
    /// The steps of the walk in their order; none where the request is no call.
    pub steps: Vec<StoryStep>,
    /// Whether times were noted while the call ran. Without them verdicts follow from the record.
    pub story_known: bool,
    /// When the request that began the call was read: times are counted from there. A call that asked its caller something
    /// may have begun with an earlier request than that of the record.
    pub began_ms: Option<u64>,
    pub trace_id: Option<String>,
    /// How often the steps were taken: again where a caller's answers are sent to its backend with the call.
    pub rounds: Option<u32>,
    /// How many questions its caller was asked.
    pub questions: Option<u32>,
    /// How often the request was sent to its backend.
    pub attempts: Option<u32>,
    /// Time in the queue for a place.
    pub waited_us: Option<u64>,
    /// Time at the backend, with that of questions to the caller.
    pub backend_us: Option<u64>,
}

/// One step of the walk.
#[derive(Serialize, JsonSchema)]
pub struct StoryStep {
    pub step: StepName,
    pub verdict: StepVerdict,
    /// When it began.
    pub at_us: Option<u64>,
    pub took_us: Option<u64>,
    pub note: Option<String>,
}

/// How a step ended: a call ends at the step that refuses it or fails, and waits at those that have it wait. Steps that are
/// not for it are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepVerdict {
    Passed,
    Refused,
    Failed,
    Waited,
    Skipped,
    NotReached,
}

impl FromQuery for Asked {
    type Declared = Declared;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        let key = pairs.text("key");
        let request_id = pairs.owned("request_id");
        let caller = pairs.owned("caller");
        match (key, request_id) {
            (Some(key), None) if caller.is_none() => {
                let known = read_key(&key).ok_or("`key` is `<node>.<lane>.<seq>` of a record")?;
                Ok(Self::Key(known))
            }
            (None, Some(request_id)) => Ok(Self::Request(Box::new(Filter {
                request_id: Some(request_id),
                caller,
                ..Filter::default()
            }))),
            _ => Err("say `key`, or `request_id` and perhaps its `caller`".to_owned()),
        }
    }
}

/// A node has no full stop, but nothing depends on that.
fn read_key(text: &str) -> Option<RecordKey> {
    let mut parts = text.rsplitn(3, '.');
    let seq = parts.next()?.parse().ok()?;
    let lane = parts.next()?.parse().ok()?;
    let node = parts.next().filter(|node| !node.contains('\0'))?;
    let node = node.to_owned();
    Some(RecordKey { node, lane, seq })
}

pub(crate) struct Read;

impl Endpoint for Read {
    type Input = Parameters<Asked>;
    type Output = CallStory;

    async fn handle(
        exchange: &Exchange<'_>,
        Parameters(asked): Self::Input,
    ) -> Result<CallStory, Fault> {
        let store = store(exchange)?;
        let _turn = turn().await;
        let record = match asked {
            Asked::Key(key) => {
                let before = RecordKey {
                    seq: key.seq.wrapping_sub(1),
                    ..key.clone()
                };
                let page = store.page(Some(before), 1).await.map_err(unanswered)?;
                page.into_iter().find(|stored| stored.key == key)
            }
            Asked::Request(filter) => {
                let query = Query {
                    filter: *filter,
                    newest: true,
                    limit: 1,
                    within: Some(SEARCH_MAX),
                    ..Query::default()
                };
                store.find(query).await.map_err(unanswered)?.pop()
            }
        };
        let missing = || Fault::new(Kind::NotFound, "there is no such record in the store");
        let record = record.ok_or_else(missing)?;
        let stories = &exchange.server.gateway.auditor.stories;
        let story = stories.of(&record.record.draft());
        Ok(tell(record, story))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::parameters::{check_declared, parse};
    use super::*;

    #[test]
    fn a_record_is_asked_for_by_its_key_or_its_request() {
        check_declared::<Asked>();
        let Ok(Asked::Key(key)) = parse("key=a.b.-3.9") else {
            panic!("it is a key");
        };
        assert_eq!((&*key.node, key.lane, key.seq), ("a.b", -3, 9));
        assert!(matches!(
            parse("request_id=%22a%22&caller=ann"),
            Ok(Asked::Request(_))
        ));
        for asked in [
            "",
            "key=1.2",
            "key=a.1.2&request_id=1",
            "caller=ann",
            "key=a.x.2",
        ] {
            assert!(parse::<Asked>(asked).is_err(), "{asked}");
        }
    }
}
