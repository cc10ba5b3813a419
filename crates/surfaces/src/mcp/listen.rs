//! Hearing that lists changed: for the GET stream of a legacy session, for a legacy stdio caller,
//! and for `subscriptions/listen` of a modern one, who may also want to hear of resources and tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sentinel_core::catalog::{Change, Generations, Registry};
use sentinel_core::updates::{Hear, HearTask, Ticket};
use sentinel_core::{Caller, Conversation, Fault, Invocation, Reply, Step, TaskAction, View};
use sentinel_wire::envelope::{write_notification, write_result};
use sentinel_wire::json::{self, Object, Rules};
use sentinel_wire::{Id, Method, Outcome, Payload, Request, meta};
use tokio::sync::{mpsc, watch};

use super::subscribe::{Right, SUBSCRIPTIONS_MAX, updated_message};
use super::tasks::{self, Named};
use crate::gateway::Gateway;

/// What changed in one view since the last look. Changes that come faster than they are heard are
/// told once.
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

    /// Waits for a change; empty when it was in other views only, `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Vec<Change>> {
        // Not `changed`: a clone that is taken up later has changes before it that were never told.
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

/// News of resources waiting for one listener; one that lags behind this far is cut off.
const HEARD_MAX: usize = 256;
/// How long a backend may take to agree to a subscription.
const AGREE_MAX: Duration = Duration::from_secs(10);
/// Tasks that one listener may name: each is looked at once in the beginning.
const TASKS_MAX: usize = 100;

/// What a listener hears besides changed lists.
enum News {
    Updated(String),
    /// How one of its tasks is now, by its place among them; nothing if that has to be asked.
    Task(usize, Option<Payload>),
}

/// A task that is listened to.
struct Followed {
    named: Named,
    /// The caller's name for it.
    handle: String,
    _ticket: Ticket,
    /// What was told of it last.
    last: Option<Bytes>,
}

/// One `subscriptions/listen`: which changes its caller wants, under which id.
pub(crate) struct Listener {
    id: Id,
    wanted: Vec<Change>,
    changes: Changes,
    followed: Vec<(String, Ticket)>,
    tasks: Vec<Followed>,
    heard: mpsc::Receiver<News>,
    /// News of a task that is not told yet: to look at it takes a while, and this may be dropped meanwhile.
    owed: Option<(usize, Option<Payload>)>,
    /// It did not keep up.
    lost: Arc<AtomicBool>,
    look: Look,
}

/// Looks at tasks for a listener.
struct Look {
    gateway: Arc<Gateway>,
    caller: Arc<Caller>,
    /// How the caller introduced itself.
    meta: Option<Bytes>,
}

impl Look {
    fn request(&self, named: &Named) -> Invocation {
        let meta = self.meta.as_deref().map(String::from_utf8_lossy);
        let meta = meta.map(|meta| format!(r#","_meta":{meta}"#));
        named.request(&self.caller, TaskAction::Get, &meta.unwrap_or_default())
    }

    /// Whether the caller may ask how it is.
    fn is_allowed(&self, named: &Named) -> bool {
        let walk = &self.gateway.walk;
        walk.permits(self.request(named), Arc::default()).is_ok()
    }

    /// How a task is, asked like any other call: so it is its caller's, and its backend knows it.
    async fn at(&self, named: &Named) -> Option<Payload> {
        let walk = &self.gateway.walk;
        let talk = walk.begin(self.request(named), Arc::default());
        match ended(talk).await?.ok()?.outcome {
            Outcome::Result(task) => Some(task),
            Outcome::Error(_) => None,
        }
    }
}

/// The way to one listener; it is cut off when it lags behind.
#[derive(Clone)]
struct Teller {
    tell: mpsc::Sender<News>,
    lost: Arc<AtomicBool>,
}

impl Teller {
    fn tell(&self, news: News) {
        if self.tell.try_send(news).is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
    }
}

impl Listener {
    /// Asks the owners of the resources and tasks it names; what they refuse is left out. To name tasks
    /// one must have declared them.
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
        let (tell, heard) = mpsc::channel(HEARD_MAX);
        let lost = Arc::new(AtomicBool::new(false));
        let teller = Teller {
            tell,
            lost: lost.clone(),
        };
        let changes = Changes::of(&gateway.registry, view);
        let mut followed = Vec::new();
        for uri in named(&request, "resourceSubscriptions", SUBSCRIPTIONS_MAX) {
            let right = Right::to_hear_of(&uri, gateway, &caller, view);
            let teller = teller.clone();
            let hear: Hear = Arc::new(move |changed| {
                if right.holds_for(changed) {
                    teller.tell(News::Updated(changed.to_owned()));
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
            look: Look {
                gateway: gateway.clone(),
                caller,
                meta: request.params.get_bytes("_meta"),
            },
        };
        for handle in handles {
            this.follow(handle, &teller).await;
        }
        Ok(this)
    }

    /// Begins to hear of a task, and tells how it is: it may be over before its listener came.
    async fn follow(&mut self, handle: String, teller: &Teller) {
        let gateway = &self.look.gateway;
        let Ok(named) = tasks::open(gateway, &self.look.caller, self.changes.view, &handle) else {
            return;
        };
        let (at, to) = (self.tasks.len(), teller.clone());
        let hear: HearTask = Arc::new(move |now| to.tell(News::Task(at, now.cloned())));
        let registry = &self.look.gateway.registry;
        let Some(ticket) = registry.follow(named.owner, &named.id, hear) else {
            return;
        };
        registry.are_told(named.owner).await;
        if let Some(now) = self.look.at(&named).await {
            teller.tell(News::Task(at, Some(now)));
            self.tasks.push(Followed {
                named,
                handle,
                _ticket: ticket,
                last: None,
            });
        }
    }

    /// What is to be told of a task, if that is news.
    async fn of_task(&mut self, at: usize, now: Option<Payload>) -> Option<Vec<u8>> {
        let now = match now {
            // Only for a caller that may still ask for it.
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

    /// The first message: what of the filter is honoured.
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

    /// The next notifications, which may be none; `None` when it is over.
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
                News::Updated(uri) => Some(vec![updated_message(&uri, &format!(",{id}"))]),
                News::Task(at, now) => {
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

/// The resources or tasks that a listener names, within a bound.
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

/// The outcome of a request of the gateway's own, within a bound; notices on the way are dropped.
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

/// Whether the caller may follow a resource and its backend agrees: asked like any other call.
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
