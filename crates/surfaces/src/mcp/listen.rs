//! Notifications of changes: for the GET stream of a legacy session, for a legacy stdio caller, and for
//! `subscriptions/listen` of a modern one, which may include resources and tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sentinel_core::catalog::{Change, Generations, Registry};
use sentinel_core::updates::{OnTask, OnUpdate, Ticket};
use sentinel_core::{Caller, Conversation, Fault, Invocation, Reply, Step, TaskAction, View};
use sentinel_wire::envelope::{write_notification, write_result};
use sentinel_wire::json::{self, Object, Rules};
use sentinel_wire::{Id, Method, Outcome, Payload, Request, meta};
use tokio::sync::{mpsc, watch};

use super::subscribe::{Permission, SUBSCRIPTIONS_MAX, updated_message};
use super::tasks::{self, TaskHandle};
use crate::gateway::Gateway;

/// Changes in one view since the last call. Changes that come faster than they are read are reported once.
#[derive(Clone)]
pub(crate) struct Changes {
    view: View,
    source: watch::Receiver<Arc<Generations>>,
    seen: Arc<Generations>,
}

impl Changes {
    pub(crate) fn of(registry: &Registry, view: View) -> Self {
        let mut source = registry.changes();
        let seen = source.borrow_and_update().clone();
        Self { view, source, seen }
    }

    /// Waits for a change; empty if it was in another view, `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Vec<Change>> {
        // Not `changed`: a clone used later has unreported earlier changes.
        let seen = self.seen.clone();
        let newer = self.source.wait_for(|now| !Arc::ptr_eq(now, &seen));
        newer.await.ok()?;
        let now = self.source.borrow_and_update().clone();
        let changed = now.since(&self.seen, self.view).collect();
        self.seen = now;
        Some(changed)
    }
}

/// The notification for a legacy caller.
pub(crate) fn change_message(change: Change) -> Vec<u8> {
    let mut message = Vec::new();
    write_notification(change.method().as_str(), b"", &mut message);
    message
}

/// Queued updates of one listener; one that falls behind further is cut off.
const QUEUE_LEN_MAX: usize = 256;
/// Longest time for a backend to accept a subscription.
const AGREE_MAX: Duration = Duration::from_secs(10);
/// Tasks per listener: the state of each is requested at the start.
const TASKS_MAX: usize = 100;

/// Events of a listener besides changed lists.
enum ListenerEvent {
    Updated(String),
    /// The state of a followed task, by index; `None` if it must be requested.
    Task(usize, Option<Payload>),
}

/// A followed task.
struct Followed {
    named: TaskHandle,
    /// The caller's name for it.
    handle: String,
    _ticket: Ticket,
    /// The last state reported to the caller.
    last: Option<Bytes>,
}

/// One `subscriptions/listen`: its filter and its id.
pub(crate) struct Listener {
    id: Id,
    wanted: Vec<Change>,
    changes: Changes,
    followed: Vec<(String, Ticket)>,
    tasks: Vec<Followed>,
    heard: mpsc::Receiver<ListenerEvent>,
    /// A task event in progress: requesting the state takes a while, and this future may be dropped meanwhile.
    owed: Option<(usize, Option<Payload>)>,
    /// It fell behind and is cut off.
    lost: Arc<AtomicBool>,
    look: TaskReader,
}

/// Requests the state of tasks for a listener.
struct TaskReader {
    gateway: Arc<Gateway>,
    caller: Arc<Caller>,
    /// How the caller introduced itself.
    meta: Option<Bytes>,
}

impl TaskReader {
    fn request(&self, named: &TaskHandle) -> Invocation {
        let meta = self.meta.as_deref().map(String::from_utf8_lossy);
        let meta = meta.map(|meta| format!(r#","_meta":{meta}"#));
        named.request(&self.caller, TaskAction::Get, &meta.unwrap_or_default())
    }

    /// Whether the caller may request its state.
    fn is_allowed(&self, named: &TaskHandle) -> bool {
        let walk = &self.gateway.walk;
        walk.permits(self.request(named), Arc::default()).is_ok()
    }

    /// The state of a task, requested like any other call, so that ownership and permissions are checked.
    async fn at(&self, named: &TaskHandle) -> Option<Payload> {
        let walk = &self.gateway.walk;
        let talk = walk.begin(self.request(named), Arc::default());
        match ended(talk).await?.ok()?.outcome {
            Outcome::Result(task) => Some(task),
            Outcome::Error(_) => None,
        }
    }
}

/// The queue of one listener; it is closed when the listener falls behind.
#[derive(Clone)]
struct EventQueue {
    tell: mpsc::Sender<ListenerEvent>,
    lost: Arc<AtomicBool>,
}

impl EventQueue {
    fn tell(&self, news: ListenerEvent) {
        if self.tell.try_send(news).is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
    }
}

impl Listener {
    /// Subscribes at the owners of the named resources and tasks; refused ones are left out. Naming tasks requires
    /// having declared them.
    pub(crate) async fn open(
        gateway: &Arc<Gateway>,
        caller: Arc<Caller>,
        view: View,
        request: Request,
    ) -> Result<Self, Fault> {
        let handles = named(&request, "taskIds", TASKS_MAX);
        if !handles.is_empty() && !caller.takes_tasks() {
            return Err(tasks::undeclared());
        }
        let (tell, heard) = mpsc::channel(QUEUE_LEN_MAX);
        let lost = Arc::new(AtomicBool::new(false));
        let queue = EventQueue {
            tell,
            lost: lost.clone(),
        };
        let changes = Changes::of(&gateway.registry, view);
        let mut followed = Vec::new();
        for uri in named(&request, "resourceSubscriptions", SUBSCRIPTIONS_MAX) {
            let right = Permission::to_hear_of(&uri, gateway, &caller, view);
            let queue = queue.clone();
            let hear: OnUpdate = Arc::new(move |changed| {
                if right.holds_for(changed) {
                    queue.tell(ListenerEvent::Updated(changed.to_owned()));
                }
            });
            let Some(ticket) = gateway.registry.listen(view, &caller, &uri, hear) else {
                continue;
            };
            if agrees(gateway, &caller, view, &uri).await {
                followed.push((uri, ticket));
            }
        }
        let mut this = Self {
            wanted: wanted(&request),
            id: request.id.clone(),
            changes,
            followed,
            tasks: Vec::new(),
            heard,
            owed: None,
            lost,
            look: TaskReader {
                gateway: gateway.clone(),
                caller,
                meta: request.params.get_bytes("_meta"),
            },
        };
        for handle in handles {
            this.follow(handle, &queue).await;
        }
        Ok(this)
    }

    /// Follows a task, and requests its state, since it may have ended before the subscription.
    async fn follow(&mut self, handle: String, queue: &EventQueue) {
        let gateway = &self.look.gateway;
        let Ok(named) = tasks::open(gateway, &self.look.caller, self.changes.view, &handle) else {
            return;
        };
        let (at, to) = (self.tasks.len(), queue.clone());
        let hear: OnTask = Arc::new(move |now| to.tell(ListenerEvent::Task(at, now.cloned())));
        let registry = &self.look.gateway.registry;
        let Some(ticket) = registry.follow(named.owner, &named.id, hear) else {
            return;
        };
        registry.are_told(named.owner).await;
        if let Some(now) = self.look.at(&named).await {
            queue.tell(ListenerEvent::Task(at, Some(now)));
            self.tasks.push(Followed {
                named,
                handle,
                _ticket: ticket,
                last: None,
            });
        }
    }

    /// The notification about a task, if its state is new.
    async fn of_task(&mut self, at: usize, now: Option<Payload>) -> Option<Vec<u8>> {
        let now = match now {
            // Only while the caller may request its state.
            Some(now) if self.look.is_allowed(&self.tasks.get(at)?.named) => now,
            Some(_) => return None,
            None => self.look.at(&self.tasks.get(at)?.named).await?,
        };
        let id = format!("{{{}}}", self.id_pair());
        let task = self.tasks.get_mut(at)?;
        if now.string("taskId")? != task.named.id {
            return None;
        }
        let edits = [("resultType", None), ("_meta", Some(id.as_bytes()))];
        let mut params = Vec::new();
        tasks::with_id(&now, &task.handle)
            .as_raw()
            .rewrite(&edits, &mut params);
        let params = Bytes::from(params);
        if task.last.as_ref() == Some(&params) {
            return None;
        }
        let mut message = Vec::new();
        write_notification(Method::TaskChanged.as_str(), &params, &mut message);
        task.last = Some(params);
        Some(message)
    }

    /// The first message: the accepted part of the filter.
    pub(crate) fn acknowledgement(&self) -> Vec<u8> {
        let mut honoured: Vec<String> = self
            .wanted
            .iter()
            .map(|c| format!(r#""{}":true"#, filter_key(*c)))
            .collect();
        if !self.followed.is_empty() {
            let uris: Vec<&str> = self.followed.iter().map(|(uri, _)| uri.as_str()).collect();
            honoured.push(format!(
                r#""resourceSubscriptions":{}"#,
                serde_json::json!(uris)
            ));
        }
        if !self.tasks.is_empty() {
            let handles: Vec<&str> = self.tasks.iter().map(|t| t.handle.as_str()).collect();
            honoured.push(format!(r#""taskIds":{}"#, serde_json::json!(handles)));
        }
        let params = format!(
            r#"{{{},"notifications":{{{}}}}}"#,
            self.id_member(),
            honoured.join(",")
        );
        let mut message = Vec::new();
        write_notification(
            Method::Acknowledged.as_str(),
            params.as_bytes(),
            &mut message,
        );
        message
    }

    /// The next notifications, possibly none; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        if self.lost.load(Ordering::Relaxed) {
            return None;
        }
        if let Some((at, now)) = self.owed.clone() {
            let told = self.of_task(at, now).await;
            self.owed = None;
            return Some(told.into_iter().collect());
        }
        let id = self.id_member();
        tokio::select! {
            Some(news) = self.heard.recv() => match news {
                ListenerEvent::Updated(uri) => Some(vec![updated_message(&uri, &format!(",{id}"))]),
                ListenerEvent::Task(at, now) => {
                    self.owed = Some((at, now));
                    Some(Vec::new())
                }
            },
            changed = self.changes.next() => {
                let tell = |change: Change| {
                    let mut message = Vec::new();
                    write_notification(change.method().as_str(), format!("{{{id}}}").as_bytes(), &mut message);
                    message
                };
                Some(changed?.into_iter().filter(|c| self.wanted.contains(c)).map(tell).collect())
            }
        }
    }

    /// The last message, when the gateway ends the subscription.
    pub(crate) fn farewell(&self) -> Vec<u8> {
        let mut message = Vec::new();
        let result = format!(r#"{{"resultType":"complete",{}}}"#, self.id_member());
        write_result(&self.id, result.as_bytes(), &mut message);
        message
    }

    fn id_member(&self) -> String {
        format!(r#""_meta":{{{}}}"#, self.id_pair())
    }

    fn id_pair(&self) -> String {
        let id = String::from_utf8_lossy(self.id.as_bytes());
        format!(r#""{}":{id}"#, meta::SUBSCRIPTION_ID)
    }
}

fn wanted(request: &Request) -> Vec<Change> {
    let raw = request.params.get("notifications").unwrap_or_default();
    let filter = Object::parse(raw, Rules::backend()).unwrap_or_default();
    let asked =
        |change: &Change| filter.get(raw, filter_key(*change)).map(|s| s.of(raw)) == Some(b"true");
    Change::ALL.into_iter().filter(asked).collect()
}

fn filter_key(change: Change) -> &'static str {
    match change {
        Change::Tools => "toolsListChanged",
        Change::Resources => "resourcesListChanged",
        Change::Prompts => "promptsListChanged",
    }
}

/// The resources or tasks in a filter, within a bound.
fn named(request: &Request, member: &str, max: usize) -> Vec<String> {
    let raw = request.params.get("notifications").unwrap_or_default();
    let filter = Object::parse(raw, Rules::backend()).unwrap_or_default();
    let Some(list) = filter.get(raw, member).map(|s| s.of(raw)) else {
        return Vec::new();
    };
    let spans = json::elements(list, Rules::backend()).unwrap_or_default();
    let names = spans
        .iter()
        .filter_map(|span| json::decode_string(span.of(list)));
    names.map(|name| name.into_owned()).take(max).collect()
}

/// The outcome of a request of the gateway's own, within a bound; its notices are dropped.
async fn ended(mut talk: Conversation) -> Option<Result<Reply, Fault>> {
    let outcome = async {
        loop {
            if let Step::Done(outcome) = talk.next().await {
                return outcome;
            }
        }
    };
    tokio::time::timeout(AGREE_MAX, outcome).await.ok()
}

/// Whether the caller may follow a resource and its backend accepts: requested like any other call.
async fn agrees(gateway: &Gateway, caller: &Arc<Caller>, view: View, uri: &str) -> bool {
    let subscription = Invocation::subscription(caller.clone(), view, uri);
    let talk = gateway.walk.begin(subscription, Arc::default());
    matches!(
        ended(talk).await,
        Some(Ok(Reply {
            outcome: Outcome::Result(_),
            ..
        }))
    )
}
