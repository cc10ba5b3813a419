//! A caller's request, independent of its surface.
//!
//! Inside the core the input of an operation has MCP's form: one JSON object with name or URI and raw arguments. An
//! MCP surface passes its method and params unchanged (`Invocation::mcp`). Other surfaces name an operation and give
//! raw arguments (`tool`, `resource`, `prompt`); the params are written here.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Method, Params};

use crate::caller::Caller;
use crate::http_call::HttpCall;
use crate::random;
use crate::rows::RowSender;

/// The endpoint of a call, which determines the names it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// `/mcp`: all backends, exposed names.
    Merged,
    /// `/mcp/<backend>`: one backend, its own names. The index is the backend's slot in the registry, which it keeps
    /// for the life of the process.
    Only(usize),
}

/// Facts about a task besides its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOf {
    /// The tool that became the task, by its backend's own name; policy decides on it.
    pub tool: Arc<str>,
    /// The kinds of question its caller could answer when it began (`ClientCapabilities::questions`): a legacy server
    /// knows the task in the session of such callers.
    pub questions: u8,
    /// The call that became the task.
    pub call: CallId,
}

/// Identifies a call through its rounds of questions, retries, parking and the task that it may become. Laid out as a
/// UUIDv7, so ids sort by time: unique, but not hard to guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(u128);

impl CallId {
    pub fn mint() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = since.map_or(0, |since| since.as_millis());
        let (high, low) = (random::fast_u64(), random::fast_u64());
        let random = (u128::from(high & 0xfff) << 64) | u128::from(low >> 2);
        Self((ms << 80) | (0x7 << 76) | (0b10 << 62) | random)
    }

    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let (a, b, c, d, e) = (
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        );
        write!(f, "{a}-{b}-{c}-{d}-{e}")
    }
}

/// One round of a call. Counters of calls (rate limits, audit intents) count first rounds only: later ones continue a
/// counted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    pub call: CallId,
    number: u8,
}

impl Round {
    /// The first round of a new call.
    pub fn first() -> Self {
        Self {
            call: CallId::mint(),
            number: 0,
        }
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self {
            number: self.number.saturating_add(1),
            ..self
        }
    }

    pub fn is_first(self) -> bool {
        self.number == 0
    }

    pub(crate) fn number(self) -> u8 {
        self.number
    }

    pub fn to_bytes(self) -> [u8; 17] {
        let mut bytes = [self.number; 17];
        bytes[..16].copy_from_slice(&self.call.to_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; 17]) -> Self {
        let [call @ .., number] = bytes;
        Self {
            call: CallId::from_bytes(call),
            number,
        }
    }
}

/// The requested operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    CallTool,
    ReadResource,
    GetPrompt,
    Complete,
    Subscribe,
    Unsubscribe,
    /// A request about a task.
    Task(TaskAction, Arc<TaskOf>),
    /// A method that only one backend knows.
    Other(Method),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAction {
    Get,
    Update,
    Cancel,
}

impl Action {
    fn of(method: Method) -> Self {
        match method {
            Method::ToolsCall => Self::CallTool,
            Method::ResourcesRead => Self::ReadResource,
            Method::PromptsGet => Self::GetPrompt,
            Method::Complete => Self::Complete,
            Method::ResourcesSubscribe => Self::Subscribe,
            Method::ResourcesUnsubscribe => Self::Unsubscribe,
            other => Self::Other(other),
        }
    }

    /// Its method in MCP, and the task it is about.
    pub(crate) fn into_method(self) -> (Method, Option<Arc<TaskOf>>) {
        match self {
            Self::CallTool => (Method::ToolsCall, None),
            Self::ReadResource => (Method::ResourcesRead, None),
            Self::GetPrompt => (Method::PromptsGet, None),
            Self::Complete => (Method::Complete, None),
            Self::Subscribe => (Method::ResourcesSubscribe, None),
            Self::Unsubscribe => (Method::ResourcesUnsubscribe, None),
            Self::Task(TaskAction::Get, of) => (Method::TasksGet, Some(of)),
            Self::Task(TaskAction::Update, of) => (Method::TasksUpdate, Some(of)),
            Self::Task(TaskAction::Cancel, of) => (Method::TasksCancel, Some(of)),
            Self::Other(method) => (method, None),
        }
    }
}

/// The form of a refusal caused by the caller's input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusals {
    /// The form of its MCP revision: a tool error where a model may correct itself.
    #[default]
    ByRevision,
    /// A fault with details, for surfaces whose callers are programs.
    Faults,
}

/// A caller's request, ready for `Walk::begin`.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub round: Round,
    pub caller: Arc<Caller>,
    pub view: View,
    pub action: Action,
    /// Name or URI, arguments and `_meta` as MCP's params.
    pub input: Params,
    pub refusals: Refusals,
    /// The confirmation token of the call, where it did not come in `_meta`.
    pub confirmation: Option<Arc<str>>,
    pub extra: Extra,
}

/// What calls of HTTP surfaces may bring and take besides input and result.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// The request itself, for a backend that answers it as a whole.
    pub http: Option<Arc<HttpCall>>,
    /// The caller takes the rows of a set one by one.
    pub rows: Option<RowSender>,
}

impl Invocation {
    fn new(caller: Arc<Caller>, view: View, action: Action, input: Params) -> Self {
        Self {
            round: Round::first(),
            caller,
            view,
            action,
            input,
            refusals: Refusals::Faults,
            confirmation: None,
            extra: Extra::default(),
        }
    }

    /// A request that came over MCP; it may continue an earlier call.
    pub fn mcp(
        round: Round,
        caller: Arc<Caller>,
        view: View,
        method: Method,
        params: Params,
    ) -> Self {
        Self {
            round,
            caller,
            view,
            action: Action::of(method),
            input: params,
            refusals: Refusals::default(),
            confirmation: None,
            extra: Extra::default(),
        }
    }

    /// A read of a resource.
    pub fn resource(caller: Arc<Caller>, view: View, uri: &str) -> Self {
        let input = object("uri", uri, b"");
        Self::new(caller, view, Action::ReadResource, input)
    }

    /// A subscription to a resource.
    pub fn subscription(caller: Arc<Caller>, view: View, uri: &str) -> Self {
        Self {
            action: Action::Subscribe,
            ..Self::resource(caller, view, uri)
        }
    }

    /// A request about a task of the backend at `owner`; it continues the call that became the task. `members` are
    /// further members of the params, each preceded by a comma.
    pub fn task(
        caller: Arc<Caller>,
        owner: usize,
        action: TaskAction,
        of: Arc<TaskOf>,
        id: &str,
        members: &[u8],
    ) -> Self {
        let input = object("taskId", id, members);
        Self::about_task(caller, owner, action, of, input)
    }

    /// Like [`Invocation::task`], with params that came over MCP.
    pub fn about_task(
        caller: Arc<Caller>,
        owner: usize,
        action: TaskAction,
        of: Arc<TaskOf>,
        params: Params,
    ) -> Self {
        let round = Round {
            call: of.call,
            number: 1,
        };
        Self {
            round,
            caller,
            view: View::Only(owner),
            action: Action::Task(action, of),
            input: params,
            refusals: Refusals::default(),
            confirmation: None,
            extra: Extra::default(),
        }
    }
}

/// MCP's params for an operation whose name and raw arguments are separate, as on other surfaces. `members` are
/// further members, each preceded by a comma, written by the gateway. An error says why the arguments are not JSON
/// within `rules`.
pub fn params_named(
    name: &str,
    arguments: &[u8],
    members: &[u8],
    rules: Rules,
) -> Result<Params, json::Error> {
    let params = object_within(
        "name",
        name,
        &[b",\"arguments\":", arguments, members],
        rules,
    );
    let is_whole = |params: &Params| {
        let scanned = params.get("arguments").unwrap_or_default();
        scanned.len() == arguments.trim_ascii().len()
    };
    match params {
        Ok(params) if is_whole(&params) => Ok(params),
        // Parsed alone first, so that errors refer to the arguments and text after their end is rejected: it would be
        // read as further members. `rules` bound the depth of the arguments, not of the object around them.
        _ => {
            Params::parse(arguments.to_vec().into(), rules)?;
            let members = [b",\"arguments\":", arguments, members];
            object_within("name", name, &members, Rules::backend())
        }
    }
}

/// MCP's params for a resource.
pub fn params_of_uri(uri: &str, members: &[u8]) -> Params {
    object("uri", uri, members)
}

fn object(member: &str, value: &str, members: &[u8]) -> Params {
    object_within(member, value, &[members], Rules::backend()).expect("written as JSON")
}

fn object_within(
    member: &str,
    value: &str,
    members: &[&[u8]],
    rules: Rules,
) -> Result<Params, json::Error> {
    let bytes: usize = members.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(member.len() + value.len() + bytes + 8);
    out.push(b'{');
    json::encode_string(member, &mut out);
    out.push(b':');
    json::encode_string(value, &mut out);
    for part in members {
        out.extend_from_slice(part);
    }
    out.push(b'}');
    Params::parse(out.into(), rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_are_uuids_of_version_7_in_order_of_time_and_differ() {
        let ids: Vec<CallId> = (0..10_000).map(|_| CallId::mint()).collect();
        let mut unique = ids.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), ids.len());
        let ms = |id: &CallId| id.0 >> 80;
        assert!(ids.windows(2).all(|pair| ms(&pair[0]) <= ms(&pair[1])));
        let bytes = ids[0].to_bytes();
        assert_eq!((bytes[6] >> 4, bytes[8] >> 6), (7, 0b10));
        assert_eq!(CallId::from_bytes(bytes), ids[0]);
        let round = Round::first().next();
        assert_eq!(Round::from_bytes(round.to_bytes()), round);
    }

    #[test]
    fn an_operation_and_raw_arguments_become_params_byte_for_byte() {
        let named = |arguments: &str| {
            let params = params_named("a\"b", arguments.as_bytes(), b"", Rules::caller(8));
            params.map(|params| String::from_utf8_lossy(params.as_bytes()).into_owned())
        };
        assert_eq!(
            named(r#"{ "n": 1.0 }"#).expect("JSON"),
            r#"{"name":"a\"b","arguments":{ "n": 1.0 }}"#
        );
        named(" {} ").expect("space around it means nothing");
        for bad in [
            "",
            "{",
            "{}}",
            r#"{},"name":"c""#,
            r#"{},"task":{}"#,
            r#"{"a":1,"a":2}"#,
            "[[[[[[[[[]]]]]]]]]",
        ] {
            assert!(named(bad).is_err(), "{bad}");
        }
        let read = params_of_uri("x://\"", b"");
        assert_eq!(read.as_bytes(), br#"{"uri":"x://\""}"#);
    }
}
